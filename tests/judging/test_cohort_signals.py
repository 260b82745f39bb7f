"""Signals that compare a pod with groups it belongs to, and conditions asked of every GPU of a pod."""

from __future__ import annotations

import msgspec
import numpy as np

from inferdoc.catalogue.signal import Reading
from inferdoc.fleet.members import Fleet, Member, Pool
from inferdoc.judging.cohort_signals import add_cohorts
from inferdoc.judging.conditions import evaluate
from inferdoc.judging.context import Context
from inferdoc.judging.telemetry import add_telemetry
from inferdoc.judging.view import make_view
from inferdoc.source.assemble import _label_value, _moved
from inferdoc.source.base import InfoSeries
from inferdoc.source.frame import Entity, SignalFrame, SignalMatrix
from tests.judging.frames import CLOCK, SIGNALS, N, catalogue, declared, grid, when

T = 4


def fleet(**tiers: str) -> Fleet:
    return Fleet([Member(("", "ns", pod), "", "", Pool("", "ns", "m", "both", tier)) for pod, tier in tiers.items()])


def made(cohort: str, rows: dict[tuple[str, str], list[float]], who: Fleet, floor: float = 0.1) -> dict[str, list]:
    """rows: (pod, engine) -> values of a signal."""
    signals = {
        "of": declared("of", floor=floor),
        "it": msgspec.structs.replace(declared("it"), readings=(Reading(cohort=cohort, of="of"),)),  # type: ignore[arg-type]
    }
    names = ("namespace", "pod", "engine")
    entities = [Entity.of(names, ("ns", pod, engine)) for pod, engine in rows]
    frame = SignalFrame(grid(T), {"of": SignalMatrix(entities, np.array(list(rows.values()), dtype=float))})
    add_cohorts(frame, signals, who)
    if "it" not in frame:
        return {}
    return {str(e): v.tolist() for e, v in zip(frame["it"].entities, frame["it"].values, strict=True)}


def test_a_slow_tier_is_measured_against_the_fastest_other():
    who = fleet(a="h100", b="h100", c="a100", d="l4")
    rows = {("a", ""): [1.0] * T, ("b", ""): [3.0] * T, ("c", ""): [4.0] * T, ("d", ""): [9.0] * T}
    found = made("over-other-tiers", rows, who)
    assert found["d"] == [9 / 2] * T, "the median of the h100 pods is 2"
    assert found["c"] == [2.0] * T
    assert found["a"] == [0.25] * T, "the fastest other tier is the a100"
    assert made("other-tiers", rows, who)["d"] == [2.0] * T
    assert made("blend", rows, who)["a"] == [(1 + 3 + 4 + 9) / 4] * T


def test_one_tier_has_nothing_to_compare_with():
    who = fleet(a="h100", b="h100")
    assert made("over-other-tiers", {("a", ""): [1.0] * T, ("b", ""): [3.0] * T}, who) == {}


def test_a_rank_is_measured_against_the_others_of_its_pod():
    who = fleet(a="h100", b="h100")
    rows = {("a", "0"): [2.0] * T, ("a", "1"): [8.0] * T, ("a", "2"): [2.0] * T, ("b", "0"): [50.0] * T}
    found = made("over-ranks", rows, who)
    assert found["a engine=1"] == [4.0] * T
    assert found["a"] == [2 / 5] * T
    assert "b" not in found
    assert made("ranks-skew", rows, who)["a engine=2"] == [4.0] * T


def test_nothing_over_next_to_nothing_is_no_ratio():
    who = fleet(a="h100")
    found = made("over-ranks", {("a", "0"): [0.0] * T, ("a", "1"): [1.0] * T}, who, floor=1.0)
    assert found["a engine=1"] == [1.0] * T


