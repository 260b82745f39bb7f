"""Pods that were always unlike fast are of two kinds; one that became slow, or was left behind, is not."""

from __future__ import annotations

import numpy as np
import pytest

from inferdoc.fleet.members import UNKNOWN_TIER, Assignment, Fleet, resolve
from inferdoc.fleet.speeds import FASTER, SLOWER, as_labelled, part_by_speed
from inferdoc.source.frame import Entity, SignalFrame, SignalMatrix
from inferdoc.source.reads import Grid
from tests.judging.frames import catalogue

N = 120
ONSET = 60
FAST, SLOW = ("fast-a", "fast-b", "fast-c"), ("slow-a", "slow-b")
PODS = (*FAST, *SLOW)
ROOM = {**dict.fromkeys(FAST, 30_000.0), **dict.fromkeys(SLOW, 12_000.0)}


def scene(gaps: dict[str, np.ndarray | float], **others: dict[str, np.ndarray | float]) -> SignalFrame:
    """ITL of each pod in s, with a wobble; other signals at one level."""
    frame = SignalFrame(Grid(0, 15_000, N, 15_000, 60_000, 30_000))
    noise = np.random.default_rng(7)
    served: dict[str, dict[str, np.ndarray | float]] = {
        "arrival_rate": dict.fromkeys(gaps, 1.0),
        "running": dict.fromkeys(gaps, 3.0),
    }
    for name, rows in {"itl_mean": gaps, **served, **others}.items():
        who = [Entity((("model_name", "qwen"), ("namespace", "llm"), ("pod", pod))) for pod in rows]
        wobble = noise.normal(1.0, 0.03 if name == "itl_mean" else 0.0, (len(rows), N))
        frame.signals[name] = SignalMatrix(who, np.vstack([np.full(N, level) for level in rows.values()]) * wobble)
    return frame


def gaps(slow: np.ndarray | float = 0.04, pods: tuple[str, ...] = SLOW) -> dict[str, np.ndarray | float]:
    return {**dict.fromkeys(FAST, 0.02), **dict.fromkeys(pods, slow)}


def parted(frame: SignalFrame, *assignments: Assignment) -> Fleet:
    fleet = resolve(frame, catalogue().tiers, assignments)
    part_by_speed(fleet, frame)
    return fleet


def tiers(frame: SignalFrame, *assignments: Assignment) -> dict[str, str]:
    return {member.pod: member.tier for member in parted(frame, *assignments).members}


SIMILAR = dict.fromkeys(PODS, UNKNOWN_TIER)
TWO_KINDS = {**dict.fromkeys(FAST, FASTER), **dict.fromkeys(SLOW, SLOWER)}


def test_pods_that_always_took_twice_as_long_are_a_kind_of_their_own():
    assert tiers(scene(gaps())) == TWO_KINDS


def test_pods_that_became_slow_were_like_the_others_once():
    became = np.where(np.arange(N) < ONSET, 0.02, 0.04)
    assert tiers(scene(gaps(became))) == SIMILAR


def test_pods_with_more_requests_are_slow_by_that():
    busier = {**dict.fromkeys(FAST, 1.0), **dict.fromkeys(SLOW, 2.0)}
    assert tiers(scene(gaps(), arrival_rate=busier)) == SIMILAR


def test_pods_with_other_requests_cannot_be_compared():
    longer = {**dict.fromkeys(FAST, 500.0), **dict.fromkeys(SLOW, 4000.0)}
    assert tiers(scene(gaps(), prompt_tokens_per_request=longer)) == SIMILAR


def test_a_tier_that_something_reports_stands():
    known = tiers(scene(gaps()), Assignment("fast-.*", tier="h100-80"), Assignment("slow-.*", tier="l40s"))
    assert known == {**dict.fromkeys(FAST, "h100-80"), **dict.fromkeys(SLOW, "l40s")}


def test_pods_with_other_settings_were_left_behind():
    settings = {**dict.fromkeys(FAST, 11.0), **dict.fromkeys(SLOW, 12.0)}
    assert tiers(scene(gaps(), settings_identity=settings)) == SIMILAR


def test_pods_with_as_much_room_for_a_cache_have_the_same_gpu():
    assert tiers(scene(gaps(), kv_blocks=dict.fromkeys(PODS, 30_000.0))) == SIMILAR
    assert tiers(scene(gaps(), kv_blocks=ROOM)) == TWO_KINDS


@pytest.mark.parametrize(("room", "tier"), [({}, UNKNOWN_TIER), ({"kv_blocks": ROOM}, SLOWER)])
def test_one_odd_pod_is_a_kind_of_its_own_only_where_its_cache_prints_so(room: dict[str, dict[str, float]], tier: str):
    here = {pod: level for pod, level in ROOM.items() if pod != "slow-b"}
    found = tiers(scene(gaps(pods=("slow-a",)), **dict.fromkeys(room, here)))
    assert found["slow-a"] == tier


def test_a_newborn_has_the_tier_of_its_workload():
    born = np.where(np.arange(N) < ONSET, np.nan, 0.04)
    numbered = {"chat-fast-0": 0.02, "chat-fast-1": 0.02, "chat-slow-0": 0.04, "chat-slow-1": 0.04}
    assert tiers(scene({**numbered, "chat-slow-2": born}))["chat-slow-2"] == SLOWER


def test_a_newborn_of_no_known_workload_leaves_all_as_they_are():
    born = np.where(np.arange(N) < ONSET, np.nan, 0.04)
    assert set(tiers(scene({**gaps(), "another": born})).values()) == {UNKNOWN_TIER}


def test_a_baseline_knows_a_pool_by_its_labels_alone():
    (pool,) = {member.pool for member in parted(scene(gaps())).members if member.tier == SLOWER}
    assert as_labelled(pool).tier == UNKNOWN_TIER
    assert as_labelled(as_labelled(pool)) == as_labelled(pool)
