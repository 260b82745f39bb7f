"""A sizing on a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import click

from inferdoc.report.wrapping import WIDEST, fitted, painted, wrap
from inferdoc.sizing.model import LayoutLooked, Predicted, SizeAnswer
from inferdoc.words import figure

TITLES, VALUES, UNITS = 34, 9, 9
"""Columns of what a number is, of the number and of its unit."""
FIRST_ASSUMED = 4
COUNTED = (" GPUs", " replicas", " requests")
EXACT = 0.005
"""A range that shows as one number is none."""


def size_text(answer: SizeAnswer, *, verbose: bool = False, colour: bool = False) -> str:
    """Lines for the width of the terminal; colour only if set. verbose: formula, inputs and source of each
    number, every layout, everything that was assumed."""

    def bold(words: str) -> str:
        return click.style(words, bold=True) if colour else words

    what = f"{answer.model}, weights {answer.dtype}, KV {answer.kv_dtype}, on {answer.tier}"
    lines = [*painted(wrap(what, "SIZE  "), "SIZE", bold("SIZE")), *wrap(answer.summary, "")]
    for part in answer.parts:
        lines += ["", bold(part.title)]
        for each in part.numbers:
            lines += number_lines(each, verbose)
    if verbose:
        lines += ["", bold("layouts")]
        lines += [line for row in answer.layouts for line in wrap(_layout(row), "  ")]
    if answer.notes:
        lines += ["", bold("notes")]
        lines += [line for note in answer.notes for line in wrap(note, "  - ")]
    lines += ["", bold("assumed")]
    shown = answer.assumed if verbose else answer.assumed[:FIRST_ASSUMED]
    lines += [line for each in shown for line in wrap(each, "  - ")]
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
        yield from wrap(each.formula, "      = ", widest)
        if each.inputs:
            yield from wrap(
                "; ".join(f"{name} {value}" for name, value in each.inputs.items()), "        with ", widest
            )
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
