"""Rules over a recording, by promtool itself."""

from __future__ import annotations

import pytest

from inferdoc.backtest.replay import RuleSet, replay
from inferdoc.errors import InferdocError
from inferdoc.generate import promtool
from tests.backtest.conftest import DOWN, INTERVAL, START
from tests.generate.conftest import needs_promtool

pytestmark = [pytest.mark.live, needs_promtool]

FIRST_DOWN = START + INTERVAL * DOWN[0]
LAST_DOWN = START + INTERVAL * DOWN[-1]


def test_waits_hold_before_and_after(recording, rules):
    """`for` from the first evaluation that is down, `keep_firing_for` from the last, by a recorded series."""
    (down,) = (f for f in replay(rules, recording) if f.alert == "Down")
    assert down.labels["pod"] == "b"
    assert down.begin == FIRST_DOWN + 60
    assert LAST_DOWN + 90 <= down.end <= LAST_DOWN + 135


def test_what_a_scrape_no_longer_brings_is_gone_at_once(recording, rules):
    (gone,) = (f for f in replay(rules, recording) if f.alert == "Gone")
    assert gone.begin == FIRST_DOWN
    assert gone.end <= LAST_DOWN + 30


def test_nothing_is_evaluated_after_the_end_asked_for(recording, rules):
    assert [f.alert for f in replay(rules, recording, until=FIRST_DOWN + 30)] == ["Gone"]


def test_rules_that_promtool_refuses_are_no_quiet_recording(recording, tmp_path):
    path = tmp_path / "wrong.yaml"
    path.write_text('groups: [{name: a, rules: [{alert: A, expr: "sum("}]}]\n', "utf-8")
    with pytest.raises(InferdocError, match="promtool refuses"):
        replay(RuleSet("wrong", (path,)), recording)


def test_a_promtool_that_is_killed_is_no_quiet_recording(recording, rules, monkeypatch):
    monkeypatch.setattr(promtool, "output_of_test", lambda path: f"Unit Testing:  {path}\n")
    with pytest.raises(InferdocError, match="was killed before it finished"):
        replay(rules, recording)


def test_a_file_that_holds_no_rules_says_so(recording, tmp_path):
    path = tmp_path / "list.yaml"
    path.write_text("rules: []\n", "utf-8")
    with pytest.raises(InferdocError, match="`groups` is missing"):
        replay(RuleSet("list", (path,)), recording)
