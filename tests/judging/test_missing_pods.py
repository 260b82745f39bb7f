"""A pod that is in no series is found by what others show of it, and a fleet that was scaled down is healthy."""

from __future__ import annotations

from pathlib import Path
from tempfile import mkdtemp

import numpy as np
import pytest

from inferdoc import diagnose, open_source
from inferdoc.judging.session import Options
from tests.judging.made import ONSET_S, SCRAPES, Engine, Recording, recorded, stored, then

PODS = ("chat-0", "chat-1", "chat-2")
NAN = float("nan")
GONE = then(1.0, NAN)
"""Samples up to the middle of the recording."""


def without(made: Recording, pod: str) -> str:
    return made.only(lambda line: f'="{pod}' not in line)


def answer_to(text, tmp_path, **options):
    folder = Path(mkdtemp(dir=tmp_path))
    return diagnose(open_source(store=stored(text, folder)), since="5m", options=Options(**options))


def kubernetes(made: Recording, pod: str, ready=1.0) -> None:
    labels = {"job": "kube-state-metrics", "instance": "ksm:8080", "namespace": "llm", "pod": pod, "condition": "true"}
    made.put("kube_pod_status_ready", "gauge", labels, ready)


def router(made: Recording, ready: float = 3, requests: float = 12.0, model: str = "qwen") -> None:
    target = {"job": "epp", "instance": "10.0.0.9:9090", "namespace": "llm", "pod": "epp-0"}
    made.put("up", "gauge", target, 1)
    made.put("llm_d_epp_ready_endpoints", "gauge", {**target, "name": "chat"}, ready)
    labels = {**target, "model_name": model, "target_model_name": model}
    made.put("llm_d_epp_request", "counter", labels, np.floor(1000 + requests * 5 * np.arange(SCRAPES)), "_total")


def test_a_ready_pod_of_a_known_workload_without_any_metric_is_missing(tmp_path):
    made = recorded(*map(Engine, PODS))
    for pod in PODS:
        kubernetes(made, pod)
    text = made.only(lambda line: "chat-2" not in line or line.startswith("kube_"))
    answer = answer_to(text, tmp_path)
    assert answer.verdict == "unknown"
    assert answer.source.incomplete == ["kube-state-metrics shows chat-2 as ready, and no other metric does"]


@pytest.mark.parametrize(("pod", "ready"), [("web-0", 1.0), ("chat-2", then(1.0, 0.0)), ("chat-2", GONE)])
def test_other_workloads_and_pods_that_are_not_ready_are_not_missing(tmp_path, pod, ready):
    made = recorded(*map(Engine, PODS[:2]))
    kubernetes(made, pod, ready)
    assert answer_to(made.text(), tmp_path).verdict == "healthy"


def test_a_router_with_more_endpoints_than_engines_shows_a_missing_pod(tmp_path):
    made = recorded(*map(Engine, PODS))
    router(made)
    assert answer_to(made.text(), tmp_path).verdict == "healthy"
    answer = answer_to(without(made, "chat-2"), tmp_path)
    assert answer.verdict == "unknown"
    assert answer.source.incomplete[0] == "the router counts 3 ready endpoints, and the data has 2 engines"


@pytest.mark.parametrize("model", ["qwen", "another"])
def test_requests_that_no_engine_finishes_show_a_missing_pod(tmp_path, model):
    """The router does not count endpoints here."""
    made = recorded(*map(Engine, PODS))
    router(made, ready=NAN, model=model)
    assert answer_to(made.text(), tmp_path).verdict == "healthy"
    answer = answer_to(without(made, "chat-2"), tmp_path)
    lines = [line for line in answer.source.incomplete if "the router sends" in line]
    assert (answer.verdict, len(lines)) == (("unknown", 1) if model == "qwen" else ("healthy", 0))


