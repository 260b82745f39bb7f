"""Results of GuideLLM, `benchmarks.json`: one benchmark a level (guidellm/benchmark/schemas of 0.5.4 and 0.8.1)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from inferdoc.bench.curve import Drive, Fields, LatencySpread, LoadLevel

TOOL = "GuideLLM"
VERSIONS = (1, 2)
"""Of metadata.version: to 0.6 and from 0.7. Both say strategy and metrics alike; the model stands in `args`, then in
`config.spec.backend`."""
MILLISECONDS = {"ttft": "time_to_first_token_ms", "tpot_request": "inter_token_latency_ms"}
"""Its inter-token latency is the mean gap of a request; its time_per_output_token_ms counts the first token too."""
SECONDS = {"e2e": "request_latency"}
SHARES = {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99, "p999": 0.999}
CHANGING = ("trace",)
"""Strategies whose load changes during the run."""


def recognises(document: Mapping[str, Any]) -> bool:
    """Whether a document looks like one of this tool."""
    return "benchmarks" in document and isinstance(document.get("metadata"), Mapping)


def levels(fields: Fields) -> list[LoadLevel]:
    """One level a benchmark. Raises InferdocError."""
    version = fields.part("metadata").values.get("version")
    if version not in VERSIONS:
        known = " and ".join(str(each) for each in VERSIONS)
        raise fields.fault("metadata.version", f"{version!r:.20} is not known; versions {known} are")
    benchmarks = fields.parts("benchmarks")
    if not benchmarks:
        raise fields.fault("benchmarks", "no benchmark is in it")
    ended = [each for each in benchmarks if not _too_short(each)]
    left_out = tuple(_title(each) for each in benchmarks if _too_short(each)) if ended else ()
    why = "no request of it ended, well or badly: it was too short, and is left out"
    return [_level(fields, each, tuple(f"{title}: {why}" for title in left_out)) for each in ended or benchmarks]


def _too_short(fields: Fields) -> bool:
    """Whether a level was over before anything ended, as the one of a sweep that sends all at once often is. One whose
    requests failed is no such: it proves that the load was too much."""
    totals = fields.part("metrics").part("request_totals")
    return totals.count("successful") == totals.count("errored") == 0


def _title(fields: Fields) -> str:
    strategy = fields.part("config").part("strategy")
    load = next((f"{strategy.number(key):g}" for key in ("rate", "streams") if strategy.has(key)), None)
    return "level " + strategy.text("type_") + (f" {load}" if load else "")


def _level(whole: Fields, fields: Fields, left_out: tuple[str, ...] = ()) -> LoadLevel:
    drive, requested = _driven(fields.part("config").part("strategy"))
    metrics = fields.part("metrics")
    totals = metrics.part("request_totals")
    completed = totals.count("successful")
    if not completed:
        raise totals.fault("successful", "0 requests ended well; there is nothing to read")
    seconds = fields.number("end_time") - fields.number("start_time")
    if seconds <= 0:
        raise fields.fault("end_time", "is not after start_time")
    served = metrics.part("requests_per_second").part("successful").number("mean", above=0.0)
    good = metrics.part("request_goodput").part("successful") if metrics.has("request_goodput") else None
    return LoadLevel(
        fields.file,
        TOOL,
        _model(whole, fields),
        drive,
        requested,
        served,
        seconds,
        completed,
        totals.count("errored"),
        _mean(metrics, "prompt_token_count"),
        _mean(metrics, "output_token_count"),
        _latencies(metrics),
        None if good is None else good.known("mean"),
        _labels(whole),
        (*_warnings(fields), *left_out),
    )


def _driven(strategy: Fields) -> tuple[Drive, float | None]:
    kind = strategy.text("type_")
    if kind in CHANGING:
        raise strategy.fault("type_", f"{kind}: the load changed during the run; a curve takes runs at fixed loads")
    if kind in ("constant", "poisson"):
        return "rate", strategy.number("rate", above=0.0)
    if kind == "synchronous":
        return "concurrency", 1.0
    key = "streams" if kind == "concurrent" else "max_concurrency"
    if strategy.has(key):
        return "concurrency", strategy.number(key, above=0.0)
    if kind == "throughput":
        return "burst", None
    raise strategy.fault("type_", f'"{kind:.40}" is not known')


def _model(whole: Fields, fields: Fields) -> str:
    """As the backend had it, which queries the server if none is given; else as it was requested."""
    backend = fields.part("config").values.get("backend")
    if isinstance(backend, Mapping) and backend.get("model"):
        return Fields(fields.file, backend, f"{fields.path}config.backend.").text("model")
    if whole.has("args"):
        return whole.part("args").text("model")
    return whole.part("config").part("spec").part("backend").text("model")


def _labels(whole: Fields) -> dict[str, str]:
    """What was noted with the run (config.metadata.labels, from version 2)."""
    named = whole.values.get("config")
    noted = named.get("metadata") if isinstance(named, Mapping) else None
    labels = noted.get("labels") if isinstance(noted, Mapping) else None
    return {str(k): str(v) for k, v in labels.items()} if isinstance(labels, Mapping) else {}


def _warnings(fields: Fields) -> tuple[str, ...]:
    """What the tool says of its own client (from 0.8): a load that was made late is not the one that was requested."""
    warnings = fields.parts("warnings") if fields.has("warnings") else []
    return tuple(f"GuideLLM warns: {each.text('message').rstrip('.')}" for each in warnings if each.has("message"))


def _mean(metrics: Fields, key: str) -> float | None:
    return metrics.part(key).part("successful").number("mean") if metrics.has(key) else None


def _latencies(metrics: Fields) -> dict[str, LatencySpread]:
    named = {family: (key, 1e3) for family, key in MILLISECONDS.items()}
    named |= {family: (key, 1.0) for family, key in SECONDS.items()}
    latencies = {}
    for family, (key, scale) in named.items():
        well = metrics.part(key).part("successful")
        if not well.count("count"):  # nothing was streamed, or every answer was one token
            continue
        shares = well.part("percentiles")
        quantiles = {share: shares.number(name) / scale for name, share in SHARES.items() if shares.has(name)}
        latencies[family] = LatencySpread(well.number("mean") / scale, quantiles)
    if "ttft" not in latencies:
        raise metrics.fault("time_to_first_token_ms", "no request was streamed, so no latency but the whole is known")
    return latencies
