"""Failure headroom: the share at which the peak stands, whether it holds, and what would make it hold."""

from __future__ import annotations

import pytest

from inferdoc.headroom.room import Whereabouts, losses, lost_with
from tests.headroom.made import reading


@pytest.mark.parametrize(
    ("peak", "replicas", "share", "holds", "more"),
    [
        (24.0, 3, 1.0, "yes", 0),  # exactly as much as two carry
        (25.0, 3, 25 / 24, "no", 1),
        (49.0, 3, 49 / 24, "no", 3),  # needs 5 with one lost
        (20.0, 3, 20 / 24, "yes", 0),
    ],
)
def test_one_pod_lost_is_the_peak_over_what_the_others_carry(peak, replicas, share, holds, more):
    lost = lost_with(reading(peak, 12.0, replicas), "one pod", "", 1)
    assert lost.share is not None and lost.share.value == pytest.approx(share)
    assert (lost.holds, lost.more.value, lost.left) == (holds, more, replicas - 1)


def test_between_the_ends_of_the_knee_it_is_unsure_and_the_low_end_says_what_to_add():
    lost = lost_with(reading(25.0, 12.0, 3, band=(11.0, 13.0)), "one pod", "", 1)
    assert lost.holds == "unsure" and lost.more.value == 1
    assert lost.share is not None
    assert (lost.share.low, lost.share.value) == (pytest.approx(25 / 26), pytest.approx(25 / 22))


def test_a_lower_bound_proves_that_it_holds_and_never_that_it_does_not():
    assert lost_with(reading(24.0, verdict="at least"), "one pod", "", 1).holds == "yes"
    beyond = lost_with(reading(30.0, verdict="at least"), "one pod", "", 1)
    assert beyond.holds == "unsure" and "more than was ever seen" in beyond.because


def test_the_only_replica_leaves_nothing_and_no_share():
    lost = lost_with(reading(5.0, 12.0, 1), "one pod", "", 1)
    assert lost.share is None and lost.holds == "no" and lost.more.value == 1


def test_the_node_and_the_zone_with_most_of_its_pods_are_lost_whole():
    pool = reading(30.0, 12.0, 5)
    nodes = dict(zip(pool.ready, ("a", "b", "b", "c", "b"), strict=True))
    zones = dict.fromkeys(pool.ready, "z1")
    doubts: list[str] = []
    pod, node, zone = losses(pool, Whereabouts(nodes, zones), doubts)
    assert not doubts
    assert (pod.replicas, pod.holds) == (1, "yes")
    assert (node.name, node.replicas, node.holds, node.more.value) == ("b", 3, "no", 1)
    assert (zone.name, zone.replicas, zone.share, zone.more.value) == ("z1", 5, None, 3)


def test_a_place_that_nothing_tells_is_a_doubt_with_what_to_collect_and_no_number():
    pool = reading(30.0, 12.0, 3)
    doubts: list[str] = []
    (only,) = losses(pool, Whereabouts({pool.ready[0]: "a"}), doubts)
    assert only.what == "one pod"
    node, zone = doubts
    assert "the node of 2 pods" in node and "kube_pod_info" in node
    assert "the zone of its pods" in zone and "topology.kubernetes.io/zone" in zone
