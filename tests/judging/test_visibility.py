"""Why a signal or a cause is not visible, told from what the catalogue declares of its series."""

from __future__ import annotations

import pytest

from inferdoc.catalogue.tables import version
from inferdoc.judging.visibility import Visibility, gains
from tests.judging.frames import catalogue

ENGINE = {
    "vllm:num_requests_running",
    "vllm:request_success_total",
    "vllm:prompt_tokens_total",
    "DCGM_FI_DEV_GPU_UTIL",
    "llm_d_epp_request_total",
    *(name for name in catalogue().flags.landmarks),
}


def seen(*names: str, without: tuple[str, ...] = (), visible: tuple[str, ...] = ()) -> Visibility:
    return Visibility(catalogue(), {*ENGINE, *names} - set(without), set(visible))


NEWEST = max(catalogue().flags.landmarks, key=lambda name: version(catalogue().flags.landmarks[name]))


@pytest.mark.parametrize(
    ("signal", "source", "kind", "words"),
    [
        ("spec_acceptance_rate", seen(), "off", "--speculative-config"),
        ("throttle_reasons", seen(), "blind", "add DCGM_FI_DEV_CLOCKS_EVENT_REASONS"),
        ("throttle_reasons", seen(without=("DCGM_FI_DEV_GPU_UTIL",)), "blind", "scrape the NVIDIA DCGM exporter"),
        ("hpa_desired", seen(), "blind", "scrape the llm-d autoscaler or kube-state-metrics"),
        ("router_errors", seen(), "later", "llm_d_epp_request_error_total comes with its first event"),
        ("admission_rejections_rate", seen(without=(NEWEST,)), "blind", "vLLM 0.32 or later has it"),
        ("kv_usage", seen(), "blind", "is it dropped by metric_relabel_configs?"),
        (
            "kv_usage",
            seen("dynamo_component_requests_total"),
            "blind",
            "Dynamo worker shows a part of the metrics of vLLM",
        ),
        ("ttft_mean", seen("vllm:time_to_first_token_seconds_count"), "later", "no value in the window"),
        ("itl_over_other_tiers", seen(visible=("itl_mean",)), "off", "one hardware tier"),
    ],
)
def test_a_signal_is_absent_for_a_reason(signal: str, source: Visibility, kind: str, words: str) -> None:
    reason = source.absence(signal)
    assert reason.kind == kind and words in reason.remedy, reason


def test_a_feature_that_is_in_use_is_not_off() -> None:
    """Another series of the NIXL connector is there: what is missing is one that the release lacks."""
    source = seen("vllm:nixl_xfer_time_seconds_count", without=(NEWEST,))
    assert seen().absence("nixl_late_notifications_rate").kind == "off"
    assert source.absence("nixl_late_notifications_rate").kind == "blind"


def test_every_signal_has_a_reason_and_a_cure() -> None:
    for source in (seen(), Visibility(catalogue(), set(), set())):
        assert all(source.absence(name).remedy for name in catalogue().signals)


def test_nothing_is_missing_where_all_is_visible() -> None:
    whole = Visibility(catalogue(), ENGINE, catalogue().signals)
    assert all(whole.judges(recipe) and not whole.lacking(recipe) for recipe in catalogue().recipes.values())


def test_what_a_cure_gains_can_then_be_judged() -> None:
    source = seen(visible=tuple(name for name in catalogue().signals if not name.startswith(("hpa_", "throttle"))))
    cures = gains(source, catalogue().recipes.values(), [s for s in catalogue().signals if s not in source.visible])
    for cure, names in cures.items():
        more = [s for s in catalogue().signals if s not in source.visible and source.absence(s).remedy == cure]
        for name in names:
            assert not source.judges(catalogue().recipes[name])
            assert source.judges(catalogue().recipes[name], more)
    assert list(map(len, cures.values())) == sorted(map(len, cures.values()), reverse=True) and any(cures.values())


def test_of_alternatives_the_easiest_counts_and_of_needs_the_hardest() -> None:
    corrupted = catalogue().recipes["silent-output-corruption"]
    assert seen().reason(corrupted).remedy == "set VLLM_COMPUTE_NANS_IN_LOGITS=1"
    assert seen().reason(catalogue().recipes["spec-acceptance-decay"]).kind == "off"


def test_only_models_with_experts_are_advised_to_balance_them():
    """A Llama without experts has nothing to balance; of a model that nobody knows both are possible."""
    named = catalogue()
    assert [named.is_dense(name) for name in ("meta-llama/Llama-3.3-70B-Instruct", "qwen3-30b-a3b", "own")] == [
        *(True, False, False)
    ]
    dense = Visibility(named, ENGINE, set(), dense=True)
    assert (dense.absence("eplb_balancedness").kind, seen().absence("eplb_balancedness").kind) == ("off", "blind")
