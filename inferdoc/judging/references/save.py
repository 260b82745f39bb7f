"""`inferdoc baseline save`: from a time range of a source in which all was well to a file."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from inferdoc.catalogue.load import Catalogue
from inferdoc.config import Config, baselines_folder
from inferdoc.errors import ExitCode, InferdocError
from inferdoc.fleet.members import Fleet, Pool, resolve
from inferdoc.judging.api import diagnose
from inferdoc.judging.clock import Clock
from inferdoc.judging.model import Diagnosis, stamp
from inferdoc.judging.reading import read_window
from inferdoc.judging.references.stored import Header, StoredPool, place, write
from inferdoc.judging.request import options_of, window_of
from inferdoc.judging.session import needed_signals
from inferdoc.source.base import Source
from inferdoc.source.frame import SignalFrame, SignalMatrix
from inferdoc.source.reads import Grid
from inferdoc.version import __version__
from inferdoc.words import how_many

MOST_STEPS = 120
"""A baseline needs its medians and its noise, not its course."""


class NotABaselineError(InferdocError):
    """The time range is not one to compare others with: an incident (exit 1), or too little data (exit 3)."""

    def __init__(self, message: str, exit_code: ExitCode) -> None:
        super().__init__(message)
        self.exit_code = exit_code


def save(source: Source, config: Config, catalogue: Catalogue, required: dict[str, Any]) -> tuple[Path, Header]:
    """Read a time range of a source and keep it. required: the values of the command's options by name. Answers the
    file and what stands at its head. Raises NotABaselineError where a diagnosis of the time range does not say healthy
    (unless forced) and where it is too short, InferdocError where the file cannot be written."""
    path = Path(required["file"]) if required.get("file") else place(baselines_folder(config), required["name"])
    options = replace(options_of(source, config, catalogue, required), stored=None, catalogue=catalogue)
    if not required.get("force"):
        _refuse(diagnose(source, **window_of(required), options=options))
    frame, _ = read_window(source, needed_signals(catalogue), catalogue, match=options.match, **window_of(required))
    fleet = resolve(frame, catalogue.tiers, options.assignments)
    grid = frame.grid
    least = Clock(grid.step_ms / 1000, grid.interval_ms / 1000, 1).least_baseline
    if not fleet.members:
        raise NotABaselineError(f"{_span(grid)}: no engine in {source.location}", ExitCode.UNKNOWN)
    if grid.count < least:
        raise NotABaselineError(
            f"{_span(grid)}: {grid.count} steps are too few for a baseline, which takes {least}", ExitCode.UNKNOWN
        )
    taken = np.arange(grid.count)[:: -max(1, -(-grid.count // MOST_STEPS))][::-1]
    present = source.names(grid.oldest_ms, grid.end_ms)
    header = _header(source, grid, taken, fleet, catalogue.flags.older_than(present))
    write(path, header, _thinned(frame, taken))
    return path, header


def described(header: Header) -> str:
    """What was kept, in a line."""
    pods = sum(len(pool.pods) for pool in header.pools)
    return f"baseline of {how_many(pods, 'pod')}, {_span(header.grid)}"


def _refuse(answer: Diagnosis) -> None:
    span = f"{answer.window.from_} to {answer.window.until}"
    if answer.findings:
        first = answer.findings[0]
        pods = ", ".join(first.scope.pods[:3])
        raise NotABaselineError(
            f"{span} is no baseline: {first.title} ({first.id}) on {pods} since {first.onset}; "
            "choose another time range (--from, --until), or save it all the same with --force",
            ExitCode.FINDINGS,
        )
    if answer.verdict == "unknown":
        raise NotABaselineError(
            f"{span} is no baseline, as far as is known: {answer.summary} --force saves it all the same",
            ExitCode.UNKNOWN,
        )


def _span(grid: Grid) -> str:
    return f"{stamp(grid.start_ms / 1000)} to {stamp(grid.end_ms / 1000)}"


def _header(source: Source, grid: Grid, taken: np.ndarray, fleet: Fleet, older_than: str | None) -> Header:
    pods: dict[Pool, list[str]] = {}
    for member in fleet.members:
        pods.setdefault(member.pool, []).append(member.pod)
    stride = int(taken[1] - taken[0]) if len(taken) > 1 else 1
    return Header(
        inferdoc_version=__version__,
        source=source.location,
        start_ms=int(grid.start_ms + grid.step_ms * taken[0]),
        step_ms=grid.step_ms * stride,
        count=len(taken),
        interval_ms=grid.interval_ms,
        rate_ms=grid.rate_ms,
        gauge_ms=grid.gauge_ms,
        older_than=older_than,
        pools=tuple(
            StoredPool(p.cluster, p.namespace, p.model, p.role, p.tier, tuple(names)) for p, names in pods.items()
        ),
    )


def _thinned(frame: SignalFrame, taken: np.ndarray) -> dict[str, SignalMatrix]:
    """The rows that hold any value, at the steps that are kept."""
    kept = {}
    for name, matrix in frame.signals.items():
        rows = [row for row, values in enumerate(matrix.values) if np.isfinite(values[taken]).any()]
        if rows:
            chosen = np.ix_(np.array(rows), taken)
            counts = None if matrix.counts is None else matrix.counts[chosen]
            kept[name] = SignalMatrix([matrix.entities[row] for row in rows], matrix.values[chosen], counts)
    return kept
