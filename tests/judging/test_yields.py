"""Tokens per GPU-hour and the share of a benchmark's plateau."""

from __future__ import annotations

import numpy as np
import pytest

from inferdoc.judging.telemetry import tokens_per_gpu_hour, utilisation
from inferdoc.source.frame import Entity, SignalFrame, SignalMatrix
from tests.judging.frames import N, grid


def pod(name, **more):
    labels = {"namespace": "llm", "pod": name, **more}
    return Entity.of(tuple(labels), tuple(labels.values()))


def frame(gpus=True, ranks=1):
    """Two pods that generate 10 and 20 tokens/s per rank and compute 5 prompt tokens/s; p0 holds two GPUs, p1 one."""
    made = SignalFrame(grid())
    entities = [pod(name, engine=str(rank)) for name in ("p0", "p1") for rank in range(ranks)]
    rows = [np.full(N, rate) for rate in (10.0, 20.0) for _ in range(ranks)]
    made.signals["generation_tokens_rate"] = SignalMatrix(entities, np.vstack(rows))
    made.signals["prefill_tokens_rate"] = SignalMatrix([pod("p0"), pod("p1")], np.full((2, N), 5.0))
    if gpus:
        cards = [pod(name, UUID=card) for name, card in (("p0", "a"), ("p0", "b"), ("p1", "c"))]
        made.signals["gpu_util"] = SignalMatrix(cards, np.ones((3, N)))
    return made


def newest(matrix):
    return {entity.pod: float(row[-1]) for entity, row in zip(matrix.entities, matrix.values, strict=True)}


def test_tokens_are_shared_by_the_gpus_of_the_pod():
    assert newest(tokens_per_gpu_hour(frame())) == {"p0": 15 * 3600 / 2, "p1": 25 * 3600}


def test_ranks_of_a_pod_are_added():
    assert newest(tokens_per_gpu_hour(frame(ranks=2)))["p1"] == 45 * 3600


def test_without_the_gpu_exporter_it_is_absent():
    assert tokens_per_gpu_hour(frame(gpus=False)) is None


def test_the_first_plateau_that_names_the_whole_pod_counts():
    assert newest(utilisation(frame(), [("p", 1.0), ("p1", 25.0), ("p.", 40.0)])) == {
        "p0": pytest.approx(0.25),
        "p1": pytest.approx(0.8),
    }
    assert utilisation(frame(), []) is None
