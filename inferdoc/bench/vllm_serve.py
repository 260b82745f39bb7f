"""Results of `vllm bench serve --save-result`: one flat object a run (vllm/benchmarks/serve.py, main_async)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from inferdoc.bench.curve import Drive, Fields, LatencySpread, LoadLevel, rate_agrees

TOOL = "vllm bench serve"
STATISTIC = re.compile(r"(?P<what>mean|median|p(?P<percent>[\d.]+))_(?P<name>ttft|tpot|itl|e2el)_ms")
FAMILY = {"ttft": "ttft", "tpot": "tpot_request", "itl": "itl", "e2el": "e2e"}
OWN_TEXTS = frozenset({"date", "endpoint_type", "backend", "label", "model_id", "tokenizer_id", "request_rate"})
"""Texts that the tool writes itself; any other came with --metadata K=V."""
COUNTED = (0.5, 0.9, 0.95, 0.99)
"""Quantiles that are worked out where each request is in the file (--save-detailed)."""


def recognises(document: Mapping[str, Any]) -> bool:
    """Whether a document looks like one of this tool."""
    return "model_id" in document and ("request_throughput" in document or "completed" in document)


def levels(fields: Fields) -> list[LoadLevel]:
    """The one level of a run. Raises InferdocError."""
    if fields.has("total_input_sequences"):
        raise fields.fault("total_input_sequences", "results of a pooling model; no tokens were made")
    if fields.has("ramp_up_strategy"):
        raise fields.fault("ramp_up_strategy", "the rate rose during the run; a curve takes runs at fixed rates")
    completed = fields.count("completed")
    if not completed:
        raise fields.fault("completed", "0 requests ended well; there is nothing to read")
    seconds, served = fields.number("duration", above=0.0), fields.number("request_throughput", above=0.0)
    rate_agrees(fields, "request_throughput", served, completed, seconds)
    drive, requested = _driven(fields)
    failed = fields.count("failed") if fields.has("failed") else max(0, fields.count("num_prompts") - completed)
    return [
        LoadLevel(
            fields.file,
            TOOL,
            fields.text("model_id"),
            drive,
            requested,
            served,
            seconds,
            completed,
            failed,
            fields.number("total_input_tokens") / completed,
            fields.number("total_output_tokens") / completed,
            _latencies(fields),
            fields.known("request_goodput"),
            {k: v for k, v in fields.values.items() if isinstance(v, str) and k not in OWN_TEXTS},
        )
    ]


def _driven(fields: Fields) -> tuple[Drive, float | None]:
    rate, most = fields.values.get("request_rate"), fields.values.get("max_concurrency")
    if rate == "inf" or rate == float("inf"):
        return ("burst", None) if most is None else ("concurrency", fields.number("max_concurrency", above=0.0))
    return "rate", fields.number("request_rate", above=0.0)


def _latencies(fields: Fields) -> dict[str, LatencySpread]:
    means: dict[str, float] = {}
    quantiles: dict[str, dict[float, float]] = {}
    for key in fields.values:
        match = STATISTIC.fullmatch(key)
        if match is None:
            continue
        seconds, family = fields.number(key) / 1e3, FAMILY[match["name"]]
        if match["what"] == "mean":
            means[family] = seconds
        else:
            share = 0.5 if match["what"] == "median" else float(match["percent"]) / 100
            quantiles.setdefault(family, {})[share] = seconds
    for family, values in _each_request(fields).items():
        counted = {share: float(np.quantile(values, share)) for share in COUNTED}
        quantiles[family] = counted | quantiles.get(family, {})
    if "ttft" not in quantiles:
        raise fields.fault("p99_ttft_ms", "missing; --percentile-metrics ttft,tpot,itl writes it")
    return {family: LatencySpread(means.get(family), quantiles[family]) for family in quantiles}


def _each_request(fields: Fields) -> dict[str, np.ndarray]:
    """Seconds of the requests that ended well, where the file has each of them."""
    first, gaps, errors = (_listed(fields, key) for key in ("ttfts", "itls", "errors"))
    if first is None or gaps is None or errors is None:
        return {}
    if len({len(first), len(gaps), len(errors)}) != 1:
        raise fields.fault("ttfts", "as many as itls and errors are expected; is the file cut?")
    well = [place for place, error in enumerate(errors) if not error]
    try:
        times = np.array([float(first[place]) for place in well])
        between = np.array([float(gap) for place in well for gap in gaps[place]])
    except (TypeError, ValueError):
        raise fields.fault("ttfts", "seconds are expected in ttfts and itls") from None
    named = {"ttft": times, "itl": between}
    return {family: values for family, values in named.items() if len(values) and np.isfinite(values).all()}


def _listed(fields: Fields, key: str) -> Sequence[Any] | None:
    value = fields.values.get(key)
    return value if isinstance(value, list) else None
