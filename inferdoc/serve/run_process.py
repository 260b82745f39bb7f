"""Run one diagnosis in its own process, so that a deadline can end it and its memory is freed.

Reads a `RunRequest` as JSON from standard input and writes a `RunResult` to standard output. An expected error is one
line on standard error, with the exit code of the command line.
"""

from __future__ import annotations

import sys
from contextlib import closing
from typing import Any

import msgspec

from inferdoc.audit.persistent import add_persistent
from inferdoc.catalogue.load import Catalogue, load_catalogue
from inferdoc.cluster.traces import link_traces
from inferdoc.config import Config, config_file, load_config, promises_of
from inferdoc.errors import InferdocError
from inferdoc.escaping import one_line
from inferdoc.incidents.model import AlertScope
from inferdoc.judging.api import diagnose
from inferdoc.judging.model import Diagnosis, seconds
from inferdoc.judging.request import options_of
from inferdoc.report import render
from inferdoc.serve.pools import PoolSummary, summarise_pools
from inferdoc.source.configured import open_configured
from inferdoc.source.identified import Identified

ENDS_WITHIN = 900.0
"""Seconds before the end within which a change may have ended an incident."""


class RunRequest(msgspec.Struct):
    """config, overlays: of the command line; source: source options by name; headers: of every request; from_, until:
    Unix seconds; place: scope of the alerts; ended: when they resolved, None while they fire; page: whether to render
    the HTML report; pools: whether to list the pools."""

    source: dict[str, Any]
    headers: dict[str, str]
    from_: float
    until: float
    place: AlertScope
    config: str | None = None
    overlays: list[str] = []
    ended: float | None = None
    page: bool = True
    pools: bool = False


class RunResult(msgspec.Struct):
    """document: the diagnosis; page: its HTML report; ended_by: the change before the end; pools: of the fleet, if
    requested."""

    document: Diagnosis
    page: str | None
    ended_by: str | None
    pools: list[PoolSummary] = []


def run(request: RunRequest) -> RunResult:
    """Run a diagnosis. Raises InferdocError."""
    config = load_config(request.config)
    promises = promises_of(config_file(request.config), config.slo)
    catalogue = load_catalogue(request.overlays, disabled=config.recipes.disabled, promises=promises)
    with closing(open_configured(config, request.source, request.overlays, request.headers)) as source:
        answer = _diagnosed(source, config, catalogue, request)
        link_traces(answer, source, catalogue, config.links.trace_url)
        page = render(answer, "html") if request.page else None
        pools = summarise_pools(answer, catalogue.signals) if request.pools else []
    return RunResult(answer, page, _ended_by(answer, request.ended), pools)


def _diagnosed(source: Identified, config: Config, catalogue: Catalogue, request: RunRequest) -> Diagnosis:
    """About the pod, else about the pool, else about its cluster: an alert on a victim is about its culprit too, which
    no other cluster has."""
    place, answer = request.place, None
    pool, cluster = _pool(place), {"cluster": place.cluster or None}
    focuses = [{**pool, "pod": place.pod}, pool, cluster] if place.pod else [pool, cluster]
    for focus in focuses:
        options = options_of(source, config, catalogue, focus)
        options.lenient = True
        answer = diagnose(source, from_=request.from_, until=request.until, options=options)
        add_persistent(answer, config, catalogue)
        if answer.findings or answer.focus is None or not answer.focus.elsewhere:
            return answer
    assert answer is not None
    return answer


def _pool(place: AlertScope) -> dict[str, str | None]:
    return {"cluster": place.cluster or None, "namespace": place.namespace or None, "model": place.model or None}


def _ended_by(answer: Diagnosis, ended: float | None) -> str | None:
    """The last change in the quarter of an hour before the alerts were over."""
    if ended is None:
        return None
    near = [change for change in answer.changes if ended - ENDS_WITHIN <= seconds(change.at) <= ended]
    if not near:
        return None
    last = max(near, key=lambda change: change.at)
    return one_line(f"{last.kind} of {last.entity}: {last.detail}" if last.entity else f"{last.kind}: {last.detail}")


def main() -> int:
    """Run as a program."""
    try:
        result = run(msgspec.json.decode(sys.stdin.buffer.read(), type=RunRequest))
    except InferdocError as error:
        sys.stderr.write(one_line(str(error)) + "\n")
        return int(error.exit_code)
    sys.stdout.buffer.write(msgspec.json.encode(result))
    return 0


if __name__ == "__main__":
    sys.exit(main())
