"""How the scoreboard counts an answer: by the labels, load changes as findings or as changes."""

from __future__ import annotations

import numpy as np
import pytest
import scoreboard_harm
from scoreboard_tables import Outcome, f1, missed_list, precision

from inferdoc_dev.incidents import CAUSES
from inferdoc_dev.incidents.generator import draw


def outcome(found: list[str], load_changes: list[str | None] | None = None, **fields: object) -> Outcome:
    """A load change whose label prefers the local limit that it meets."""
    given = {"cause": "demand", "accepts": ("other-limit",), "root": "limit", "harmful": True, **fields}
    behind = load_changes or [None] * len(found)
    return Outcome("demand", 1, found=found, hours=0.3, load_changes=behind, **given)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("found", "load_changes", "right", "preferred", "named"),
    [
        (["limit"], ["demand"], True, True, True),
        (["limit"], [None], True, False, False),
        (["demand"], [None], True, False, True),
        (["other-limit"], ["demand"], True, False, True),
        (["slow-gpu"], ["demand"], False, False, False),
        (["slow-gpu", "limit"], [None, "demand"], False, False, True),
        ([], [], False, False, False),
    ],
)
def test_a_load_change_is_named_as_a_finding_or_as_the_change_of_one_that_is_right(
    found, load_changes, right, preferred, named
):
    answer = outcome(found, load_changes)
    assert (answer.first_right, answer.first_preferred, answer.named()) == (right, preferred, named)


def test_without_a_root_the_cause_itself_is_preferred():
    assert outcome(["demand"], root=None).first_preferred
    assert not outcome(["other-limit"], ["demand"], root=None).first_preferred


def test_only_the_first_three_findings_count_as_the_top_three():
    late = outcome(["a", "b", "c", "limit"], [None, None, None, "demand"])
    assert late.named() and not late.named(3)


def test_what_a_label_accepts_is_no_false_finding_and_a_wrong_load_change_is_one():
    right, wrong = outcome(["limit"], ["demand"]), outcome(["slow-gpu"], ["prompts"])
    assert precision([right, wrong]) == {"limit": 1.0, "demand": 1.0, "slow-gpu": 0.0, "prompts": 0.0}


def test_a_load_change_that_the_scenario_set_going_is_no_false_claim():
    full = outcome(["cache-full"], ["demand"], cause="cache-full", root=None, accepts=(), traffic=("demand",))
    assert precision([full]) == {"cache-full": 1.0, "demand": 1.0}
    assert precision([outcome(["demand"], cause="cache-full", root=None, accepts=(), traffic=("demand",))]) == {
        "demand": 0.0
    }, "as the root it is"


def test_the_limit_alone_is_no_hit_of_its_load_change():
    hit, miss = outcome(["limit"], ["demand"]), outcome(["limit"])
    assert f1([hit, miss], 1.0) == pytest.approx(2 * 0.5 / 1.5)
    assert len(missed_list([hit, miss])) == 2, "one line and the empty one behind it"


def pages(seconds: list[float], count: float = 10.0) -> np.ndarray:
    """A page every 30 s with so many observations of so many seconds each."""
    return np.array([(30_000 * i, value * count, count) for i, value in enumerate(seconds)])


def test_harm_that_passes_shows_in_its_worst_two_minutes():
    rows = pages([1.0] * 10 + [3.0] * 5 + [1.0] * 15)
    assert scoreboard_harm._mean([rows]) == pytest.approx(40 / 30)
    assert scoreboard_harm._worst([rows]) == pytest.approx(3.0)
    assert scoreboard_harm._worst([pages([1.0] * 9), rows]) == pytest.approx(3.0), "of any pod"


def test_a_few_slow_answers_are_no_harm():
    few = pages([9.0] * 9, count=scoreboard_harm.MANY / 5 - 1)
    assert np.isnan(scoreboard_harm._worst([few])) and np.isnan(scoreboard_harm._worst([]))


def test_both_shapes_of_a_load_change_are_drawn():
    for cause in ("demand-beyond-capacity", "prompt-growth", "runaway-generation"):
        roots = {draw(cause, seed, CAUSES).expect.root for seed in range(20)}
        assert None in roots and len(roots) > 1, cause
