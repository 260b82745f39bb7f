"""Made-up recordings with the real names and labels of vLLM, DCGM and cAdvisor, as OpenMetrics text with timestamps.

An engine is told what it does (requests a second, seconds a phase, tokens) as one number or one number per scrape; its
counters and histograms follow from that, with a little noise that is the same every time.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import numpy as np

from inferdoc.catalogue.signal import Metric
from inferdoc.simulate.stats import ITL, REQUEST, TTFT
from inferdoc.store.importer import import_file
from inferdoc.store.store import Store
from tests.judging.frames import catalogue

START_S = 1_790_000_000
SCRAPES = 64
INTERVAL_S = 5
ONSET = 32
"""The scrape at which faults begin: 160 s of calm lie before it."""
ONSET_S = START_S + ONSET * INTERVAL_S

TOKENS = (1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0, 2000.0, 5000.0, 10000.0, 20000.0)
SPREAD = ((0.8, 0.5), (1.0, 0.4), (2.0, 0.1))
"""Observations lie at these multiples of their mean (about), in these shares."""

Level = float | Sequence[float] | np.ndarray


def then(before: float, after: float, at: int = ONSET) -> np.ndarray:
    """One level until the onset, another from there on; a number per scrape."""
    return np.where(np.arange(SCRAPES) < at, float(before), float(after))


@dataclass
class Recording:
    """Samples by metric family. Values that are NaN have no sample at all."""

    samples: dict[str, tuple[str, list[str]]] = field(default_factory=dict)
    times: np.ndarray = field(default_factory=lambda: START_S + INTERVAL_S * np.arange(SCRAPES))

    def put(self, name: str, kind: str, labels: Mapping[str, str], values: Level, suffix: str = "") -> None:
        row = np.broadcast_to(np.asarray(values, dtype=float), self.times.shape)
        inside = ",".join(f'{k}="{v}"' for k, v in labels.items())
        _, lines = self.samples.setdefault(name, (kind, []))
        lines += [f"{name}{suffix}{{{inside}}} {v:.10g} {t}" for v, t in zip(row, self.times, strict=True) if v == v]

    def text(self) -> str:
        parts = [line for name, (kind, lines) in self.samples.items() for line in (f"# TYPE {name} {kind}", *lines)]
        return "\n".join([*parts, "# EOF\n"])

    def only(self, keep: Callable[[str], bool]) -> str:
        """The text without the samples that are not kept."""
        return "".join(line for line in self.text().splitlines(keepends=True) if line.startswith("#") or keep(line))


@dataclass
class Engine:
    """What one engine does. Rates are a second, times seconds, lengths tokens; hit: share of prompt tokens cached."""

    pod: str
    requests: Level = 4.0
    running: Level = 6.0
    waiting: Level = 0.0
    deferred: Level = 0.0
    ttft: Level = 0.15
    itl: Level = 0.02
    queue: Level = 0.02
    prefill: Level = 0.1
    kv: Level = 0.4
    preemptions: Level = 0.0
    prompt: Level = 400.0
    output: Level = 60.0
    hit: Level = 0.5
    up: Level = 1.0
    model: str = "qwen"
    instance: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)

    def target(self) -> dict[str, str]:
        place = {"job": "vllm", "instance": self.instance or f"{self.pod}:8000", "pod": self.pod, "namespace": "llm"}
        return {**place, **self.labels}

    def write(self, to: Recording) -> None:
        target = self.target()
        own = {**target, "engine": "0", "model_name": self.model}
        random = np.random.default_rng(sum(map(ord, self.pod)))

        def level(of: Level, noise: float = 0.0) -> np.ndarray:
            return np.broadcast_to(np.asarray(of, dtype=float), to.times.shape) * (
                1 + noise * random.uniform(-1, 1, len(to.times))
            )

        def total(rate: np.ndarray) -> np.ndarray:
            return np.floor(1000 + np.cumsum(rate) * INTERVAL_S)

        def histogram(name: str, bounds: Sequence[float], mean: np.ndarray, rate: np.ndarray) -> None:
            seen = rate * INTERVAL_S
            for low, high in pairwise((*bounds, np.inf, np.inf)):
                within = sum(share * (mean * far <= low) for far, share in SPREAD)
                to.put(
                    name,
                    "histogram",
                    {**own, "le": f"{low:g}".replace("inf", "+Inf")},
                    np.cumsum(seen * within),
                    "_bucket",
                )
                if low == high:
                    break
            to.put(name, "histogram", own, np.cumsum(seen), "_count")
            to.put(name, "histogram", own, np.cumsum(seen * mean), "_sum")

        requests, prompt, output = level(self.requests, 0.1), level(self.prompt, 0.05), level(self.output, 0.05)
        ttft, itl, queue, prefill = (level(v, 0.1) for v in (self.ttft, self.itl, self.queue, self.prefill))
        to.put("up", "gauge", target, self.up)
        to.put("process_start_time_seconds", "gauge", target, START_S - 9000)
        to.put("vllm:num_requests_running", "gauge", own, np.round(level(self.running, 0.15)))
        waiting, deferred = np.round(level(self.waiting, 0.1)), np.round(level(self.deferred))
        to.put("vllm:num_requests_waiting", "gauge", own, waiting + deferred)
        to.put("vllm:num_requests_waiting_by_reason", "gauge", {**own, "reason": "capacity"}, waiting)
        to.put("vllm:num_requests_waiting_by_reason", "gauge", {**own, "reason": "deferred"}, deferred)
        to.put("vllm:kv_cache_usage_perc", "gauge", own, np.minimum(1.0, level(self.kv, 0.02)))
        info = {"block_size": "16", "num_gpu_blocks": "20000", "kv_cache_size_tokens": "320000", "engine": "0"}
        to.put("vllm:cache_config_info", "gauge", {**target, **info}, 1)
        to.put("vllm:num_preemptions", "counter", own, total(level(self.preemptions)), "_total")
        for name, rate in (
            ("vllm:prompt_tokens", requests * prompt),
            ("vllm:generation_tokens", requests * output),
            ("vllm:prefix_cache_queries", requests * prompt),
            ("vllm:prefix_cache_hits", requests * prompt * level(self.hit, 0.05)),
        ):
            to.put(name, "counter", own, total(rate), "_total")
        for reason, share in (("stop", 0.9), ("length", 0.1), ("abort", 0.0), ("error", 0.0)):
            to.put(
                "vllm:request_success", "counter", {**own, "finished_reason": reason}, total(requests * share), "_total"
            )
        http = {"handler": "/v1/completions", "method": "POST", "status": "2xx"}
        to.put("http_requests", "counter", {**target, **http}, total(requests), "_total")
        decode = itl * output
        for name, bounds, mean, rate in (
            ("vllm:time_to_first_token_seconds", TTFT, ttft, requests),
            ("vllm:inter_token_latency_seconds", ITL, itl, requests * output),
            ("vllm:e2e_request_latency_seconds", REQUEST, ttft + decode, requests),
            ("vllm:request_queue_time_seconds", REQUEST, queue, requests),
            ("vllm:request_prefill_time_seconds", REQUEST, prefill, requests),
            ("vllm:request_decode_time_seconds", REQUEST, decode, requests),
            ("vllm:request_prompt_tokens", TOKENS, prompt, requests),
            ("vllm:request_generation_tokens", TOKENS, output, requests),
            ("vllm:iteration_tokens_total", TOKENS, prompt / 4, (level(self.running) > 0) / itl),
        ):
            histogram(name, bounds, mean, rate)


def gpu(to: Recording, pod: str, number: int, *, joined: bool = True, **levels: Level) -> None:
    """One GPU as dcgm-exporter shows it. joined: the exporter knows the pod; levels: DCGM field -> values."""
    labels = {"job": "dcgm", "instance": "10.0.0.9:9400", "gpu": str(number), "UUID": f"GPU-{pod}-{number}"}
    labels |= {"device": f"nvidia{number}", "modelName": "NVIDIA H100 80GB HBM3", "Hostname": "node-1"}
    if joined:
        labels |= {"exported_pod": pod, "exported_namespace": "llm", "exported_container": "vllm"}
    random = np.random.default_rng(number)
    for name, values in levels.items():
        noisy = np.broadcast_to(np.asarray(values, dtype=float), to.times.shape) * random.uniform(0.98, 1.02, SCRAPES)
        to.put(name, "gauge", labels, noisy)


def container(to: Recording, pod: str, throttled: Level, periods: float = 10.0) -> None:
    """A container as cAdvisor shows it: the share of its scheduler periods in which it was held back."""
    labels = {"job": "kubelet", "instance": "node-1:10250", "namespace": "llm", "pod": pod, "container": "vllm"}
    share = np.broadcast_to(np.asarray(throttled, dtype=float), to.times.shape)
    ran = np.full(SCRAPES, periods * INTERVAL_S)
    to.put("container_cpu_cfs_periods", "counter", labels, np.cumsum(ran), "_total")
    to.put("container_cpu_cfs_throttled_periods", "counter", labels, np.round(np.cumsum(ran * share)), "_total")


def recorded(*engines: Engine) -> Recording:
    """A recording of these engines."""
    made = Recording()
    for engine in engines:
        engine.write(made)
    return made


def stored(text: str, folder: Path) -> Path:
    """The text in an embedded store."""
    page, path = folder / "made.om", folder / "made.db"
    page.write_text(text, "utf-8")
    with Store.open(path, "w") as store:
        import_file(store, page)
    return path


# ---- other releases -------------------------------------------------------------------------------------------------


def aged(text: str, version: str) -> str:
    """The samples of a current engine as an older release spells them: names it did not have yet are renamed to what
    it had instead (both, where two releases overlap), or left out."""
    exporter = catalogue().exporters["vllm"]
    spelled = {name: _spellings(metric, name, version) for name, metric in exporter.metrics.items()}
    families: dict[str, str | None] = {}
    lines = []
    for line in text.splitlines(keepends=True):
        start = len("# TYPE ") if line.startswith("# TYPE ") else 0
        name = line[start:].partition(" ")[0].partition("{")[0]
        if name not in families:
            families[name] = next((base for base in _bases(name) if base in spelled), None)
        known = families[name]
        if known is None:
            lines.append(line)
            continue
        bare = known.removesuffix("_total") if start else known
        lines += [
            line[:start] + line[start:].replace(bare, other.removesuffix("_total") if start else other, 1)
            for other in spelled[known]
        ]
    return "".join(lines)


def _bases(name: str) -> list[str]:
    """What family a series or a TYPE line may belong to, as the catalogue names it."""
    cut = re.sub(r"_(bucket|sum|count|created)$", "", name)
    return [name, f"{name}_total", cut, f"{cut}_total"]


def _spellings(metric: Metric, name: str, version: str) -> list[str]:
    there = [] if metric.since and _number(metric.since) > _number(version) else [name]
    return there + [f.name for f in metric.formerly if f.until is None or _until(version, f.until)]


def _until(version: str, last: str) -> bool:
    """0.11.2 is still 0.11."""
    return _number(version)[: len(_number(last))] <= _number(last)


def _number(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))
