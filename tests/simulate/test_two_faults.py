"""Two faults at once are two roots, in one pool and in two; a fault and what follows from it are one."""

from __future__ import annotations

from pathlib import Path

import pytest

from inferdoc import diagnose, open_source
from inferdoc.simulate.output import write_store
from inferdoc.simulate.scenario_files import load_scenario, read_scenario
from inferdoc.simulate.scrape import simulate
from inferdoc.store import Store

FLEET = """
id: two-faults
title: Two faults
expect: {cause: engine-down}
pools:
  - {name: fast, pods: 4, tier: h100-80, model: llama-3.1-8b, flags: {max_seqs: 16}}
  - {name: slow, pods: 3, tier: a100-80, model: llama-3.1-8b, flags: {max_seqs: 16}}
router: {policy: round-robin}
traffic:
  - {rate: 9, prompt: {median: 700, sigma: 0.4, max: 4000}, output: {median: 150, sigma: 0.4, max: 800}}
faults:
  - {kind: kill, at: 12m, pods: [fast-0]}
  - {kind: clock, at: 13m, pods: [OTHER], clock: 0.45, bandwidth: 0.5, reasons: 64}
duration: 22m
scrape: 10s
seed: 3
"""


def found(scenario, folder: Path):
    path = folder / "fleet.db"
    with Store.open(path, "w") as store:
        write_store(simulate(scenario), store)
    answer = diagnose(open_source(store=path), from_=scenario.start, until=scenario.start + scenario.duration)
    return {finding.id: finding for finding in answer.findings}


@pytest.mark.parametrize("other", ["slow-1", "fast-2"])
def test_faults_of_two_pods_are_two_roots(other, tmp_path):
    findings = found(read_scenario(FLEET.replace("OTHER", other), "two"), tmp_path)
    assert findings.keys() >= {"engine-down"}
    assert findings["engine-down"].scope.pods == ["fast-0"]
    slow = next(f for name, f in findings.items() if name in ("slow-gpu", "gpu-clock-throttle"))
    assert slow.scope.pods == [other]
    assert len(findings) == 2, "nothing besides the two"


def test_a_fault_and_its_consequences_are_one_root(tmp_path):
    findings = found(load_scenario("kv-transfer-backlog"), tmp_path)
    assert list(findings) == ["kv-transfer-backlog"]
