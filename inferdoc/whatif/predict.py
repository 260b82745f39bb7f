"""Plays of a pool as it is and after a change, with the same draws, and what they differ in."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import msgspec
import numpy as np
from msgspec.structs import replace as with_fields

from inferdoc.json_document import JsonDocument
from inferdoc.whatif.calibrate import CalibratedPool
from inferdoc.whatif.calibrate_pair import CalibratedPair
from inferdoc.whatif.changes import ChangedPair, ChangedPool
from inferdoc.whatif.live import ITL, TTFT
from inferdoc.whatif.run_simulation import PlayedPool, played
from inferdoc.whatif.setting import PairSetting, PlayedSetting

Move = Literal["better", "worse", "same"]
SAME = 0.05
"""A move that is smaller is none."""
WHATIF_SCHEMA_ID = "inferdoc.whatif/v1"


class Banded(msgspec.Struct):
    """A value, and where it lies with 90 %; equal ends where it is exact."""

    value: float
    low: float
    high: float


class WhatIfRow(msgspec.Struct):
    """One quantity now and after the change. change: after over now, less 1; None where now is 0; move: whether users
    are better off, "" where a quantity is neither."""

    name: str
    title: str
    unit: str
    now: Banded
    then: Banded
    change: float | None
    move: Move | Literal[""]
    formula: str
    inputs: dict[str, str]
    source: str


class HoldoutRow(msgspec.Struct):
    """One quantity of the second half of the history: as plays of the first half predict it, and as it was. error:
    predicted over measured, less 1; None where one of them is 0."""

    name: str
    title: str
    unit: str
    predicted: float
    measured: float
    error: float | None


class WhatIfAnswer(JsonDocument, rename={"holdout": "held"}):
    """changes: settings by key, as given; minutes: of the history; guesses: what lies outside of what was measured, so
    that bands are guesses; assumed: what nobody gave; notes: what to know before using the numbers."""

    schema: str
    inferdoc_version: str
    pool: str
    model: str
    tier: str
    replicas: int
    minutes: float
    changes: dict[str, str]
    summary: str
    rows: list[WhatIfRow]
    holdout: list[HoldoutRow]
    machine: dict[str, float]
    guesses: list[str]
    assumed: list[str]
    notes: list[str]

    def row(self, name: str) -> WhatIfRow:
        """One quantity."""
        return next(each for each in self.rows if each.name == name)


Calibrated = CalibratedPool | CalibratedPair
Changed = ChangedPool | ChangedPair
SEEDS = range(1, 8)
DRAWS = tuple((place * 3 % len(SEEDS) + 0.5) / len(SEEDS) for place in range(len(SEEDS)))
"""Of what is guessed: evenly over its range, in no order with the other draws."""
STUDENT = 1.943
"""90 % of Student's t with six degrees of freedom: seven plays."""
NORMAL = 1.645
LEAST_SEEN = 0.01
"""Per second; fewer preemptions are none."""
GUESSED = 2.0
"""How much wider a band is where something was not measured (logs)."""
WIDEST = 20.0
"""Times a value, beyond which its band says nothing in any case."""
FAR = 1.5
"""Times what was seen, beyond which a play is outside of what was measured (capacity.md, section J)."""
LEAST_ERROR = 0.02
NO_HOLDOUT = 1.0
"""The error (log) where the holdout half, or its plays, had none of what is requested."""
MOST_PLAYED, LEAST_INTERVALS = 15_000, 10
"""Requests of one play, and intervals that are played however many requests they hold."""


@dataclass(frozen=True)
class PlayedQuantity:
    """What is read off a play. up: more of it is better; error_of: the quantity whose holdout error widens its band."""

    name: str
    title: str
    unit: str
    up: bool
    error_of: str
    formula: str


QUANTITIES = (
    PlayedQuantity("ttft_p50", "time to first token, p50", "s", False, "ttft_p50", "median over requests of the plays"),
    PlayedQuantity("ttft_p99", "time to first token, p99", "s", False, "ttft_p99", "99th percentile over requests"),
    PlayedQuantity("itl_p50", "between tokens, p50", "s", False, "itl_p50", "median over gaps between tokens"),
    PlayedQuantity("itl_p99", "between tokens, p99", "s", False, "itl_p99", "99th percentile over gaps between tokens"),
    PlayedQuantity(
        "goodput", "goodput", "1/s", True, "goodput", "served x max(0, a + b - 1), a and b the shares in the limits"
    ),
    PlayedQuantity("served", "requests served", "1/s", True, "served", "requests that ended / seconds played"),
    PlayedQuantity("preemptions", "preemptions", "1/s", False, "", "preemptions / seconds played"),
)


@dataclass(frozen=True)
class MovedQuantity:
    """One quantity before and after the change. ratio: after over before, NaN where before is 0."""

    quantity: PlayedQuantity
    now: Banded
    then: Banded
    ratio: float
    move: Move


@dataclass(frozen=True)
class Prediction:
    """rows: by QUANTITIES; guesses: what of it lies outside of what was measured."""

    rows: tuple[MovedQuantity, ...]
    guesses: tuple[str, ...]

    def row(self, name: str) -> MovedQuantity:
        """One quantity."""
        return next(each for each in self.rows if each.quantity.name == name)


def plays_now(pool: Calibrated) -> list[PlayedPool]:
    """The pool as it is, one play for each draw."""
    rates = busiest(pool.setting)
    return [_played(pool.drawn(seed), rates, seed) for seed in SEEDS]


