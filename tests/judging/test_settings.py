"""The undo of a step names the values that the engines show."""

from __future__ import annotations

import numpy as np
import pytest

from inferdoc import diagnose
from inferdoc.catalogue.load import load_catalogue
from inferdoc.judging.settings import PREVIOUS, newest_settings, settings_of, with_previous
from inferdoc.source.base import InfoSeries
from inferdoc.source.frame import Entity
from inferdoc.source.store_source import StoreSource


def series(pod: str, values: list[float], **labels: str) -> InfoSeries:
    return InfoSeries({"namespace": "llm", "pod": pod, **labels}, np.array(values))


SHOWN = {
    "gpu_memory_utilization": "0.92", "cache_dtype": "auto", "block_size": "16", "enable_prefix_caching": "False",
    "kv_cache_memory_bytes": "None", "prefix_caching_hash_algo": "sha256; rm -rf /",
}  # fmt: skip


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (("--gpu-memory-utilization",), "--gpu-memory-utilization 0.92"),
        (("--kv-cache-dtype",), "--kv-cache-dtype auto"),
        (("--block-size", "--chat-template"), "--block-size 16"),
        (("--enable-prefix-caching",), "--no-enable-prefix-caching"),
        (("--no-enable-prefix-caching",), "--no-enable-prefix-caching"),
        (("--kv-cache-memory-bytes",), "the previous value"),
        (("--max-num-seqs",), "the previous value"),
        (("--prefix-caching-hash-algo",), "--prefix-caching-hash-algo 'sha256; rm -rf /'"),
    ],
)
def test_values_are_named_where_they_are_shown(flags: tuple[str, ...], said: str) -> None:
    assert with_previous("redeploy with {previous}", flags, SHOWN) == f"redeploy with {said}"


def test_the_newest_labels_of_a_pod_count() -> None:
    nan = float("nan")
    settings = newest_settings(
        [
            series("a", [nan, nan, 1.0], gpu_memory_utilization="0.8"),
            series("a", [1.0, 1.0, nan], gpu_memory_utilization="0.9"),
            series("b", [1.0, 1.0, 1.0], gpu_memory_utilization="0.5"),
        ]
    )
    pod = Entity.of_labels({"namespace": "llm", "pod": "a"}).member
    assert settings_of(settings, pod)["gpu_memory_utilization"] == "0.8"
    assert settings_of(settings, ("", "llm", "unknown")) == {}


def test_a_step_that_names_the_previous_value_has_a_flag() -> None:
    steps = [step for recipe in load_catalogue().recipes.values() for step in recipe.next_steps]
    naming = [step for step in steps if f"{{{PREVIOUS}}}" in step.undo]
    assert naming and all(step.flags for step in naming)


def test_a_finding_says_how_the_memory_was_set(simulated) -> None:
    answer = diagnose(StoreSource(simulated.of("engine-oom").store))
    undo = [step.undo for finding in answer.findings for step in finding.next_steps]
    assert any(text.startswith("redeploy with --gpu-memory-utilization 0.") for text in undo), undo
