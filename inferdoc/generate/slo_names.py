"""The names of the records and alerts of objectives."""

from __future__ import annotations

from inferdoc.catalogue.slo import Slo

UNKNOWN = "unexplained-anomaly"
"""The cause of an alert about impact whose cause it does not know."""
NOW = "2m"
"""The newest window: two minutes have samples enough where pages are read every 30 s. Those of an hour come later."""


def record_name(slo: Slo, what: str, operation: str) -> str:
    """The record of an objective by model."""
    return f"model:inferdoc_slo_{slo.id.replace('-', '_')}_{what}:{operation}"


def alert_name(ending: str) -> str:
    """The alert of all objectives: InferdocSloOutage. The label `slo` names the objective."""
    return f"InferdocSlo{ending}"
