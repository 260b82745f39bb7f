"""Unexplained impact that began with a rollout is the rollout's, and none other is."""

from __future__ import annotations

import numpy as np
import pytest

from inferdoc.fleet.lineage import divide, trace
from inferdoc.fleet.members import resolve
from inferdoc.judging.context import Context
from inferdoc.judging.fold import Cause
from inferdoc.judging.match import Match
from inferdoc.judging.released import blame_rollouts
from inferdoc.judging.view import make_view
from tests.judging.frames import CLOCK, N, catalogue, frame_of

BORN = 45
OLD, NEW = "chat-q82ljspm6-wqht2", "chat-5gkw5hnzl-gsr2f"


def rolled_out(new: str = NEW, arrivals: float = 1.0) -> Context:
    """A pod that gave its place to another; requests arrive at another rate from then on."""
    before, after = np.full(N, np.nan), np.full(N, np.nan)
    before[:BORN], after[BORN:] = 2.0, 2.0
    rows = {"running": {OLD: before, new: after}, "request_rate": {OLD: before, new: after * arrivals}}
    frame = frame_of(rows)
    everyone = resolve(frame, catalogue().tiers)
    lineage = trace(frame, everyone)
    view = make_view(frame, divide(everyone, lineage, 0), signals=catalogue().signals, lineage=lineage)
    return Context(view, catalogue().signals, catalogue().tiers, CLOCK)


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


def test_a_cause_that_is_disabled_is_not_named():
    recipes = {name: recipe for name, recipe in catalogue().recipes.items() if name != "config-regression"}
    assert verdict(rolled_out(), BORN + 2, recipes) == "unexplained-anomaly"
