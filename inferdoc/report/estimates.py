"""Sizing, benchmarks and what-if for a terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from inferdoc.bench.compare import BenchAnswer, BenchCurve, LevelRow, ProductionBeside
from inferdoc.report.wrapping import WIDEST, Columns, bullets, emphasis, fitted, headline, marked, wrap
from inferdoc.sizing.model import LayoutLooked, Predicted, SizeAnswer
from inferdoc.whatif.predict import SAME, Banded, WhatIfAnswer, WhatIfRow
from inferdoc.words import figure, how_many

TITLES, VALUES, UNITS = 34, 9, 9
"""Columns of what a number is, of the number and of its unit."""
FIRST_ASSUMED = 4
COUNTED = (" GPUs", " replicas", " requests")
EXACT = 0.005
"""A range that shows as one number is none."""


def size_text(answer: SizeAnswer, *, verbose: bool = False, colour: bool = False) -> str:
    """Lines for the width of the terminal; colour only if set. verbose: formula, inputs and source of each
    number, every layout, everything that was assumed."""

    what = f"{answer.model}, weights {answer.dtype}, KV {answer.kv_dtype}, on {answer.tier}"
    lines, bold = [*headline("SIZE", what, colour), *wrap(answer.summary, "")], emphasis(colour)
    for part in answer.parts:
        lines += ["", bold(part.title)]
        for each in part.numbers:
            lines += number_lines(each, verbose)
    if verbose:
        lines += ["", bold("layouts")]
        lines += [line for row in answer.layouts for line in wrap(_layout(row), "  ")]
    shown = answer.assumed if verbose else answer.assumed[:FIRST_ASSUMED]
    lines += [*bullets(bold("notes"), answer.notes), *bullets(bold("assumed"), shown)]
    left = len(answer.assumed) - len(shown)
    lines += wrap(f"and {left} more, with the formula, inputs and source of each number: -v", "  ") if left else []
    return "\n".join(fitted(lines))


def steps_text(answer: SizeAnswer, steps: Sequence[tuple[str, str]]) -> str:
    """The steps of a sizing, numbered, for the width of the terminal."""
    lines = [*wrap(f"{answer.model} on {answer.tier}: {answer.summary}", "STEPS  "), ""]
    for at, (title, result) in enumerate(steps, 1):
        lines += wrap(result, f"{at:>2}  {title:<20}  ")
    return "\n".join(fitted(lines)) + "\n"


def number_lines(each: Predicted, verbose: bool, widest: int = WIDEST) -> Iterator[str]:
    """One number with its range; verbose: with formula, inputs and source."""
    value, unit = _parted(figure(each.value, each.unit)) if each.value is not None else ("no bound", "")
    unit = unit.removesuffix("s") if value == "1" and unit in COUNTED else unit
    yield f"  {each.title:<{TITLES}} {value:>{VALUES}}{unit:<{UNITS}}{_range(each, unit)}".rstrip()
    if verbose:
        yield from _ground(each, widest)


def _ground(each: Predicted | WhatIfRow, widest: int = WIDEST) -> Iterator[str]:
    """Formula, inputs and source of a number."""
    yield from wrap(each.formula, "      = ", widest)
    if each.inputs:
        yield from wrap("; ".join(f"{name} {value}" for name, value in each.inputs.items()), "        with ", widest)
    yield from wrap(each.source, "        from ", widest)


def _parted(text: str) -> tuple[str, str]:
    """A figure and its unit, as it follows the figure: "4.97/s" -> "4.97", "/s"."""
    place = next((at for at, letter in enumerate(text) if letter not in "0123456789.,-"), len(text))
    return text[:place], text[place:]


def _range(each: Predicted, unit: str) -> str:
    """Its ends, with a unit where that is not the unit of the number."""
    if each.high is not None and abs(each.high - each.low) <= EXACT * abs(each.high):
        return ""
    ends = [_parted(figure(end, each.unit)) for end in (each.low, each.high) if end is not None]
    words = [number if of in (unit, f"{unit}s") else number + of for number, of in ends]
    return f"  {words[0]} to {words[1]}" if len(words) == 2 else f"  {words[0]} or more"


def _layout(row: LayoutLooked) -> str:
    gpus = f"{row.gpus} GPU{'' if row.gpus == 1 else 's'}"
    if row.per_replica is None:
        return f"{row.layout}: {gpus}; {row.why}"
    many = "" if row.replicas is None else f", {row.replicas} x {gpus} = {row.replicas * row.gpus} GPUs"
    carried = f"{row.kv_tokens:,} KV tokens, {figure(row.per_replica, '1/s')} a replica{many or f', {gpus}'}"
    return f"{row.layout}: {carried}; {row.why or 'taken'}"


LEVEL_COLUMNS = (
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

    bold = emphasis(colour)
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
    yield "".join(f"{title:>{width}}" for title, width in LEVEL_COLUMNS)
    for row in curve.levels:
        marks = f"  {', '.join(row.marks)}" if row.marks else ""
        yield (
            "".join(f"{cell:>{width}}" for cell, (_, width) in zip(_level_cells(row), LEVEL_COLUMNS, strict=True))
            + marks
        )
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


def _level_cells(row: LevelRow) -> Sequence[str]:
    requested = "-" if row.requested is None else figure(row.requested, DRIVE_UNITS.get(row.drive, ""))
    seen = [row.latencies.get(name) for name in ("ttft_p50", "ttft_p99", "tpot_request_p50", "tpot_request_p99")]
    kept = "-" if row.within is None else "yes" if row.within else "no"
    times = ["-" if value is None else figure(value, "s") for value in seen]
    return (requested.replace(" at a time", " open"), figure(row.served, "1/s"), f"{row.completed:,}", *times, kept)


def whatif_text(answer: WhatIfAnswer, *, verbose: bool = False, colour: bool = False) -> str:
    """Lines for a terminal; colour only if set. verbose: formula, inputs and source of each number."""

    change = ", ".join(f"{key} {value}" for key, value in answer.changes.items())
    where = f"{answer.pool}, {how_many(answer.replicas, 'replica')}, {answer.minutes:g} min of history"
    lines, bold = headline("WHAT IF", change, colour), emphasis(colour)
    lines += [*wrap(where, ""), *wrap(answer.summary, ""), ""]
    heads = "", "now", "then", "change"
    cells = [_change_cells(row) for row in answer.rows]
    columns = Columns([heads, *cells], WIDEST)
    lines += map(bold, columns.lines(heads))
    for row, shown in zip(answer.rows, cells, strict=True):
        lines += [*columns.lines(shown), *(_ground(row) if verbose else ())]
    title = "calibration: the first half of the history, played over the second"
    lines += ["", bold(title), *_calibration(answer, bold)]
    for head, sentences in (("a guess", answer.guesses), ("notes", answer.notes), ("assumed", answer.assumed)):
        lines += bullets(bold(head), sentences)
    if not verbose:
        lines += ["", "formula, inputs and source of each number: -v"]
    return "\n".join(lines)


def _calibration(answer: WhatIfAnswer, bold: Callable[[str], str]) -> Iterator[str]:
    heads = "", "predicted", "measured", "error"
    rows = [
        (
            marked(" ", line.title),
            figure(line.predicted, line.unit),
            figure(line.measured, line.unit),
            "" if line.error is None else f"{line.error:+.1%}",
        )
        for line in answer.holdout
    ]
    columns = Columns([heads, *rows], WIDEST)
    yield from map(bold, columns.lines(heads))
    for row in rows:
        yield from columns.lines(row)


def _change_cells(row: WhatIfRow) -> tuple[str, str, str, str]:
    change = "" if row.change is None else f"{row.change:+.0%}"
    words = change if row.move == "" else row.move if row.move == "same" or not change else f"{change} {row.move}"
    if row.move == "same" and row.change is not None and abs(row.change) >= SAME:
        words = f"{change}, may be chance"
    return marked(" ", row.title), _cell(row.now, row.unit), _cell(row.then, row.unit), words


def _cell(band: Banded, unit: str) -> str:
    if abs(band.high - band.low) <= EXACT * abs(band.high):
        return figure(band.value, unit)
    return f"{figure(band.value, unit)} ({figure(band.low, unit)} to {figure(band.high, unit)})"
