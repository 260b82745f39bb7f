"""Run an audit from command options and choose its exit code."""

from __future__ import annotations

from typing import Any

from inferdoc.audit.api import AuditOptions, audit
from inferdoc.audit.manifest import read_manifests
from inferdoc.audit.model import SEVERITIES, Audit
from inferdoc.catalogue.load import Catalogue
from inferdoc.config import Config
from inferdoc.errors import ExitCode, InferdocError
from inferdoc.fleet.members import FleetFilter
from inferdoc.judging.model import Diagnosis
from inferdoc.judging.request import matcher
from inferdoc.source.base import Source

DEFAULT_SINCE = "24h"
"""A day has a night: states are judged on both."""


def audited(source: Source, config: Config, catalogue: Catalogue, params: dict[str, Any]) -> Audit:
    """Run an audit. params: option values by name."""
    chosen = AuditOptions(
        match=tuple(matcher(text) for text in params.get("labels") or ()),
        selected=FleetFilter(*(params.get(k) for k in ("model", "namespace", "tier", "role", "pod", "cluster"))),
        config=config,
        catalogue=catalogue,
        declared=tuple(read_manifests(params.get("manifests") or ())),
    )
    since = params.get("since") or (None if params.get("begin") else DEFAULT_SINCE)
    return audit(source, since=since, from_=params.get("begin"), until=params.get("until") or "now", options=chosen)


def audited_beside(
    answer: Diagnosis, source: Source, config: Config, catalogue: Catalogue, params: dict[str, Any]
) -> Audit | None:
    """The audit of the window of a diagnosis; None without data, or where the source
    cannot be read a second time, which is a warning and takes nothing from the diagnosis."""
    if answer.verdict == "unknown":
        return None
    window = {"since": None, "begin": answer.window.from_, "until": answer.window.until}
    try:
        return audited(source, config, catalogue, params | window)
    except InferdocError as error:
        answer.source.warnings.append(f"persistent issues were not evaluated: {error}")
        return None


def exit_code(answer: Audit, fail_on: str) -> int:
    """0 no issue, 1 an issue at or above the severity, 3 not enough data."""
    if answer.verdict == "unknown":
        return ExitCode.UNKNOWN
    limit = SEVERITIES.index(fail_on)
    return ExitCode.FINDINGS if any(SEVERITIES.index(s.severity) >= limit for s in answer.states) else ExitCode.OK
