"""The unit tests of what is recorded of signals: every reading of every one, beside what its matchers leave out."""

from __future__ import annotations

from typing import Any

import pytest

from inferdoc.catalogue.load import load_catalogue
from inferdoc.generate.promtool import NAME, load, name_of
from inferdoc.generate.recorded import recorded
from inferdoc_dev.rule_tests.mutants import mutants
from inferdoc_dev.rule_tests.mutation import Mistake, run
from inferdoc_dev.rule_tests.signal_tests import signal_tests
from tests.generate.conftest import GENERATED, needs_promtool


@pytest.fixture(scope="module")
def rules() -> dict[str, dict[str, Any]]:
    files = [load(GENERATED / f"inferdoc-{name}.yaml") for name in ("recording", "rules")]
    return {name_of(rule): rule for file in files for group in file["groups"] for rule in group["rules"]}


@pytest.fixture(scope="module")
def tests(rules: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    exprs = {name: str(rule["expr"]) for name, rule in rules.items()}
    return signal_tests(exprs, load_catalogue(), [], [])


def checks(tests: dict[str, dict[str, Any]], record: str) -> list[dict[str, Any]]:
    every = [check for file in tests.values() for test in file["tests"] for check in test["promql_expr_test"]]
    return [check for check in every if NAME.findall(check["expr"]) == [record]]


def test_a_signal_is_tested_under_every_former_name_of_its_series(tests: dict[str, dict[str, Any]]):
    series = [line["series"] for file in tests.values() for test in file["tests"] for line in test["input_series"]]
    place = 'namespace="prefill-tokens-rate-rate5m-'
    spelled = {line.split("{")[0] for line in series if place in line}
    assert {
        "vllm:prompt_tokens_by_source_total",
        "vllm:prefix_cache_hits_total",
        "vllm:gpu_prefix_cache_hits_total",
    } <= spelled


def test_of_too_few_events_nothing_is_recorded(tests: dict[str, dict[str, Any]]):
    asked = checks(tests, "router:inferdoc_router_error_share:rate5m")
    few = [check for check in asked if "-too-few-" in check["expr"]]
    enough = [check for check in asked if "-enough-" in check["expr"]]
    assert few
    assert all(not check["exp_samples"] for check in few)
    assert len(enough) == len(few)
    assert all(check["exp_samples"] for check in enough)


def test_what_a_matcher_leaves_out_stands_beside_what_it_takes(tests: dict[str, dict[str, Any]]):
    series = [line["series"] for file in tests.values() for test in file["tests"] for line in test["input_series"]]
    beside = [line for line in series if line.startswith("vllm:prompt_tokens_by_source_total") and "decoy" in line]
    assert beside


@needs_promtool
def test_mistakes_in_a_record_are_noticed(rules: dict[str, dict[str, Any]]):
    name = "router:inferdoc_router_error_share:rate5m"
    wrong = [Mistake(name, mutant, (name,)) for mutant in mutants(rules[name])]
    score = run(GENERATED, wrong)
    assert len(score.noticed) >= 10
    assert not score.missed


def test_a_default_stands_only_for_what_is_under_no_name_of_a_term():
    rendering = recorded(load_catalogue())
    assert rendering.signal("prefill_tokens_rate")
    text = rendering.records.now["engine:inferdoc_prefill_tokens_rate:rate5m"]
    assert text.index("vllm:gpu_prefix_cache_hits_total") < text.index(" or 0 * ")


def test_what_two_signals_say_alike_is_recorded_once():
    rendering = recorded(load_catalogue())
    assert rendering.signal("running") == rendering.signal("running_mean")
    assert rendering.usual("running") == rendering.usual("running_mean")
    assert len(rendering.records.now) == 1


def test_presence_is_seen_under_every_reading():
    rendering = recorded(load_catalogue())
    rendering.present("hpa_desired")
    assert "wva_desired_replicas" in rendering.records.now["namespace:inferdoc_hpa_desired:present"]