def test_the_odd_settings_are_those_of_the_minority():
    who = fleet(a="x", b="x", c="x")
    found = made("unlike", {("a", ""): [7.0] * T, ("b", ""): [7.0] * T, ("c", ""): [9.0, 9.0, 7.0, np.nan]}, who)
    assert found["a"] == [0.0] * T
    assert found["c"][:3] == [1.0, 1.0, 0.0] and np.isnan(found["c"][3])
    assert made("unlike", {("a", ""): [7.0] * T, ("b", ""): [9.0] * T}, fleet(a="x", b="x"))["a"] == [1.0] * T
    assert set(made("unlike", {("a", ""): [7.0] * T, ("b", ""): [7.0] * T}, fleet(a="x", b="x"))["b"]) == {0.0}


def test_moved_counts_settings_against_the_first_ones_and_leaves_out_what_one_side_lacks():
    late, early = np.array([np.nan, 1.0]), np.array([1.0, np.nan])
    first = InfoSeries({"block_size": "16", "cache_dtype": "auto", "old_only": "1"}, early)
    then = InfoSeries({"block_size": "32", "cache_dtype": "fp8", "new_only": "1"}, late)
    reading = Reading(info="i", moved=("block_size", "cache_dtype", "old_only", "new_only"))
    assert _moved(reading, [then, first]).tolist() == [0.0, 2.0]


def test_containers_of_a_pod_are_compared_each_with_itself():
    images = [
        ("vllm", "vllm:0.17", [1.0, np.nan]),
        ("vllm", "vllm:0.19", [np.nan, 1.0]),
        ("proxy", "envoy:1", [1.0, 1.0]),
    ]
    series = [InfoSeries({"container": name, "image": image}, np.array(row)) for name, image, row in images]
    reading = Reading(info="kube_pod_container_info", moved=("image",))
    assert _moved(reading, series).tolist() == [0.0, 1.0]
    assert _moved(reading, series[::2]).tolist() == [0.0, 0.0]


def test_an_identity_is_that_of_its_labels_alone():
    reading = Reading(info="i", identity=("block_size",))
    one = _label_value(reading, {"block_size": "16", "pod": "a"})
    assert one == _label_value(reading, {"block_size": "16", "pod": "b"})
    assert one != _label_value(reading, {"block_size": "32"})


def gpu_frame(rows: dict[tuple[str, str], np.ndarray], signal: str = "heat") -> SignalFrame:
    names = ("namespace", "pod", "gpu", "Hostname")
    entities = [Entity.of(names, ("ns", pod, gpu, "node-0")) for pod, gpu in rows]
    return SignalFrame(grid(), {signal: SignalMatrix(entities, np.vstack(list(rows.values())))})


def test_one_gpu_of_a_pod_is_enough_and_is_named():
    hot = np.r_[np.full(40, 50.0), np.full(N - 40, 90.0)]
    who = fleet(p="x", q="x")
    frame = gpu_frame({("p", "0"): np.full(N, 50.0), ("p", "1"): hot, ("q", "2"): np.full(N, 50.0)})
    view = make_view(frame, who)
    context = Context(view, SIGNALS, catalogue().tiers, CLOCK)
    for condition in (when("heat", above=80), when("heat", rises=1.5)):
        yes, no = (evaluate(condition, context, unit) for unit in view.units)
        assert yes.holds and yes.entity == "p gpu 1" and yes.first == 40
        assert no.holds is False


def test_a_gpu_is_lost_while_its_node_still_shows_others():
    gone = np.r_[np.full(40, 0.5), np.full(N - 40, np.nan)]
    rows = {("p", "0"): gone, ("q", "1"): np.full(N, 0.5)}
    frame = gpu_frame(rows, "gpu_util")
    add_telemetry(frame, catalogue().signals, [])
    lost = {e.pod: v for e, v in zip(frame["lost_gpus"].entities, frame["lost_gpus"].values, strict=True)}
    assert lost["p"][:40].max() == 0 and lost["p"][40:].min() == 1
    assert lost["q"].max() == 0
    whole = gpu_frame({("p", "0"): gone, ("q", "1"): gone}, "gpu_util")
    add_telemetry(whole, catalogue().signals, [])
    assert np.nanmax(whole["lost_gpus"].values) == 0, "the exporter is gone, not the GPUs"
