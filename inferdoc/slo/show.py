"""Run `inferdoc slo show` and choose its exit code."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from inferdoc import __version__
from inferdoc.catalogue.load import Catalogue
from inferdoc.config import Config
from inferdoc.errors import ExitCode, InferdocError
from inferdoc.fleet.members import Assignment, FleetFilter, Pool
from inferdoc.judging.model import stamp
from inferdoc.judging.request import matcher
from inferdoc.slo.attainment import measure_attainment
from inferdoc.slo.goodput import goodput
from inferdoc.slo.history import History, read_history
from inferdoc.slo.model import SCHEMA_ID, Kept, SloReport, Verdict
from inferdoc.slo.suggest import NoSuggestion, Suggestion
from inferdoc.source.identified import Identified
from inferdoc.times import length_of

DEFAULT_SINCE = "30d"


def opened(source: Identified, config: Config, catalogue: Catalogue, params: dict[str, Any]) -> History:
    """The requested time range. Raises SourceError if it has no engine."""
    return read_history(
        source,
        catalogue,
        [Assignment(p.pod, p.role, p.tier) for p in config.pods],
        params.get("since") or DEFAULT_SINCE,
        params.get("until") or "now",
        tuple(matcher(text) for text in params.get("labels") or ()),
    )


def chosen_pools(history: History, params: dict[str, Any]) -> list[Pool]:
    """The pools that the report is about. Raises InferdocError where none is, with those that there are."""
    chosen = FleetFilter(*(params.get(key) for key in ("model", "namespace", "tier", "role")))
    found = [pool for pool in history.pools if any(m.pool == pool and chosen.keeps(m) for m in history.fleet.members)]
    if not found:
        seen = sorted({f"{p.namespace} {p.model} {p.role} {p.tier}".strip() for p in history.pools})
        raise InferdocError(f"no pool matches; available: {', '.join(seen)}")
    return found


def shown(source: Identified, config: Config, catalogue: Catalogue, params: dict[str, Any]) -> SloReport:
    """Attainment, error budget, burn rate and goodput."""
    history = opened(source, config, catalogue, params)
    pools = chosen_pools(history, params)
    objectives, unjudged = measure_attainment(history, catalogue.slos, pools)
    served, unserved = goodput(history, catalogue.slos, pools)
    return SloReport(
        schema_=SCHEMA_ID,
        inferdoc_version=__version__,
        source=source.location,
        from_=stamp(history.begin_ms / 1000),
        until=stamp(history.end_ms / 1000),
        requested_seconds=length_of(params.get("since") or DEFAULT_SINCE),
        seen_seconds=history.seconds,
        verdict=_verdict(objectives),
        objectives=objectives,
        goodput=served,
        not_judged=[*unjudged, *unserved],
    )


def _verdict(objectives: list[Kept]) -> Verdict:
    """What buckets leave open is not met: a limit between two bounds proves nothing."""
    statuses = {one.status for one in objectives}
    if "missed" in statuses:
        return "missed"
    return "met" if "met" in statuses and "between" not in statuses else "unknown"


def exit_code(report: SloReport) -> int:
    """0: all evaluated objectives are met; 1: one is missed; 3: not enough data."""
    return {"met": ExitCode.OK, "missed": ExitCode.FINDINGS, "unknown": ExitCode.UNKNOWN}[report.verdict]


def suggested_code(found: Sequence[Suggestion | NoSuggestion]) -> int:
    """0: there is something to promise; 3: there is not."""
    return ExitCode.OK if any(isinstance(one, Suggestion) for one in found) else ExitCode.UNKNOWN
