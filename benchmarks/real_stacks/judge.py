"""Whether an answer of `inferdoc diagnose` about a recording is right."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from benchmarks.real_stacks.cases import FAULTS
from inferdoc.catalogue.load import load_catalogue

GOOD = ("right", "right family", "named as down")
HEALTHY = "HEALTHY IN AN OUTAGE"


@lru_cache(maxsize=1)
def families() -> dict[str, str | None]:
    """Cause -> its family in the catalogue."""
    return {recipe.id: recipe.family for recipe in load_catalogue().recipes.values()}


def outcome(name: str, document: dict[str, Any]) -> str:
    """right, right family, named as down, unexplained, missed, wrong, or HEALTHY IN AN OUTAGE.

    name: of a fault; document: JSON of `diagnose` on the whole recording. Only the first finding counts."""
    fault, findings = FAULTS[name], document["findings"]
    if not fault.accepted:
        return "wrong" if findings else "right"
    if not findings and fault.outage and document["unknown"] and document["unknown"]["kind"] == "target-down":
        return "named as down"
    if not findings:
        return HEALTHY if fault.outage and document["verdict"] == "healthy" else "missed"
    first = findings[0]
    if first["id"] in fault.accepted:
        return "right"
    if first["id"] == "unexplained-anomaly":
        return "unexplained"
    expected = {families().get(cause) for cause in fault.accepted}
    named = {
        first["family"],
        families().get(first["id"]),
        *(families().get(member["id"]) for member in first["members"]),
    }
    return "right family" if expected & named - {None} else "wrong"


def answer(document: dict[str, Any]) -> str:
    """The answer in a cell of a table."""
    findings = document["findings"]
    if not findings and document["unknown"]:
        return f"{document['verdict']}: {document['unknown']['because']}"
    if not findings:
        return f"{document['verdict']}, no finding"
    more = f" (then {', '.join('`' + f['id'] + '`' for f in findings[1:])})" if findings[1:] else ""
    return f"`{findings[0]['id']}`, {findings[0]['certainty']}{more}"
