"""promtool unit tests of the alerts that no cause declares, from the trials that their files contain."""

from __future__ import annotations

from math import ceil
from typing import Any

from inferdoc.escaping import label_pairs
from inferdoc.generate.cause_rules import AlertRule
from inferdoc.generate.operational import EVERY_SECONDS, Operational, RuleTrial
from inferdoc.times import length_of
from inferdoc_dev.rule_tests.templating import expand


def operational_test(each: Operational, rule: AlertRule, rule_files: list[str], groups: list[str]) -> dict[str, Any]:
    """The test file of one alert: the cases it declares."""
    tests = []
    for case in each.tests:
        checks: list[dict[str, Any]] = [
            {"eval_time": f"{minute}m", "alertname": rule.name, "exp_alerts": []} for minute in case.quiet
        ]
        for minute, label_sets in case.fires.items():
            evaluated = 60 * minute - 60 * minute % EVERY_SECONDS[each.kind]
            alerts = [_expected(rule, dict(labels), case.value, evaluated) for labels in label_sets]
            checks.append({"eval_time": f"{minute}m", "alertname": rule.name, "exp_alerts": alerts})
        waits = {"promql_expr_test": [_waits(rule, case)]} if case.fires and rule.for_ != "0s" else {}
        series = list(case.series)
        tests.append(
            {"name": case.name, "interval": case.interval, "input_series": series, "alert_rule_test": checks, **waits}
        )
    return {
        "rule_files": rule_files,
        "evaluation_interval": f"{EVERY_SECONDS[each.kind]}s",
        "group_eval_order": groups,
        "tests": tests,
    }


def _waits(rule: AlertRule, case: RuleTrial) -> dict[str, Any]:
    """For how many evaluations the alert was pending before it first fired."""
    minute, label_sets = min(case.fires.items())
    names = ", ".join(label_sets[0])
    pending = f'ALERTS{{alertname="{rule.name}", alertstate="pending"}}[{minute}m]'
    value = ceil(length_of(rule.for_) / EVERY_SECONDS[rule.kind])
    samples = [{"labels": f"{{{label_pairs(labels)}}}", "value": value} for labels in label_sets]
    return {
        "expr": f"max by ({names}) (count_over_time({pending}))",
        "eval_time": f"{minute}m",
        "exp_samples": samples,
    }


def _expected(rule: AlertRule, labels: dict[str, str], value: float, at: int) -> dict[str, Any]:
    annotations = {key: expand(text, labels, value, at) for key, text in rule.annotations.items()}
    return {"exp_labels": {**labels, **rule.fixed_labels}, "exp_annotations": annotations}
