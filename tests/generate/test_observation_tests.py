"""The tests of what rules are made of: nothing that a rule says is left without a case."""

from __future__ import annotations

import re

import pytest
import yaml

from inferdoc.catalogue.conditions import AllOf, OfParts
from inferdoc.generate.cause_rules import alert_name, is_expressible
from inferdoc.generate.recorded import recorded
from inferdoc.judging.conditions import promql
from inferdoc_dev.rule_tests import limits
from inferdoc_dev.rule_tests.composition_tests import LABELS
from inferdoc_dev.rule_tests.observation_tests import COMPOSED
from tests.generate.conftest import GENERATED

NAMESPACE = re.compile(r'namespace="([^"]+)"')


@pytest.fixture(scope="module")
def given(unit_tests) -> dict[str, dict]:
    """The test documents of observations by name."""
    names = {path: path.name.removesuffix("_test.yaml") for path in unit_tests.files}
    return {
        name: yaml.load(unit_tests.files[path], yaml.CSafeLoader)
        for path, name in names.items()
        if name == COMPOSED or name.startswith("observed-")
    }


def asked_of(document: dict) -> dict[str, tuple[set[str], set[str]]]:
    """By what is asked for, the cases that are given for it and those in which it is to hold."""
    found = {}
    for test in document["tests"]:
        places = {place for line in test["input_series"] for place in NAMESPACE.findall(line["series"])}
        for check in test["promql_expr_test"]:
            own = re.compile(re.search(r'namespace=~"([^"]+)"', check["expr"]).group(1))
            name = (re.findall(r'alertname="(\w+)"', check["expr"]) or re.findall(r"[a-z]+:\w+:\w+", check["expr"]))[0]
            cases, holding = found.setdefault(name, (set(), set()))
            cases |= {place for place in places if own.fullmatch(place)}
            holding |= {place for each in check["exp_samples"] for place in NAMESPACE.findall(each["labels"])}
    return found


def test_no_limit_of_an_observation_is_without_a_case(unit_tests, given, records, catalogue):
    """And every observation that is recorded is asked for, with a case in which it holds and one in which it does
    not."""
    assert unit_tests.untested == {} and unit_tests.unsolved == ()
    asked = {name: both for document in given.values() for name, both in asked_of(document).items()}
    held = {name for name in records if name.endswith(":holds")}
    assert held <= asked.keys()
    for name in held:
        cases, holding = asked[name]
        assert holding and holding < cases, name


def test_every_limit_is_met_and_missed(given, records, catalogue):
    asked = {name: both for document in given.values() for name, both in asked_of(document).items()}
    facts = {name: condition for condition, name in recorded(catalogue).observed.items()}
    looked_at = 0
    for name in records:
        condition = facts.get(name.split(":")[1].removeprefix("inferdoc_")) if name.endswith(":holds") else None
        if condition is None or isinstance(condition, OfParts) or condition.scope != "own":
            continue
        cases = {case.partition("_")[2] for case in asked[name][0]}
        for at in limits.stated(condition, catalogue):
            looked_at += 1
            assert f"misses-{at}" in cases or "misses-ahead" in cases, (name, at)
    assert looked_at > 300


def test_what_pods_beside_the_engines_show_is_met_and_missed(given):
    """A mistake in what is said of them alone would else pass."""
    cases, holding = asked_of(given["observed-target-bool"])["target:inferdoc_container_out_of_memory:holds"]
    beside = {case.partition("_")[2] for case in cases if case.endswith("beside-engines")}
    assert beside == {"beside-engines", "misses-beside-engines"}
    assert not any(case.endswith("misses-beside-engines") for case in holding)


def test_every_way_of_a_cause_is_a_case(given, catalogue, pack):
    """Every alternative of a symptom and of an impact alone, one of them missing, and every exclusion."""
    asked = asked_of(given[COMPOSED])
    rendering = recorded(catalogue)
    by_hand = {path.name for path in (GENERATED.parent / "tests").glob("*_test.yaml")}
    for rule in pack.rules:
        recipe = catalogue.recipes.get(rule.cause)
        if recipe is None or rule.name != alert_name(rule.cause) or f"{rule.cause}_test.yaml" in by_hand:
            continue
        cases, holding = asked[rule.name]
        names = {case.partition("_")[2] for case in cases}
        assert f"{rule.name}_fires" in holding or f"{rule.name}_enough-pods" in holding, rule.name
        assert len({name for name in names if name.startswith("without-")}) >= len(recipe.symptoms), rule.name
        told = [condition for condition in recipe.unless if is_expressible(condition, rendering)]
        ruled_out = {name for name in names if name.startswith("ruled-out-")}
        assert bool(ruled_out) == bool(told), rule.name
        assert not any(case.partition("_")[2].startswith("ruled-out-") for case in holding), rule.name


def test_records_are_given_with_the_labels_that_they_have(given):
    """What stands in a test as a record has the labels under which it is recorded from raw series."""
    recorded_with: dict[str, set[str]] = {}
    for name, document in given.items():
        if name == COMPOSED:
            continue
        for check in (check for test in document["tests"] for check in test["promql_expr_test"]):
            record = re.search(r"[a-z]+:\w+:\w+", check["expr"]).group()
            for sample in check["exp_samples"]:
                recorded_with.setdefault(record, set()).update(re.findall(r"(\w+)=", sample["labels"]))
    assert len(recorded_with) > 150
    for record, labels in recorded_with.items():
        beyond = labels - set(LABELS[record.split(":")[0]])
        assert not beyond, (record, beyond)


def test_what_only_denies_rules_out_where_all_of_it_can_be_told(catalogue, pack, given):
    rendering, asked = recorded(catalogue), asked_of(given[COMPOSED])
    rules = {rule.cause: rule for rule in pack.rules if rule.name == alert_name(rule.cause)}
    looked_at = 0
    for recipe in (recipe for recipe in catalogue.recipes.values() if recipe.id in rules and not recipe.alert.expr):
        for condition in recipe.unless:
            if isinstance(condition, AllOf) and condition.only_denies:
                looked_at += 1
                record = promql(condition, rendering).text
                assert f"unless {record}" in rules[recipe.id].expr
                cases, holding = asked[record]
                assert {case.partition("_")[2] for case in holding} >= {"all-known"}, record
                assert any("_barred-" in case for case in cases - holding), record
                assert any("_untold-" in case for case in cases - holding), record
    assert looked_at >= 3
