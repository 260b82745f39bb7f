"""Which stretch to look at for an incident."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from inferdoc.incidents.alert_rules import RuleTimes, find_rule_times
from inferdoc.incidents.model import ReceivedAlert

BEFORE_SECONDS = 900.0
"""Before the earliest beginning: an onset needs something calm before it in the window (the history before that is read
besides)."""
MOST_SECONDS = 24 * 3600.0
"""An alert that fires for days is looked at over its last day."""


def window_from(alerts: Sequence[ReceivedAlert], now: float, rules: Mapping[str, RuleTimes]) -> float:
    """Where the window begins, Unix seconds: before the earliest alert by the `for` of its rule and what that looks
    back over. alerts: those that fire, or all where none does."""
    firing = [alert for alert in alerts if alert.ends is None] or list(alerts)
    begins = min((alert.starts - find_rule_times(alert.name, rules).lead for alert in firing), default=now)
    return max(min(begins, now) - BEFORE_SECONDS, now - MOST_SECONDS)
