"""What benchmarks prove, on a terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import click

from inferdoc.bench.compare import BenchAnswer, BenchCurve, LevelRow, ProductionBeside
from inferdoc.report.size_text import number_lines
from inferdoc.report.wrapping import wrap
from inferdoc.words import figure

COLUMNS = (
    ("load", 11),
    ("served", 9),
    ("requests", 9),
    ("TTFT p50", 10),
    ("p99", 9),
    ("TPOT p50", 10),
    ("p99", 9),
    ("kept", 5),
)
"""TPOT: the mean gap of each request."""
DRIVE_UNITS = {"rate": "1/s", "concurrency": "at a time"}


def bench_text(answer: BenchAnswer, *, verbose: bool = False, colour: bool = False) -> str:
    """Lines for a terminal; colour only if set. verbose: formula, inputs and source of each number, files."""

    def bold(words: str) -> str:
        return click.style(words, bold=True) if colour else words

    lines = [f"{bold('BENCH')}  {answer.model}", *wrap(answer.summary, "")]
    for curve in answer.curves:
        lines += ["", *(bold(line) for line in wrap(curve.title, "")), *_levels(curve, verbose), ""]
        lines += [line for each in curve.numbers for line in number_lines(each, verbose)]
        lines += [line for note in curve.notes for line in wrap(note, "  - ")]
    if answer.production is not None:
        lines += ["", *_production(answer.production, bold, verbose)]
    lines += ["", bold("objectives")]
    for each in answer.objectives:
        hint = "; --objective sets another" if each.assumed else ""
        lines += wrap(f"{each.signal} within {figure(each.limit, each.unit)}: {each.source}{hint}", "  ")
    return "\n".join(lines)


def _levels(curve: BenchCurve, verbose: bool) -> Iterator[str]:
    if curve.settings:
        yield from wrap("noted: " + ", ".join(f"{key} {value}" for key, value in curve.settings.items()), "  ")
    yield "".join(f"{title:>{width}}" for title, width in COLUMNS)
    for row in curve.levels:
        marks = f"  {', '.join(row.marks)}" if row.marks else ""
        yield "".join(f"{cell:>{width}}" for cell, (_, width) in zip(_cells(row), COLUMNS, strict=True)) + marks
        if verbose:
            yield from wrap(f"{row.file}, {figure(row.seconds, 's')}", "      from ")


def _production(found: ProductionBeside, bold: Callable[[str], str], verbose: bool) -> Iterator[str]:
    yield bold(f"beside {found.pool}")
    if found.load is not None:
        yield f"  at {figure(found.load, '1/s')} a replica, {found.minutes:,.0f} min of pods in production"
    yield f"  {'':<24}{'benchmark':>14}{'production':>14}{'times':>8}"
    for row in found.rows:
        values = "".join(f"{_known(each, row.unit):>14}" for each in (row.benchmark, row.production))
        yield f"  {row.title:<24}{values}{'' if row.ratio is None else f'{row.ratio:.2f}':>8}".rstrip()
    for reason in found.reasons:
        yield from wrap(f"{reason.kind}: {reason.statement}", "  > ")
    if verbose:
        yield from (line for each in found.numbers for line in number_lines(each, verbose))
    yield from (line for note in found.notes for line in wrap(note, "  - "))


def _known(value: float | None, unit: str) -> str:
    return "unknown" if value is None else figure(value, unit)


def _cells(row: LevelRow) -> Sequence[str]:
    requested = "-" if row.requested is None else figure(row.requested, DRIVE_UNITS.get(row.drive, ""))
    seen = [row.latencies.get(name) for name in ("ttft_p50", "ttft_p99", "tpot_request_p50", "tpot_request_p99")]
    kept = "-" if row.within is None else "yes" if row.within else "no"
    times = ["-" if value is None else figure(value, "s") for value in seen]
    return (requested.replace(" at a time", " open"), figure(row.served, "1/s"), f"{row.completed:,}", *times, kept)
