"""Which series of a server are read where a part of its pods is."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import pytest

from inferdoc.catalogue.names import load_identity
from inferdoc.source.kept_series import LONGEST_EXPRESSION, KeepsSeries, matchers_of, matchers_of_targets, word_of

SPAN = (0, 1000)


class Labels(KeepsSeries):
    """A server with these series: by name, their labels."""

    def __init__(self, series: Mapping[str, Sequence[Mapping[str, str]]]) -> None:
        self.series = series

    def keep_only(self, matchers):
        raise AssertionError("who finds the matchers does not set them")

    def label_values(self, label, what, start_ms, end_ms):
        name, _, inside = what.partition("{")
        wanted = dict(re.findall(r'(\w+)=~"((?:[^"\\]|\\.)*)"', inside))
        rows = self.series.get(name, ())
        kept = [
            row for row in rows if all(re.fullmatch(p.replace("\\\\", "\\"), row.get(n, "")) for n, p in wanted.items())
        ]
        return {row[label] for row in kept if row.get(label)}


def found(series, pods, clusters=("",)):
    return matchers_of(Labels(series), load_identity(), series, pods, clusters, SPAN)


ENGINES = {
    "vllm:num_requests_running": [
        {"pod": "a-0", "instance": "10.0.0.1:8000"},
        {"pod": "b-0", "instance": "10.0.0.2:8000"},
    ]
}


def test_pods_are_named_by_the_label_that_has_them():
    gpus = [
        {"pod": "dcgm-x", "exported_pod": "a-0", "instance": "n1:9400"},
        {"exported_pod": "b-0", "instance": "n2:9400"},
    ]
    matchers = found({**ENGINES, "DCGM_FI_DEV_GPU_UTIL": gpus}, ["a-0"])
    assert matchers["vllm"] == (("pod", "=~", "a-0|"),)
    assert matchers["DCGM"] == (("exported_pod", "=~", "a-0|"),)
    assert matchers["up"] == (("instance", "=~", "10\\.0\\.0\\.1:8000|n1:9400"),)
    assert matchers["process"] == matchers["up"]


def test_exporters_that_name_none_of_the_pods_stay_whole():
    router = {
        "llm_d_epp_request_total": [{"name": "pool", "instance": "r:9090"}, {"name": "other", "instance": "s:9090"}]
    }
    matchers = found({**ENGINES, **router}, ["a-0"])
    assert "llm" not in matchers
    assert matchers["up"][0][2] == "10\\.0\\.0\\.1:8000|r:9090|s:9090"


def test_a_metric_of_nodes_does_not_hide_the_pods_of_its_exporter():
    kube = {
        "kube_node_labels": [{"node": "n1", "instance": "k:8080"}],
        "kube_pod_info": [{"exported_pod": "a-0", "pod": "kube-state-metrics-0", "instance": "k:8080"}],
    }
    assert found({**ENGINES, **kube}, ["a-0"])["kube"] == (("exported_pod", "=~", "a-0|"),)


def test_too_many_pods_are_all_read():
    pods = [f"pod-{number}" for number in range(LONGEST_EXPRESSION // 5)]
    assert found(ENGINES, pods) == {}


@pytest.mark.parametrize(
    ("name", "word"), [("vllm:kv_cache_usage_perc", "vllm"), ("up", "up"), ("DCGM_FI_DEV_SM_CLOCK", "DCGM")]
)
def test_exporters_are_known_by_the_first_word(name, word):
    assert word_of(name) == word


def test_a_pod_of_the_same_name_in_another_cluster_is_not_read():
    series = {
        "vllm:num_requests_running": [
            {"cluster": cluster, "pod": "a-0", "instance": f"10.0.0.{number}:8000"}
            for number, cluster in enumerate(("eu", "us"))
        ]
    }
    matchers = found(series, ["a-0"], clusters=["eu"])
    assert matchers["vllm"] == (("pod", "=~", "a-0|"), ("cluster", "=~", "eu|"))
    assert matchers["up"] == (("instance", "=~", "10\\.0\\.0\\.0:8000"), ("cluster", "=~", "eu|"))


def test_targets_of_two_clusters_may_have_one_address():
    kept = [{"cluster": "eu", "instance": "10.0.0.1:8000"}, {"cluster": "us", "instance": "10.0.0.1:8000"}]
    assert matchers_of_targets(kept[:1]) == (("instance", "=~", "10\\.0\\.0\\.1:8000"), ("cluster", "=~", "eu|"))
    assert matchers_of_targets(kept)[1] == ("cluster", "=~", "eu|us|")
    assert matchers_of_targets([{"instance": "a:1"}, *kept]) == (("instance", "=~", "10\\.0\\.0\\.1:8000|a:1"),)


def test_targets_that_cannot_be_named_are_not_chosen_by_name():
    assert matchers_of_targets([]) == matchers_of_targets([{"job": "vllm"}]) == ()
    longest, longer = "a" * LONGEST_EXPRESSION, "a" * (LONGEST_EXPRESSION + 1)
    assert matchers_of_targets([{"instance": longest}]) == (("instance", "=~", longest),)
    assert matchers_of_targets([{"instance": longer}]) == ()
