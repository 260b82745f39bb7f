"""From what a user requested to a diagnosis and an exit code."""

from __future__ import annotations

import re
from typing import Any, cast

from inferdoc.catalogue.load import Catalogue
from inferdoc.config import Config, baselines_folder
from inferdoc.errors import ExitCode, InferdocError
from inferdoc.fleet.members import FleetFilter, assignments_of
from inferdoc.judging.api import Options, diagnose
from inferdoc.judging.findings import Links
from inferdoc.judging.model import Diagnosis
from inferdoc.judging.references.stored import StoredBaseline, named, place, which_stored
from inferdoc.source.base import Source
from inferdoc.source.reads import Matcher, Operator
from inferdoc.times import moment_ms

SEVERITIES = ("info", "warning", "critical")


def diagnosis(source: Source, config: Config, catalogue: Catalogue, required: dict[str, Any]) -> Diagnosis:
    """Diagnose as required. required: the values of the command's options by name."""
    options = options_of(source, config, catalogue, required)
    return diagnose(source, **window_of(required), options=options, around=required.get("around"))


def window_of(required: dict[str, Any]) -> dict[str, Any]:
    """The window as `diagnose` and `read_window` take it."""
    return {"since": required.get("since"), "from_": required.get("begin"), "until": required.get("until") or "now"}


def options_of(source: Source, config: Config, catalogue: Catalogue, required: dict[str, Any]) -> Options:
    """What was chosen by options and by the configuration."""
    return Options(
        match=tuple(matcher(text) for text in required.get("labels") or ()),
        selected=FleetFilter(*(required.get(k) for k in ("model", "namespace", "tier", "role", "pod", "cluster"))),
        assignments=assignments_of(config.pods),
        baseline=_baseline(required.get("baseline"), source, config),
        stored=baselines_folder(config),
        links=Links(config.runbook_base, config.links.dashboard_base),
        catalogue=catalogue,
        deep=bool(required.get("deep")),
    )


MATCHER = re.compile(r"([A-Za-z_]\w*)(=~|!~|!=|=)(.*)", re.DOTALL)


def matcher(text: str) -> Matcher:
    """`-l LABEL=VALUE` as a matcher, with the operators of PromQL; InferdocError where it is none."""
    found = MATCHER.fullmatch(text)
    if found is None:
        raise InferdocError(f"-l {text!r} is not LABEL=VALUE (or LABEL!=VALUE, LABEL=~REGEX, LABEL!~REGEX)")
    name, operator, value = found.groups()
    if "~" in operator:
        try:
            re.compile(value)
        except re.error as error:
            raise InferdocError(f"-l {text!r}: the regular expression is invalid: {error}") from None
    return name, cast(Operator, operator), value


def _baseline(text: str | None, source: Source, config: Config) -> tuple[int, int] | StoredBaseline | None:
    if text is None:
        return None
    begin, dots, end = text.partition("..")
    if not dots or "/" in text:
        folder = baselines_folder(config)
        if not place(folder, text).is_file():
            raise InferdocError(
                f"--baseline {text!r} is neither TIME..TIME nor a stored baseline: {which_stored(folder)}"
            )
        return named(folder, text)
    latest = source.latest_ms()
    span = moment_ms(begin, latest, what="--baseline"), moment_ms(end, latest, what="--baseline")
    if span[0] >= span[1]:
        raise InferdocError("--baseline is empty: its beginning is not before its end")
    return span


def exit_code(answer: Diagnosis, fail_on: str) -> int:
    """0 healthy, 1 a finding at or above the severity or a persistent state that affects users, 3 unknown."""
    if answer.verdict == "unknown":
        return ExitCode.UNKNOWN
    limit = SEVERITIES.index(fail_on)
    if any(one.affects_users for one in answer.persistent) and limit <= SEVERITIES.index("warning"):
        return ExitCode.FINDINGS
    return ExitCode.FINDINGS if any(SEVERITIES.index(f.severity) >= limit for f in answer.findings) else ExitCode.OK
