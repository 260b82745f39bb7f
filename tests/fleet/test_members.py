"""Who is who: role and tier of a pod, by everything that can tell, in order."""

from __future__ import annotations

import numpy as np
import pytest

from inferdoc.fleet.members import Assignment, FleetFilter, resolve, tier_of_model
from inferdoc.source.frame import Entity, SignalFrame, SignalMatrix
from inferdoc.source.reads import Grid
from tests.judging.frames import catalogue

N = 30
TIERS = catalogue().tiers


def entity(**labels: str) -> Entity:
    return Entity.of(tuple(labels), tuple(labels.values()))


def frame(**signals: list[tuple[Entity, float]]) -> SignalFrame:
    """signal -> [(entity, level)]."""
    made = SignalFrame(Grid(0, 2000, N, 2000, 10_000, 5000))
    for name, rows in signals.items():
        values = np.vstack([np.full(N, level) for _, level in rows])
        made.signals[name] = SignalMatrix([one for one, _ in rows], values)
    return made


def only(made: SignalFrame, *assignments: Assignment):
    (member,) = resolve(made, TIERS, assignments).members
    return member


def engine(pod: str = "vllm-0", **labels: str) -> Entity:
    return entity(pod=pod, namespace="llm", model_name="qwen", **labels)


# ---- members --------------------------------------------------------------------------------------------------------


def test_an_engine_is_whoever_shows_an_engine_signal():
    made = frame(
        running=[(engine("a"), 1.0), (engine("b"), 1.0)],
        gpu_util=[(entity(Hostname="node-1", gpu="0"), 0.9)],
        target_up=[(entity(pod="router-0", namespace="llm"), 1.0), (entity(pod="a", namespace="llm"), 1.0)],
    )
    assert [m.pod for m in resolve(made, TIERS).members] == ["a", "b"]


def test_one_signal_is_enough_and_none_is_none():
    assert only(frame(kv_usage=[(engine(), 0.5)])).pod == "vllm-0"
    assert resolve(frame(target_up=[(entity(pod="a"), 1.0)]), TIERS).members == []


def test_without_a_pod_label_the_instance_is_the_pod():
    member = only(frame(running=[(entity(instance="10.0.0.1:8000", model_name="qwen"), 1.0)]))
    assert member.pod == "10.0.0.1:8000"


def test_the_engines_of_a_pod_are_one_member():
    made = frame(running=[(engine(engine="0"), 1.0), (engine(engine="1"), 1.0)])
    assert only(made).pod == "vllm-0"


def test_pods_of_one_name_in_two_namespaces_are_two():
    made = frame(running=[(entity(pod="a", namespace="x"), 1.0), (entity(pod="a", namespace="y"), 1.0)])
    assert [m.key for m in resolve(made, TIERS).members] == [("", "x", "a"), ("", "y", "a")]


def test_the_model_comes_from_whatever_signal_names_it():
    made = frame(running=[(entity(pod="a"), 1.0)], request_rate=[(entity(pod="a", model_name="qwen"), 1.0)])
    assert only(made).pool.model == "qwen"


def test_a_pool_is_like_pods_and_a_family_serves_one_model():
    made = frame(
        running=[
            (engine("d0", role="decode"), 1.0),
            (engine("d1", role="decode"), 1.0),
            (engine("f0", role="prefill"), 1.0),
        ]
    )
    d0, d1, f0 = resolve(made, TIERS).members
    assert d0.pool == d1.pool != f0.pool
    assert d0.pool.family == f0.pool.family == ("", "llm", "qwen")


# ---- role -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("label", ["role", "llm_d_ai_role", "llmd_role"])
@pytest.mark.parametrize("role", ["prefill", "decode", "both"])
def test_a_label_reports_the_role(label, role):
    member = only(frame(running=[(engine(**{label: role}), 1.0)]))
    assert member.role == role and dict(member.why)["role"] == f"label {label}"


@pytest.mark.parametrize(
    ("pod", "role"),
    [
        ("vllm-prefill-0", "prefill"),
        ("ms-qwen-llm-d-modelservice-decode-7d9f8-x2k4z", "decode"),
        ("qwen-PREFILL-1", "prefill"),
        ("decode", "decode"),
        ("vllm-0", "both"),
        ("predecoder-0", "both"),
        ("prefill-decode-0", "both"),
    ],
)
def test_a_name_reports_the_role(pod, role):
    assert only(frame(running=[(engine(pod), 1.0)])).role == role


