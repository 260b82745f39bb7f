"""promtool unit tests of when an alert waits, fires and clears, at the interval at which its rules are judged: how long
it is pending, and for how long it stays after its condition is over."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import ceil
from typing import Any

from inferdoc.catalogue.recipe import Recipe
from inferdoc.generate.cause_rules import AlertRule
from inferdoc.generate.operational import EVERY_SECONDS
from inferdoc.times import length_of
from inferdoc_dev.rule_tests.cases import Case, has_pool
from inferdoc_dev.rule_tests.cause_tests import SPARE_MINUTES, history_minutes, settling_minutes
from inferdoc_dev.rule_tests.input_series import FaultSpan, lines


def timing_test(
    recipe: Recipe,
    rule: AlertRule,
    cases: Sequence[Case],
    rule_files: list[str],
    groups: list[str],
) -> dict[str, Any]:
    """The test file: a pod that is faulty for a while and well again."""
    every = EVERY_SECONDS[rule.kind]
    sick = replace(next(case for case in cases if case.fires), name="fires")
    settles = settling_minutes(recipe)
    waits, stays = (_minutes(text) for text in (rule.for_, rule.keep_firing_for or "0s"))
    lasts = settles + waits
    span = FaultSpan(history_minutes(sick, recipe, lasts), lasts, settles + stays)
    series = list(lines(sick, has_pool(recipe), span))
    end = span.healthy + span.faulty + span.after - 1
    watched = f"[{end - span.healthy + SPARE_MINUTES}m"
    state = f'ALERTS{{alertname="{rule.name}", alertstate="%s"}}{watched}]'
    pending, firing = (f"sum by (namespace) (count_over_time({state % each}))" for each in ("pending", "firing"))
    holds = f"sum_over_time((count by (namespace) (\n{rule.expr}\n)){watched}:{every}s])"
    waiting, staying = (ceil(length_of(text) / every) for text in (rule.for_, rule.keep_firing_for or "0s"))
    checks = [
        _check(pending, end, waiting or None),
        _check(f"{firing} - {holds}", end, staying - waiting),
        _check(f'count by (namespace) (ALERTS{{alertname="{rule.name}"}})', end, None),
    ]
    test = {"interval": "1m", "input_series": series, "promql_expr_test": checks}
    return {
        "rule_files": rule_files,
        "evaluation_interval": f"{every}s",
        "group_eval_order": groups,
        "tests": [test],
    }


def _check(query: str, minute: int, value: int | None) -> dict[str, Any]:
    samples = [] if value is None else [{"labels": '{namespace="fires"}', "value": value}]
    return {"expr": query, "eval_time": f"{minute}m", "exp_samples": samples}


def _minutes(text: str) -> int:
    return ceil(length_of(text) / 60)
