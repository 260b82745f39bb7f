"""The rates that a curve proves, between the last level that keeps an objective and the first that does not: numbers
with formula, inputs and source."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from inferdoc.bench.curve import Curve, LoadLevel, behind, rushed
from inferdoc.forecast.capacity import SPREAD, Verdict, crossing, left_for_good, twice_low_load
from inferdoc.sizing.model import Predicted
from inferdoc.slo.objective import Objective
from inferdoc.words import figure

TAIL_REQUESTS = 1000
"""A p99 of fewer rests on less than ten of them (reference: capacity, section G, from the field guide to sizing)."""
LEAST_SECONDS = 300
"""Five minutes a level (same place)."""
EMPTYING = 0.05
"""Share of a level; less makes no rate look low."""


def numbers(curve: Curve, objectives: Sequence[Objective]) -> tuple[list[Predicted], list[str]]:
    """What a curve proves, and what it does not show."""
    if curve.drive == "burst":
        return [_highest(curve)], ["all requests came at once: their latency shows how many there were, no usable rate"]
    found = bounds(curve, objectives)
    proved, notes = list(_usable(curve, found, objectives)), [*_unknown(found), *cautions(curve)]
    knot = knee(curve)
    if knot is not None and knot.rate is not None:
        proved.append(_knee(curve, knot))
    return [*proved, _highest(curve)], notes


def _usable(curve: Curve, found: Sequence[Bound], objectives: Sequence[Objective]) -> Iterator[Predicted]:
    decides = usable(found)
    if decides is None or decides.rate is None:
        return
    last = curve.levels[-1]
    assumed = next(each.assumed for each in objectives if each.signal == decides.signal)
    yield _predicted("usable_rate", "requests within the objectives", decides, curve, assumed)
    for name, title, tokens in (
        ("usable_output_tokens", "answer tokens it makes", last.output_tokens),
        ("usable_prompt_tokens", "prompt tokens it takes", last.prompt_tokens),
    ):
        if tokens is not None:
            yield Predicted(
                name,
                title,
                decides.rate * tokens,
                decides.low * tokens,
                None if decides.high is None else decides.high * tokens,
                "tokens/s",
                "requests within the objectives x mean tokens of a request",
                {"requests": figure(decides.rate, "1/s"), "tokens": f"{tokens:,.0f}"},
                _files(curve.levels),
                assumed,
            )
    for each in found:
        if each.rate is not None and each is not decides:
            one = next(one for one in objectives if one.signal == each.signal)
            yield _predicted(f"rate_{each.signal}", f"with {each.signal} alone", each, curve, one.assumed)


def _predicted(name: str, title: str, bound: Bound, curve: Curve, assumed: bool) -> Predicted:
    unit = "ratio" if bound.signal == "error_share" else "s"
    words = f"{bound.signal} at {figure(bound.limit, unit)}"
    inputs = {f"limit of {bound.signal}": figure(bound.limit, unit)}
    if bound.kept is not None:
        inputs[f"{bound.read} at {figure(bound.low, '1/s')}"] = figure(bound.kept, unit)
    if bound.broken is not None:
        inputs[f"{bound.read} at {figure(bound.high, '1/s')}"] = figure(bound.broken, unit)
    formula = (
        f"the highest load of the files, which keeps {words}"
        if bound.verdict == "at least"
        else f"the line between the last level that keeps {words} and the first of those that break it"
    )
    return Predicted(
        name, title, bound.rate, bound.low, bound.high, "1/s", formula, inputs, _files(curve.levels), assumed
    )


def _knee(curve: Curve, knot: Bound) -> Predicted:
    return Predicted(
        "knee",
        "knee",
        knot.rate,
        knot.low,
        knot.high,
        "1/s",
        f"the load from which {knot.signal} stays at twice the median of the lowest third of the levels",
        {
            f"{knot.read} at {figure(knot.low, '1/s')}": figure(knot.kept, "s"),
            f"{knot.read} at {figure(knot.high, '1/s')}": figure(knot.broken, "s"),
        },
        _files(curve.levels),
    )


def _highest(curve: Curve) -> Predicted:
    best = max(curve.levels, key=lambda level: level.served)
    inputs = {"completed": f"{best.completed:,} requests", "seconds": figure(best.seconds, "s")}
    return Predicted(
        "highest_rate",
        "most that was served",
        best.served,
        best.served,
        best.served,
        "1/s",
        "completed requests / seconds of the measurement, at the best level; no rate to plan with",
        inputs,
        best.file,
    )


def _unknown(found: Sequence[Bound]) -> Iterator[str]:
    for each in found:
        unit = "ratio" if each.signal == "error_share" else "s"
        if each.verdict == "unknown":
            yield f"{each.signal} within {figure(each.limit, unit)} cannot be judged: {each.why}"
        elif each.verdict == "missed":
            at = f"{figure(each.high, '1/s')}: it was {figure(each.broken, unit)}"
            missed = f"{each.signal} within {figure(each.limit, unit)} was missed at every level"
            yield f"{missed}, from {at}; no rate is usable"
        elif each.early is not None:
            words = f"{each.signal} within {figure(each.limit, unit)} was broken at {figure(each.early, '1/s')} already"
            yield f"{words}, and kept at a higher load: repeat these levels"
        if each.rate is not None and each.read != each.signal:
            yield f"{each.read} stands for {each.signal}, which the files lack: the rate is at least so high"


def cautions(curve: Curve) -> Iterator[str]:
    """What weakens the numbers of a curve."""
    few = [level for level in curve.levels if level.completed < TAIL_REQUESTS]
    if few:
        least = min(level.completed for level in few)
        yield f"p99 of {least:,} requests rests on {max(1, least // 100)} of them; {TAIL_REQUESTS:,} a level are needed"
    brief = min(level.seconds for level in curve.levels)
    if brief < LEAST_SECONDS:
        yield f"a level lasted {figure(brief, 's')}; under {LEAST_SECONDS // 60} min a queue has no time to show"
    if any(level.prompt_tokens is None or level.output_tokens is None for level in curve.levels):
        yield "the files have no lengths: the rates hold for these requests alone, whatever they were"
    low = max(level.emptying / level.seconds for level in curve.levels)
    if low > EMPTYING and curve.drive == "rate":
        yield f"at the end of a level the server only emptied: rates served are up to {100 * low:.0f} % low"
    slow = [level for level in curve.levels if behind(level)]
    if slow:
        served, requested = figure(slow[0].kept_up, "1/s"), figure(slow[0].requested, "1/s")
        yield f"from {requested} on the server fell behind ({served} served): latencies there grow with the run"
    for level in curve.levels:
        if rushed(level):
            requested, served = figure(level.requested, "1/s"), figure(level.served, "1/s")
            words = f"where {requested} was requested, {served} were served"
            yield f"{words}: the client sent no less, and the level counts so"
    yield from dict.fromkeys(warning for level in curve.levels for warning in level.warnings)


def _files(levels: Sequence[LoadLevel]) -> str:
    files = list(dict.fromkeys(level.file for level in levels))
    more = f" and {len(files) - 2} more" if len(files) > 2 else ""
    return ", ".join(files[:2]) + more


def marks(level: LoadLevel) -> list[str]:
    """What to know about one level, in a word each."""
    good = [] if level.good is None else [f"{figure(level.good, '1/s')} good by its own limits"]
    return (
        ["behind"] * behind(level)
        + ["rushed"] * rushed(level)
        + [f"{100 * level.failed_share:.2g} % failed"] * bool(level.failed)
        + good
    )


FEWEST_LEVELS = 4
"""Of a knee without an objective: below it nobody knows what low load is (as of the bins of a history)."""
KNEE_SIGNALS = ("ttft_p99", "tpot_request_p99", "itl_p99")


@dataclass(frozen=True)
class Bound:
    """verdict: as of a replica's capacity; rate, low, high: requests/s, high None without an upper bound; read: the
    signal that the files hold in place of that of the objective; kept, broken: what it read at the two levels beside
    the rate; early: requests/s of a lower level that broke it, though a higher one kept it; why: of a rate that is not
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
    """Where a p99 latency stays at twice its value at low load; None where too few levels, or too alike, show it."""
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
        return Bound(signal, limit, "unknown", why=f"{lacking} has {signal}")
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
