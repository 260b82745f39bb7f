"""Which rate a curve proves: the load at which an objective is broken for good, and the knee without any objective.

Both are the finder of `inferdoc.forecast.capacity`, over the levels of a benchmark instead of bins of a history. The
truth lies between the last level that keeps the objective and the first that does not: that is the range.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from inferdoc.bench.curve import Curve
from inferdoc.forecast.capacity import SPREAD, Verdict, crossing, left_for_good, twice_low_load
from inferdoc.slo.objective import Objective

FEWEST_LEVELS = 4
"""Of a knee without an objective: below it nobody knows what low load is (as of the bins of a history)."""
KNEE_SIGNALS = ("ttft_p99", "tpot_request_p99", "itl_p99")


@dataclass(frozen=True)
class Bound:
    """verdict: as of a replica's capacity; rate, low, high: requests/s, high None without an upper bound; read: the
    signal that the files hold in place of the one promised; kept, broken: what it read at the two levels beside the
    rate; early: requests/s of a lower level that broke it, though a higher one kept it; why: of a rate that is not
    known."""

    signal: str
    limit: float | None
    verdict: Verdict
    rate: float | None = None
    low: float = 0.0
    high: float | None = None
    read: str = ""
    kept: float | None = None
    broken: float | None = None
    early: float | None = None
    why: str = ""


def bounds(curve: Curve, objectives: Sequence[Objective]) -> list[Bound]:
    """One per objective."""
    return [_bound(curve, one.signal, one.limit) for one in objectives]


def knee(curve: Curve) -> Bound | None:
    """Where a p99 latency stays at twice its value at low load; None where too few levels, or too alike, tell it."""
    served = curve.served
    if len(served) < FEWEST_LEVELS or served[-1] < SPREAD * served[0]:
        return None
    seen = [_bound(curve, signal, None) for signal in KNEE_SIGNALS]
    left = [one for one in seen if one.verdict == "p99"]
    return min(left, key=_rate, default=None)


def usable(found: Sequence[Bound]) -> Bound | None:
    """The bound that decides: the lowest; None where none is known."""
    missed = [one for one in found if one.verdict == "missed"]
    broken = [one for one in found if one.verdict == "slo"]
    kept = [one for one in found if one.verdict == "at least"]
    return missed[0] if missed else min(broken or kept, key=_rate, default=None)


def _rate(one: Bound) -> float:
    return one.rate or 0.0


def _bound(curve: Curve, signal: str, limit: float | None) -> Bound:
    readings = [level.reading(signal) for level in curve.levels]
    known = [each for each in readings if each is not None]
    if len(known) < len(readings):
        lacking = "no level" if not known else f"{len(known)} of {len(readings)} levels"
        return Bound(signal, limit, "unknown", why=f"{lacking} tells {signal}")
    values, read = np.array([value for value, _ in known]), max(name for _, name in known)
    served, line = curve.served, twice_low_load(values) if limit is None else limit
    first, at = left_for_good(values > line), crossing(served, values, line)
    kept = len(values) if first is None else first
    early = next((float(rate) for rate in served[:kept][values[:kept] > line]), None)
    if first is None:
        rate = float(served[-1])
        return Bound(signal, limit, "at least", rate, rate, None, read, float(values[-1]), early=early)
    if first == 0:
        return Bound(signal, limit, "missed", None, 0.0, float(served[0]), read, None, float(values[0]))
    sides = float(served[first - 1]), float(served[first])
    beside = float(values[first - 1]), float(values[first])
    return Bound(signal, limit, "p99" if limit is None else "slo", at, *sides, read, *beside, early)
