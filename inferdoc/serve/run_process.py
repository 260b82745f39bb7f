"""One look, in a process of its own: it can be ended when it takes too long, and its memory goes with it.

Reads a `RunRequest` as JSON from standard input and writes a `RunResult` to standard output. An error that is expected is
one line on standard error, and the exit code of the command line.
"""

from __future__ import annotations

import sys
from contextlib import closing
from typing import Any

import msgspec

from inferdoc.audit.beside import add_persistent
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
from inferdoc.serve.pools import PoolSeen, pools_seen
from inferdoc.source.configured import open_configured
from inferdoc.source.identified import Identified

ENDS_WITHIN = 900.0
"""Seconds before the end within which a change may have ended an incident."""


class RunRequest(msgspec.Struct):
    """config, overlays: of the command line; source: the options of the source by name; headers: sent with each
    request; from_, until: Unix seconds; place: whom the alerts are about; ended: when they were over, None while they
    fire; page: whether the HTML report is wanted; pools: whether the pools of the fleet are."""

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
    """document: the diagnosis; page: its HTML report; ended_by: the change that came before the end; pools: of the
    fleet, where they were asked for."""

    document: Diagnosis
    page: str | None
    ended_by: str | None
    pools: list[PoolSeen] = []


def look(asked: RunRequest) -> RunResult:
    """Take a look. Raises InferdocError."""
    config = load_config(asked.config)
    promises = promises_of(config_file(asked.config), config.slo)
    catalogue = load_catalogue(asked.overlays, disabled=config.recipes.disabled, promises=promises)
    with closing(open_configured(config, asked.source, asked.overlays, asked.headers)) as source:
        answer = _diagnosed(source, config, catalogue, asked)
        link_traces(answer, source, catalogue, config.links.trace_url)
        page = render(answer, "html") if asked.page else None
        pools = pools_seen(answer, catalogue.signals) if asked.pools else []
    return RunResult(answer, page, _ended_by(answer, asked.ended), pools)


def _diagnosed(source: Identified, config: Config, catalogue: Catalogue, asked: RunRequest) -> Diagnosis:
    """About the pod, else about the pool, else about its cluster: an alert on a victim is about its culprit too, which
    no other cluster has."""
    place, answer = asked.place, None
    pool, cluster = _pool(place), {"cluster": place.cluster or None}
    ladder = [{**pool, "pod": place.pod}, pool, cluster] if place.pod else [pool, cluster]
    for focus in ladder:
        options = options_of(source, config, catalogue, focus)
        options.lenient = True
        answer = diagnose(source, from_=asked.from_, until=asked.until, options=options)
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
        told = look(msgspec.json.decode(sys.stdin.buffer.read(), type=RunRequest))
    except InferdocError as error:
        sys.stderr.write(one_line(str(error)) + "\n")
        return int(error.exit_code)
    sys.stdout.buffer.write(msgspec.json.encode(told))
    return 0


if __name__ == "__main__":
    sys.exit(main())
