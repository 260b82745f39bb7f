"""What the pods of a finding share and their like have not."""

from __future__ import annotations

import numpy as np

from inferdoc.judging.cohort_signals import shared, traits_of
from inferdoc.source.base import InfoSeries, Scrapes
from tests.judging.frames import N, catalogue, scene

PODS = ("p0", "p1", "p2", "p3")


def world(nodes, settings=None):
    """A pool of pods on nodes, as their scrape targets say it."""
    context = scene({"load": {pod: np.ones(N) for pod in PODS}})
    scrapes = [
        Scrapes({"pod": pod, "instance": pod, "job": "vllm", "node": node}, np.arange(3), np.ones(3))
        for pod, node in zip(PODS, nodes, strict=True)
    ]
    infos = {
        "vllm:cache_config_info": [
            InfoSeries({"pod": pod, "block_size": size, "hostname": pod}, np.ones(N))
            for pod, size in zip(PODS, settings or [], strict=False)
        ]
    }
    return context.view, traits_of(context.view, scrapes, catalogue().markers, infos)


def hit(view, traits, *pods):
    return shared(traits, [u for u in view.units if u.name in pods], view.units)


def test_a_node_that_only_the_sick_stand_on_is_named():
    view, traits = world(["n1", "n17", "n17", "n2"])
    assert hit(view, traits, "p1", "p2") == {"node": "n17"}


def test_a_node_with_a_healthy_pod_on_it_is_not_the_reason():
    view, traits = world(["n17", "n17", "n17", "n2"])
    assert hit(view, traits, "p1", "p2") == {}


def test_sick_pods_on_several_nodes_share_none():
    view, traits = world(["n1", "n17", "n18", "n2"])
    assert hit(view, traits, "p1", "p2") == {}


def test_one_pod_alone_shares_nothing():
    view, traits = world(["n1", "n2", "n3", "n4"])
    assert hit(view, traits, "p1") == {}


def test_a_whole_pool_shares_nothing_that_others_lack():
    view, traits = world(["n1", "n1", "n1", "n1"])
    assert hit(view, traits, *PODS) == {}


def test_a_setting_is_a_trait_too_but_only_a_declared_one():
    view, traits = world(["n1", "n2", "n3", "n4"], ["16", "32", "32", "16"])
    assert hit(view, traits, "p1", "p2") == {"block_size": "32"}
