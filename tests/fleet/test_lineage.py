"""Who took over from whom, told from names, births and ends."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from inferdoc.fleet.down_targets import add_silent
from inferdoc.fleet.lineage import Life, Lineage, divide, trace
from inferdoc.fleet.members import Fleet, Member, Pool, resolve
from inferdoc.fleet.workloads import workload
from inferdoc.source.base import Scrapes
from inferdoc.source.frame import Entity, SignalMatrix
from tests.judging.frames import START_MS, N, catalogue, frame_of

OLD, NEW = "llama-6d4b75cb6d-h8pcq", "llama-7f9c4d5b8f-2xk9z"


def alive(first: int, last: int) -> np.ndarray:
    """float64[N]: 1 from step `first` to `last`, NaN elsewhere."""
    row = np.full(N, np.nan)
    row[first : last + 1] = 1.0
    return row


def lineage_of(lives: dict[str, tuple[int, int]], owners=None):
    frame = frame_of({"running": {pod: alive(*life) for pod, life in lives.items()}})
    fleet = resolve(frame, catalogue().tiers)
    return trace(frame, fleet, owners=owners), fleet


def places(lineage) -> dict[str, str]:
    return {new[2]: old.pod for new, old in lineage.predecessor.items()}


@pytest.mark.parametrize(
    ("pod", "expected"),
    [
        (OLD, ("llama", "6d4b75cb6d")),
        ("llama-70b-chat-6d4b75cb6d-h8pcq", ("llama-70b-chat", "6d4b75cb6d")),
        ("vllm-0", ("vllm", "")),
        ("lws-decode-0-1", ("lws-decode", "")),
        ("10.0.0.7:8000", ("10.0.0.7:8000", "")),
    ],
)
def test_a_name_reports_workload_and_template(pod, expected):
    assert workload(pod) == expected


def test_an_owner_reports_more_than_a_name():
    assert workload("odd", {"odd": "llama"}) == ("llama", "")
    assert workload(OLD, {OLD: "chat-6d4b75cb6d"}) == ("chat", "6d4b75cb6d")


def test_a_newborn_takes_the_place_of_who_left():
    lineage, fleet = lineage_of({OLD: (0, 40), NEW: (45, N - 1)})
    assert places(lineage) == {NEW: OLD}
    assert lineage.heir(("", "", OLD)) == ("", "", NEW)
    divided = divide(fleet, lineage, 0)
    assert [m.pod for m in divided.members] == [NEW] and [m.pod for m in divided.former] == [OLD]


def test_a_surge_overlaps():
    lineage, _ = lineage_of({OLD: (0, 50), NEW: (40, N - 1)})
    assert places(lineage) == {NEW: OLD}


def test_of_two_that_left_each_is_replaced_once():
    lives = {"a-0": (0, 40), "a-1": (0, 60), "b-0": (42, N - 1), "b-1": (62, N - 1)}
    assert places(lineage_of(lives)[0]) == {"b-0": "a-0", "b-1": "a-1"}


@pytest.mark.parametrize("busy", ["b-0", "b-1", "b-2"])
def test_when_all_are_replaced_at_once_the_busiest_follows_the_busiest(busy):
    olds, news = ("a-0", "a-1", "a-2"), ("b-0", "b-1", "b-2")
    rows = {pod: alive(0, 50) for pod in olds} | {pod: alive(50, N - 1) for pod in news}
    rows["a-1"] *= 4
    rows[busy] *= 4
    frame = frame_of({"running": rows})
    fleet = resolve(frame, catalogue().tiers)
    assert places(trace(frame, fleet))[busy] == "a-1"


@pytest.mark.parametrize("news", [("b-0", "b-1", "b-2"), ("10.0.0.7:8000", "10.0.0.8:8000", "10.0.0.9:8000")])
@pytest.mark.parametrize("place", [0, 1, 2])
def test_when_all_are_replaced_at_once_a_small_cache_follows_a_small_one(place, news):
    olds, small = ("a-0", "a-1", "a-2"), news[place]
    rows = {pod: alive(0, 50) for pod in olds} | {pod: alive(50, N - 1) for pod in news}
    blocks = {pod: row * (28_300 + 40 * number) for number, (pod, row) in enumerate(rows.items())}
    blocks["a-1"], blocks[small] = rows["a-1"] * 9_650, rows[small] * 9_610
    rows["a-1"], rows[news[0]] = 4 * rows["a-1"], 4 * rows[news[0]]  # others are busy now
    frame = frame_of({"running": rows, "kv_blocks": blocks})
    found = places(trace(frame, resolve(frame, catalogue().tiers)))
    assert found[small] == "a-1" and sorted(found.values()) == list(olds)


def test_each_of_two_rollouts_deals_for_itself():
    """The small one is another in each generation; by time alone the names would decide."""
    lives = {"a": (0, 30), "b": (31, 60), "c": (61, N - 1)}
    rows = {f"{letter}-{number}": alive(*life) for letter, life in lives.items() for number in range(3)}
    small = {"a-0", "b-2", "c-1"}
    blocks = {pod: row * (9_600 if pod in small else 28_300) for pod, row in rows.items()}
    frame = frame_of({"running": rows, "kv_blocks": blocks})
    found = places(trace(frame, resolve(frame, catalogue().tiers)))
    assert found["b-2"] == "a-0" and found["c-1"] == "b-2" and len(set(found.values())) == 6


def test_a_rollout_that_changes_the_caches_is_dealt_by_load():
    """What it changed must stay a change: hardware tells who is who only where there is as much of it as before."""
    rows = {"a-0": alive(0, 50), "a-1": 4 * alive(0, 50), "b-0": 4 * alive(50, N - 1), "b-1": alive(50, N - 1)}
    sizes = {"a-0": 9_600, "a-1": 28_300, "b-0": 2_400, "b-1": 7_000}
    blocks = {pod: np.isfinite(row) * np.where(np.isnan(row), np.nan, sizes[pod]) for pod, row in rows.items()}
    frame = frame_of({"running": rows, "kv_blocks": blocks})
    assert places(trace(frame, resolve(frame, catalogue().tiers))) == {"b-0": "a-1", "b-1": "a-0"}


def test_load_decides_nothing_where_the_times_report():
    """Replaced twice over: the second cannot have come before itself, however busy each was."""
    rows = {"a-0": alive(0, 20), "b-0": 4 * alive(22, 60), "c-0": alive(62, N - 1), "x-0": alive(0, N - 1)}
    frame = frame_of({"running": rows})
    assert places(trace(frame, resolve(frame, catalogue().tiers))) == {"b-0": "a-0", "c-0": "b-0"}


def test_the_same_workload_comes_first():
    other = "mixtral-5d4b75cb6d-zz8pc"
    lives = {OLD: (0, 50), other: (0, 40), NEW: (45, N - 1)}
    assert places(lineage_of(lives)[0]) == {NEW: OLD}


def test_scaling_replaces_nobody():
    out, _ = lineage_of({"a-0": (0, N - 1), "a-1": (45, N - 1)})
    gone, fleet = lineage_of({"a-0": (0, N - 1), "a-1": (0, 40)})
    assert places(out) == {} and places(gone) == {}
    assert len(divide(fleet, gone, 0).members) == 2, "it lived in the window"
    assert [m.pod for m in divide(fleet, gone, 60).former] == ["a-1"], "it was gone before the window began"


def test_three_generations_are_one_line():
    lineage, _ = lineage_of({"a": (0, 30), "b": (32, 60), "c": (62, N - 1)})
    assert lineage.heir(("", "", "a")) == ("", "", "c")


def scrapes_of(pod: str, up: float, job: str = "vllm") -> Scrapes:
    return Scrapes({"pod": pod, "job": job}, START_MS + 2000 * np.arange(N), np.full(N, up))


def test_a_target_that_was_down_all_along_belongs_to_its_pool():
    _, fleet = lineage_of({"vllm-0": (0, N - 1)})
    add_silent(
        fleet,
        restarted("cart-0"),
        [scrapes_of("vllm-0", 1.0), scrapes_of("vllm-1", 0.0), scrapes_of("node", 0.0, "node-exporter")],
    )
    assert [m.pod for m in fleet.members] == ["vllm-0", "vllm-1"]
    assert fleet.members[1].pool == fleet.members[0].pool


def restarted(*pods: str):
    """What the kubelet counted of some pods."""
    frame = frame_of({"running": {"other": alive(0, N - 1)}})
    entities = [Entity.of(("pod",), (pod,)) for pod in pods]
    frame.signals["kubelet_restarts"] = SignalMatrix(entities, np.ones((len(pods), N)))
    return frame


@pytest.mark.parametrize(
    ("pod", "job", "counted", "is_there"),
    [
        ("vllm-1", "models", True, True),
        ("qwen-1", "sglang", True, True),
        ("vllm-1", "models", False, False),  # the target may be one that nobody runs any more
        ("cart-0", "shop", True, False),  # crashes, and is no engine
    ],
)
def test_an_engine_that_never_served_is_known_by_its_name_where_the_kubelet_restarts_it(pod, job, counted, is_there):
    fleet = Fleet([])
    add_silent(fleet, restarted(pod) if counted else restarted(), [scrapes_of(pod, 0.0, job)])
    assert [m.pod for m in fleet.members] == ([pod] if is_there else [])


def test_owners_of_the_cluster_come_before_names():
    lives = {"a": (0, 40), "b": (0, 42), "c": (45, N - 1)}
    owners = {"a": "chat-6d4b75cb6d", "b": "embed-6d4b75cb6d", "c": "embed-7f9c4d5b8f"}
    assert places(lineage_of(lives)[0]) == {"c": "a"}, "who left first, where nothing tells more"
    assert places(lineage_of(lives, owners)[0]) == {"c": "b"}


@pytest.mark.parametrize(
    ("taken", "loads"),
    [(2, [(40, 60), (30, 40)]), (3, [(50, 60), (40, 50), (30, 40), (20, 30)]), (0, [])],
)
def test_pods_that_are_taken_away_before_they_serve_are_no_engine_that_ended(taken, loads):
    """served, then so many pods that left before they served, then one that loads: it is down where only one engine
    ended before it, and taken away where its place was so again and again."""
    firsts = [20 + 10 * number for number in range(taken + 1)]
    lives = {("", "", "served"): Life(0, 0, 15, False, True)}
    lives |= {("", "", f"taken-{first}"): Life(first, 60, first + 2, True, True) for first in firsts[:-1]}
    lives[("", "", "loads")] = Life(firsts[-1], 60, 59, True, False)
    members = {key: Member(key, "", "", Pool("", "", "", "both", "h100-80")) for key in lives}
    keys = list(lives)
    lineage = Lineage(lives, {new: members[old] for old, new in pairwise(keys)})
    assert [(one.start, one.stop) for one in lineage.first_loads(keys[-1])] == loads
