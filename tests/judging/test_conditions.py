"""Every condition kind on small frames: it holds, it does not hold, or it cannot be told."""

from __future__ import annotations

from typing import get_args

import numpy as np
import pytest

from inferdoc.catalogue.conditions import AllOf, AnyOf, Fact, Not, Witnesses
from inferdoc.catalogue.observation import KINDS
from inferdoc.judging.conditions import evaluate, explain, promql
from inferdoc.judging.conditions.groups import combine, k_of
from inferdoc.judging.conditions.levels import lasts
from inferdoc.judging.conditions.registry import SIMPLE
from inferdoc.judging.conditions.render import Rendering
from inferdoc.judging.context import Outcome
from tests.judging.frames import CALM, SIGNALS, STEP_S, WINDOW, N, catalogue, scene, step, unit_of, when, wobble

NAN = np.nan
FLAT = np.full(N, 10.0)
JUMP = step(10, 30)
BURST = step(10, 30, until=CALM + 13)
SPIKE = step(10, 30, until=CALM + 1)
ALTERNATING = np.where((np.arange(N) >= CALM) & (np.arange(N) % 2 == 0), 30.0, 10.0)
GROWING = np.concatenate([np.zeros(CALM), np.arange(N - CALM) * 2.0])
LAST_THREE = np.where(np.arange(N) < N - 3, NAN, GROWING)
GAPPY = np.where(np.arange(N) % 3 == 2, NAN, JUMP)

Cases = list[tuple[str, dict, dict, bool | None]]


def judge(rows, condition, split=None, last=None, who="p0", **more):
    context = scene(rows, **more)
    return evaluate(condition, context.at(split, last), unit_of(context, who))


# name, condition, rows of p0, answer
ABSOLUTE: Cases = [
    ("beyond the limit to the end", {"above": 20}, {"load": JUMP}, True),
    ("below the limit all the time", {"above": 40}, {"load": JUMP}, False),
    ("exactly the limit is not above it", {"above": 30}, {"load": JUMP}, False),
    ("one scrape is no episode", {"above": 20}, {"load": SPIKE}, False),
    ("an episode that ended", {"above": 20}, {"load": BURST}, True),
    ("too short for the asked time", {"above": 20, "for_": "40s"}, {"load": BURST}, False),
    ("long enough for the asked time", {"above": 20, "for_": "40s"}, {"load": JUMP}, True),
    ("every other window", {"above": 20, "share_of": 0.4}, {"load": ALTERNATING}, True),
    ("every other window is less than most", {"above": 20, "share_of": 0.7}, {"load": ALTERNATING}, False),
    ("gaps are not counted against it", {"above": 20, "share_of": 0.9}, {"load": GAPPY}, True),
    ("nothing but gaps", {"above": 20}, {"load": np.full(N, NAN)}, None),
    ("a signal that nothing supplies", {"above": 20}, {"speed": FLAT}, None),
    ("below the limit", {"below": 5}, {"load": step(10, 1)}, True),
    ("never below the limit", {"below": 5}, {"load": FLAT}, False),
    ("below, gone", {"below": 5}, {"speed": FLAT}, None),
]

RELATIVE: Cases = [
    ("three times", {"rises": 2}, {"load": JUMP}, True),
    ("with noise", {"rises": 2}, {"load": wobble(JUMP)}, True),
    ("not by the factor", {"rises": 4}, {"load": JUMP}, False),
    ("not by the amount", {"rises": 2, "by": 25}, {"load": JUMP}, False),
    ("a lone spike", {"rises": 2}, {"load": SPIKE}, False),
    ("a fall is no rise", {"rises": 2}, {"load": step(30, 10)}, False),
    ("a change for the better is no fall of a rise", {"falls": 0.5}, {"load": JUMP}, False),
    ("from zero", {"rises": 2}, {"load": step(0, 5)}, True),
    ("from zero, but by less than asked", {"rises": 2, "by": 6}, {"load": step(0, 5)}, False),
    ("within the floor of the signal", {"rises": 2}, {"rough": step(1, 4)}, False),
    ("beyond the floor of the signal", {"rises": 2}, {"rough": step(1, 7)}, True),
    ("calm that swings as much", {"rises": 1.5}, {"load": np.where(np.arange(N) % 7 == 3, 30.0, 10.0)}, False),
    ("no calm before it", {"rises": 2}, {"load": step(10, 30, at=5)}, False),
    ("every other window", {"rises": 2, "share_of": 0.4}, {"load": ALTERNATING}, True),
    ("every other window is less than most", {"rises": 2, "share_of": 0.7}, {"load": ALTERNATING}, False),
    ("falls to a third", {"falls": 0.5}, {"load": step(30, 10)}, True),
    ("falls to two thirds", {"falls": 0.5}, {"load": step(30, 20)}, False),
    ("falls with gaps", {"falls": 0.5}, {"load": np.where(np.arange(N) % 3 == 2, NAN, step(30, 10))}, True),
    ("a signal that nothing supplies", {"rises": 2}, {"speed": FLAT}, None),
    ("means need a split", {"rises": 2, "average": True}, {"load": JUMP}, None),
]

