"""Unexplained impact that began with a rollout is the rollout's, and none other is."""

from __future__ import annotations

import numpy as np
import pytest

from inferdoc.fleet.lineage import divide, trace
from inferdoc.fleet.members import resolve
from inferdoc.judging.context import Context, Outcome
from inferdoc.judging.fold import Cause
from inferdoc.judging.released import blame_rollouts
from inferdoc.judging.verdict import Evidence, Match
from inferdoc.judging.view import make_view
from inferdoc.source.frame import SignalFrame
from tests.judging.frames import CLOCK, N, catalogue, frame_of

BORN = 45
OLD, NEW = "chat-q82ljspm6-wqht2", "chat-5gkw5hnzl-gsr2f"


def context_of(frame: SignalFrame) -> Context:
    everyone = resolve(frame, catalogue().tiers)
    lineage = trace(frame, everyone)
    view = make_view(frame, divide(everyone, lineage, 0), signals=catalogue().signals, lineage=lineage)
    return Context(view, catalogue().signals, catalogue().tiers, CLOCK)


def rolled_out(new: str = NEW, arrivals: float = 1.0) -> Context:
    """A pod that gave its place to another; requests arrive at another rate from then on."""
    before, after = np.full(N, np.nan), np.full(N, np.nan)
    before[:BORN], after[BORN:] = 2.0, 2.0
    rows = {"running": {OLD: before, new: after}, "request_rate": {OLD: before, new: after * arrivals}}
    return context_of(frame_of(rows))


def unexplained(context: Context, onset: int) -> Cause:
    (unit,) = context.view.units
    recipe = catalogue().recipes["unexplained-anomaly"]
    return Cause(recipe, unit.member.pool, [Match(recipe, unit, onset, N - 1, False, [], "likely")])


def verdict(context: Context, onset: int, recipes=None) -> str:
    (root,) = blame_rollouts([unexplained(context, onset)], context, recipes or catalogue().recipes)
    return root.recipe.id


def test_impact_that_begins_with_new_pods_is_of_what_the_rollout_changed():
    context = rolled_out()
    (root,) = blame_rollouts([unexplained(context, BORN + 2)], context, catalogue().recipes)
    assert root.recipe.id == "config-regression" and root.best.certainty == "possible"
    assert "from q82ljspm6 to 5gkw5hnzl" in root.best.evidence[0].outcome.text


def test_impact_from_before_is_not():
    assert verdict(rolled_out(), BORN - 20) == "unexplained-anomaly"


def test_a_pod_of_the_same_template_is_a_restart():
    assert verdict(rolled_out("chat-q82ljspm6-bpjh6"), BORN + 2) == "unexplained-anomaly"


@pytest.mark.parametrize(("arrivals", "expected"), [(1.1, "config-regression"), (2.0, "unexplained-anomaly")])
def test_more_load_at_the_same_time_explains_as_much(arrivals: float, expected: str):
    assert verdict(rolled_out(arrivals=arrivals), BORN) == expected


def test_a_template_whose_other_pod_is_well_is_not_to_blame():
    before, after = np.full(N, np.nan), np.full(N, np.nan)
    before[:BORN], after[BORN:] = 2.0, 2.0
    old, new = (OLD, "chat-q82ljspm6-bpjh6"), (NEW, "chat-5gkw5hnzl-bpjh6")
    pods = {**dict.fromkeys(old, before), **dict.fromkeys(new, after)}
    context = context_of(frame_of({"running": pods, "request_rate": pods}))
    recipe, hurt = catalogue().recipes["unexplained-anomaly"], list(context.view.units)

    def named(units) -> str:
        matches = [Match(recipe, unit, BORN + 2, N - 1, False, [], "likely") for unit in units]
        return blame_rollouts([Cause(recipe, hurt[0].member.pool, matches)], context, catalogue().recipes)[0].recipe.id

    assert len(hurt) == 2
    assert (named(hurt), named(hurt[:1])) == ("config-regression", "unexplained-anomaly")


def test_a_cause_that_is_disabled_is_not_named():
    recipes = {name: recipe for name, recipe in catalogue().recipes.items() if name != "config-regression"}
    assert verdict(rolled_out(), BORN + 2, recipes) == "unexplained-anomaly"


# ---- names that tell no template -------------------------------------------------------------------------------------


def begun(pods: dict[str, int], shown: tuple[str, ...] = ()) -> Context:
    """Pods of one pool that were down for a while until a step and answer again; 0: all the time."""
    rows: dict[str, dict[str, np.ndarray]] = {"running": {}, "target_up": {}, **{name: {} for name in shown}}
    for pod, again in pods.items():
        up = np.ones(N)
        up[max(0, again - 5) : again] = 0.0
        rows["running"][pod], rows["target_up"][pod] = np.full(N, 2.0), up
        for name in shown:
            rows[name][pod] = np.zeros(N)
    return context_of(frame_of(rows))


