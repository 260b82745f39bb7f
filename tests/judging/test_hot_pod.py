"""One pod gets far more than its peers: by a popular prefix only where something sends by prefixes."""

from __future__ import annotations

import numpy as np
import pytest

from inferdoc.judging.judge import judge
from tests.judging.frames import N, catalogue, scene, step, wobble

PODS = ("p0", "p1", "p2", "p3")
HOT, IMBALANCE = "prefix-hot-replica", "routing-imbalance"


def found(**router: np.ndarray) -> set[str]:
    """The causes where p0 is sent three times as much as before and hits more prefixes. router: what it shows."""
    rows = {
        "request_rate": {p: wobble(step(1.0, 3.0 if p == "p0" else 0.4), seed=i) for i, p in enumerate(PODS)},
        "prompt_tokens_rate": {
            p: wobble(step(900.0, 2700.0 if p == "p0" else 350.0), seed=i) for i, p in enumerate(PODS)
        },
        "prefix_hit_ratio": {p: wobble(step(0.4, 0.5 if p == "p0" else 0.2), seed=i) for i, p in enumerate(PODS)},
        "ttft_mean": {p: wobble(step(0.1, 3.0 if p == "p0" else 0.1), seed=i) for i, p in enumerate(PODS)},
    }
    context = scene(rows | {name: {"p0": values} for name, values in router.items()})
    recipes = {name: catalogue().recipes[name] for name in (HOT, IMBALANCE)}
    return {root.recipe.id for root in judge(context, recipes).roots}


def test_without_a_router_in_sight_the_hits_tell():
    assert found() == {HOT}


@pytest.mark.parametrize("index", ["router_prefix_lookups_rate", "router_index_hits"])
def test_a_router_with_an_index_of_prefixes_sends_by_them(index: str):
    assert found(router_request_rate=np.full(N, 4.0), **{index: np.full(N, 4.0)}) == {HOT}


def test_a_router_without_one_sends_for_another_reason():
    assert found(router_request_rate=np.full(N, 4.0)) == {IMBALANCE}
