"""The history before a window: what it holds besides a baseline, and what a newborn has of its predecessor."""

from __future__ import annotations

import numpy as np
import pytest

from inferdoc.fleet.lineage import divide, trace
from inferdoc.fleet.members import resolve
from inferdoc.judging.clock import Clock, Rule
from inferdoc.judging.deviation import find, without_past
from inferdoc.judging.view import make_view
from tests.judging.frames import STEP_S, WINDOW, N, catalogue, frame_of

RISE = Rule(1.5)
BEGIN = 300
LENGTH = 400
CLOCK = Clock(STEP_S, STEP_S, WINDOW, begin=BEGIN)


def steady(seed: int = 0) -> np.ndarray:
    return 10.0 + np.random.default_rng(seed).normal(0, 0.3, LENGTH)


def test_an_incident_of_the_past_is_neither_a_finding_nor_a_baseline():
    values = steady()
    values[100:140] = 40.0
    values[330:] = 25.0
    kept = without_past(values[np.newaxis], RISE, CLOCK)[0]
    assert np.isnan(kept[100:140]).all() and np.isfinite(kept[:100]).all()
    deviation = find(kept, RISE, CLOCK)
    assert deviation is not None and deviation.start == 330
    assert find(values, RISE, CLOCK).start == 100, "what the history alone would have said"


def test_what_goes_on_into_the_window_stays():
    values = steady()
    values[280:] = 25.0
    np.testing.assert_array_equal(without_past(values[np.newaxis], RISE, CLOCK)[0], values)


def test_what_a_history_shows_again_and_again_is_how_the_series_is():
    values = steady()
    for begin in range(20, 280, 40):
        values[begin : begin + 8] = 40.0
    np.testing.assert_array_equal(without_past(values[np.newaxis], RISE, CLOCK)[0], values)


@pytest.mark.parametrize(("last", "left_out"), [(179, 100), (180, 0)])
def test_bursts_for_more_than_a_third_of_a_history_are_how_the_series_is(last, left_out):
    """Between bursts so close together there is no calm: they count as one, with what lies between."""
    values = steady()
    for begin in (80, 100, 120, 140, 160):
        values[begin : begin + 4] = 40.0
    values[last - 3 : last + 1] = 40.0
    assert np.isnan(without_past(values[np.newaxis], RISE, CLOCK)[0]).sum() == left_out


def test_a_newborn_goes_on_where_its_predecessor_ended():
    old, new = np.full(N, np.nan), np.full(N, np.nan)
    old[:45], new[40:] = 1.0, 2.0
    frame = frame_of({"running": {"a-0": old, "b-0": new}, "load": {"a-0": old * 5, "b-0": new * 5}})
    everyone = resolve(frame, catalogue().tiers)
    lineage = trace(frame, everyone)
    view = make_view(frame, divide(everyone, lineage, 0), lineage=lineage)
    (unit,) = view.units
    assert unit.name == "b-0"
    np.testing.assert_array_equal(view.get(unit, "load").values, [5.0] * 40 + [10.0] * (N - 40))


def test_a_newborn_goes_on_where_its_predecessor_ended_behind_a_chosen_baseline():
    """The steps of a life are those of the window; the values have a baseline in front."""
    old, new = np.full(N, np.nan), np.full(N, np.nan)
    old[:45], new[40:] = 1.0, 2.0
    frame = frame_of({"running": {"a-0": old, "b-0": new}, "load": {"a-0": old * 5, "b-0": new * 5}})
    earlier = frame_of({name: {"a-0": np.full(30, 7.0)} for name in ("running", "load")})
    frame.prepend(earlier)
    everyone = resolve(frame, catalogue().tiers)
    lineage = trace(frame, everyone)
    view = make_view(frame, divide(everyone, lineage, 0), earlier.grid, lineage=lineage)
    (unit,) = view.units
    assert lineage.lives[unit.member.key].born == 40
    np.testing.assert_array_equal(view.get(unit, "load").values, [7.0] * 30 + [5.0] * 40 + [10.0] * (N - 40))
