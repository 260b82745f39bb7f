"""Which alerts go out."""

from __future__ import annotations

import pytest

from inferdoc.backtest.replay import Firing
from inferdoc.backtest.score import read_notifying, sent
from inferdoc.errors import InferdocError

CONFIG = """\
inhibit_rules:
  - source_matchers: ['alertname="Down"', 'pod=~".+"']
    target_matchers: ['severity=~"warning|info"', 'pod=~".+"']
    equal: [namespace, pod, cluster]
"""


@pytest.fixture
def rules(tmp_path):
    path = tmp_path / "alertmanager.yml"
    path.write_text(CONFIG, "utf-8")
    return read_notifying(path)


def firing(alert: str, begin: float, end: float, pod: str = "a", severity: str = "warning") -> Firing:
    return Firing(alert, {"namespace": "x", "pod": pod, "severity": severity}, begin, end)


DOWN = firing("Down", 0, 600, severity="critical")


def test_an_effect_on_the_same_pod_is_held_back(rules):
    assert sent([DOWN, firing("Slow", 30, 300)], rules) == [DOWN]


def test_another_pod_and_another_severity_are_not(rules):
    others = [firing("Slow", 30, 300, pod="b"), firing("Hung", 30, 300, severity="critical")]
    assert sent([DOWN, *others], rules) == [DOWN, *others]


def test_what_outlasts_its_source_goes_out(rules):
    assert sent([firing("Down", 0, 60), firing("Slow", 0, 300)], rules)[-1].alert == "Slow"


def test_a_route_waits_for_causes_that_show_later(tmp_path):
    path = tmp_path / "alertmanager.yml"
    route = """route: {group_wait: 30s, routes: [{matchers: ['severity="warning"'], group_wait: 10m}]}"""
    path.write_text(f"{CONFIG}{route}\n", "utf-8")
    slow = firing("Slow", 0, 900)
    assert sent([firing("Down", 300, 900, severity="critical"), slow], read_notifying(path))[-1].alert == "Down"
    assert slow in sent([firing("Down", 630, 900), slow], read_notifying(path))


def test_what_comes_within_the_wait_of_a_group_holds_back(rules):
    """Alertmanager waits 30 s before it sends a group."""
    slow = firing("Slow", 0, 600)
    assert slow in sent([firing("Down", 60, 600), slow], rules)
    assert slow not in sent([firing("Down", 30, 600), slow], rules)


def test_a_label_that_both_lack_is_equal_and_presence_is_asked_for(rules):
    bare = Firing("Slow", {"namespace": "x", "severity": "warning"}, 30, 300)
    assert bare in sent([DOWN, bare], rules)


def test_a_matcher_that_cannot_be_read_is_named(tmp_path):
    path = tmp_path / "alertmanager.yml"
    path.write_text("inhibit_rules: [{source_matchers: ['a b'], target_matchers: [], equal: []}]\n", "utf-8")
    with pytest.raises(InferdocError, match="matcher 'a b'"):
        read_notifying(path)
