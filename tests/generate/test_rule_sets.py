"""Rule sets: the sizes they promise, rules that mean the same with fewer records, and no cause at all."""

from __future__ import annotations

import json

import pytest
import yaml

from inferdoc.catalogue.load import load_catalogue
from inferdoc.errors import CatalogueError
from inferdoc.generate import promtool
from inferdoc.generate.links import GeneratedLinks
from inferdoc.generate.pack import RECORDING, RULES, build_pack
from inferdoc.generate.prune_rules import needed
from inferdoc.generate.rule_sets import NAMES, alerts_of_set, cost_of_set
from inferdoc_dev.rule_tests.pack_tests import build_with_tests
from tests.cli.command import alone, call
from tests.generate.conftest import needs_promtool

__all__ = ["alone"]
MOST_PAGES, MOST_RECORDS = 12, 60


@pytest.fixture(scope="module")
def pages(catalogue):
    return build_pack(catalogue, GeneratedLinks(), rule_set="pages")


def test_the_set_of_the_pages_is_small(pages, pack):
    records = [rule for group in pages.groups for rule in group["rules"] if "record" in rule]
    assert len(pages.rules) <= MOST_PAGES and len(records) <= MOST_RECORDS
    critical = {rule.name for rule in pack.rules if rule.severity == "critical"}
    assert {rule.name for rule in pages.rules} == critical, "what pages is what wakes someone"


def test_a_lost_gpu_and_an_oom_page_sooner_than_a_slow_pod(pack):
    rules = {rule.name: rule for rule in pack.rules}
    assert rules["InferdocGpuLost"].severity == rules["InferdocEngineOom"].severity == "critical"
    assert rules["InferdocSloPodSlower"].severity == "warning"


def test_each_set_has_the_alerts_of_the_smaller_one_and_what_they_read(catalogue, pages, pack):
    standard = build_pack(catalogue, GeneratedLinks(), rule_set="standard")
    names = [{rule.name for rule in each.rules} for each in (pages, standard, pack)]
    assert names[0] < names[1] < names[2]
    for each in (pages, standard):
        rules = [rule for group in each.groups for rule in group["rules"]]
        recorded = {rule["record"] for rule in rules if "record" in rule}
        read = {name for rule in rules for name in promtool.NAME.findall(rule["expr"])}
        assert read == recorded, "all that is read is recorded, and nothing else"


@needs_promtool
@pytest.mark.live
def test_the_pages_pass_the_tests_from_raw_series(catalogue, tmp_path):
    build_with_tests(catalogue, GeneratedLinks(), tmp_path, rule_set="pages")
    assert promtool.check([tmp_path / RECORDING, tmp_path / RULES]).problems == []
    tests = sorted((tmp_path / "tests").glob("*_test.yaml"))
    asked = [path for path in tests if not path.name.startswith("slo-t")]
    assert len(asked) >= 9 and promtool.test(asked).problems == []


def test_a_record_that_is_read_over_a_range_or_later_or_twice_stays():
    def group(name, interval, **exprs):
        kinds = {key: "alert" if key[0].isupper() else "record" for key in exprs}
        rules = [
            {kinds[key]: f"a:inferdoc_{key}:last" if kinds[key] == "record" else key, "expr": text}
            for key, text in exprs.items()
        ]
        return {"name": name, "interval": interval, "rules": rules}

    slow = group("slow", "2m", usual="old")
    fast = group("fast", "30s", once="one > 1", range="r", later="l", twice="t", unread="u")
    alerts = group(
        "alerts",
        "30s",
        A="a:inferdoc_once:last and a:inferdoc_usual:last and a:inferdoc_twice:last",
        B="rate(a:inferdoc_range:last[1h]) or a:inferdoc_later:last offset 5m or a:inferdoc_twice:last",
    )
    recording, alerting = needed([slow, fast], [alerts], inline=True)
    left = [rule["record"].split("_")[1].split(":")[0] for each in recording for rule in each["rules"]]
    assert left == ["usual", "range", "later", "twice"]
    assert alerting[0]["rules"][0]["expr"].startswith("(one > 1) and a:inferdoc_usual:last")


def test_build_prints_size_and_cost_and_says_what_has_no_link(tmp_path):
    done = call("alerts", "build", "--set", "pages", "--out", tmp_path / "rules")
    assert done.code == 0 and "missing" not in done.out
    assert "rule set pages: 12 alerts" in done.err and "recorded series" in done.err and "CPU" in done.err
    assert "no runbook_url in the alerts: set runbook_base" in done.err and "no dashboard_url" in done.err
    linked = call(
        "alerts", "build", "--set", "pages", "--out", tmp_path / "rules", "--runbook-base", "https://w.example"
    )
    assert linked.code == 0 and "no runbook_url" not in linked.err and "inferdoc-rules.yaml: updated" in linked.out
    assert "runbook_url: https://w.example/engine-down" in (tmp_path / "rules" / RULES).read_text("utf-8")


def test_without_any_cause_there_are_rules_and_no_crash(tmp_path):
    (tmp_path / "inferdoc.toml").write_text(f"[recipes]\ndisabled = {json.dumps(sorted(load_catalogue().recipes))}\n")
    for name in NAMES:
        done = call("alerts", "build", "--set", name, "--out", tmp_path / name)
        assert done.code == 0, done.err
    names = {
        rule["alert"]
        for group in yaml.safe_load((tmp_path / "full" / RULES).read_text("utf-8"))["groups"]
        for rule in group["rules"]
        if "alert" in rule
    }
    assert "InferdocTargetVanished" in names and "InferdocMetricAbsent" not in names


def test_a_set_with_an_unknown_alert_is_refused_with_its_place(tmp_path):
    (tmp_path / "alerts").mkdir()
    (tmp_path / "alerts" / "sets.yaml").write_text("pages: [InferdocEngineDwn]\nstandard: []\n")
    with pytest.raises(CatalogueError, match=r"sets\.yaml:1: pages\[0\]: no alert is called 'InferdocEngineDwn'"):
        alerts_of_set("pages", {"InferdocEngineDown"}, (tmp_path,))


def test_every_set_has_a_measured_cost():
    assert all("recorded series" in cost_of_set(name) for name in NAMES)
