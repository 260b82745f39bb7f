"""How a quantity left its baseline: at once or by degrees, and how often."""

from __future__ import annotations

import numpy as np
import pytest

from inferdoc.judging.deviation import course_of

WINDOW, STEP_S, FIRST = 5, 15.0, 40
CALM = np.full(FIRST, 10.0)


def course(*after: np.ndarray):
    return course_of(np.concatenate([CALM, *after]), (10.0, 30.0), FIRST, WINDOW, STEP_S)


@pytest.mark.parametrize(
    ("climb", "shape", "words"),
    [
        (np.full(20, 30.0), "step", ""),
        (np.concatenate([np.linspace(10, 30, WINDOW), np.full(20, 30.0)]), "step", ""),
        (np.linspace(10, 30, 61), "drift", ", over 9 min"),
        (np.concatenate([np.linspace(10, 30, 61), np.full(20, np.nan)]), "drift", ", over 9 min"),
    ],
    ids=["at once", "blurred by a rate window", "by degrees", "gaps"],
)
def test_the_shape_of_a_move(climb, shape, words):
    told = course(climb)
    assert told.shape == shape and told.words == words and told.times == 1


def test_a_drift_takes_as_long_as_most_of_the_way():
    assert course(np.linspace(10, 30, 61)).seconds == pytest.approx(0.6 * 60 * STEP_S, abs=2 * STEP_S)


def test_what_comes_again_is_counted():
    up, down = np.full(8, 30.0), np.full(8, 10.0)
    assert course(up, down, up, down, up).words == ", 3 times"
    assert course(up, down, up).words == "", "two may be one with a gap"
    assert course(up, down[:3], up, down[:3], up).times == 1, "a rate window blurs them into one"


def test_a_fall_is_a_move_like_a_rise():
    values = np.concatenate([np.full(FIRST, 30.0), np.linspace(30, 10, 61)])
    assert course_of(values, (30.0, 10.0), FIRST, WINDOW, STEP_S).shape == "drift"


@pytest.mark.parametrize("way", [(10.0, 10.0), (np.nan, 30.0), (10.0, np.inf)], ids=["still", "nothing", "endless"])
def test_no_way_has_no_course(way):
    assert course_of(CALM, way, FIRST, WINDOW, STEP_S) is None


def test_what_is_not_reached_after_the_onset_has_no_course():
    assert course_of(np.full(80, 10.0), (10.0, 30.0), FIRST, WINDOW, STEP_S) is None
