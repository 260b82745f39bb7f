"""Results of AIPerf, `profile_export_aiperf.json`: one run a file (aiperf/common/models/export_models.py, 0.13)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from inferdoc.bench.curve import PER_SECOND, Drive, Fields, LatencySpread, LoadLevel, rate_agrees

TOOL = "AIPerf"
MAJOR = "1"
"""Of schema_version; minor versions add fields."""
FAMILY = {
    "ttft": "time_to_first_token",
    "tpot_request": "inter_token_latency",
    "itl": "inter_chunk_latency",
    "e2e": "request_latency",
}
SHARES = {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99}
RATES = ("poisson", "gamma", "constant", "user_centric")
WARMUP = "warmup"
MISCOUNT = 0.03
"""Share of the tokens of an answer by which two tokenizers may differ without a word (own choice)."""


def recognises(document: Mapping[str, Any]) -> bool:
    """Whether a document looks like one of this tool."""
    return isinstance(document.get("request_throughput"), Mapping)


def levels(fields: Fields) -> list[LoadLevel]:
    """The one level of a run. Raises InferdocError."""
    version = fields.values.get("schema_version")
    if not isinstance(version, str) or version.partition(".")[0] != MAJOR:
        raise fields.fault("schema_version", f"{version!r:.20} is not known; {MAJOR}.x is")
    if fields.values.get("is_complete") is False or fields.values.get("was_cancelled"):
        why = fields.values.get("incomplete_reason") or "the run was cancelled"
        raise fields.fault("is_complete", f"an unfinished run is no result: {why!s:.60}")
    rate = fields.part("request_throughput")
    served, seconds = rate.number("avg", above=0.0), _seconds(fields.part("benchmark_duration"), "avg")
    completed = round(fields.part("request_count").number("avg", above=0.0))
    rate_agrees(rate, "avg", served, completed, seconds)
    drive, requested = _driven(fields)
    failed = round(_average(fields, "error_request_count") or 0.0)
    _not_of_the_warmup(fields, completed + failed)
    answer, warnings = _answer_tokens(fields)
    return [
        LoadLevel(
            fields.file,
            TOOL,
            _model(fields),
            drive,
            requested,
            served,
            seconds,
            completed,
            failed,
            _average(fields, "input_sequence_length"),
            answer,
            _latencies(fields),
            _average(fields, "goodput"),
            warnings=warnings,
        )
    ]


def _average(fields: Fields, key: str) -> float | None:
    return fields.part(key).number("avg") if fields.has(key) else None


def _not_of_the_warmup(fields: Fields, ended: int) -> None:
    """Raises InferdocError for the file that AIPerf writes of a warm-up, phases/NAME/ beside the one of the run: only
    its folder and its number of requests identify it."""
    phases = _input(fields).parts("phases") if _input(fields).has("phases") else []
    warm = [phase for phase in phases if WARMUP in (phase.values.get("name"), phase.values.get("kind"))]
    sent = [phase.known("requests") for phase in phases if phase not in warm]
    for phase in warm:
        folders = Path(fields.file).parts[-3:-1]
        of_folder = folders == ("phases", phase.values.get("name"))
        if of_folder or (ended == phase.known("requests") and ended not in sent and None not in sent):
            raise fields.fault("request_count", f"{ended} requests of the warm-up; give the file of the whole run")


def _answer_tokens(fields: Fields) -> tuple[float | None, tuple[str, ...]]:
    """Mean tokens of an answer: as the server counts them where the file has it. AIPerf counts the text again with a
    tokenizer of its own, and its mean gap between tokens divides by that count."""
    counted, of_server = _average(fields, "output_sequence_length"), _average(fields, "usage_completion_tokens")
    if not counted or not of_server:
        return counted, ()
    if abs(counted / of_server - 1.0) <= MISCOUNT:
        return of_server, ()
    side = "low" if counted > of_server else "high"
    off = abs(of_server / counted - 1.0)
    words = f"AIPerf counted {counted:,.4g} tokens an answer, the server {of_server:,.4g}: its TPOT is {off:.0%} {side}"
    return of_server, (f"{words}; --use-server-token-count, or the model's own --tokenizer, corrects it",)


def _seconds(part: Fields, key: str) -> float:
    """A value in the unit that stands beside it. Raises InferdocError."""
    unit = part.text("unit")
    if unit not in PER_SECOND:
        raise part.fault("unit", f'"{unit:.20}" is no unit of time that is known: {", ".join(PER_SECOND)}')
    return part.number(key) / PER_SECOND[unit]


def _latencies(fields: Fields) -> dict[str, LatencySpread]:
    latencies = {}
    for family, key in FAMILY.items():
        if not fields.has(key):
            continue
        part = fields.part(key)
        quantiles = {share: _seconds(part, name) for name, share in SHARES.items() if part.has(name)}
        latencies[family] = LatencySpread(_seconds(part, "avg") if part.has("avg") else None, quantiles)
    if "ttft" not in latencies:
        raise fields.fault("time_to_first_token", "missing; --streaming writes it")
    return latencies


def _driven(fields: Fields) -> tuple[Drive, float | None]:
    """By the phase that was measured: the last that is no warm-up (aiperf/config/phases.py)."""
    phases = _input(fields).parts("phases") if _input(fields).has("phases") else []
    measured = [phase for phase in phases if WARMUP not in (phase.values.get("name"), phase.values.get("kind"))]
    if not measured:
        return "unknown", None
    phase = measured[-1]
    kind = phase.values.get("type")
    if kind in RATES:
        return "rate", phase.number("rate", above=0.0)
    if kind == "concurrency":
        return "concurrency", phase.number("concurrency", above=0.0) if phase.has("concurrency") else 1.0
    raise phase.fault("type", f"{kind!r:.30}: the load changed during the run; a curve takes runs at fixed loads")


def _input(fields: Fields) -> Fields:
    return fields.part("input_config")


def _model(fields: Fields) -> str:
    models = _input(fields).values.get("models")
    named = models.get("items") if isinstance(models, Mapping) else models
    names = [_name(each) for each in named] if isinstance(named, Sequence) and not isinstance(named, str) else [named]
    if len(names) != 1 or not isinstance(names[0], str):
        raise fields.fault("input_config.models", "one model is expected; a curve over several says nothing of any")
    return names[0]


def _name(item: Any) -> Any:
    return item.get("name") if isinstance(item, Mapping) else item
