"""Servers of models that generate no tokens: embeddings, images, audio, and any model behind Triton.

The families and labels are those that these servers expose; the faults are made up.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from inferdoc import open_source
from inferdoc.judging.model import Diagnosis
from tests.judging.made import (
    INTERVAL_S,
    ONSET_S,
    SCRAPES,
    START_S,
    Engine,
    Level,
    Recording,
    recorded,
    stored,
    then,
)
from tests.judging.test_other_engines import alive, target, total
from tests.judging.test_report_classes import diagnosed, found

PODS = ("a", "b", "c")
JOINED = ONSET_S - 20 * INTERVAL_S


@dataclass
class Server:
    """What one server does. rate: requests a second; seconds: of a request, queued of them in the queue; failed: share;
    running, waiting: requests."""

    pod: str
    rate: Level = 8.0
    seconds: Level = 0.02
    queued: Level = 0.001
    failed: Level = 0.0
    running: Level = 2.0
    waiting: Level = 0.0

    def of(self, job: str) -> dict[str, str]:
        return target(job, self.pod)

    def wobble(self, level: Level) -> np.ndarray:
        noise = np.random.default_rng(sum(map(ord, self.pod))).uniform(0.9, 1.1, SCRAPES)
        return np.broadcast_to(np.asarray(level, dtype=float), SCRAPES) * noise

    @property
    def served(self) -> np.ndarray:
        return self.wobble(self.rate) * (1 - np.asarray(self.failed))

    @property
    def lost(self) -> np.ndarray:
        return self.wobble(self.rate) * np.asarray(self.failed)


def histogram(made: Recording, name: str, labels: dict[str, str], rate: np.ndarray, mean: Level) -> None:
    """A histogram of which only sum and count count."""
    for suffix, each, more in (
        ("_count", rate, {}),
        ("_sum", rate * np.asarray(mean), {}),
        ("_bucket", rate, {"le": "+Inf"}),
    ):
        made.put(name, "histogram", {**labels, **more}, total(each, 0), suffix)


def triton(made: Recording, it: Server, model: str = "resnet") -> None:
    own = {**it.of("triton"), "model": model, "version": "1"}
    alive(made, it.of("triton"))
    made.put("nv_inference_request_success", "counter", own, total(it.served))
    made.put("nv_inference_request_failure", "counter", {**own, "reason": "BACKEND"}, total(it.lost))
    made.put("nv_inference_exec_count", "counter", own, total(it.served / 2))
    made.put("nv_inference_pending_request_count", "gauge", own, np.round(it.wobble(it.waiting)))
    for name, each in (("request", it.seconds), ("queue", it.queued)):
        made.put(f"nv_inference_{name}_duration_us", "counter", own, total(it.served * it.wobble(each) * 1e6))


def embeddings(made: Recording, it: Server) -> None:
    own = it.of("tei")
    alive(made, own)
    made.put("te_request_count", "counter", {**own, "method": "single"}, total(it.served + it.lost))
    made.put("te_request_success", "counter", {**own, "method": "single"}, total(it.served))
    if np.any(it.lost):
        made.put("te_request_failure", "counter", {**own, "err": "inference"}, total(it.lost))
    made.put("te_queue_size", "gauge", own, np.round(it.wobble(it.waiting)))
    histogram(made, "te_embed_duration", own, it.served, it.wobble(it.seconds))
    histogram(made, "te_embed_queue_duration", own, it.served, it.wobble(it.queued))
    histogram(made, "te_request_input_length", own, it.served, 120.0)
    histogram(made, "te_batch_next_size", own, it.served / 2, 2.0)


def diffusion(made: Recording, it: Server) -> None:
    where = it.of("sglang")
    own = {**where, "role": "monolithic", "replica": "0"}
    alive(made, where)
    made.put("sglang:diffusion_num_running_reqs", "gauge", own, np.round(it.wobble(it.running)))
    made.put("sglang:diffusion_num_queue_reqs", "gauge", own, np.round(it.wobble(it.waiting)))
    for status, rate in (("success", it.served), ("error", it.lost)):
        ended = {**own, "status": status, "is_warmup": "false"}
        made.put("sglang:diffusion_requests", "counter", ended, total(rate), "_total")
        histogram(made, "sglang:diffusion_request_latency_seconds", ended, rate, it.wobble(it.seconds))
    histogram(
        made, "sglang:diffusion_queue_time_seconds", {**own, "is_warmup": "false"}, it.served, it.wobble(it.queued)
    )


def omni(made: Recording, it: Server) -> None:
    where = it.of("vllm-omni")
    own = {**where, "model_name": "z-image"}
    alive(made, where)
    made.put("vllm:omni_num_requests_running", "gauge", own, np.round(it.wobble(it.running)))
    made.put("vllm:omni_num_requests_waiting", "gauge", own, np.round(it.wobble(it.waiting)))
    for reason, rate in (("stop", it.served), ("abort", it.lost)):
        ended = {**own, "finished_reason": reason}
        made.put("vllm:omni_requests_success", "counter", ended, total(rate), "_total")
    histogram(made, "vllm:omni_e2e_request_latency_s", own, it.served, it.wobble(it.seconds))


def pooling(made: Recording, it: Server) -> None:
    """vLLM with a pooling model: the first token is the whole result, and no token is generated."""
    where = it.of("vllm")
    own = {**where, "engine": "0", "model_name": "bge"}
    alive(made, where)
    made.put("vllm:num_requests_running", "gauge", own, np.round(it.wobble(it.running)))
    made.put("vllm:num_requests_waiting", "gauge", own, np.round(it.wobble(it.waiting)))
    made.put("vllm:kv_cache_usage_perc", "gauge", own, 0.0)
    made.put("vllm:prompt_tokens", "counter", own, total(it.served * 120), "_total")
    made.put("vllm:generation_tokens", "counter", own, np.zeros(SCRAPES), "_total")
    for reason, rate in (("stop", it.served), ("length", it.served * 0), ("abort", it.served * 0), ("error", it.lost)):
        made.put("vllm:request_success", "counter", {**own, "finished_reason": reason}, total(rate), "_total")
    for name, each in (
        ("time_to_first_token", it.seconds),
        ("e2e_request_latency", it.seconds),
        ("request_queue_time", it.queued),
    ):
        histogram(made, f"vllm:{name}_seconds", own, it.served, it.wobble(each))


PAGES = {"triton": triton, "tei": embeddings, "sglang-diffusion": diffusion, "vllm-omni": omni, "vllm-pooling": pooling}
SECONDS = {"sglang-diffusion": 6.0, "vllm-omni": 6.0}
FAULTS: dict[str, dict[str, Level]] = {
    "steady": {},
    "slow": {"seconds": 3.0},
    "fails": {"failed": then(0, 0.4)},
    "queue": {"queued": 400.0, "seconds": 20.0, "waiting": then(0, 60)},
    "hang": {"rate": then(8, 0), "running": then(2, 9), "waiting": then(0, 30)},
}


def servers(kind: str, fault: str, affected: Iterable[str]) -> list[Server]:
    base = SECONDS.get(kind, 0.02)
    made = []
    for pod in PODS:
        levels: dict[str, Level] = {"seconds": base, "queued": base / 20}
        if pod in affected:
            levels |= {k: levels[k] * then(1, v) if k in levels else v for k, v in FAULTS[fault].items()}
        made.append(Server(pod, **levels))
    return made


def answer_for(kind: str, fault: str, affected: Iterable[str], folder: Path) -> Diagnosis:
    made = Recording()
    for each in servers(kind, fault, affected):
        PAGES[kind](made, each)
    return diagnosed(made, folder)


@pytest.mark.parametrize("kind", PAGES)
def test_a_pool_that_serves_without_tokens_is_healthy(kind, tmp_path):
    answer = answer_for(kind, "steady", (), tmp_path)
    assert (answer.verdict, answer.findings) == ("healthy", [])


@pytest.mark.parametrize("twice", [False, True])
@pytest.mark.parametrize("kind", PAGES)
def test_every_server_is_found_beside_another_engine(kind, twice, tmp_path):
    made = recorded(Engine("x"))
    for each in servers(kind, "steady", ()):
        PAGES[kind](made, each)
    text = made.text()
    if twice:  # by a second job
        pairs = [(line, line.replace('job="', 'job="again-')) for line in text.split("\n")]
        text = "\n".join(each for pair in pairs for each in dict.fromkeys(pair))
    source = open_source(store=stored(text, tmp_path))
    source.identify((START_S + 100) * 1000, (START_S + 300) * 1000)
    found = source.findings
    assert (found.engines, found.without_model, [each.processes for each in found.copies]) == (4, 0, [4] * twice)
    source.close()


@pytest.mark.parametrize("fault", ["slow", "fails", "queue"])
@pytest.mark.parametrize("kind", PAGES)
def test_no_impact_on_users_is_healthy_for_want_of_tokens(kind, fault, tmp_path):
    answer = answer_for(kind, fault, ("b",), tmp_path)
    assert answer.verdict == "degraded"
    assert answer.findings[0].scope.pods == ["b"]


@pytest.mark.parametrize("kind", PAGES)
def test_a_server_that_ends_no_request_is_hung_without_a_count_of_tokens(kind, tmp_path):
    answer = answer_for(kind, "hang", ("b",), tmp_path)
    assert [(one.id, one.scope.pods) for one in answer.findings] == [("engine-hung", ["b"])]


@pytest.mark.parametrize("kind", ["triton", "tei", "vllm-pooling"])
def test_a_pool_whose_queue_takes_longest_is_overloaded_without_first_tokens(kind, tmp_path):
    assert found(answer_for(kind, "queue", PODS, tmp_path)) == ["demand-beyond-capacity"]


@pytest.mark.parametrize("slow", [0.06, 0.02])
def test_a_server_that_joins_is_compared_with_its_peers(slow, tmp_path):
    made = Recording()
    for pod in PODS:
        triton(made, Server(pod))
    new = Recording()
    triton(new, Server("d", seconds=slow))
    for name, (kind, lines) in new.samples.items():
        made.samples.setdefault(name, (kind, []))[1].extend(
            line for line in lines if int(line.rsplit(" ", 1)[1]) >= JOINED
        )
    answer = diagnosed(made, tmp_path)
    assert [one.scope.pods for one in answer.findings] == ([["d"]] if slow > 0.02 else [])


@pytest.mark.parametrize("other", ["a", "z"])
@pytest.mark.parametrize("levels", [{"failed": then(0, 0.5)}, {"seconds": then(0.02, 0.08)}])
def test_every_model_of_a_server_counts(levels, other, tmp_path):
    made = Recording()
    for pod in PODS:
        triton(made, Server(pod))
        triton(made, Server(pod, rate=5.0, **levels), other)
    assert found(diagnosed(made, tmp_path)) == ["unexplained-anomaly"]


def test_only_the_language_model_of_an_ensemble_is_read(tmp_path):
    made = Recording()
    where = target("triton", "a")
    alive(made, where)
    for model, failed in (("tensorrt_llm", 0.0), ("preprocessing", 4.0), ("ensemble", 8.0)):
        own = {**where, "model": model, "version": "1"}
        made.put("nv_inference_request_success", "counter", own, total(8.0))
        made.put("nv_inference_request_failure", "counter", {**own, "reason": "OTHER"}, total(failed))
        made.put("nv_inference_request_duration_us", "counter", own, total(8e6))
    source = open_source(store=stored(made.text(), tmp_path))
    frame = source.read(["request_rate", "error_share"], START_S + 100, START_S + 300, INTERVAL_S)
    source.close()
    assert np.allclose(frame["request_rate"].values[0, -5:], 8.0)
    assert np.allclose(frame["error_share"].values[0, -5:], 0.0)
