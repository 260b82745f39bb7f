"""A sizing as a document: `inferdoc.size/v1`. Every number has a unit, a range, a formula, its inputs and a source."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import wraps
from typing import ParamSpec

import msgspec

from inferdoc.catalogue.efficiency import StepSpread
from inferdoc.json_document import JsonDocument
from inferdoc.sizing.build import ENDS, End
from inferdoc.sizing.choice import Considered
from inferdoc.sizing.replica import Replica
from inferdoc.words import figure

SIZE_SCHEMA_ID = "inferdoc.size/v1"


class Predicted(msgspec.Struct):
    """One number. low, high: the range, from the ranges of what it rests on; equal to value where that is exact; None
    where there is no bound (a queue that only grows). assumed: it rests on something that nobody gave or measured."""

    name: str
    title: str
    value: float | None
    low: float
    high: float | None
    unit: str
    formula: str
    inputs: dict[str, str]
    source: str
    assumed: bool = False


class SizedPart(msgspec.Struct):
    """Numbers of one kind under one heading."""

    title: str
    numbers: list[Predicted]


class LayoutLooked(msgspec.Struct):
    """One layout that was looked at. why: what keeps it from being taken, "" for the one that is."""

    layout: str
    gpus: int
    fits: bool
    kv_tokens: int
    per_replica: float | None
    replicas: int | None
    why: str


class SizeAnswer(JsonDocument):
    """What a model needs on a tier. assumed: what nobody gave; notes: what to know before using the numbers."""

    schema: str
    model: str
    dtype: str
    kv_dtype: str
    tier: str
    layout: str
    gpus_per_replica: int
    replicas: int | None
    gpus: int
    rate: float | None
    summary: str
    parts: list[SizedPart]
    layouts: list[LayoutLooked]
    assumed: list[str]
    notes: list[str]

    def part(self, title: str) -> SizedPart:
        """The part with this heading."""
        return next(each for each in self.parts if each.title == title)


P = ParamSpec("P")
Inputs = Mapping[str, tuple[float, str]]
"""Name -> value and unit."""
AtEnds = Mapping[End, float | None]
"""None where a figure has no bound: a queue that grows for ever."""


def at_ends(taken: Considered, of: Callable[[Replica], float | None]) -> dict[End, float | None]:
    """A figure of the replica at each end."""
    return {end: of(taken.at(end)) for end in ENDS}


def widened(values: dict[End, float | None], spread: StepSpread | None, *, closed: bool) -> dict[End, float | None]:
    """A time to the first token with the range of measured ones. closed: in a closed loop, whose load is known; else
    the range also holds the ends, which the load moves apart."""
    middle = values["middle"]
    if spread is None or middle is None:
        return values
    slow, fast = middle * spread.high, middle * spread.low
    if closed:
        return {"low": slow, "middle": middle, "high": fast}
    low, high = values["low"], values["high"]
    return {
        "low": None if low is None else max(low, slow),
        "middle": middle,
        "high": None if high is None else min(high, fast),
    }


def ranged(values: AtEnds) -> tuple[float | None, float, float | None]:
    """Value, low and high. A figure without a bound is the highest of all."""
    bounded = [value for value in values.values() if value is not None]
    high = max(bounded) if len(bounded) == len(values) else None
    return values["middle"], min(bounded, default=0.0), high


def number(
    what: tuple[str, str, str],
    values: AtEnds | float,
    *,
    formula: str,
    inputs: Inputs,
    source: str,
    assumed: bool = False,
) -> Predicted:
    """A number of a sizing. what: name, title and unit; values: one for each end, or the one that is exact."""
    name, title, unit = what
    value, low, high = (values,) * 3 if isinstance(values, float | int) else ranged(values)
    shown = {word: figure(each, of_unit) for word, (each, of_unit) in inputs.items()}
    return Predicted(name, title, value, low, high, unit, formula, shown, source, assumed)


def part(title: str, *, assumed: bool = False) -> Callable[[Callable[P, Iterator[Predicted]]], Callable[P, SizedPart]]:
    """Make a part of the numbers that a function yields. assumed: each rests on something that nobody measured."""

    def decorated(numbers: Callable[P, Iterator[Predicted]]) -> Callable[P, SizedPart]:
        @wraps(numbers)
        def made(*args: P.args, **options: P.kwargs) -> SizedPart:
            found = list(numbers(*args, **options))
            for each in found:
                each.assumed = each.assumed or assumed
            return SizedPart(title, found)

        return made

    return decorated
