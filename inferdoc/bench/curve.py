"""Levels of load of a benchmark, whatever tool wrote them, and curves of levels that differ in load alone."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from inferdoc.catalogue.quantiles import NAME, quantile_name, share_of
from inferdoc.errors import InferdocError

PER_SECOND = {"s": 1.0, "sec": 1.0, "seconds": 1.0, "ms": 1e3, "us": 1e6, "µs": 1e6, "ns": 1e9}
"""How many of a unit a second has."""


@dataclass(frozen=True)
class Fields:
    """A part of a document. file: its name; path: where the part stands in it."""

    file: str
    values: Mapping[str, Any]
    path: str = ""

    def fault(self, key: str, what: str) -> InferdocError:
        """The error of one key."""
        return InferdocError(f"{self.file}: {self.path}{key}: {what}")

    def has(self, key: str) -> bool:
        """Whether the key holds anything."""
        return self.values.get(key) is not None

    def part(self, key: str) -> Fields:
        """The object under a key. Raises InferdocError."""
        value = self.values.get(key)
        if not isinstance(value, Mapping):
            raise self.fault(key, "missing; it holds the results" if value is None else "an object is expected")
        return Fields(self.file, value, f"{self.path}{key}.")

    def parts(self, key: str) -> list[Fields]:
        """The objects in the list under a key. Raises InferdocError."""
        value = self.values.get(key)
        if not isinstance(value, Sequence) or isinstance(value, str):
            raise self.fault(key, "missing" if value is None else "a list is expected")
        found = []
        for place, each in enumerate(value):
            if not isinstance(each, Mapping):
                raise self.fault(f"{key}[{place}]", "an object is expected")
            found.append(Fields(self.file, each, f"{self.path}{key}[{place}]."))
        return found

    def number(self, key: str, *, above: float | None = None, least: float | None = 0.0) -> float:
        """A finite number. above, least: what it must be more than, or at least. Raises InferdocError."""
        value = self.values.get(key)
        if value is None:
            raise self.fault(key, "missing; is the file of another version?")
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self.fault(key, f"a number is expected, not {value!r:.40}")
        if not math.isfinite(value):
            raise self.fault(key, f"{value} is no result; did any request end?")
        if above is not None and value <= above:
            raise self.fault(key, f"{value:g} must be above {above:g}")
        if above is None and least is not None and value < least:
            raise self.fault(key, f"{value:g} must be at least {least:g}")
        return float(value)

    def known(self, key: str) -> float | None:
        """The same where the key holds anything, else None."""
        return self.number(key) if self.has(key) else None

    def count(self, key: str) -> int:
        """A whole number, at least 0. Raises InferdocError."""
        value = self.number(key)
        if value != int(value):
            raise self.fault(key, f"a whole number is expected, not {value:g}")
        return int(value)

    def text(self, key: str) -> str:
        """A text with something in it. Raises InferdocError."""
        value = self.values.get(key)
        if not isinstance(value, str) or not value.strip():
            raise self.fault(key, "missing" if value is None else "a name is expected")
        return value


def rate_agrees(fields: Fields, key: str, stated: float, completed: int, seconds: float) -> None:
    """Raises InferdocError where the rate that a file states is not what was completed over its time."""
    true = completed / seconds
    if abs(stated - true) > RATE_SLACK * true:
        raise fields.fault(key, f"{stated:.4g}/s, but {completed:,} requests in {seconds:.4g} s are {true:.4g}/s")


RATE_SLACK = 0.1
"""Tools end the time at the last request or at the last token (own choice)."""


Drive = Literal["rate", "concurrency", "burst", "unknown"]
"""rate: requests came whether or not others had ended (open loop); concurrency: so many at a time (closed loop); burst:
all at once; unknown: the file does not show it."""

MOST_EMPTYING = 0.25
"""Share of a run (own choice)."""
FEWEST_FAILED = 3
"""Fewer failed requests are chance (as in the judge)."""


@dataclass(frozen=True)
class LatencySpread:
    """One latency of the requests that ended well, in seconds. quantiles: share (0..1) -> seconds."""

    mean: float | None = None
    quantiles: Mapping[float, float] = field(default_factory=dict)


@dataclass(frozen=True)
class LoadLevel:
    """file: its name; requested: requests/s or requests at a time, None if unknown; served: completed
    requests/s; seconds: how long it was measured; completed, failed: requests; prompt_tokens, output_tokens: mean of a
    request; latencies: by family; good: requests/s within the tool's own objectives; settings: what else was noted;
    warnings: what the tool itself, or its counts, say against the numbers."""

    file: str
    tool: str
    model: str
    drive: Drive
    requested: float | None
    served: float
    seconds: float
    completed: int
    failed: int
    prompt_tokens: float | None
    output_tokens: float | None
    latencies: Mapping[str, LatencySpread]
    good: float | None = None
    settings: Mapping[str, str] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()

    @property
    def failed_share(self) -> float:
        """Of all requests that ended."""
        return self.failed / (self.completed + self.failed)

    @property
    def order(self) -> float:
        """What levels of one curve are ordered by: the rate that was requested, and no less than was served, since a
        client that is late catches up with more."""
        if self.requested is None:
            return self.served
        return max(self.requested, self.served) if self.drive == "rate" else self.requested

    @property
    def emptying(self) -> float:
        """Seconds at the end in which nothing new counts any more: the last answers are written. 0 where that is so
        much of the run that nothing was ever steady."""
        between = self.latencies.get("tpot_request")
        if between is None or between.mean is None or self.output_tokens is None:
            return 0.0
        seconds = between.mean * max(self.output_tokens - 1.0, 0.0)
        return seconds if seconds <= MOST_EMPTYING * self.seconds else 0.0

    @property
    def kept_up(self) -> float:
        """Requests/s that were served while the load stood."""
        return self.completed / (self.seconds - self.emptying)

    def reading(self, signal: str) -> tuple[float, str] | None:
        """A signal of this level in its unit, and its name: of a quantile that the file lacks the next higher one,
        which is at least as large. None where it says nothing of it."""
        if signal == "error_share":
            return (self.failed_share if self.failed >= FEWEST_FAILED else 0.0), signal
        match = NAME.fullmatch(signal)
        family = match["family"] if match else signal.removesuffix("_mean")
        latency = self.latencies.get(family)
        if latency is None:
            return None
        if match is None:
            return None if latency.mean is None else (latency.mean, signal)
        least = share_of(signal)
        higher = [share for share in latency.quantiles if share >= least - 1e-9]
        return (latency.quantiles[min(higher)], quantile_name(family, 100 * min(higher))) if higher else None


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