def predicted(pool: Calibrated, change: Changed, before: Sequence[PlayedPool]) -> Prediction:
    """What the change brings. before: the plays of the pool as it is."""
    rates = busiest(pool.setting)
    after = [_played(change.drawn(seed, draw), rates, seed) for seed, draw in zip(SEEDS, DRAWS, strict=True)]
    guesses = [*change.guesses, *_outside(pool, before, after)]
    rows = [_row(each, pool, before, after, bool(guesses)) for each in QUANTITIES]
    return Prediction(tuple(_possible(rows)), tuple(guesses))


def _played(setting: PlayedSetting | PairSetting, rates: tuple[float, ...], seed: int) -> PlayedPool:
    at_rates = setting.with_traffic(with_fields(setting.traffic, rates=rates))
    return played(at_rates.scenario(seed), apart=setting.apart)


def _possible(rows: Sequence[MovedQuantity]) -> list[MovedQuantity]:
    """No more requests are good than are served."""
    served = next(each for each in rows if each.quantity.name == "served")
    return [
        replace(each, now=_at_most(each.now, served.now.high), then=_at_most(each.then, served.then.high))
        if each.quantity.name == "goodput"
        else each
        for each in rows
    ]


def _at_most(band: Banded, most: float) -> Banded:
    return Banded(min(band.value, most), min(band.low, most), min(band.high, most))


def busiest(setting: PlayedSetting | PairSetting) -> tuple[float, ...]:
    """Rates of the busiest intervals in a row that hold no more requests than a play takes, requests/s."""
    rates = np.array(setting.traffic.rates)
    count = len(rates)
    while count > LEAST_INTERVALS and _most(rates, count)[1] * setting.traffic.burst_every > MOST_PLAYED:
        count -= 1
    first, _ = _most(rates, count)
    return tuple(rates[first : first + count].tolist())


def _most(rates: np.ndarray, count: int) -> tuple[int, float]:
    """First of `count` intervals in a row with the most requests, and the sum of their rates."""
    sums = np.convolve(rates, np.ones(count), "valid")
    first = int(np.argmax(sums))
    return first, float(sums[first])


def value_of(quantity: PlayedQuantity, play: PlayedPool, limits: tuple[float, float]) -> float:
    """It, of one play."""
    if quantity.name == "goodput":
        return play.goodput(*limits)
    if quantity.name == "served":
        return play.rate
    if quantity.name == "preemptions":
        return play.preemptions / play.seconds
    short, _, share = quantity.name.partition("_p")
    return play.times[{"ttft": TTFT, "itl": ITL}[short]].quantile(float(f"0.{share}"))


def _row(
    quantity: PlayedQuantity, pool: Calibrated, before: Sequence[PlayedPool], after: Sequence[PlayedPool], guess: bool
) -> MovedQuantity:
    limits = pool.limits
    now, then = (np.array([value_of(quantity, play, limits) for play in plays]) for plays in (before, after))
    error = _error(pool, quantity.error_of)
    ratio = float(np.median(then)) / float(np.median(now)) if np.median(now) > 0 else math.nan
    wider = GUESSED if guess else 1.0
    move = move_of(quantity, now, then, STUDENT / math.sqrt(len(then)))
    return MovedQuantity(quantity, _band(now, error), _band(then, error, wider), ratio, move)


def move_of(quantity: PlayedQuantity, now: np.ndarray, then: np.ndarray, chance: float = 0.0) -> Move:
    """Whether it moves by so much that anybody would see it. now, then: of plays with the same draws, so that what
    chance gives both cancels; chance: of the logs of what each moves by, so many standard deviations may be none."""
    if min(now.min(), then.min()) <= 0:
        before, after = float(np.median(now)), float(np.median(then))
        moved = abs(after - before) > SAME * max(before, after, 1e-9) and max(before, after) > LEAST_SEEN
        return "same" if not moved else "better" if (after > before) == quantity.up else "worse"
    moves = np.log(then / now)
    middle = float(np.median(moves))
    least = max(0.0, abs(middle) - chance * float(moves.std(ddof=1)))
    if abs(math.expm1(math.copysign(least, middle))) < SAME:
        return "same"
    return "better" if (middle > 0) == quantity.up else "worse"


def _error(pool: Calibrated, name: str) -> float:
    """Of the holdout half: that of the quantity, and as much again those of all latencies: one alone may be right by
    chance."""
    offs = {each.name: each.off for each in pool.holdout if math.isfinite(each.off)}
    kind = [off for other, off in offs.items() if other.startswith(("ttft", "itl"))]
    own = offs.get(name)
    if name in ("goodput", "served") or not kind:
        return max(LEAST_ERROR, NO_HOLDOUT if own is None else abs(own))
    others = math.sqrt(sum(off**2 for off in kind) / len(kind))
    return max(LEAST_ERROR, math.sqrt(((others if own is None else own) ** 2 + others**2) / 2))


def _band(values: np.ndarray, error: float, wider: float = 1.0) -> Banded:
    middle = float(np.median(values))
    if not (values > 0).all():
        spread = STUDENT * float(values.std(ddof=1)) * math.sqrt(1 + 1 / len(values)) * wider
        return Banded(middle, max(0.0, middle - spread), max(float(values.max()), middle + spread))
    spread = STUDENT * float(np.log(values).std(ddof=1)) * math.sqrt(1 + 1 / len(values))
    far = min(WIDEST, math.exp(wider * math.hypot(spread, NORMAL * error)))
    return Banded(middle, middle / far, middle * far)


def _outside(pool: Calibrated, before: Sequence[PlayedPool], after: Sequence[PlayedPool]) -> list[str]:
    """What a play reaches that the history did not."""
    found = []
    for role, seen in pool.most_seen.items():
        now, then = (float(np.median([play.most_running[role] for play in plays])) for plays in (before, after))
        if then > FAR * max(seen, now):
            pod = "pod" if role == "both" else f"{role} pod"
            found.append(f"a {pod} would run up to {then:.0f} requests, never above {seen:.0f} while it was watched")
    return found