OFTEN_IDLE = wobble(np.where((np.arange(N) < CALM) & (np.arange(N) % 20 < 14), 0.0, 10.0), 0.1)
EPISODE: Cases = [
    ("keeps growing", {"slope": 0.5}, {"load": GROWING}, True),
    ("grows too slowly", {"slope": 5}, {"load": GROWING}, False),
    ("jumped and stays", {"slope": 0.01}, {"load": wobble(JUMP)}, False),
    ("shrinks", {"slope": -0.5}, {"load": 200 - 2 * GROWING}, True),
    ("grows when it should shrink", {"slope": -0.5}, {"load": GROWING}, False),
    ("no trend in five points", {"slope": 0.5}, {"load": np.where(np.arange(N) < N - 5, NAN, GROWING)}, None),
    ("trend of a signal that nothing supplies", {"slope": 0.5}, {"speed": FLAT}, None),
    ("meets the limit in time", {"reaches": 150, "within": "2m"}, {"load": GROWING}, True),
    ("meets the limit too late", {"reaches": 1000, "within": "2m"}, {"load": GROWING}, False),
    ("is there already", {"reaches": 50, "within": "2m"}, {"load": GROWING}, False),
    ("moves away from it", {"reaches": 150, "within": "10m"}, {"load": 100 - GROWING}, False),
    ("downwards to the limit", {"reaches": 0, "within": "1m"}, {"load": 120 - GROWING}, True),
    ("does not move", {"reaches": 11, "within": "10m"}, {"load": FLAT}, False),
    ("too short to extrapolate", {"reaches": 150, "within": "10m"}, {"load": LAST_THREE}, None),
    ("no such signal to extrapolate", {"reaches": 150, "within": "10m"}, {"speed": FLAT}, None),
    ("means rise", {"rises": 2, "average": True}, {"load": wobble(JUMP, 0.2)}, True),
    ("means rise from idle times", {"rises": 1.5, "average": True}, {"load": OFTEN_IDLE}, True),
    ("means of busy times do not", {"rises": 1.5, "average": True, "busy": True}, {"load": OFTEN_IDLE}, False),
    ("means do not rise enough", {"rises": 4, "average": True}, {"load": wobble(JUMP, 0.2)}, False),
    ("means within their errors", {"rises": 1.2, "average": True}, {"load": wobble(step(10, 13), 2.0, seed=4)}, False),
    ("means fall", {"falls": 0.5, "average": True}, {"load": wobble(step(30, 10), 0.2)}, True),
    ("means of a signal that nothing supplies", {"rises": 2, "average": True}, {"speed": FLAT}, None),
]  # fmt: skip

