"""Pods under the names that other scrape configurations give them."""

from __future__ import annotations

import numpy as np

from inferdoc.source.base import InfoSeries, Scrapes
from inferdoc.source.frame import Entity
from inferdoc.source.identity import usual_names

ANNOTATED = {"kubernetes_pod_name": "vllm-0", "kubernetes_namespace": "llm", "instance": "10.0.0.1:8000"}
USUAL = {"pod": "vllm-0", "namespace": "llm", "instance": "10.0.0.1:8000"}


def test_names_of_annotated_pods_become_the_usual_ones():
    assert usual_names(ANNOTATED) == USUAL


def test_a_usual_name_that_is_there_stays():
    assert usual_names({"pod": "a", "kubernetes_pod_name": "b", "kubernetes_namespace": ""}) == {"pod": "a"}


def test_what_a_page_says_of_other_pods_comes_before_the_exporter_itself():
    own = {"pod": "ksm-0", "namespace": "monitoring", "exported_pod": "vllm-0", "exported_namespace": "llm"}
    assert usual_names(own) == {"pod": "vllm-0", "namespace": "llm"}
    assert usual_names({"pod": "dcgm-x", "exported_pod": ""}) == {"pod": "dcgm-x"}, "a GPU that no pod uses"


def test_a_series_of_an_annotated_pod_joins_one_of_the_same_pod():
    assert Entity.of_labels(ANNOTATED).member == Entity.of_labels(USUAL).member == ("", "llm", "vllm-0")
    none = np.empty(0)
    assert Scrapes(dict(ANNOTATED), none, none).labels == InfoSeries(dict(ANNOTATED), none).labels == USUAL