def hurt(context: Context, onset: int) -> str:
    """The cause of impact on the first of the pods that nothing explains."""
    unit, recipe = context.view.units[0], catalogue().recipes["unexplained-anomaly"]
    cause = Cause(recipe, unit.member.pool, [Match(recipe, unit, onset, N - 1, False, [], "likely")])
    (root,) = blame_rollouts([cause], context, catalogue().recipes)
    assert root.recipe.id != "config-regression" or root.best.certainty == "possible"
    return root.recipe.id


@pytest.mark.parametrize(
    ("pods", "expected"),
    [
        ({"chat-0": BORN}, "config-regression"),
        ({"chat-0": BORN, "chat-1": BORN + 10, "chat-2": 0}, "config-regression"),
        ({"10.0.0.1:8000": BORN, "10.0.0.2:8000": BORN - 10}, "config-regression"),
        ({"chat-0": BORN, "chat-1": 0, "chat-2": 0}, "unexplained-anomaly"),
        ({"chat-0": 0, "chat-1": BORN, "chat-2": BORN}, "unexplained-anomaly"),
        ({OLD: BORN}, "unexplained-anomaly"),
    ],
    ids=["alone", "most", "addresses", "one-of-three", "not-itself", "a-template-is-known"],
)
def test_a_pool_that_was_started_again_has_what_it_was_started_with(pods: dict[str, int], expected: str):
    assert hurt(begun(pods), BORN + 2) == expected


def test_a_pool_that_shows_what_it_was_started_with_did_not_change():
    assert hurt(begun({"chat-0": BORN}, ("settings_changed", "image_changed")), BORN + 2) == "unexplained-anomaly"


def test_impact_from_before_the_pool_was_started_again_is_not_of_that():
    assert hurt(begun({"chat-0": BORN}), BORN - 20) == "unexplained-anomaly"


# ---- a machine that only the work of its pod accuses ----------------------------------------------------------------


def slowed(context: Context, onset: int, *signals: str) -> str:
    """The cause of a pod that is slower than its peers from a step on; signals: what the evidence is about."""
    unit = context.view.units[0]
    recipe = catalogue().recipes["slow-gpu"]
    evidence = [Evidence("symptom", Outcome(True, name, name, unit.name, first=onset)) for name in signals]
    cause = Cause(recipe, unit.member.pool, [Match(recipe, unit, onset, N - 1, False, evidence, "likely")])
    (root,) = blame_rollouts([cause], context, catalogue().recipes)
    return root.recipe.id


def restarted(shown: tuple[str, ...] = (), down: int = 5) -> Context:
    """A pod whose scrapes fail until BORN and succeed again, with the signals of what it was started with."""
    up = np.ones(N)
    up[BORN - down : BORN] = 0.0
    rows = {"running": np.full(N, 2.0), "target_up": up, **dict.fromkeys(shown, np.zeros(N))}
    return context_of(frame_of({name: {"vllm-0": row} for name, row in rows.items()}))


@pytest.mark.parametrize("context", [rolled_out(), restarted()])
def test_a_pod_that_is_slow_from_its_first_request_on_was_started_so(context: Context):
    assert slowed(context, BORN + 1, "itl_mean") == "config-regression"


@pytest.mark.parametrize("context", [rolled_out(), restarted()])
def test_a_pod_that_was_well_for_a_while_became_slow(context: Context):
    assert slowed(context, BORN + 15, "itl_mean") == "slow-gpu"


def test_a_counter_of_the_device_accuses_the_machine():
    assert slowed(restarted(), BORN + 1, "itl_mean", "sm_clock") == "slow-gpu"


def test_what_is_shown_to_be_as_it_was_did_not_change():
    assert slowed(restarted(("settings_changed", "image_changed")), BORN + 1, "itl_mean") == "slow-gpu"
    assert slowed(restarted(("settings_changed",)), BORN + 1, "itl_mean") == "config-regression"


def test_a_scrape_or_two_that_fail_are_no_restart():
    assert slowed(restarted(down=2), BORN + 1, "itl_mean") == "slow-gpu"


def test_a_template_that_made_a_pod_that_is_well_is_not_to_blame():
    before, after = np.full(N, np.nan), np.full(N, np.nan)
    before[:BORN], after[BORN:] = 2.0, 2.0
    second = {"chat-q82ljspm6-zz4fq": before, "chat-5gkw5hnzl-h7tbv": after}
    context = context_of(frame_of({"running": {NEW: after, OLD: before, **second}}))
    assert slowed(context, BORN + 1, "itl_mean") == "slow-gpu"
