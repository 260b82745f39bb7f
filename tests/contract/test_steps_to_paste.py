"""Next steps as they are pasted: no word is left to fill in, no formula to work out, no mask to look up."""

from __future__ import annotations

import re

import pytest

from inferdoc import diagnose, open_source
from inferdoc.judging.api import Options
from inferdoc.judging.model import Diagnosis
from tests.contract.labels import LABELS
from tests.contract.test_printed_commands import INCIDENTS
from tests.judging.frames import catalogue
from tests.sampling import sampled
from tests.steps.test_steps import DELETES, FROM_POD, ROUTING, assert_printable

MORE = ("autoscaler-oscillation", "cold-start-lag", "config-regression", "interconnect-degraded", "kv-pool-shrunk")
CODE = re.compile(r"\b\d[\d.]* (?:bits|code)\b|Xid \d+(?! \()")
FAULTS = [label.name for label in LABELS if not label.control]
BY_LABEL = {label.name: label for label in LABELS}


def assert_steps_are_filled_in(answer: Diagnosis) -> None:
    for finding in answer.findings:
        assert finding.next_steps, finding.id
        for one in finding.next_steps:
            assert_printable(one, finding.id)
        commands = [one.command or "" for one in finding.next_steps]
        deleting = next((i for i, command in enumerate(commands) if DELETES.search(command)), len(commands))
        assert not any(FROM_POD.search(command) for command in commands[deleting + 1 :]), finding.id
        for item in finding.evidence:
            assert not CODE.search(item.statement), item.statement
            assert not re.search(r"-\d[\d.]*(?:/s| \w+/s)", item.statement), item.statement


@pytest.mark.parametrize("incident", [*sampled(INCIDENTS, 5), *MORE])
def test_steps_of_an_incident_are_filled_in(incident, simulated):
    made = simulated.of(incident)
    source = open_source(store=made.store)
    answer = diagnose(source, since="1h", options=Options(catalogue=catalogue()))
    source.close()
    assert answer.findings
    assert_steps_are_filled_in(answer)
    for step in (step for finding in answer.findings for step in finding.next_steps):
        if step.command and "kubectl" in step.command:
            assert "-n sim" in step.command or "kubectl cordon" in step.command or "kubectl drain" in step.command
        asked = "ownerReferences" in (step.command or "") or "nodeName" in (step.command or "")
        assert not asked, f"kube-state-metrics tells it: {step.command}"


@pytest.mark.parametrize("name", sampled(FAULTS, 3))
def test_steps_of_a_recording_are_filled_in(name, store_of):
    source = open_source(store=store_of(name))
    answer = diagnose(source, since=BY_LABEL[name].since, options=Options(catalogue=catalogue()))
    source.close()
    assert_steps_are_filled_in(answer)
    for finding in answer.findings:
        if finding.scope.of_pods == 1:
            assert not any(ROUTING.search(step.do) for step in finding.next_steps), finding.id
