"""Choose the window of a diagnosis from the `for` and the range of the alert rule."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import msgspec
import yaml

from inferdoc.catalogue.content import content_file
from inferdoc.incidents.model import ReceivedAlert
from inferdoc.times import length_of

BEFORE_SECONDS = 900.0
"""Before the earliest start: an onset needs healthy samples before it in the window."""
MOST_SECONDS = 24 * 3600.0
"""Maximum window: an alert that fires for days is diagnosed over its last day."""


def window_from(alerts: Sequence[ReceivedAlert], now: float, rules: Mapping[str, RuleTimes]) -> float:
    """Start of the window, Unix seconds: before the earliest alert by the `for` and the range of its rule. alerts: the
    firing ones, or all if none fires."""
    firing = [alert for alert in alerts if alert.ends is None] or list(alerts)
    begins = min((alert.starts - find_rule_times(alert.name, rules).lead for alert in firing), default=now)
    return max(min(begins, now) - BEFORE_SECONDS, now - MOST_SECONDS)


RATE_WINDOW = 300.0
"""Default range of a rate in seconds, as in our recording rules and most public ones."""
UNKNOWN_FOR = 600.0
"""Seconds that a rule of somebody else may have waited: few of the public ones wait for longer than ten minutes."""
LONGEST = 6 * 3600.0
"""Limit for slow burn-rate alerts, whose range is days."""
_RANGE = re.compile(r"(?:\[|:(?:rate|ratio|avg|max|increase))(\d+(?:ms|[smhdw]))")


@dataclass(frozen=True)
class RuleTimes:
    """waits: its `for`, seconds; range_seconds: over how many seconds its expression reads."""

    waits: float = UNKNOWN_FOR
    range_seconds: float = RATE_WINDOW

    @property
    def lead(self) -> float:
        """Maximum seconds between the cause and the start of the alert."""
        return self.waits + min(self.range_seconds, LONGEST)


def find_rule_times(name: str, known: Mapping[str, RuleTimes]) -> RuleTimes:
    """Of the rule that an alert comes from; careful ones for a rule that is not ours."""
    return known.get(name, RuleTimes())


@cache
def own_rules() -> Mapping[str, RuleTimes]:
    """By alert name: those of the generated pack."""
    file = content_file("alerts", "generated/inferdoc-rules.yaml")
    return rule_times([file]) if file is not None else {}


class _Rule(msgspec.Struct):
    expr: str
    alert: str | None = None
    waits: str = msgspec.field(default="0s", name="for")


class _Group(msgspec.Struct):
    rules: list[_Rule] = []


class _File(msgspec.Struct):
    groups: list[_Group] = []


def rule_times(files: Sequence[Path]) -> dict[str, RuleTimes]:
    """By alert name, of files of rules as Prometheus reads them."""
    times = {}
    for file in files:
        document = msgspec.convert(yaml.load(file.read_text("utf-8"), yaml.CSafeLoader), _File)
        for rule in (rule for group in document.groups for rule in group.rules if rule.alert):
            ranges = [length_of(text) for text in _RANGE.findall(rule.expr)]
            times[str(rule.alert)] = RuleTimes(length_of(rule.waits), max([RATE_WINDOW, *ranges]))
    return times