def test_engines_that_count_no_requests_lose_none(tmp_path):
    made = recorded(*map(Engine, PODS))
    router(made)
    text = made.only(lambda line: not line.startswith(("vllm:request_success", "vllm:e2e_request")))
    assert not any("the router sends" in line for line in answer_to(text, tmp_path).source.incomplete)


def test_a_gap_between_the_ordinals_of_a_pool_is_a_missing_pod(tmp_path):
    answer = answer_to(without(recorded(*map(Engine, PODS)), "chat-1"), tmp_path)
    assert answer.verdict == "unknown"
    assert answer.source.incomplete == ["chat-1 is missing between chat-0 and chat-2"]


@pytest.mark.parametrize(
    ("pods", "models"),
    [
        (("gpt-2", "gpt-4"), ("gpt-2", "gpt-4")),
        (("vllm-8000", "vllm-8002"), ("qwen", "qwen")),
        (("qwen-7", "qwen-72"), ("qwen", "qwen")),
        (("chat-0-1", "chat-2-1"), ("qwen", "qwen")),
        (("chat-1", "chat-2"), ("qwen", "qwen")),
    ],
)
def test_other_numbers_in_names_are_no_ordinals(tmp_path, pods, models):
    made = recorded(*(Engine(pod, model=model) for pod, model in zip(pods, models, strict=True)))
    assert answer_to(made.text(), tmp_path).source.incomplete == []


def disaggregated(prefill: float = 8.0, decode: float = 4.0) -> Recording:
    made = recorded(
        Engine("chat-prefill-0", requests=prefill, output=1),
        *(Engine(f"chat-decode-{n}", requests=decode) for n in range(2)),
    )
    for number in range(2):
        labels = Engine(f"chat-decode-{number}").target() | {"engine": "0", "model_name": "qwen"}
        for suffix, each in (("_count", 20.0), ("_sum", 0.4)):
            made.put("vllm:nixl_xfer_time_seconds", "histogram", labels, each * np.arange(SCRAPES), suffix)
    return made


def test_half_of_a_disaggregated_fleet_is_not_healthy(tmp_path):
    made = disaggregated()
    assert answer_to(made.text(), tmp_path).verdict == "healthy"
    answer = answer_to(without(made, "chat-prefill"), tmp_path)
    assert answer.verdict == "unknown" and "no prefill pod is in the data" in answer.source.incomplete[0]
    answer = answer_to(without(made, "chat-decode"), tmp_path)
    assert answer.verdict == "unknown" and "no decode pod is in the data" in answer.source.incomplete[0]


def test_data_that_the_user_narrowed_to_one_half_is_complete(tmp_path):
    answer = answer_to(disaggregated().text(), tmp_path, match=(("pod", "=~", "chat-decode.*"),))
    assert (answer.verdict, answer.source.incomplete) == ("healthy", [])


def test_decode_pods_that_compute_prompts_need_no_prefill_pods(tmp_path):
    assert answer_to(recorded(Engine("chat-decode-0")).text(), tmp_path).source.incomplete == []


def test_requests_that_prefill_pods_hand_on_and_nobody_finishes_show_a_missing_pod(tmp_path):
    answer = answer_to(without(disaggregated(), "chat-decode-1"), tmp_path)
    assert answer.verdict == "unknown" and "prefill pods hand on" in answer.source.incomplete[0]


@pytest.mark.parametrize(
    ("others", "verdict"),
    [(4.0, "unknown"), (then(4.0, 6.0), "healthy")],
    ids=["nobody takes over", "the others take over"],
)
def test_a_busy_pod_whose_series_all_end_is_missing_unless_others_take_over(tmp_path, others, verdict):
    made = recorded(*(Engine(pod, requests=others) for pod in PODS[:2]), Engine(PODS[2]))
    text = made.only(lambda line: PODS[2] not in line or float(line.split()[-1]) < ONSET_S)
    answer = answer_to(text, tmp_path)
    lines = [line for line in answer.source.incomplete if "all series of chat-2 end at" in line]
    assert (answer.verdict, len(lines)) == (verdict, 1 if verdict == "unknown" else 0)
