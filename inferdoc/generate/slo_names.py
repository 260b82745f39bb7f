"""How the records and alerts of an objective are called, and what their annotations hold."""

from __future__ import annotations

from inferdoc.catalogue.slo import Slo
from inferdoc.generate.links import GeneratedLinks
from inferdoc.generate.slo_events import BY

PAGE = "unexplained-anomaly"
"""Where an alert about harm whose cause it does not know points to."""
NOW = "2m"
"""The newest window: two minutes have samples enough where pages are read every 30 s. Those of an hour come later."""


def record_name(slo: Slo, what: str, operation: str) -> str:
    """The record of an objective by model."""
    return f"model:inferdoc_slo_{slo.id.replace('-', '_')}_{what}:{operation}"


def alert_name(slo: Slo, ending: str) -> str:
    """The alert of an objective: InferdocSloTtftOutage."""
    words = "".join(part.capitalize() for part in slo.id.replace("_", "-").split("-"))
    return f"InferdocSlo{words}{ending}"


def about(links: GeneratedLinks, summary: str, description: str) -> dict[str, str]:
    """The annotations of an alert about an objective."""
    annotations = {"summary": summary, "description": description, "runbook_url": links.runbook(PAGE)}
    board = links.dashboard(BY)
    return annotations if board is None else {**annotations, "dashboard_url": board}
