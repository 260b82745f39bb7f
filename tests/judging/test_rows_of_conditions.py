"""Conditions on many units at once say of each unit what they say of it alone."""

from __future__ import annotations

import numpy as np
import pytest

from inferdoc.judging.conditions import evaluate, holding_until
from inferdoc.judging.conditions.registry import AT_ONCE
from inferdoc.judging.context import UnitQuery
from tests.judging.frames import CALM, N, scene, when

ASKED = {
    "above": when("load", above=30),
    "rises": when("load", rises=1.5),
    "rises on average": when("load", rises=1.2, average=True),
    "stalls": when("load", stalls="queue"),
    "differs": when("load", differs=1.6),
    "differs downwards": when("load", differs=0.6),
    "differs on average": when("load", differs=1.2, average=True),
}


def fleet(seed: int) -> dict[str, dict[str, np.ndarray]]:
    """Forty pods, some of which are beyond the others, or stand still, from some time on; some have no series."""
    rng = np.random.default_rng(seed)
    load = 20 * rng.lognormal(0, 0.2, (40, N))
    for pod in range(0, 40, 4):
        begin = int(rng.integers(CALM // 2, N))
        load[pod, begin:] *= rng.choice([0.0, 0.4, 2.5])
    load[rng.random(load.shape) < 0.05] = np.nan
    rows = {f"p{pod}": row for pod, row in enumerate(load) if pod % 13}
    return {"load": rows, "queue": {f"p{pod}": rng.integers(0, 9, N).astype(float) + 1 for pod in range(1, 40)}}


@pytest.mark.parametrize("condition", ASKED.values(), ids=ASKED.keys())
@pytest.mark.parametrize("seed", range(2))
def test_many_units_at_once(condition, seed):
    rows = fleet(seed)
    context = scene(rows)
    splits = [None, CALM, CALM + 10]
    asks = [UnitQuery(unit, splits[n % 3], N - 1 - n % 5) for n, unit in enumerate(context.view.units)]
    together = AT_ONCE[type(condition)](condition, context, asks)
    alone = scene(rows)
    for ask, outcome in zip(asks, together, strict=True):
        unit = next(one for one in alone.view.units if one.name == ask.unit.name)
        (own,) = AT_ONCE[type(condition)](condition, alone, [UnitQuery(unit, ask.split, ask.last)])
        assert outcome == own
    assert len({outcome.holds for outcome in together}) >= 2


@pytest.mark.parametrize("condition", [when("load", above=14), when("load", rises=1.5)], ids=["above", "rises"])
def test_figures_alone_say_until_when_a_condition_holds_as_outcomes_do(condition):
    context = scene(fleet(2))
    units, lasts = holding_until(condition, context)
    assert units == [unit for unit in context.view.units if context.view.get(unit, "load") is not None]
    outcomes = [evaluate(condition, context, unit) for unit in units]
    assert lasts.tolist() == [one.last if one.holds else -1 for one in outcomes]
    assert len(set(lasts.tolist())) > 1


@pytest.mark.parametrize("name", ["stalls", "differs"])
def test_of_other_kinds_figures_alone_are_not_told(name):
    assert holding_until(ASKED[name], scene(fleet(0))) is None
