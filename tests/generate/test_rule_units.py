"""The unit tests of the rules: they pass, they truly evaluate, and a changed threshold makes them fail."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
import yaml

from inferdoc.catalogue.conditions import Move
from inferdoc.catalogue.load import load_catalogue
from inferdoc.catalogue.record_names import INFO
from inferdoc.errors import InferdocError
from inferdoc.generate import promtool
from inferdoc.generate.cause_rules import alert_name
from inferdoc.generate.pack import RECORDING, RULES
from inferdoc.generate.pod_info import GPU_TIER, ROLE_SEEN, TIER_SEEN
from tests.generate.conftest import GENERATED, needs_promtool
from tests.sampling import sampled

pytestmark = pytest.mark.live
RECIPES, STAND_INS = load_catalogue().recipes, load_catalogue().tiers.stand_ins.keys()
EVERY = sorted((GENERATED / "tests").glob("*_test.yaml"))
TESTS = [path for path in EVERY if "-timing_" not in path.name]
TIMED = [path for path in EVERY if "-timing_" in path.name]
OF_CAUSES = [path for path in TESTS if path.name.removesuffix("_test.yaml") in RECIPES]
"""From raw series to the alert. Each of their observations, and how they are joined, has tests among the others."""
CASES = [*(path for path in TESTS if path not in OF_CAUSES), *sampled(OF_CAUSES, 4), *sampled(TIMED, 20)]
LIMIT = re.compile(r"(?<=[<>] )(\d+(?:\.\d+)?)(?= \*|\)|$)", re.MULTILINE)
MUTATED = ("kv-preemption-thrash", "ep-hot-expert", "kv-handshake-failure", "spec-acceptance-decay", "engine-hung")


@needs_promtool
@pytest.mark.parametrize("path", CASES, ids=lambda path: path.name.removesuffix("_test.yaml"))
def test_the_tests_pass(path: Path):
    assert promtool.test([path]).problems == []


def test_every_rule_has_a_test_with_a_case_that_fires_and_one_that_does_not(pack):
    fires, quiet = set(), set()
    for path in TESTS:
        for test in yaml.load(path.read_text("utf-8"), yaml.CSafeLoader)["tests"]:
            for check in test.get("alert_rule_test", ()):
                (fires if check["exp_alerts"] else quiet).add(check["alertname"])
            for check in test.get("promql_expr_test", ()):
                names = set(promtool.ALERT.findall(check["expr"]))
                case = re.compile(("pool" if "by (pool)" in check["expr"] else "namespace") + '="([^"]+)"')
                fired = {case.search(s["labels"]).group(1) for s in check["exp_samples"]}
                given = {case.search(s["series"]).group(1) for s in test["input_series"] if case.search(s["series"])}
                fires |= names if fired else set()
                quiet |= names if given - fired else set()
    names = {rule.name for rule in pack.rules}
    assert fires >= names
    assert quiet >= names - {"InferdocWatchdog"}, "the watchdog alone never rests"


def rests_on(expr: str, records: dict[str, str]) -> str:
    """An expression with those of the observations that it joins."""
    return "\n".join([expr, *(records[name] for name in promtool.NAME.findall(expr))])


def test_every_cause_has_a_test_of_when_it_waits_and_clears(pack):
    """How long it is pending, and that nothing is left at the end."""
    waits = {rule.cause: rule for rule in pack.rules if rule.name == alert_name(rule.cause)}
    by_hand = {path.name.removesuffix("_test.yaml") for path in (GENERATED.parent / "tests").glob("*_test.yaml")}
    assert {path.name.removesuffix("-timing_test.yaml") for path in TIMED} == waits.keys() - by_hand
    for path in TIMED:
        pending, stays, left = yaml.load(path.read_text("utf-8"), yaml.CSafeLoader)["tests"][0]["promql_expr_test"]
        assert 'alertstate="pending"' in pending["expr"] and 'alertstate="firing"' in stays["expr"]
        assert bool(pending["exp_samples"]) == (waits[path.name.removesuffix("-timing_test.yaml")].for_ != "0s")
        assert stays["exp_samples"] and not left["exp_samples"], path.name


def test_every_rule_of_a_cause_meets_hard_cases(pack, records):
    """Short of its limits, without harm, in the other role, without history, gone: as far as its conditions allow."""
    for rule in pack.rules:
        path = GENERATED / "tests" / f"{rule.cause}_test.yaml"
        written = GENERATED.parent / "tests" / path.name
        if rule.name != alert_name(rule.cause) or written.exists():
            continue
        text = path.read_text("utf-8")
        cases = set(re.findall(r'namespace="([a-z0-9-]+)"', text))
        assert any(case.startswith("fires") for case in cases), rule.name
        assert "gone" in cases or "fires" not in cases, "the plain case, where it can be made, also without its series"
        recipe = RECIPES[rule.cause]
        loss_is_harm = any(not isinstance(condition, Move) for condition in recipe.harm)
        silent = ("short-of-", "no-harm", "gone") if loss_is_harm else ("short-of-", "no-harm")
        assert any(case.startswith(silent) for case in cases), rule.name
        usual = set(re.findall(r"inferdoc_(\w+):median6h", rests_on(rule.expr, records)))
        if usual and not usual & STAND_INS and "or" not in rule.expr.split():
            assert "too-young" in cases, rule.name


@needs_promtool
@pytest.mark.parametrize("cause", MUTATED)
def test_a_changed_threshold_fails_the_test(cause: str, tmp_path: Path):
    """The first limit of the rule or its observations, doubled: what should fire no longer does."""
    folder = copied(tmp_path)
    rule_file = folder / RULES
    document = yaml.load(rule_file.read_text("utf-8"), yaml.CSafeLoader)
    rules = {r.get("alert") or r["record"]: r for g in document["groups"] for r in g["rules"]}
    alert = rules[alert_name(cause)]
    joined = [rules[name] for name in promtool.NAME.findall(alert["expr"]) if name in rules]
    rule = next(rule for rule in (alert, *joined) if "== 0" in rule["expr"] or limit_of(rule["expr"]))
    rule["expr"] = changed(rule["expr"])
    rule_file.write_text(yaml.dump(document, Dumper=yaml.CSafeDumper), "utf-8")
    answer = promtool.test([folder / "tests" / f"{cause}_test.yaml"])
    assert answer.problems and f"{alert_name(cause)} at " in answer.problems[0]


def limit_of(expr: str) -> re.Match[str] | None:
    """The first limit that doubling changes."""
    return next((limit for limit in LIMIT.finditer(expr) if float(limit.group())), None)


def changed(expr: str) -> str:
    """The expression with one limit changed so that it no longer means the same."""
    if "== 0" in expr:
        return expr.replace("== 0", "== 1", 1)
    found = limit_of(expr)
    assert found is not None
    side = expr[: found.start()].rstrip()[-1]
    value = float(found.group()) * (2 if side == ">" else 0.5)
    return f"{expr[: found.start()]}{value:g}{expr[found.end() :]}"


@needs_promtool
def test_a_guard_that_is_lost_fails_the_test(tmp_path: Path):
    """Without `unless asleep`, an engine put to sleep counts as hung."""
    folder = copied(tmp_path)
    text = (folder / RULES).read_text("utf-8")
    text, guards = re.subn(r"\n *unless max by \([^)]*\) \(vllm:engine_sleep_state\{[^}]*\}\) == 0", "", text)
    assert guards == 1
    (folder / RULES).write_text(text, "utf-8")
    answer = promtool.test([folder / "tests" / "engine-hung_test.yaml"])
    assert answer.problems and all("asleep" in line for line in answer.problems)


@needs_promtool
def test_a_changed_objective_fails_the_test(tmp_path: Path):
    folder = copied(tmp_path)
    text = (folder / RULES).read_text("utf-8")
    assert "14.4 * 0.01" in text
    (folder / RULES).write_text(text.replace("14.4 * 0.01", "13.4 * 0.01"), "utf-8")
    assert promtool.test([folder / "tests" / "slo-ttft-limits_test.yaml"]).problems


def test_what_promtool_lets_pass_is_a_failure_here(tmp_path: Path):
    """A rule file that is missing, an alert that no rule has, a test of nothing."""
    folder = copied(tmp_path)
    path = folder / "tests" / "engine-down_test.yaml"
    text = path.read_text("utf-8")
    path.write_text(text.replace("InferdocEngineDown", "InferdocEngineUp"), "utf-8")
    assert promtool.test([path]).problems == [f"{path}: no rule is called InferdocEngineUp"]
    path.write_text("rule_files: [../inferdoc-rules.yaml]\ntests: []\n", "utf-8")
    assert promtool.test([path]).problems == [f"{path}: tests no rule"]
    path.write_text(text, "utf-8")
    (folder / RECORDING).unlink()
    assert "that are not there" in promtool.test([path]).problems[0]


def test_without_promtool_there_is_one_clear_line(tmp_path: Path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(InferdocError, match="promtool is not on the PATH"):
        promtool.check([GENERATED / RULES])


def test_reduced_files_hold_the_alert_and_what_it_rests_on():
    documents = {
        str(name): yaml.load((GENERATED / name).read_text("utf-8"), yaml.CSafeLoader) for name in (RECORDING, RULES)
    }
    small = promtool.reduced(documents, {"InferdocEngineDown"})
    kept = [promtool.name_of(rule) for document in small.values() for g in document["groups"] for rule in g["rules"]]
    assert set(kept) == {
        "instance:inferdoc_engine:seen1d",
        "target:inferdoc_target_up:last",
        "target:inferdoc_down:holds",
        "pod:inferdoc_no_engine:holds",
        "engine:inferdoc_engine_asleep:holds",
        *(GPU_TIER, TIER_SEEN, ROLE_SEEN, INFO),  # recorded levels carry the role and tier of the pod
        "InferdocEngineDown",
    }
    assert [len(document["groups"]) for document in small.values()] == [5, 4]


def test_records_without_input_are_left_out_and_those_that_need_none_stay():
    exprs = {
        "a": 'group by (x) (m{l=~"u|v"})',
        "b": 'm{l!=""} or a:inferdoc_c:last',
        "on a": "2 * pod:inferdoc_a:last offset 1h",
        "by name": '{__name__=~"n|other"}',
        "absent": "absent(nothing)",
        "itself": 'ALERTS{alertname="X"}',
    }
    names = {"a": "pod:inferdoc_a:last", **{n: f"pod:inferdoc_{n.replace(' ', '_')}:last" for n in exprs if n != "a"}}
    rules = [{"record": names[n], "expr": expr} for n, expr in exprs.items()]
    alert = {"alert": "All", "expr": " or ".join(names.values())}
    document = {"rules.yaml": {"groups": [{"name": "g", "rules": [*rules, alert]}]}}

    def kept(*series: str) -> set[str]:
        found = promtool.reduced(document, {"All"}, series)["rules.yaml"]["groups"][0]["rules"]
        return {name for name in exprs if names[name] in map(promtool.name_of, found)}

    assert kept() == {"absent", "itself"}
    assert kept('m{l="u"}') == {"a", "b", "on a", "absent", "itself"}
    assert kept('m{l="uv"}', "n") == {"b", "by name", "absent", "itself"}
    assert kept("m", 'other{l="u"}') == {"by name", "absent", "itself"}


def copied(tmp_path: Path) -> Path:
    """A copy of the generated folder."""
    return Path(shutil.copytree(GENERATED, tmp_path / "generated"))
