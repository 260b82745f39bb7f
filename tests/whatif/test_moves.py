"""What counts as a move: of like draws, and beyond what chance or a guess undoes."""

from __future__ import annotations

import numpy as np
import pytest

from inferdoc.capacity.step_time import DRAFT_COST, DRAFT_HEAD_COSTS
from inferdoc.simulate.scenario import StepParts
from inferdoc.whatif.changes import ChangedPool
from inferdoc.whatif.predict import DRAWS, QUANTITIES, STUDENT, move_of

TTFT = next(each for each in QUANTITIES if each.name == "ttft_p99")
CHANCE = STUDENT / 7**0.5
NOW = np.array([0.2, 0.3, 0.25, 0.4, 0.22, 0.27, 0.33])


@pytest.mark.parametrize(("factor", "move"), [(0.9, "better"), (1.1, "worse"), (1.03, "same"), (0.97, "same")])
def test_what_each_draw_moves_by_counts_however_much_draws_differ(factor, move):
    for chance in (0.0, CHANCE):
        assert move_of(TTFT, NOW, NOW * factor, chance) == move


def test_a_move_that_chance_undoes_is_none_for_sure():
    there_and_back = NOW * np.array([1.3, 0.8, 1.1, 1.25, 0.85, 1.3, 0.75])
    assert move_of(TTFT, NOW, there_and_back) == "worse"
    assert move_of(TTFT, NOW, there_and_back, CHANCE) == "same"
    assert move_of(TTFT, NOW, NOW * 3 * np.array([1.3, 0.8, 1.1, 1.25, 0.85, 1.3, 0.75]), CHANCE) == "worse"


def test_nothing_left_is_a_move_and_nothing_twice_is_none():
    assert move_of(QUANTITIES[4], NOW, NOW * 0, CHANCE) == "worse"
    assert move_of(QUANTITIES[4], NOW * 0, NOW * 0, CHANCE) == "same"


def test_what_a_drafted_token_costs_is_drawn_over_the_range_of_draft_heads():
    """Four drafted tokens that are part of the measured steps, and other ones asked for."""
    measured = StepParts(weights=0.02, kv_token=1e-7, token=1e-4, fixed=0.001)
    change = ChangedPool(None, {"weights": 0.5}, (), drafts_before=4)  # type: ignore[arg-type]
    costs = [change.changed(measured, draw).draft for draw in DRAWS]
    assert sorted(costs)[len(costs) // 2] == pytest.approx(DRAFT_COST) == change.changed(measured).draft
    low, high = DRAFT_HEAD_COSTS
    assert low < min(costs) < 1.2 * low and 0.85 * high < max(costs) < high
    ends = [change.changed(measured, draw) for draw in (0.0, 1.0)]
    assert [each.draft for each in ends] == pytest.approx(DRAFT_HEAD_COSTS)
    for each in ends:
        assert each.weights == pytest.approx(0.01 / (1 + 4 * each.draft)) and each.fixed == 0.001
    kept = ChangedPool(None, {"weights": 0.5}, ())  # type: ignore[arg-type]
    assert (kept.changed(measured, 0.9).weights, kept.changed(measured, 0.9).draft) == (0.01, measured.draft)
