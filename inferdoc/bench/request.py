"""From the options of the command and result files, whose tool is seen by their keys, to what the files prove."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from inferdoc import __version__
from inferdoc.bench import aiperf, guidellm, vllm_serve
from inferdoc.bench.bounds import marks, numbers
from inferdoc.bench.compare import ProductionPool, beside
from inferdoc.bench.curve import Curve, Fields, LoadLevel, curves, of_one_model
from inferdoc.bench.model import BENCH_SCHEMA_ID, BenchAnswer, BenchCurve, LevelRow
from inferdoc.catalogue.load import Catalogue
from inferdoc.errors import NOT_JSON, InferdocError
from inferdoc.fleet.members import Pool
from inferdoc.slo.objective import Objective, objectives
from inferdoc.words import figure, how_many

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
    return LevelRow(
        level.file,
        level.drive,
        level.requested,
        level.served,
        level.seconds,
        level.completed,
        level.failed,
        level.prompt_tokens,
        level.output_tokens,
        latencies,
        all(value <= limit for value, limit in read) if read and level.drive != "burst" else None,
        marks(level),
    )


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
