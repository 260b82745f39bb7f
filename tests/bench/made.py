"""Result files of three tools about one server, whose curve is known: the time to first token is that of an M/M/1 queue
that serves 20 requests/s, at a fiftieth of its wait where nobody is served, and answers slow with the load.

Keys are those of the tools' own sources: vllm/benchmarks/serve.py (commit 009e6d4), guidellm 0.8.1 and 0.5.4
(benchmark/schemas), aiperf 0.13.0 (common/models/export_models.py, config/phases.py).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

MODEL = "meta-llama/Llama-3.1-8B-Instruct"
SERVES = 20.0
RATES = (2.0, 4.0, 8.0, 12.0, 16.0, 18.0, 19.0)
PROMPT, ANSWER = 1000.0, 200.0
SECONDS = 600.0


def ttft(rate: float, share: float) -> float:
    """Seconds: a quantile of the time in an M/M/1 queue with a service of 1/20 s."""
    from math import log

    return -log(1 - share) / (SERVES - rate)


def tpot(rate: float, share: float) -> float:
    """Seconds: a mean gap that grows by a half up to full load, and its spread."""
    return 0.02 * (1 + 0.5 * rate / SERVES) * (1 + 0.2 * share)


def vllm(rate: float, **other: Any) -> dict[str, Any]:
    """As main_async() of vllm/benchmarks/serve.py writes it with --save-result."""
    completed = round(rate * SECONDS)
    document: dict[str, Any] = {
        "date": "20260901-120000",  # result_json["date"], local time
        "endpoint_type": "openai",  # args.backend, "for backward compatibility"
        "backend": "openai",
        "label": None,
        "model_id": MODEL,
        "tokenizer_id": MODEL,
        "num_prompts": completed,
        "request_rate": rate,  # "inf" where it is not finite
        "burstiness": 1.0,
        "max_concurrency": None,
        "duration": SECONDS,
        "completed": completed,
        "failed": 0,
        "total_input_tokens": round(completed * PROMPT),
        "total_output_tokens": round(completed * ANSWER),
        "request_throughput": rate,
        "request_goodput": None,  # only with --goodput
        "output_throughput": rate * ANSWER,
        "total_token_throughput": rate * (ANSWER + PROMPT),
        "max_output_tokens_per_s": rate * ANSWER * 1.3,
        "max_concurrent_requests": 80,
        "rtfx": 0.0,
    }
    for name, of in (("ttft", ttft), ("tpot", tpot), ("itl", tpot)):  # process_one_metric(): --metric-percentiles 99
        document |= {
            f"mean_{name}_ms": 1e3 * of(rate, 0.632),
            f"median_{name}_ms": 1e3 * of(rate, 0.5),
            f"std_{name}_ms": 1.0,
            f"p99_{name}_ms": 1e3 * of(rate, 0.99),
        }
    return document | other


def guidellm(rates: tuple[float, ...] = RATES, version: int = 2) -> dict[str, Any]:
    """GenerativeBenchmarksReport.model_dump(): metadata, config (args in version 1), benchmarks."""
    wanted = (
        {"config": {"spec": {"backend": {"kind": "openai_http", "target": "http://x:8000", "model": MODEL}}}}
        if version == 2
        else {"args": {"target": "http://x:8000", "model": MODEL, "profile": "sweep"}}
    )
    benchmarks = [_benchmark(rate) for rate in rates]
    return {"metadata": {"version": version, "guidellm_version": "0.8.1"}, **wanted, "benchmarks": benchmarks}


def _benchmark(rate: float) -> dict[str, Any]:
    """GenerativeBenchmark: config.strategy is a SchedulingStrategy, start_time and end_time are computed fields."""
    count = round(rate * SECONDS)
    scaled = {
        "time_to_first_token_ms": [1e3 * ttft(rate, share) for share in QUANTILES.values()],
        "inter_token_latency_ms": [1e3 * tpot(rate, share) for share in QUANTILES.values()],
        "request_latency": [ttft(rate, share) + ANSWER * tpot(rate, share) for share in QUANTILES.values()],
        "prompt_token_count": [PROMPT] * len(QUANTILES),
        "output_token_count": [ANSWER] * len(QUANTILES),
        "requests_per_second": [rate] * len(QUANTILES),
    }
    return {
        "type_": "generative_benchmark",
        "config": {"strategy": {"type_": "poisson", "rate": rate, "max_concurrency": None}},
        "start_time": 1_790_000_000.0,
        "end_time": 1_790_000_000.0 + SECONDS,
        "metrics": {
            "request_totals": {"successful": count, "errored": 0, "incomplete": 3, "total": count + 3},
            **{key: {"successful": _summary(values, count)} for key, values in scaled.items()},
            "slo_attainment": None,
            "request_goodput": None,
        },
    }


QUANTILES = {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99, "p999": 0.999}
"""Some of the fields of Percentiles (guidellm/schemas/base/statistics.py)."""


def _summary(values: list[float], count: int) -> dict[str, Any]:
    """DistributionSummary."""
    shares = dict(zip(QUANTILES, values, strict=True))
    return {"mean": values[0], "median": values[0], "std_dev": 1.0, "count": count, "percentiles": shares}


def aiperf(rate: float, **other: Any) -> dict[str, Any]:
    """JsonExportData: one JsonMetricResult a metric, each with its unit; input_config is a BenchmarkConfig."""
    count = round(rate * SECONDS)
    phases = [
        {"name": "first", "kind": "warmup", "type": "concurrency", "concurrency": 2},
        {"name": "profiling", "kind": "profiling", "type": "poisson", "rate": rate},
    ]
    document = {
        "schema_version": "1.4",
        "aiperf_version": "0.13.0",
        "request_throughput": {"unit": "requests/sec", "avg": rate},
        "request_count": {"unit": "requests", "avg": float(count)},
        "benchmark_duration": {"unit": "sec", "avg": SECONDS},
        "time_to_first_token": _metric(lambda share: 1e3 * ttft(rate, share), "ms"),
        "inter_token_latency": _metric(lambda share: 1e3 * tpot(rate, share), "ms"),
        "request_latency": _metric(lambda share: 1e3 * (ttft(rate, share) + ANSWER * tpot(rate, share)), "ms"),
        "input_sequence_length": {"unit": "tokens", "avg": PROMPT},
        "output_sequence_length": {"unit": "tokens", "avg": ANSWER},
        "input_config": {
            "models": {"strategy": "round_robin", "items": [{"name": MODEL}]},
            "phases": phases,
        },
        "was_cancelled": False,
        "is_complete": True,
    }
    return document | other


def _metric(of: Any, unit: str) -> dict[str, Any]:
    shares = {name: of(share) for name, share in (("p50", 0.5), ("p90", 0.9), ("p95", 0.95), ("p99", 0.99))}
    return {"unit": unit, "avg": of(0.632), "std": 1.0, **shares}


def written(folder: Path, name: str, document: Mapping[str, Any]) -> str:
    """A file with the document; its path."""
    path = folder / name
    path.write_text(json.dumps(document), "utf-8")
    return str(path)


def runs(folder: Path, tool: str) -> list[str]:
    """The files of one tool, all rates."""
    if tool == "guidellm":
        return [written(folder, "benchmarks.json", guidellm())]
    of = vllm if tool == "vllm" else aiperf
    return [written(folder, f"{tool}-{rate:g}.json", of(rate)) for rate in RATES]
