"""Old and new vLLM names give the same diagnosis; what an old release cannot show is said, not guessed."""

from __future__ import annotations

import gzip
from functools import cache

import pytest

from inferdoc import diagnose, open_source
from tests.conftest import recording_path
from tests.contract.labels import LABELS
from tests.judging.made import aged, stored

LABEL = {label.name: label for label in LABELS}

# The mechanism shows in the metrics of every one of these releases.
SINCE_0_9 = (
    "kv-preemption-thrash",
    "demand-beyond-capacity",
    "prefix-eviction-cascade",
    "prefix-unstable-prompt",
    "long-prefill-interference",
    "engine-hung",
    "slow-replica",
)
RELEASES = ("0.9.1", "0.11.0", "0.15.0", "0.32.0")


@cache
def text_of(name: str) -> str:
    return gzip.decompress(recording_path(name).read_bytes()).decode()


def names_in(text: str) -> set[str]:
    return {line.partition("{")[0] for line in text.splitlines() if not line.startswith("#")}


def diagnosed(text, folder, since="10m"):
    source = open_source(store=stored(text, folder))
    answer = diagnose(source, since=since)
    source.close()
    return answer


def test_the_pages_are_those_of_the_release():
    text = text_of("kv-preemption-thrash")
    old, middle, new = (names_in(aged(text, release)) for release in ("0.9.1", "0.11.0", "0.32.0"))
    assert new == names_in(text)
    assert "vllm:gpu_cache_usage_perc" in old and "vllm:kv_cache_usage_perc" not in old
    assert {"vllm:gpu_cache_usage_perc", "vllm:kv_cache_usage_perc"} <= middle, "two names at once in the overlap"
    assert "vllm:time_per_output_token_seconds_bucket" in old and "vllm:inter_token_latency_seconds_bucket" not in old
    assert "vllm:gpu_prefix_cache_hits_total" in old and "vllm:num_requests_waiting_by_reason" not in old | middle


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("name", SINCE_0_9)
def test_the_same_diagnosis_under_the_names_of_any_release(name, release, tmp_path):
    label = LABEL[name]
    answer = diagnosed(aged(text_of(name), release), tmp_path, label.since)
    assert answer.findings, answer.summary
    first = answer.findings[0]
    assert first.id in label.expected
    assert set(first.scope.pods) <= label.affected
    label.assert_onset(first)


@pytest.mark.parametrize("release", ["0.9.1", "0.15.0"])
def test_a_healthy_engine_of_an_old_release_is_left_in_peace(release, tmp_path):
    for name in ("control-kv-high", "control-ramp"):
        folder = tmp_path / name
        folder.mkdir()
        assert diagnosed(aged(text_of(name), release), folder).findings == []


@pytest.mark.parametrize(("name", "release", "cause"), [("kv-lease-expiry", "0.11.1", "kv-lease-expiry")])
def test_what_the_release_cannot_show_is_not_judged_and_says_which_release_can(name, release, cause, tmp_path):
    answer = diagnosed(aged(text_of(name), release), tmp_path)
    assert cause not in [f.id for f in answer.findings]
    (item,) = (n for n in answer.not_judged if n.id == cause)
    assert item.missing and "vLLM 0." in item.enable


def test_names_with_an_underscore_for_the_colon(tmp_path):
    """As Ray and some proxies spell them."""
    text = text_of("kv-preemption-thrash").replace("vllm:", "vllm_")
    answer = diagnosed(text, tmp_path)
    assert [f.id for f in answer.findings] == ["kv-preemption-thrash"]
