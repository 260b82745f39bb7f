"""From the options of the command and result files, whose tool is seen by their keys, to what the files prove."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from inferdoc import __version__
from inferdoc.bench import aiperf, guidellm, vllm_serve
from inferdoc.bench.compare import BENCH_SCHEMA_ID, BenchAnswer, BenchCurve, LevelRow, ProductionPool, beside
from inferdoc.bench.curve import Curve, Fields, LoadLevel, behind, curves, of_one_model, rushed
from inferdoc.catalogue.load import Catalogue
from inferdoc.errors import NOT_JSON, InferdocError
from inferdoc.fleet.members import Pool
from inferdoc.forecast.capacity import SPREAD, Verdict, crossing, left_for_good, twice_low_load
from inferdoc.sizing.model import Predicted
from inferdoc.slo.model import Objective, objectives
from inferdoc.words import figure, how_many, some

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
    return some(list(dict.fromkeys(level.file for level in levels)), 2)


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


SHOWN = ("ttft_p50", "ttft_p99", "tpot_request_p50", "tpot_request_p99", "itl_p99", "e2e_p99")


def benched_for_request(
    options: Mapping[str, Any], catalogue: Catalogue, live: ProductionPool | None = None
) -> BenchAnswer:
    """What the result files prove at the objectives. live: the pool beside them. Raises InferdocError."""
    levels = of_one_model(levels_of(options["files"]), options.get("model"))
    place = ("", "") if live is None else (live.pool.cluster, live.pool.namespace)
    pool = Pool(*place, levels[0].model, "both", options.get("tier") or "unknown")
    chosen = objectives(options.get("objective") or (), catalogue.slos, pool)
    several = curves(levels)
    results = [_proved_by(curve, chosen) for curve in several]
    assumed = [
        f"{one.signal} within {figure(one.limit, one.unit)}: {one.source}; --objective sets another"
        for one in chosen
        if one.assumed
    ]
    if live is not None and options.get("replicas") is None:
        assumed.append("one replica was behind the benchmark; --replicas sets another number")
    production = None
    if live is not None:
        production = beside(_longest(several), live, options.get("replicas") or 1, options.get("tier"))
    return BenchAnswer(
        BENCH_SCHEMA_ID, __version__, levels[0].model, _summary(results), chosen, results, production, assumed
    )


def _longest(several: Sequence[Curve]) -> Curve:
    """The curve that production is compared with: the one with the most levels, of those that are no burst. Raises
    InferdocError."""
    fitting = [curve for curve in several if curve.drive != "burst"]
    if not fitting:
        raise InferdocError("--against: all requests came at once in the files; no load of them is one of production")
    return max(fitting, key=lambda curve: len(curve.levels))


def _proved_by(curve: Curve, chosen: Sequence[Objective]) -> BenchCurve:
    proved, notes = numbers(curve, chosen)
    rows = [_row(level, chosen) for level in curve.levels]
    return BenchCurve(curve.title, dict(curve.levels[0].settings), rows, proved, notes)


def _row(level: LoadLevel, chosen: Sequence[Objective]) -> LevelRow:
    latencies = {name: seen[0] for name in SHOWN if (seen := level.reading(name)) is not None and seen[1] == name}
    read = [(seen[0], one.limit) for one in chosen if (seen := level.reading(one.signal)) is not None]
    shared = {name: getattr(level, name) for name in LevelRow.__struct_fields__ if hasattr(level, name)}
    within = all(value <= limit for value, limit in read) if read and level.drive != "burst" else None
    return LevelRow(**shared | {"latencies": latencies, "within": within, "marks": marks(level)})


def _summary(results: Sequence[BenchCurve]) -> str:
    levels = how_many(sum(len(curve.levels) for curve in results), "level")
    rates = [rate for curve in results if (rate := curve.number("usable_rate")) is not None and rate.value is not None]
    if not rates:
        return f"{levels}; no rate is proved to keep the objectives"
    words = [
        f"at least {figure(rate.value, '1/s')}" if rate.high is None else f"about {figure(rate.value, '1/s')}"
        for rate in rates
    ]
    return f"{levels}; within the objectives: {', '.join(words)}"


Recognises = Callable[[Mapping[str, Any]], bool]
TOOLS: tuple[tuple[Recognises, Callable[[Fields], list[LoadLevel]]], ...] = (
    (guidellm.recognises, guidellm.levels),
    (aiperf.recognises, aiperf.levels),
    (vllm_serve.recognises, vllm_serve.levels),
)
AT_ONCE = 0.01
"""Share of a run in which all of its requests came (own choice)."""
MOST_BYTES = 512 * 1024 * 1024
"""Of a file: with each request of an hour in it (own choice)."""


def levels_of(paths: Iterable[str]) -> list[LoadLevel]:
    """The levels of all files, in their order. Raises InferdocError with the first fault."""
    return [level for path in paths for fields in _documents(path) for level in _levels(fields)]


def _levels(fields: Fields) -> list[LoadLevel]:
    for recognises, levels in TOOLS:
        if recognises(fields.values):
            return [_as_sent(level) for level in levels(fields)]
    raise InferdocError(
        f"{fields.file}: no result file: GuideLLM's benchmarks.json, AIPerf's profile_export_aiperf.json and what "
        "vllm bench serve --save-result writes are known"
    )


def _as_sent(level: LoadLevel) -> LoadLevel:
    """A rate at which all requests come in no time is a burst, whatever it was called."""
    if level.drive != "rate" or level.requested is None or level.completed / level.requested > AT_ONCE * level.seconds:
        return level
    return replace(level, drive="burst", requested=None)


def _documents(path: str) -> Iterator[Fields]:
    """The objects of a file: one, or one a line as --append-result leaves them."""
    try:
        if Path(path).stat().st_size > MOST_BYTES:
            raise InferdocError(f"{path}: more than {MOST_BYTES >> 20} MiB; leave the requests out of the file")
        text = Path(path).read_text("utf-8")
    except OSError as error:
        raise InferdocError(f"{path}: cannot be read: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise InferdocError(f"{path}: no JSON: the file is not UTF-8") from None
    try:
        yield _object(path, json.loads(text))
        return
    except NOT_JSON as error:
        lines = [line for line in text.splitlines() if line.strip()]
        if len(lines) < 2 or not lines[0].lstrip().startswith("{") or not lines[0].rstrip().endswith("}"):
            raise InferdocError(f"{path}: no JSON ({error!s:.80}); is the file cut?") from None
    for number, line in enumerate(lines, 1):
        try:
            yield _object(f"{path} line {number}", json.loads(line))
        except NOT_JSON:
            raise InferdocError(f"{path} line {number}: no JSON; is the file cut?") from None


def _object(name: str, document: Any) -> Fields:
    if not isinstance(document, Mapping):
        raise InferdocError(f"{name}: no result file: an object is expected")
    return Fields(name, document)
