"""Next steps as they are pasted: no word is left to fill in."""

from __future__ import annotations

import re

import pytest

from inferdoc import diagnose, open_source
from inferdoc.judging.api import Options
from tests.contract.test_printed_commands import INCIDENTS
from tests.judging.frames import catalogue
from tests.sampling import sampled

PLACEHOLDER = re.compile(r"\b(?:NODE|POD|NAME|NAMESPACE|EPP|FILE|PROMETHEUS|TODO)\b|[{}]|<\w[^>]*>|--replicas=N\b")
IN_SHELL = re.compile(r"\$\(kubectl[^$]*\)")
MORE = ("autoscaler-oscillation", "cold-start-lag", "config-regression", "interconnect-degraded", "kv-pool-shrunk")


@pytest.mark.parametrize("incident", [*sampled(INCIDENTS, 3), *MORE])
def test_steps_of_an_incident_are_filled_in(incident, simulated):
    made = simulated.of(incident)
    source = open_source(store=made.store)
    answer = diagnose(source, since="1h", options=Options(catalogue=catalogue()))
    source.close()
    steps = [(f.id, step) for f in answer.findings for step in f.next_steps]
    assert steps
    for cause, step in steps:
        for text in filter(None, (step.do, step.why, step.cost, step.undo, step.command)):
            assert not PLACEHOLDER.search(IN_SHELL.sub("", text)), (cause, text)
        if step.command and "kubectl" in step.command:
            assert "-n sim" in step.command or "kubectl cordon" in step.command or "kubectl drain" in step.command
        asked = "get pod " in (step.command or "") and "$(" in (step.command or "")
        assert not asked, f"kube-state-metrics tells it: {step.command}"