def test_behaviour_reports_a_prefill_pod():
    member = only(frame(running=[(engine(), 1.0)], output_len_mean=[(engine(), 1.0)]))
    assert member.role == "prefill" and "one token" in dict(member.why)["role"]
    assert only(frame(running=[(engine(), 1.0)], output_len_mean=[(engine(), 80.0)])).role == "both"


@pytest.mark.parametrize(("finished", "role"), [(0.5, "prefill"), (1e-4, "both")])
def test_a_few_short_answers_report_no_prefill_pod(finished, role):
    made = frame(running=[(engine(), 1.0)], output_len_mean=[(engine(), 1.0)], request_rate=[(engine(), finished)])
    assert only(made).role == role


def test_a_quiet_pod_is_not_taken_for_a_prefill_pod():
    assert only(frame(running=[(engine(), 1.0)], output_len_mean=[(engine(), np.nan)])).role == "both"


def roles(made):
    """Role by pod."""
    return {member.pod: member.role for member in resolve(made, TIERS).members}


def test_a_pod_whose_requests_all_fail_is_no_prefill_pod():
    assert only(frame(running=[(engine(), 1.0)], output_len_mean=[(engine(), 0.0)])).role == "both"


def test_a_pod_that_shows_nothing_has_the_role_of_its_workload():
    pods = [engine(name) for name in ("p-0", "d-0", "d-1", "other-0")]
    prompts = [(pod, 100.0) for pod in pods[:2]]
    made = frame(
        running=[(pod, 1.0) for pod in pods],
        output_len_mean=[(pods[0], 1.0), (pods[1], 80.0), (pods[2], 0.0)],
        prompt_tokens_per_request=prompts,
        computed_tokens_per_request=[(pods[0], 100.0), (pods[1], 0.0)],
    )
    assert roles(made) == {"p-0": "prefill", "d-0": "decode", "d-1": "decode", "other-0": "both"}


@pytest.mark.parametrize(
    ("computed", "finished", "role"),
    [
        (100.0, 2.0, "decode"),  # the release counts every prompt as computed, and the requests are the same ones
        (100.0, 0.5, "both"),
        (100.0, 6.0, "both"),
        (60.0, 2.0, "both"),  # it is shown to compute prompts of its own
        (0.0, 6.0, "decode"),
    ],
)
def test_who_finishes_what_prefill_pods_hand_on_is_a_decode_pod(computed, finished, role):
    pods = [engine(name) for name in ("a-0", "b-0")]
    made = frame(
        running=[(pod, 1.0) for pod in pods],
        output_len_mean=[(pods[0], 1.0), (pods[1], 80.0)],
        prompt_tokens_per_request=[(pod, 100.0) for pod in pods],
        computed_tokens_per_request=[(pods[0], 100.0), (pods[1], computed)],
        request_rate=[(pods[0], 2.0), (pods[1], finished)],
    )
    assert roles(made) == {"a-0": "prefill", "b-0": role}


def test_label_before_configuration_before_name_before_behaviour():
    configured = Assignment("vllm-.*", role="both")
    one_token = [(engine("vllm-prefill-0"), 1.0)]
    labelled = frame(running=[(engine("vllm-prefill-0", role="decode"), 1.0)], output_len_mean=one_token)
    plain = frame(running=[(engine("vllm-prefill-0"), 1.0)], output_len_mean=one_token)
    assert only(labelled, configured).role == "decode"
    assert only(plain, configured).role == "both" and dict(only(plain, configured).why)["role"] == "configuration"
    assert only(plain).role == "prefill" and dict(only(plain).why)["role"] == "name"


def test_a_configured_name_must_match_as_a_whole():
    made = frame(running=[(engine("vllm-0"), 1.0)])
    assert only(made, Assignment("vllm", role="decode")).role == "both"
    assert only(made, Assignment("vllm-[0-9]+", role="decode")).role == "decode"


# ---- tier -----------------------------------------------------------------------------------------------------------

CARD = "NVIDIA H100 80GB HBM3"


