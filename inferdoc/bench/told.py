"""The bounds of a curve as numbers with formula, inputs and source, and what to know before using them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from inferdoc.bench.curve import Curve, behind, rushed
from inferdoc.bench.level import LoadLevel
from inferdoc.bench.usable import Bound, bounds, knee, usable
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
    """What a curve proves, and what it cannot tell."""
    if curve.drive == "burst":
        return [_highest(curve)], ["all requests came at once: their latency tells how many there were, no usable rate"]
    found = bounds(curve, objectives)
    told, notes = list(_usable(curve, found, objectives)), [*_unknown(found), *cautions(curve)]
    knot = knee(curve)
    if knot is not None and knot.rate is not None:
        told.append(_knee(curve, knot))
    return [*told, _highest(curve)], notes


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
        yield "the files tell no lengths: the rates hold for these requests alone, whatever they were"
    low = max(level.emptying / level.seconds for level in curve.levels)
    if low > EMPTYING and curve.drive == "rate":
        yield f"at the end of a level the server only emptied: rates served are up to {100 * low:.0f} % low"
    slow = [level for level in curve.levels if behind(level)]
    if slow:
        served, asked = figure(slow[0].kept_up, "1/s"), figure(slow[0].asked, "1/s")
        yield f"from {asked} on the server fell behind ({served} served): latencies there grow with the run"
    for level in curve.levels:
        if rushed(level):
            asked, served = figure(level.asked, "1/s"), figure(level.served, "1/s")
            yield f"where {asked} was asked for, {served} were served: the client sent no less, and the level counts so"
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
