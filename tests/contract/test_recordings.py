"""Every recording of a real engine under a real fault is diagnosed right, and healthy ones are left in peace."""

from __future__ import annotations

import json

import pytest

from inferdoc import diagnose, open_source
from inferdoc.catalogue.load import load_catalogue
from inferdoc.judging.model import Diagnosis
from tests.cli.command import call
from tests.conftest import recording_names
from tests.contract.labels import LABELS, Label, seconds

CLEAR = [label for label in LABELS if not label.control and not label.edge_accepts]
DEBATABLE = [label for label in LABELS if label.edge_accepts]
CONTROLS = [label for label in LABELS if label.control and not label.edge_accepts]


def named(labels):
    return pytest.mark.parametrize("label", labels, ids=[label.name for label in labels])


@pytest.fixture(scope="module")
def answer_of(store_of):
    """Label -> its diagnosis from the embedded store."""
    answers: dict[str, Diagnosis] = {}

    def of(label: Label) -> Diagnosis:
        if label.name not in answers:
            source = open_source(store=store_of(label.name))
            answers[label.name] = diagnose(source, since=label.since)
            source.close()
        return answers[label.name]

    return of


def test_every_recording_has_a_label():
    assert sorted(label.name for label in LABELS) == recording_names()
    assert len(CLEAR) >= 12 and len(CONTROLS) >= 6


@named(CLEAR)
def test_a_fault_is_named_first(label, answer_of):
    answer = answer_of(label)
    assert answer.findings, answer.summary
    first = answer.findings[0]
    assert first.id in label.expected
    pods = set(first.scope.pods)
    assert pods and pods <= label.affected
    assert not pods & label.healthy
    assert len(pods) <= first.scope.of_pods
    label.assert_onset(first)


@named(CLEAR)
def test_one_fault_is_one_finding(label, answer_of):
    findings = answer_of(label).findings
    assert [f.id for f in findings] == [findings[0].id], "effects and look-alikes belong under the root or out"


@named(DEBATABLE)
def test_a_debatable_call_is_one_of_those_that_can_be_argued(label, answer_of):
    findings = answer_of(label).findings
    assert (findings[0].id if findings else "none") in label.edge_accepts
    if findings and not label.control:
        assert set(findings[0].scope.pods) <= label.affected
        label.assert_onset(findings[0])


@named(CONTROLS)
def test_a_healthy_engine_is_left_in_peace(label, answer_of):
    answer = answer_of(label)
    assert answer.verdict == "healthy"
    assert answer.findings == []


@named(LABELS)
def test_what_stands_in_every_diagnosis(label, answer_of):
    answer = answer_of(label)
    assert answer.coverage.pods == len(label.affected | label.healthy)
    assert answer.coverage.signals_present
    assert not set(answer.coverage.signals_present) & set(answer.coverage.signals_absent)
    worst = {f.severity for f in answer.findings}
    assert answer.verdict == ("critical" if "critical" in worst else "degraded" if worst else "healthy")
    recipes = load_catalogue().recipes
    for finding in answer.findings:
        recipe = recipes[finding.id]
        assert finding.title == recipe.title and finding.phase == recipe.phase
        assert {e.role for e in finding.evidence} >= {"harm"}
        driven = [step for step in finding.next_steps if step.do.startswith("For what set it off (")]
        own = [step for step in finding.next_steps if step not in driven]
        assert 0 < len(own) <= len(recipe.next_steps) and len(driven) <= 1
        assert all(f"({finding.change.cause})" in step.do for step in driven if finding.change and finding.change.cause)
        words = [text for step in finding.next_steps for text in (step.do, step.why)]
        assert not any("{" in text for text in words), "a number that nobody worked out"
        assert 0 < finding.score <= 1
        assert finding.onset_uncertainty_seconds > 0
        assert finding.ongoing is (finding.ended is None)
        assert seconds(answer.window.from_) <= seconds(finding.onset) <= seconds(answer.window.until)
        assert {r.id for r in finding.ruled_out} <= set(recipe.look_alikes)
        assert not {r.id for r in finding.ruled_out} & {finding.id, *finding.effects}
        assert all(r.because for r in finding.ruled_out)
    assert len({n.id for n in answer.not_judged}) == len(answer.not_judged)
    for item in answer.not_judged:
        assert item.missing and item.enable
        assert item.id not in {f.id for f in answer.findings}


def test_a_planned_restart_is_a_change_and_no_finding(answer_of):
    (label,) = (label for label in LABELS if label.name == "control-planned-restart")
    kinds = [change.kind for change in answer_of(label).changes]
    assert kinds == ["outage", "restart"]
    assert answer_of(label).coverage.gaps


def test_an_ended_window_changes_nothing_that_came_before(store_of):
    """A minute after the onset the same cause is named as at the end."""
    (label,) = (label for label in LABELS if label.name == "kv-preemption-thrash")
    source = open_source(store=store_of(label.name))
    answer = diagnose(source, since=label.since, until=label.onset + 60)
    assert [f.id for f in answer.findings] == ["kv-preemption-thrash"]
    label.assert_onset(answer.findings[0])
    before = diagnose(source, since=label.since, until=label.onset)
    assert before.findings == [] and before.verdict == "unknown", "a minute without a past is no evidence of health"
    source.close()


def test_through_the_command_line(store_of):
    (label,) = (label for label in LABELS if label.name == "slow-replica")
    words = ("diagnose", "--store", store_of(label.name), "--since", label.since, "--until", "latest", "-o", "json")
    done = call(*words)
    assert done.code == 1 and done.err == ""
    first = json.loads(done.out)["findings"][0]
    assert first["id"] in label.expected
    assert set(first["scope"]["pods"]) == label.affected
    quiet = call("diagnose", "--store", store_of("control-steady"), "--until", "latest", "-o", "json")
    assert quiet.code == 0 and json.loads(quiet.out)["findings"] == []