STUCK = step(20, 0, at=N - 20)
WORK = np.full(N, 3.0)
STALLS: Cases = [
    ("no progress with work", {"stalls": "queue"}, {"speed": STUCK, "queue": WORK}, True),
    ("no progress without work", {"stalls": "queue"}, {"speed": STUCK, "queue": step(3, 0, at=N - 20)}, False),
    ("progress", {"stalls": "queue"}, {"speed": FLAT, "queue": WORK}, False),
    ("moves again at the end", {"stalls": "queue"}, {"speed": step(20, 0, N - 20, until=N - 1), "queue": WORK}, False),
    ("never moved", {"stalls": "queue"}, {"speed": np.zeros(N), "queue": WORK}, True),
    ("has not moved for a minute", {"stalls": "queue"},
     {"speed": np.where(np.arange(N) < N - 30, NAN, 0.0), "queue": WORK}, False),
    ("stood for two minutes", {"stalls": "queue"}, {"speed": step(20, 0, 10, until=80), "queue": WORK}, True),
    ("stood for a minute", {"stalls": "queue"}, {"speed": step(20, 0, 10, until=40), "queue": WORK}, False),
    ("stands a second time", {"stalls": "queue"},
     {"speed": np.minimum(step(20, 0, 5, until=70), STUCK), "queue": WORK}, True),
    ("stands for as long as it must", {"stalls": "queue", "for": "30s"}, {"speed": STUCK, "queue": WORK}, True),
    ("stands for less than it must", {"stalls": "queue", "for": "1m"}, {"speed": STUCK, "queue": WORK}, False),
    ("all of it was aborted", {"stalls": "queue", "aborts": "load"},
     {"speed": STUCK, "queue": WORK, "load": np.where(np.arange(N) == N - 21, 1.0, 0.0)}, False),
    ("all of it was aborted long ago", {"stalls": "queue", "aborts": "load"},
     {"speed": STUCK, "queue": WORK, "load": np.where(np.arange(N) == 20, 1.0, 0.0)}, True),
    ("more came since all of it was aborted", {"stalls": "queue", "aborts": "load"},
     {"speed": STUCK, "queue": step(3, 4, at=N - 5), "load": np.where(np.arange(N) == N - 21, 1.0, 0.0)}, True),
    ("the gauge is stale", {"stalls": "queue", "aborts": "load", "stale": True},
     {"speed": STUCK, "queue": WORK, "load": np.where(np.arange(N) == N - 21, 1.0, 0.0)}, True),
    ("the gauge is not stale", {"stalls": "queue", "aborts": "load", "stale": True},
     {"speed": STUCK, "queue": WORK, "load": np.zeros(N)}, False),
    ("a pause as it had before", {"stalls": "queue"},
     {"speed": np.minimum(step(20, 0, 30, until=33), STUCK), "queue": WORK}, False),
    ("two scrapes are no stall", {"stalls": "queue"}, {"speed": step(20, 0, at=N - 1), "queue": WORK}, False),
    ("no sign of work at all", {"stalls": "queue"}, {"speed": STUCK}, None),
    ("no sign of progress at all", {"stalls": "queue"}, {"queue": WORK}, None),
]  # fmt: skip

WAVE = 10 + 5 * np.sin(np.arange(N) / 5)
FOLLOWS: Cases = [
    ("moves with it", {"follows": "load"}, {"moving": 2 * WAVE + 1, "load": WAVE}, True),
    ("a scrape behind", {"follows": "load"}, {"moving": np.roll(WAVE, 2), "load": WAVE}, True),
    ("against it", {"follows": "load"}, {"moving": -WAVE, "load": WAVE}, False),
    ("for itself", {"follows": "load"}, {"moving": np.random.default_rng(3).random(N), "load": WAVE}, False),
    ("does not move at all", {"follows": "load"}, {"moving": FLAT, "load": GROWING}, False),
    ("follows what does not move", {"follows": "load"}, {"moving": GROWING, "load": FLAT}, False),
    ("too few points", {"follows": "load"}, {"moving": np.where(np.arange(N) < 80, NAN, WAVE), "load": WAVE}, None),
    ("no leader", {"follows": "load"}, {"moving": WAVE}, None),
    ("no follower", {"follows": "load"}, {"load": WAVE}, None),
]


