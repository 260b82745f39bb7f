"""Mistakes in rules: every kind is made where it can be made, and told from a rule that is right."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import yaml

from inferdoc.errors import InferdocError
from inferdoc.generate.promql_words import words
from inferdoc_dev.rule_tests.mutants import OPERATORS, mutants, mutated
from inferdoc_dev.rule_tests.mutation import mistakes, run
from inferdoc_dev.rule_tests.mutation_report import lines, main
from tests.generate.conftest import GENERATED, needs_promtool

SAMPLE = ("InferdocRouterDown", "InferdocPodLabelShared")


def made(expr: str, operator: str, **rule: str) -> list[str]:
    whole = {"alert": "X", "expr": expr, **rule}
    return [mutated(whole, each)["expr"] for each in mutants(whole) if each.operator == operator]


@pytest.mark.parametrize(
    ("operator", "expr", "wrong"),
    [
        ("comparator flipped", "a > 1 and b{c!='2'} == 0", ["a < 1 and b{c!='2'} == 0", "a > 1 and b{c!='2'} != 0"]),
        ("threshold halved", "a > 1.5 * b + 3", ["a > 0.75 * b + 3", "a > 1.5 * b + 1.5"]),
        ("threshold doubled", "rate(a[5m] offset 1h) > 0.02", ["rate(a[5m] offset 1h) > 0.04"]),
        ("threshold doubled", "quantile by (x) (0.5, a) > 0", []),
        ("threshold doubled", "vector(1)", []),
        ("threshold doubled", "quantile_over_time(0.9, a[1h]) > bool 2", ["quantile_over_time(0.9, a[1h]) > bool 4"]),
        ("_total dropped", "rate(a_total[5m]) / rate(b_total_count[5m])", ["rate(a[5m]) / rate(b_total_count[5m])"]),
        ("_total dropped", '{__name__=~"a_total"} > 0', []),
        ("matcher dropped", 'a{b="1", c!~"2|3"} > 0', ['a{c!~"2|3"} > 0', 'a{b="1"} > 0']),
        ("matcher dropped", 'a{b="}"}', ["a"]),
        ("matcher dropped", '{__name__=~"a|b", c="1"}', ['{__name__=~"a|b"}']),
        ("unless removed", "a unless on (x) (b > 2) and c", ["a and c"]),
        ("unless removed", "(a unless b) unless max(d) == 0", ["(a ) unless max(d) == 0", "(a unless b)"]),
    ],
)  # fmt: skip
def test_a_mistake_is_made_at_every_place_of_its_kind_and_nowhere_else(operator: str, expr: str, wrong: list[str]):
    assert made(expr, operator) == wrong


def test_waits_are_removed_and_halved():
    rule = {"alert": "X", "expr": "a", "for": "1m", "keep_firing_for": "5m"}
    found = {each.operator: mutated(rule, each) for each in mutants(rule)}
    assert found == {
        "for removed": {"alert": "X", "expr": "a", "keep_firing_for": "5m"},
        "for halved": {**rule, "for": "30000ms"},
        "keep_firing_for removed": {"alert": "X", "expr": "a", "for": "1m"},
    }
    assert not list(mutants({"record": "x", "expr": "a"}))


def test_half_a_wait_that_ends_at_the_same_evaluation_is_no_mistake():
    rule = {"alert": "X", "expr": "a", "for": "2m"}
    assert "for halved" in {each.operator for each in mutants(rule, 60)}
    assert {each.operator for each in mutants(rule, 120)} == {"for removed"}


@pytest.mark.parametrize("expr", ["a > (1", "a]", "a ; b"])
def test_what_is_no_expression_is_refused(expr: str):
    with pytest.raises(ValueError):
        words(expr)


def test_every_rule_of_the_pack_has_words(rules, records):
    """And every kind of mistake can be made in some of them."""
    every = [*rules, *({"record": name, "expr": expr} for name, expr in records.items())]
    for rule in every:
        found = words(rule["expr"])
        assert "".join(rule["expr"].split()) == "".join("".join(w.text.split()) for w in found), rule
    assert {each.operator for rule in rules for each in mutants(rule)} | {"_total dropped"} == set(OPERATORS)


@pytest.mark.live
@needs_promtool
def test_mistakes_are_told_from_a_rule_that_is_right():
    """A few rules, all their mistakes at once, but for names and labels of exporters: which of them a signal is read
    from is tested with the signals. A mistake that changes nothing passes, and is told."""
    found = mistakes(GENERATED, SAMPLE, [], ["others"])
    score = run(GENERATED, found)
    assert score.tried == len(found) and not score.untried
    assert score.share > 0.9, "\n".join(lines(score))


@pytest.mark.live
@needs_promtool
def test_a_test_that_asks_nothing_notices_nothing(tmp_path: Path, capsys):
    folder = Path(shutil.copytree(GENERATED, tmp_path / "generated"))
    path = folder / "tests" / "InferdocRouterDown_test.yaml"
    document = yaml.load(path.read_text("utf-8"), yaml.CSafeLoader)
    for test in document["tests"]:
        test["alert_rule_test"] = [{"eval_time": "1m", "alertname": "InferdocRouterDown", "exp_alerts": []}]
        test.pop("promql_expr_test", None)
    path.write_text(yaml.dump(document, Dumper=yaml.CSafeDumper), "utf-8")
    kind = ("--operator", "for removed")
    assert main(["--out", str(folder), "--alert", "InferdocRouterDown", *kind]) == 1
    said = capsys.readouterr().out.splitlines()
    assert said[-1] == "mutation score 0.0%: 0 of 1 mistakes noticed"
    assert "  InferdocRouterDown: for removed: for 1m" in said
    assert main(["--out", str(folder), "--alert", "InferdocRouterDown", *kind, "--time", "0s"]) == 0
    assert "1 not tried: the time was up" in capsys.readouterr().out


@pytest.mark.live
@needs_promtool
def test_a_test_that_fails_as_it_is_and_a_name_that_is_not_there_are_one_line(tmp_path: Path, capsys):
    folder = Path(shutil.copytree(GENERATED, tmp_path / "generated"))
    path = folder / "tests" / "InferdocPodLabelShared_test.yaml"
    path.write_text(path.read_text("utf-8").replace("h1", "h0"), "utf-8")
    assert main(["--out", str(folder), "--alert", "InferdocPodLabelShared"]) == 2
    assert "fails as it is: InferdocPodLabelShared; run inferdoc alerts test first" in capsys.readouterr().err
    with pytest.raises(InferdocError, match="InferdocNothing: no such alert"):
        mistakes(GENERATED, ["InferdocNothing"], [])
