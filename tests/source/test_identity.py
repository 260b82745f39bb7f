"""Pods under the names that other scrape configurations give them."""

from __future__ import annotations

import pytest

from inferdoc.catalogue.names import load_identity
from inferdoc.source.identity import FIELDS, Naming, address

ANNOTATED = {"kubernetes_pod_name": "vllm-0", "kubernetes_namespace": "llm", "instance": "10.0.0.1:8000"}
USUAL = {"pod": "vllm-0", "namespace": "llm", "instance": "10.0.0.1:8000"}


def usual(labels, gpu=False, **chosen):
    naming = Naming(load_identity(), chosen)
    who = naming.of(labels, naming.first(labels, gpu))
    return {name: value for name, value in zip(FIELDS, who, strict=True) if value}


def test_names_of_annotated_pods_become_the_usual_ones():
    assert usual(ANNOTATED) == usual(USUAL) == USUAL


def test_a_usual_name_that_is_there_stays():
    assert usual({"pod": "a", "kubernetes_pod_name": "b", "kubernetes_namespace": ""}) == {"pod": "a"}


def test_what_a_page_says_of_other_pods_comes_before_the_exporter_itself():
    own = {"pod": "ksm-0", "namespace": "monitoring", "exported_pod": "vllm-0", "exported_namespace": "llm"}
    assert usual(own) == {"pod": "vllm-0", "namespace": "llm"}
    assert usual({"pod": "dcgm-x", "exported_pod": ""}) == {"pod": "dcgm-x"}, "a GPU that no pod uses"


def test_a_page_that_names_namespaces_and_no_pods():
    own = {"pod": "ksm-0", "namespace": "monitoring", "exported_namespace": "llm"}
    assert usual(own) == {"pod": "ksm-0", "namespace": "llm"}


def test_the_pod_of_whoever_handed_a_series_on_is_not_meant():
    own = {"pod": "prometheus-0", "namespace": "monitoring", "exported_instance": "10.0.0.1:8000", "instance": "p:9090"}
    assert usual(own) == {"instance": "10.0.0.1:8000"}
    told = own | {"kubernetes_pod_name": "vllm-0", "kubernetes_namespace": "llm"}
    assert usual(told) == USUAL


def test_names_of_opentelemetry_come_before_the_collector():
    own = {"pod": "otel-0", "namespace": "otel", "k8s_pod_name": "vllm-0", "k8s_namespace_name": "llm"}
    assert usual(own | {"k8s_cluster_name": "eu", "cluster": "hub"}) == {
        "cluster": "eu",
        "namespace": "llm",
        "pod": "vllm-0",
    }


def test_old_names_of_dcgm_are_names_of_pods_on_pages_of_gpus_only():
    own = {"pod_name": "vllm-0", "pod_namespace": "llm"}
    assert usual(own, gpu=True) == {"namespace": "llm", "pod": "vllm-0"}
    assert usual(own) == {}


def test_a_label_of_ones_own_comes_first():
    own = {"pod": "a", "namespace": "n", "app_pod": "b", "team": "t", "region": "eu", "cluster": "c"}
    assert usual(own, pod="app_pod", cluster="region") == {"cluster": "eu", "namespace": "n", "pod": "b"}
    assert usual(own, namespace="team") == {"cluster": "c", "namespace": "t", "pod": "a"}
    assert usual({"pod": "a"}, pod="app_pod") == {"pod": "a"}


@pytest.mark.parametrize(
    ("instance", "host"),
    [
        ("10.0.0.1:8000", "10.0.0.1"),
        ("gpu-1", "gpu-1"),
        ("http://gpu-1:8000/metrics", "gpu-1"),
        ("[2001:db8::1]:8000", "2001:db8::1"),
        ("2001:db8::1", "2001:db8::1"),
        ("", ""),
    ],
)
def test_the_host_of_an_address(instance, host):
    assert address(instance) == host
