"""The order of the states: dearest first."""

from __future__ import annotations

from inferdoc.audit.model import StandingState

SEVERITIES = ("info", "warning")


def rank(state: StandingState) -> tuple[bool, float, float, int, str]:
    """A sort key: money where there is a price, else GPUs; without a figure by severity, then by name."""
    cost, severity = state.wasted, -SEVERITIES.index(state.severity)
    if cost is None:
        return True, 0.0, 0.0, severity, state.id
    return False, -(cost.money or 0.0), -cost.gpus, severity, state.id
