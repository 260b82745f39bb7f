"""What an alert prints, run as it stands: the answer holds the finding that the alert belongs to."""

from __future__ import annotations

import json
import shlex

import pytest

from inferdoc.catalogue.load import load_catalogue
from inferdoc.generate.cause_rules import alert_name, cause_rule
from inferdoc.generate.links import GeneratedLinks
from inferdoc.generate.recorded import recorded
from inferdoc.simulate.hardware import model
from inferdoc.times import length_of
from inferdoc_dev.rule_tests.templating import expand
from tests.cli.command import call
from tests.sampling import sampled

EVALUATED_SECONDS = 120
INCIDENTS = (
    "admission-shedding",
    "batch-cap-reached",
    "cpu-starvation",
    "demand-beyond-capacity",
    "engine-down",
    "engine-hung",
    "engine-oom",
    "gpu-clock-throttle",
    "gpu-ecc-degradation",
    "gpu-lost",
    "kv-capacity-bound",
    "kv-handshake-failure",
    "kv-lease-expiry",
    "kv-preemption-thrash",
    "kv-transfer-backlog",
    "lora-thrash",
    "prefix-unstable-prompt",
    "router-overloaded",
    "routing-imbalance",
    "slow-gpu",
    "spec-acceptance-decay",
)


@pytest.fixture(scope="module")
def rules():
    catalogue = load_catalogue()
    rendering = recorded(catalogue)
    of_causes = (cause_rule(r, catalogue, rendering, GeneratedLinks()) for r in catalogue.recipes.values())
    return {rule.name: rule for rule in of_causes if not isinstance(rule, str)}


@pytest.mark.parametrize("incident", sampled(INCIDENTS, 5))
def test_the_command_of_an_alert_gives_its_finding(incident, rules, simulated):
    made = simulated.of(incident)
    scenario, rule = made.scenario, rules[alert_name(incident)]
    pool = scenario.pools[0]
    labels = {"namespace": scenario.namespace, "model_name": model(pool.model).name}
    labels |= {"pod": scenario.expect.pods[0]} if scenario.expect.pods else {}
    fired = scenario.start + scenario.expect.onset + length_of(rule.for_) + EVALUATED_SECONDS
    kept = {name: value for name, value in labels.items() if name in rule.by}
    command = expand(rule.annotations["diagnose_command"], kept, 1.0, round(fired))
    assert all(f"'{value}'" in command for value in kept.values())
    program, name, option, server, *words = shlex.split(command)
    assert (program, name, option, server) == ("inferdoc", "diagnose", "--prometheus", ""), "promtool has no address"
    done = call(name, *words, "--store", made.store, "-o", "json")
    answer = json.loads(done.out)
    assert done.code == 1, (done.err, answer["summary"])
    told = {name for f in answer["findings"] for name in (f["id"], *f["effects"], (f["change"] or {}).get("cause"))}
    assert {incident, *scenario.expect.accepts} & told, (command, answer["summary"], answer["focus"])