def steps(*levels: float) -> np.ndarray:
    """Levels one after the other, each as long as the others."""
    return np.repeat(levels, -(-N // len(levels)))[:N].astype(float)


TURNS: Cases = [
    ("up and down three times", {"turns": 5}, {"load": steps(20, 40, 20, 40, 20, 40, 20)}, True),
    ("once up and down", {"turns": 2}, {"load": steps(20, 40, 20)}, False),
    ("a staircase", {"turns": 1}, {"load": steps(20, 30, 40, 50, 60)}, False),
    ("turns smaller than what matters", {"turns": 1}, {"rough": steps(20, 24, 20, 24, 20)}, False),
    ("gaps are no turns", {"turns": 1}, {"load": np.where(np.arange(N) % 7 == 0, NAN, FLAT)}, False),
    ("nothing to see", {"turns": 1}, {"speed": FLAT}, None),
]

PRESENCE: Cases = [
    ("there", {"present": True}, {"load": FLAT}, True),
    ("not there", {"present": True}, {"speed": FLAT}, False),
    ("absent", {"absent": True}, {"speed": FLAT}, True),
    ("not absent", {"absent": True}, {"load": FLAT}, False),
    ("nothing but gaps is absent", {"absent": True}, {"load": np.full(N, NAN)}, True),
]


def table(cases: Cases):
    return pytest.mark.parametrize(("kind", "rows", "holds"), [c[1:] for c in cases], ids=[c[0] for c in cases])


def about(kind: dict, rows: dict) -> str:
    """The signal that a row of the tables speaks of."""
    if "follows" in kind:
        return "moving"
    if "stalls" in kind:
        return "speed"
    return "rough" if "rough" in rows else "load"


def check(kind, rows, holds, split=None):
    condition = when(about(kind, rows), **kind)
    outcome = judge({name: {"p0": values} for name, values in rows.items()}, condition, split)
    assert outcome.holds is holds, outcome.text
    assert outcome.text and outcome.entity == "p0"
    missing = {name for name in condition.signals if name not in rows or not np.isfinite(rows[name]).any()}
    if holds is None and missing:
        assert outcome.missing and set(outcome.missing) <= missing
    if outcome.first is not None and outcome.last is not None:
        assert 0 <= outcome.first <= outcome.last < N


@table(ABSOLUTE)
def test_above_and_below(kind, rows, holds):
    check(kind, rows, holds)


@table(RELATIVE)
def test_rises_and_falls(kind, rows, holds):
    check(kind, rows, holds)


@table(EPISODE)
def test_slope_reaches_and_means_over_the_episode(kind, rows, holds):
    check(kind, rows, holds, split=CALM)


@table(STALLS)
def test_stalls(kind, rows, holds):
    check(kind, rows, holds)


@table(FOLLOWS)
def test_follows(kind, rows, holds):
    check(kind, rows, holds)


@table(TURNS)
def test_turns(kind, rows, holds):
    check(kind, rows, holds)


@pytest.mark.parametrize(
    ("moves", "begins"),
    [
        ((5, 30, 35, 40, 45, 50), 30),  # a move with the load long before
        ((26, 30, 35, 40, 45, 50), 26),  # its first swing is like those that follow
        ((10, 30, 50, 70), 10),  # slow, but even
    ],
)
def test_an_oscillation_begins_with_its_rhythm(moves, begins):
    values = np.full(N, 20.0)
    for number, at in enumerate(moves):
        values[at:] = 20.0 if number % 2 else 40.0
    outcome = judge({"load": {"p0": values}}, when("load", turns=2))
    assert outcome.holds and outcome.first == begins


@table(PRESENCE)
def test_present_and_absent(kind, rows, holds):
    check(kind, rows, holds)


def test_every_kind_stands_in_a_table():
    tables = (ABSOLUTE, RELATIVE, EPISODE, STALLS, FOLLOWS, TURNS, PRESENCE)
    seen = {key for cases in tables for c in cases for key in c[1].keys() & KINDS.keys()}
    assert seen | {"differs"} == KINDS.keys()


def test_every_kind_has_a_key_and_a_module():
    assert {kind.of for kind in KINDS.values()} == SIMPLE.keys() == set(get_args(Fact))


# ---- what an outcome says -------------------------------------------------------------------------------------------


def test_a_rise_tells_when_how_much_and_against_what():
    outcome = judge({"latency": {"p0": step(0.1, 0.3)}}, when("latency", rises=2))
    assert (outcome.first, outcome.last) == (CALM, N - 1)
    assert (outcome.baseline, outcome.observed) == (pytest.approx(0.1), pytest.approx(0.3))
    assert outcome.threshold == pytest.approx(0.2) and outcome.unit == "s"
    assert "100 ms" in outcome.text and "300 ms" in outcome.text


def test_a_level_tells_its_named_limit_and_what_was_before():
    outcome = judge({"kv_usage": {"p0": step(0.2, 0.97)}}, when("kv_usage", above="kv_usage_high"))
    assert outcome.holds and outcome.threshold == pytest.approx(0.9)
    assert outcome.baseline == pytest.approx(0.2) and outcome.observed == pytest.approx(0.97)
    assert "kv_usage_high" in outcome.text and "90 %" in outcome.text and "97 %" in outcome.text


def test_what_held_from_the_start_says_so():
    outcome = judge({"load": {"p0": np.full(N, 30.0)}}, when("load", above=20))
    assert outcome.holds and outcome.from_start and outcome.first == 0
    later = judge({"load": {"p0": JUMP}}, when("load", above=20))
    assert later.holds and not later.from_start


def test_a_stall_begins_a_window_before_the_rate_reads_zero():
    outcome = judge({"speed": {"p0": STUCK}, "queue": {"p0": WORK}}, when("speed", stalls="queue"))
    assert outcome.first == N - 20 - (WINDOW - 1) and outcome.last == N - 1
    assert outcome.baseline == pytest.approx(20) and outcome.observed == 0.0


def test_after_a_chosen_split_the_calm_is_what_lies_before_it():
    rows = {"load": {"p0": JUMP}}
    assert judge(rows, when("load", rises=2), split=CALM).first == CALM
    assert judge(rows, when("load", rises=2), split=CALM + 20).holds is False, "the rise itself is not calm"
    assert judge(rows, when("load", rises=2), split=10).holds is None, "20 s are no calm to compare with"


def test_a_level_after_a_split_ignores_what_was_before_it():
    rows = {"load": {"p0": BURST}}
    assert judge(rows, when("load", above=20), split=CALM).holds
    assert judge(rows, when("load", above=20), split=CALM + 20).holds is False


def test_few_observations_prove_nothing():
    for each, after, holds in ((0.2, 0.5, False), (50.0, 0.5, True), (1.0, 0.22, False), (50.0, 0.22, True)):
        context = scene({"latency": {"p0": step(0.1, after)}})
        context.view.frame["latency"].counts = np.full((1, N), each)
        assert evaluate(when("latency", rises=2), context, unit_of(context)).holds is holds


def test_five_observations_prove_a_large_move():
    context = scene({"latency": {"p0": step(0.1, 5.0)}})
    context.view.frame["latency"].counts = np.full((1, N), 1.0)
    assert evaluate(when("latency", rises=2), context, unit_of(context)).holds


@pytest.mark.parametrize(
    ("shares", "each", "holds"),
    [
        ([0.008] * 4 + [0.018] * 6 + [0.008] * 4, 500.0, True),
        ([0.008] * 4 + [0.018] * 6 + [0.008] * 4, 50.0, False),
        ([0.004] * 6 + [0.018] * 6 + [0.004] * 6, 500.0, False),
        ([0.018] * 6, 500.0, False),
        ([0.02] * 40, 40.0, True),
        ([0.02] * 40, 10.0, False),
    ],
    ids=[
        "few windows are beyond the limit, and all that are lost together",
        "so few are chance",
        "together they are below the limit",
        "shorter than any deviation",
        "long and often enough",
        "one or two in all are chance",
    ],
)
def test_what_is_lost_is_counted_and_not_the_windows_that_show_it(shares, each, holds):
    rows = np.zeros(N)
    rows[CALM : CALM + len(shares)] = shares
    context = scene({"lost": {"p0": rows}})
    context.view.frame["lost"].counts = np.full((1, N), each)
    condition = when("lost", above=0.01, share_of=0.2)
    outcome = evaluate(condition, context, unit_of(context))
    assert outcome.holds is holds
    assert (outcome.first, outcome.last) == ((CALM, CALM + len(shares) - 1) if holds else (None, None))
    assert lasts(condition, context)[1].tolist() == [outcome.last if holds else -1]


def test_a_quantile_must_move_by_more_than_one_bucket():
    bounds = np.array([0.05, 0.1, 0.2, 0.4, 0.8, 1.6])
    for after, holds in ((0.21, False), (0.39, False), (0.41, True), (1.5, True)):
        context = scene({"latency": {"p0": step(0.15, after)}})
        context.view.frame["latency"].bounds = bounds
        assert evaluate(when("latency", rises=1.3), context, unit_of(context)).holds is holds, after


def test_the_extrapolation_says_in_what_time():
    outcome = judge({"load": {"p0": GROWING}}, when("load", reaches=150, within="2m"), split=CALM)
    assert outcome.holds and outcome.threshold == 150
    assert "52 s" in outcome.text, outcome.text


# ---- differs --------------------------------------------------------------------------------------------------------


def three(own, *others):
    return {"load": {f"p{i}": values for i, values in enumerate((own, *others))}}


@pytest.mark.parametrize(
    ("rows", "factor", "more", "holds"),
    [
        (three(JUMP, FLAT, FLAT), 2, {}, True),
        (three(JUMP, JUMP, FLAT), 2, {}, False),
        (three(FLAT, FLAT, FLAT), 2, {}, False),
        (three(JUMP, FLAT, FLAT), 4, {}, False),
        (three(step(10, 3), FLAT, FLAT), 0.5, {}, True),
        (three(step(10, 8), FLAT, FLAT), 0.5, {}, False),
        (three(JUMP), 2, {}, None),
        (three(JUMP, np.full(N, NAN)), 2, {}, None),
        (three(np.where(np.arange(N) < 45, 30.0, NAN), np.where(np.arange(N) < 45, NAN, 10.0)), 2, {}, None),
        (three(SPIKE, FLAT), 2, {}, False),
        (three(ALTERNATING, FLAT), 2, {"share_of": 0.4}, True),
        (three(ALTERNATING, FLAT), 2, {"share_of": 0.8}, False),
        (three(wobble(JUMP, 0.3), FLAT), 2, {"average": True}, True),
        (three(FLAT, JUMP, FLAT, FLAT), 2, {"average": True}, False),
    ],
)
def test_the_odd_one_out_among_like_pods(rows, factor, more, holds):
    outcome = judge(rows, when("load", differs=factor, **more))
    assert outcome.holds is holds, outcome.text


@pytest.mark.parametrize(
    ("others", "own", "holds"), [(10, 14, False), (10, 16, True), (1, 4, False), (1, 6, False), (1, 7, True)]
)
def test_a_difference_within_the_floor_of_the_signal_is_none(others, own, holds):
    """The floor is 5 units; peers below it count as if they were at it."""
    rows = {"rough": {"p0": step(others, own), "p1": np.full(N, others), "p2": np.full(N, others)}}
    assert judge(rows, when("rough", differs=1.3)).holds is holds


def swinging(seed: int, after: float = 1.0) -> np.ndarray:
    """Each rate window another value, and from one step on all of them higher."""
    windows = 10 * np.random.default_rng(seed).lognormal(0.0, 0.2, 2 * N // WINDOW)
    return np.repeat(windows, WINDOW) * np.where(np.arange(2 * N) >= N, after, 1.0)


@pytest.mark.parametrize(
    ("own", "peer", "holds"), [(1.6, 1.0, True), (1.6, 1.6, False), (1.0, 1.0, False), (1.0, 0.6, False)]
)
def test_means_part_where_a_pod_rises_and_its_peers_do_not(own: float, peer: float, holds: bool):
    outcome = judge(three(swinging(1, own), swinging(2, peer)), when("load", differs=1.3, average=True, newly=True))
    assert outcome.holds is holds, outcome.text
    if holds:
        assert abs(outcome.first - N) <= 2 * WINDOW and outcome.last >= 2 * N - 3 * WINDOW
        assert outcome.observed == pytest.approx(1.6 * outcome.baseline, rel=0.15)


def test_means_that_part_need_a_peer():
    assert judge(three(swinging(1, 1.6)), when("load", differs=1.3, average=True, newly=True)).holds is None


def test_a_pod_that_became_odd_says_since_when():
    outcome = judge(three(JUMP, FLAT, FLAT), when("load", differs=2))
    assert outcome.first == CALM and not outcome.from_start
    assert outcome.baseline == pytest.approx(10) and outcome.observed == pytest.approx(30)


def test_unlike_pods_are_not_compared():
    roles = {"p0": {"role": "decode"}, "p1": {"role": "prefill"}}
    assert judge(three(JUMP, FLAT), when("load", differs=2), labels=roles).holds is None
    tiers = {"p0": {"tier": "h100"}, "p1": {"tier": "a100-80"}}
    assert judge(three(JUMP, FLAT), when("load", differs=2), labels=tiers).holds is None


@pytest.mark.parametrize("signal", ["load", "running"])
def test_nobody_is_compared_with_a_peer_that_was_just_born(signal: str):
    """It has no share of the work yet, and its rates cover the time before it. Two of a rollout are like each other."""
    old, new = np.full(N, 10.0), np.full(N, 10.0)
    old[CALM:], new[:CALM] = NAN, NAN
    pods = {"p0": FLAT, "old": old, "new": new, "older": old, "newer": new}
    context = scene({"running": pods, "load": pods})
    settling = list(range(CALM, CALM + 2 * WINDOW))
    usual = context.usual(signal, unit_of(context))
    assert usual is not None and np.flatnonzero(np.isnan(usual)).tolist() == settling
    among = context.usual(signal, unit_of(context, "new"))
    assert among is not None and np.isfinite(among[settling]).all()


def test_the_engines_of_a_pod_are_like_each_other():
    rows = {"load": {"p0/0": JUMP, "p0/1": FLAT, "p0/2": FLAT}}
    assert judge(rows, when("load", differs=2)).holds
    assert judge(rows, when("load", differs=2), who="p0 engine=1").holds is False


@pytest.mark.parametrize(
    ("heat", "holds"),
    [
        ({"p0#0": JUMP, "p0#1": FLAT, "p0#2": FLAT}, True),
        ({"p0#0": FLAT, "p0#1": FLAT}, False),
        ({"p0#0": JUMP}, None),
        ({"p1#0": JUMP, "p1#1": FLAT}, None),
    ],
)
def test_the_odd_one_out_among_the_gpus_of_a_pod(heat, holds):
    outcome = judge({"load": {"p0": FLAT, "p1": FLAT}, "heat": heat}, when("heat", differs=2))
    assert outcome.holds is holds, outcome.text
    if holds:
        assert outcome.entity == "p0 gpu 0"


# ---- whose series ---------------------------------------------------------------------------------------------------

PD = {"d0": {"role": "decode"}, "d1": {"role": "decode"}, "f0": {"role": "prefill"}}


@pytest.mark.parametrize(
    ("scope", "busy", "who", "holds"),
    [
        ("own", "d0", "d0", True),
        ("own", "d1", "d0", False),
        ("peers", "d1", "d0", True),
        ("peers", "d0", "d0", False),
        ("pool", "d0", "d0", True),
        ("pool", "d1", "d0", True),
        ("pool", "f0", "d0", False),
        ("prefill", "f0", "d0", True),
        ("prefill", "d1", "d0", False),
        ("decode", "d1", "f0", True),
        ("peers", "d0", "f0", False),
    ],
)
def test_scope_says_whose_series(scope, busy, who, holds):
    rows = {"load": {pod: JUMP if pod == busy else FLAT for pod in PD}}
    outcome = judge(rows, when("load", rises=2, scope=scope), who=who, labels=PD)
    assert outcome.holds is holds, outcome.text
    if holds:
        assert outcome.entity == busy


# ---- all, any, not --------------------------------------------------------------------------------------------------


def said(holds, first=None, last=None):
    return Outcome(holds, f"says {holds}", "load", missing=("ghost",) if holds is None else (), first=first, last=last)


@pytest.mark.parametrize(
    ("kind", "parts", "holds"),
    [
        ("all", (True, True), True),
        ("all", (True, False), False),
        ("all", (None, False), False),
        ("all", (True, None), None),
        ("all", (None, None), None),
        ("any", (False, True), True),
        ("any", (None, True), True),
        ("any", (False, False), False),
        ("any", (None, None), None),
        ("any", (None, False), False),  # alternative observations of one thing: one that can be seen decides
        ("not", (True,), False),
        ("not", (False,), True),
        ("not", (None,), None),
    ],
)
def test_groups(kind, parts, holds):
    outcome = combine(kind, [said(part) for part in parts])
    assert outcome.holds is holds
    assert len(outcome.parts) == len(parts)
    if holds is None:
        assert outcome.missing == ("ghost",)


@pytest.mark.parametrize(
    ("wanted", "parts", "holds"),
    [
        (2, (True, True, False), True),
        (2, (True, None, True), True),
        (2, (True, False, False), False),
        (2, (True, None, False), None),  # the one that is not visible decides
        (3, (True, None, False), False),
    ],
)
def test_so_many_of_several(wanted, parts, holds):
    assert k_of(wanted, [said(part) for part in parts]).holds is holds


def test_so_many_of_several_hold_from_when_so_many_do():
    outcome = k_of(2, [said(True, 10, 80), said(True, 30, 50), said(True, 20, 60)])
    assert (outcome.first, outcome.last) == (20, 60)


def test_all_holds_where_its_parts_overlap():
    outcome = combine("all", [said(True, 10, 50), said(True, 20, 80)])
    assert outcome.holds and (outcome.first, outcome.last) == (20, 50)
    apart = combine("all", [said(True, 10, 20), said(True, 50, 80)])
    assert apart.holds is False, "two observations at different times are not one"


@pytest.mark.parametrize(
    ("first", "second", "chosen"),
    [
        ((50, 60), (10, 90), (10, 90)),  # it saw a part of what the other did
        ((15, 90), (10, 90), (15, 90)),  # both saw the same thing: the first one's word stands
        ((50, 60), (55, 99), (50, 60)),  # two things
        ((50, None), (10, 90), (50, None)),
    ],
)
def test_of_alternatives_the_one_that_saw_all_of_it_dates_it(first, second, chosen):
    outcome = combine("any", [said(True, *first), said(False), said(True, *second)])
    assert (outcome.first, outcome.last) == chosen


def test_of_witnesses_those_that_are_visible_decide():
    """One absent series does not veto its fellow witnesses; one that is there and says no does."""
    context = scene({"load": {"p0": step(10, 30)}, "speed": {"p0": np.full(N, 5.0)}})
    unit, high, lacking = unit_of(context), when("load", above=20.0), when("ghost", above=1.0)
    assert evaluate(AllOf((high, lacking)), context, unit).holds is None
    both = evaluate(Witnesses((high, lacking)), context, unit)
    assert both.holds is True and both.missing == ("ghost",)
    assert evaluate(Witnesses((high, when("speed", above=20.0), lacking)), context, unit).holds is False
    assert evaluate(Witnesses((lacking,)), context, unit).holds is None


def test_a_group_inside_a_group():
    inner = AnyOf((when("ghost", above=1), when("load", rises=2)))
    outer = AllOf((inner, Not(when("speed", rises=2))))
    assert judge({"load": {"p0": JUMP}, "speed": {"p0": FLAT}}, outer).holds
    assert judge({"load": {"p0": JUMP}, "speed": {"p0": JUMP}}, outer).holds is False
    assert set(outer.signals) == {"ghost", "load", "speed"}
    words = explain(outer)
    assert all(name in words for name in ("`ghost`", "`load`", "`speed`", " and ", " or ", "not: "))


def test_every_kind_is_explained_in_words():
    for cases in (ABSOLUTE, RELATIVE, EPISODE, STALLS, FOLLOWS, PRESENCE):
        for _, kind, rows, _ in cases:
            words = explain(when(about(kind, rows), **kind))
            assert words.startswith(f"`{about(kind, rows)}` ") and "None" not in words
    assert explain(when("load", above=1, scope="peers")).endswith(" on a peer")


def test_what_is_said_of_a_signal_without_series_is_no_rule():
    rendering = Rendering(SIGNALS, catalogue().tiers)
    for cases in (ABSOLUTE, RELATIVE, EPISODE, STALLS, FOLLOWS, PRESENCE):
        for name, kind, rows, _ in cases:
            assert promql(when(about(kind, rows), **kind), rendering) is None, name


def test_outcomes_are_the_same_when_asked_twice():
    context = scene({"load": {"p0": JUMP}})
    unit = unit_of(context)
    first = evaluate(when("load", rises=2), context, unit)
    assert evaluate(when("load", rises=2), context, unit) == first
    shared = context.at(None, None)
    ((_, rule),) = context._found
    assert shared.deviations("load", [unit], rule)[0] is context.deviations("load", [unit], rule)[0] is not None
    assert first.but(text="") != first


def test_durations_are_seconds_not_steps():
    """The same 26 s of trouble are short or long by the clock, whatever the spacing of the scrapes."""
    assert STEP_S * 13 == 26
    assert judge({"load": {"p0": BURST}}, when("load", above=20, for_="24s")).holds
    assert judge({"load": {"p0": BURST}}, when("load", above=20, for_="30s")).holds is False


@pytest.mark.parametrize("scope", ["pool", "peers", "most"])
@pytest.mark.parametrize("split", [None, CALM, CALM + 5])
def test_what_is_worked_out_for_all_is_what_each_would_see(scope, split):
    """Ten pods, four of which rise: kept outcomes, asked for from pod after pod, are those of a fresh look."""
    rows = {"load": {f"p{i}": JUMP if i < 4 else FLAT for i in range(10)}}
    condition = when("load", rises=2, scope=scope)
    kept = scene(rows).at(split, N - 1)
    for unit in kept.view.units:
        fresh = scene(rows).at(split, N - 1)
        assert evaluate(condition, kept, unit) == evaluate(condition, fresh, unit_of(fresh, unit.name))
    holds = {unit.name: evaluate(condition, kept, unit).holds for unit in kept.view.units}
    seen = scope != "most" and split != CALM + 5
    assert (holds["p0"], holds["p9"]) == (seen, seen)


def test_pods_that_a_rollout_replaced_count_once_where_most_are_asked_for():
    """Three pods give their places to three others, and all of those rise: the old ones do not outvote them."""
    old = np.where(np.arange(N) < CALM - 5, 10.0, np.nan)
    new = np.where(np.arange(N) < CALM - 5, np.nan, JUMP)
    names = [(f"chat-7c9d8f6b5-x2x4{c}", f"chat-6b5c4d7f9-z4z2{c}") for c in "bcd"]
    rows = {name: values for pair in names for name, values in zip(pair, (old, new), strict=True)}
    context = scene(
        {"load": rows, "running": {name: np.where(np.isfinite(v), 1.0, np.nan) for name, v in rows.items()}}
    )
    unit = unit_of(context, names[0][1])
    assert evaluate(when("load", rises=2, scope="most"), context.at(CALM, N - 1), unit).holds
