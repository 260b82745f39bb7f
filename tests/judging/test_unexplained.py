"""Harm without a known cause: which harm counts, where it stands, and what is read to tell of it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from inferdoc import diagnose, open_source
from inferdoc.catalogue.load import Catalogue
from inferdoc.judging.api import Options
from inferdoc.judging.judge import judge
from inferdoc.source.assemble import read_signals
from tests.conftest import store_of_file
from tests.judging.frames import CALM, N, catalogue, scene, step, wobble

ODD = catalogue().recipes["unexplained-anomaly"]
PODS = ("p0", "p1", "p2")


def level(value: float, seed: int = 1) -> np.ndarray:
    return wobble(np.full(N, value), seed=seed)


def healthy() -> dict[str, dict[str, np.ndarray]]:
    """A fleet that nothing is wrong with, and its router."""
    flat = {"ttft_mean": 0.2, "itl_mean": 0.02, "e2e_mean": 4.0, "served_rate": 2.0, "generation_tokens_rate": 400.0}
    rows = {name: {p: level(value, i) for i, p in enumerate(PODS)} for name, value in flat.items()}
    rows |= {name: {p: level(500.0, i) for i, p in enumerate(PODS)} for name in ("prompt_tokens_rate",)}
    rows |= {"target_up": {p: np.ones(N) for p in PODS}, "request_rate": {p: level(2.0) for p in PODS}}
    return rows | {"router_ttft_mean": {"p0": level(0.21)}, "router_request_rate": {"p0": level(6.0)}}


def hurt(rows):
    """The pods of every finding."""
    context = scene(rows)
    return [sorted(key[2] for key in root.pods) for root in judge(context, {ODD.id: ODD}).roots]


def test_a_healthy_fleet_is_silent():
    assert hurt(healthy()) == []


@pytest.mark.parametrize(
    ("signal", "moved"),
    [
        ("router_ttft_mean", {"p0": wobble(step(0.21, 2.0))}),
        ("router_no_endpoint_rate", {"p0": step(0.0, 1.0)}),
        ("router_flow_rejects", {"p0": step(0.0, 0.5)}),
    ],
)
def test_harm_at_the_router_speaks_for_the_pods_behind_it(signal, moved):
    assert hurt(healthy() | {signal: moved}) == [list(PODS)]


@pytest.mark.parametrize(
    ("signal", "values"),
    [
        ("corrupted_rate", step(0.0, 0.2)),
        ("rejected_share", step(0.0, 0.2)),
        ("tool_calls_missed_share", wobble(step(0.1, 0.6))),
        ("nixl_expired_share", step(0.0, 0.3)),
        ("target_up", step(1.0, 0.0)),
        ("ttft_mean", wobble(step(0.2, 1.0))),
    ],
)
def test_harm_at_a_pod_is_told_of_that_pod(signal, values):
    rows = healthy()
    rows[signal] = {**rows.get(signal, {p: np.full(N, 0.1) * 0 for p in PODS}), "p1": values}
    assert hurt(rows) == [["p1"]]


def test_requests_that_end_without_a_token_have_failed():
    rows = healthy()
    rows["output_len_mean"] = {"p0": level(200.0), "p1": np.zeros(N), "p2": level(200.0)}
    rows["generation_tokens_rate"]["p1"] = np.zeros(N)
    assert hurt(rows) == [["p1"]]


def test_a_model_that_makes_no_tokens_anywhere_is_well():
    rows = healthy()
    rows["output_len_mean"] = {p: np.zeros(N) for p in PODS}
    rows["generation_tokens_rate"] = {p: np.zeros(N) for p in PODS}
    assert hurt(rows) == []


def test_harm_at_a_pod_is_the_place_of_what_the_router_sees():
    rows = healthy()
    rows["ttft_mean"]["p1"] = wobble(step(0.2, 1.0))
    rows["router_ttft_mean"] = {"p0": wobble(step(0.21, 0.5))}
    assert hurt(rows) == [["p1"]]


def test_a_known_cause_behind_the_router_is_what_the_router_sees():
    rows = healthy()
    rows["target_up"]["p1"] = step(1.0, 0.0)
    rows["router_no_endpoint_rate"] = {"p0": step(0.0, 1.0)}
    known = {name: catalogue().recipes[name] for name in ("engine-down", ODD.id)}
    assert [root.recipe.id for root in judge(scene(rows), known).roots] == ["engine-down"]


def test_more_traffic_at_the_router_takes_longer_and_is_no_harm():
    rows = healthy()
    rows["router_ttft_mean"] = {"p0": wobble(step(0.21, 0.4))}
    rows["router_request_rate"] = {"p0": wobble(step(6.0, 12.0))}
    assert hurt(rows) == []


def test_longer_prompts_take_longer_and_are_no_harm():
    """A little more of both, requests and length, is a quarter more prompt tokens."""
    rows = healthy()
    rows["ttft_mean"]["p1"] = wobble(step(0.2, 0.4))
    rows["router_ttft_mean"] = {"p0": wobble(step(0.21, 0.4))}
    assert hurt(rows) == [["p1"]]
    rows["prompt_tokens_rate"] = {p: wobble(step(500.0, 620.0), seed=i) for i, p in enumerate(PODS)}
    assert hurt(rows) == []


def test_late_first_tokens_count_where_nobody_tells_the_length_of_prompts():
    rows = healthy()
    rows["router_ttft_mean"] = {"p0": wobble(step(0.21, 0.4))}
    del rows["prompt_tokens_rate"]
    assert hurt(rows) == [list(PODS)]


def test_first_tokens_three_times_as_late_at_the_router_are_more_than_traffic():
    rows = healthy()
    rows["router_ttft_mean"] = {"p0": wobble(step(0.21, 1.3))}
    rows["router_request_rate"] = {"p0": wobble(step(6.0, 12.0))}
    assert hurt(rows) == [list(PODS)]


def test_a_router_that_is_throttled_while_engines_are_on_time_is_the_bottleneck():
    rows = healthy()
    rows["router_ttft_mean"] = {"p0": wobble(step(0.21, 1.3))}
    known = {name: catalogue().recipes[name] for name in ("router-overloaded", ODD.id)}
    for share, first in ((0.02, ODD.id), (0.6, "router-overloaded")):
        rows["router_cpu_throttled_share"] = {"p0": wobble(step(0.02, share))}
        assert judge(scene(rows), known).roots[0].recipe.id == first


def test_a_pod_that_comes_back_was_a_restart():
    rows = healthy()
    rows["target_up"]["p1"] = step(1.0, 0.0, until=CALM + 15)
    assert hurt(rows) == []


RECORDING = Path(__file__).parents[2] / "fixtures" / "recordings" / "spec-acceptance-decay.om.gz"


def test_signals_that_no_recipe_asks_for_are_read_when_nothing_known_fits():
    asked: list[set[str]] = []

    def watched(source, wanted, *more, **named):
        asked.append(set(wanted))
        return read_signals(source, wanted, *more, **named)

    less = Catalogue()
    named = ("spec-acceptance-decay", "prompt-growth")
    less.__dict__["recipes"] = {name: one for name, one in catalogue().recipes.items() if name not in named}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("inferdoc.judging.session.read_signals", watched)
        for known, unnamed in ((less, True), (catalogue(), False)):
            asked.clear()
            source = open_source(store=store_of_file(RECORDING))
            answer = diagnose(source, since="10m", until="latest", options=Options(catalogue=known))
            assert any("spec_acceptance_at_pos2" in names for names in asked) == unnamed and answer.findings