def test_unknown_hardware_is_unknown_and_has_cautious_defaults():
    member = only(frame(running=[(engine(), 1.0)]))
    assert member.tier == "unknown" and "unknown" in TIERS.tiers


@pytest.mark.parametrize(
    ("model", "tier"),
    [
        ("NVIDIA H100 80GB HBM3", "h100-80"),
        ("NVIDIA H200", "h200-141"),
        ("NVIDIA B200", "b200-180"),
        ("NVIDIA A100-SXM4-40GB", "a100-40"),
        ("NVIDIA A100-SXM4-80GB", "a100-80"),
        ("NVIDIA L40S", "l40s"),
        ("NVIDIA L4", "l4"),
        ("NVIDIA A10G", "a10g"),
        ("NVIDIA A10", "a10"),
        ("AMD Instinct MI300X", "mi300x"),
        ("NVIDIA GeForce GTX 1080", None),
    ],
)
def test_the_model_name_of_the_card_reports_the_tier(model, tier):
    assert tier_of_model(model, TIERS) == tier
    assert tier is None or tier in TIERS.tiers


def test_the_gpu_exporter_names_the_pod():
    gpu = entity(gpu="0", modelName=CARD, pod="vllm-0", namespace="llm")
    member = only(frame(running=[(engine(), 1.0)], gpu_util=[(gpu, 0.9)]))
    assert member.tier == "h100-80" and CARD in dict(member.why)["tier"]


@pytest.mark.parametrize("labels", [{"namespace": "other"}, {"namespace": "llm", "cluster": "eu"}])
def test_a_pod_of_the_same_name_elsewhere_is_another(labels):
    gpu = entity(gpu="0", modelName=CARD, pod="vllm-0", **labels)
    member = only(frame(running=[(engine(), 1.0)], gpu_util=[(gpu, 0.9)]))
    assert member.tier == "unknown" and not member.owns_gpu(gpu)


@pytest.mark.parametrize("label", ["Hostname", "hostname", "node"])
def test_the_gpu_exporter_names_the_node(label):
    gpu = entity(gpu="0", modelName=CARD, pod="dcgm-exporter-x", **{label: "node-1"})
    made = frame(running=[(engine(node="node-1"), 1.0), (engine("vllm-1", node="node-2"), 1.0)], gpu_util=[(gpu, 0.9)])
    first, second = resolve(made, TIERS).members
    assert (first.tier, second.tier) == ("h100-80", "unknown")


def test_a_gpu_is_of_one_pod():
    gpu = entity(gpu="0", modelName=CARD, pod="vllm-0", namespace="llm")
    made = frame(running=[(engine("vllm-0"), 1.0), (engine("vllm-1"), 1.0)], gpu_util=[(gpu, 0.9)])
    first, second = resolve(made, TIERS).members
    assert first.owns_gpu(gpu) and not second.owns_gpu(gpu)
    assert (first.tier, second.tier) == ("h100-80", "unknown")


def test_configuration_before_label_before_card():
    gpu = entity(gpu="0", modelName=CARD, pod="vllm-0")
    labelled = frame(running=[(engine(tier="l40s"), 1.0)], gpu_util=[(gpu, 0.9)])
    assert only(labelled, Assignment("vllm-0", tier="b200")).tier == "b200"
    assert only(labelled).tier == "l40s" and dict(only(labelled).why)["tier"] == "label tier"


# ---- the user's selection -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("expected", "kept"),
    [
        (FleetFilter(), ["d0", "f0"]),
        (FleetFilter(model="qwen"), ["d0", "f0"]),
        (FleetFilter(model="llama"), []),
        (FleetFilter(namespace="llm"), ["d0", "f0"]),
        (FleetFilter(namespace="other"), []),
        (FleetFilter(role="decode"), ["d0"]),
        (FleetFilter(pod="f0"), ["f0"]),
        (FleetFilter(tier="h100"), ["d0"]),
        (FleetFilter(tier="h100", role="prefill"), []),
    ],
)
def test_a_selection_keeps_what_it_names(expected, kept):
    made = frame(running=[(engine("d0", role="decode", tier="h100"), 1.0), (engine("f0", role="prefill"), 1.0)])
    assert [m.pod for m in filter(expected.keeps, resolve(made, TIERS).members)] == kept
