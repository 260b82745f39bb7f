"""Longer answers where prefill and decode run apart: who decodes is short of places before a queue is read."""

from __future__ import annotations

import numpy as np
import pytest

from inferdoc.judging.judge import judge
from tests.judging.frames import N, catalogue, scene, step, wobble

DECODE = ("vllm-decode-0", "vllm-decode-1")
PREFILL = "vllm-prefill-0"


def found(answer: float, wait: float) -> list[str]:
    """The causes where answers of decode pods have so many tokens from then on, and wait so long for a place, in s."""
    both = {pod: number for number, pod in enumerate((*DECODE, PREFILL))}
    rows = {
        "request_rate": {pod: wobble(np.full(N, 2.0), seed=seed) for pod, seed in both.items()},
        "output_len_mean": {pod: wobble(step(200.0, answer), seed=seed) for pod, seed in both.items() if pod in DECODE},
        "queue_time_mean": {pod: wobble(step(0.02, wait), seed=seed) for pod, seed in both.items() if pod in DECODE},
        "ttft_mean": {pod: wobble(step(0.1, 0.1 + wait), seed=seed) for pod, seed in both.items() if pod in DECODE},
        "waiting_capacity": {pod: np.zeros(N) for pod in both},
    }
    recipe = catalogue().recipes["pd-ratio-imbalance"]
    return [root.recipe.id for root in judge(scene(rows), {recipe.id: recipe}).roots]


@pytest.mark.parametrize(
    ("answer", "wait", "expected"),
    [(450.0, 0.4, ["pd-ratio-imbalance"]), (450.0, 0.02, []), (200.0, 0.4, [])],
)
def test_waits_that_rise_with_the_answers_are_for_a_place(answer: float, wait: float, expected: list[str]):
    assert found(answer, wait) == expected
