"""Levels that differ in their load alone, in order: one curve."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from inferdoc.bench.level import Drive, LoadLevel
from inferdoc.errors import InferdocError

SAME_LENGTH = 1.25
"""Requests whose mean lengths differ by more are other work: prefill grows with the prompt (own choice)."""
BEHIND = 0.9
"""A server that ends less than this share of the rate that it is sent falls behind: its queue grows for as long as the
run lasts, and the latencies show how long that was (own choice)."""

RUSHED, CHANCE = 1.1, 4.0
"""A client that ended a tenth more than it was to send did not keep the rate, unless independent arrivals (standard
deviation of the root of their number) do as much by chance, four times out of ten thousand (own choice)."""


@dataclass(frozen=True)
class Curve:
    """levels: by rising load."""

    model: str
    drive: Drive
    levels: tuple[LoadLevel, ...]

    @property
    def served(self) -> np.ndarray:
        """float64[levels]: most requests/s that were served up to each level: beyond its limit a server ends less."""
        return np.maximum.accumulate([level.served for level in self.levels])

    @property
    def title(self) -> str:
        """What distinguishes it from the others."""
        first = self.levels[0]
        lengths = (
            "lengths unknown"
            if first.prompt_tokens is None or first.output_tokens is None
            else f"{first.prompt_tokens:,.0f} prompt and {first.output_tokens:,.0f} answer tokens"
        )
        return f"{first.tool}, {DRIVEN[self.drive]}, {lengths}"


DRIVEN: dict[Drive, str] = {
    "rate": "at a rate",
    "concurrency": "so many at a time",
    "burst": "all at once",
    "unknown": "load unknown",
}


def behind(level: LoadLevel) -> bool:
    """Whether the server did not keep up with the rate: it ended less, and not only since a run ends while answers are
    written. Where a tenth was left over, the first tokens of the last requests came a tenth of the run late."""
    if level.drive != "rate" or level.requested is None or level.served >= BEHIND * level.requested:
        return False
    first = level.latencies.get("ttft")
    waited = 0.0 if first is None or first.mean is None else first.mean
    return level.kept_up < BEHIND * level.requested or waited > (1.0 - BEHIND) / 2 * level.seconds


def rushed(level: LoadLevel) -> bool:
    """Whether more was sent than was requested, by more than chance: a client that begins late catches up."""
    if level.drive != "rate" or level.requested is None:
        return False
    expected = level.requested * level.seconds
    return level.completed > max(RUSHED * expected, expected + CHANCE * math.sqrt(expected))


def of_one_model(levels: Sequence[LoadLevel], model: str | None) -> list[LoadLevel]:
    """The levels of one model. Raises InferdocError where there are several and none is chosen, or none of it."""
    models = sorted({level.model for level in levels})
    if model is None and len(models) > 1:
        raise InferdocError(f"the files are of several models: {', '.join(models)}; choose one with --model")
    chosen = [level for level in levels if model in (None, level.model)]
    if not chosen:
        raise InferdocError(f"--model {model}: no file is of it; they are of {', '.join(models)}")
    return chosen


def curves(levels: Sequence[LoadLevel]) -> list[Curve]:
    """Levels of one model as curves: by tool, by how the load was driven, what was noted, and lengths."""
    groups: list[list[LoadLevel]] = []
    for level in sorted(levels, key=lambda each: (each.order, each.served)):
        group = next((each for each in groups if _alike(each[0], level)), None)
        if group is None:
            groups.append([level])
        else:
            group.append(level)
    return [Curve(group[0].model, group[0].drive, tuple(group)) for group in groups]


def _alike(one: LoadLevel, other: LoadLevel) -> bool:
    same = (one.tool, one.drive, one.settings) == (other.tool, other.drive, other.settings)
    lengths = ((one.prompt_tokens, other.prompt_tokens), (one.output_tokens, other.output_tokens))
    return same and all(_near(*pair) for pair in lengths)


def _near(one: float | None, other: float | None) -> bool:
    if one is None or other is None:
        return one is other
    return max(one, other) <= SAME_LENGTH * max(min(one, other), 1e-9)
