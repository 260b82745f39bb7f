"""promtool unit tests of the generated rules, from the same conditions as the rules."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil
from typing import Any

from inferdoc.catalogue.conditions import Compared, Fact, Move, Presence, Slope
from inferdoc.catalogue.load import Catalogue
from inferdoc.catalogue.recipe import Recipe
from inferdoc.generate.cause_rules import COMPONENT, AlertRule, expression, first_leaf
from inferdoc.generate.promql_words import selectors
from inferdoc.generate.recorded import RECORDED_LABELS, recorded
from inferdoc.times import length_of
from inferdoc_dev.rule_tests.cases import POOL_SIZE, Case, facts_of, has_pool
from inferdoc_dev.rule_tests.excluded_series import with_decoys
from inferdoc_dev.rule_tests.input_series import FaultSpan, identity, lines, pod_info
from inferdoc_dev.rule_tests.templating import expand

CALM_MINUTES = 150
"""The long history counts after two hours; an alert that fired on the figure until then has cleared by now."""
SHORT_CALM_MINUTES = 60
"""Enough where only the last half hour counts."""
SHORT_HISTORY_LASTS_MINUTES = 17
"""The last half hour ends ten minutes ago: after 17 minutes a quarter of it is the fault, and moves the upper fence."""
EVALUATED_MINUTES = 4
WINDOW_MINUTES = 6
SLOW_MINUTES = 16
"""Slopes and means need their own window full on top of that of the rates."""
SPARE_MINUTES = 4


def cause_test(
    recipe: Recipe,
    rule: AlertRule,
    catalogue: Catalogue,
    cases: Sequence[Case],
    rule_files: list[str],
    groups: list[str],
) -> dict[str, Any]:
    """The test file of one cause's rule: every case in a namespace of its own, all in one run."""
    read = selectors(_rests_on(recipe, rule, catalogue))
    waits = EVALUATED_MINUTES * ceil(length_of(rule.for_) / 60 / EVALUATED_MINUTES)
    faulty = settling_minutes(recipe) + waits
    by_history: dict[int, list[Case]] = {}
    for case in cases:
        by_history.setdefault(history_minutes(case, recipe, faulty), []).append(with_decoys(case, read))
    tests = []
    for healthy, found in sorted(by_history.items()):
        span = FaultSpan(healthy, faulty + 2)
        series = [line for case in found for line in lines(case, has_pool(recipe), span)]
        test: dict[str, Any] = {"interval": "1m", "input_series": series}
        quiet = [{"eval_time": f"{healthy + waits}m", "alertname": rule.name, "exp_alerts": []}]
        minutes, firing = healthy + faulty, [case for case in found if case.fires]
        if _steady(recipe, firing):
            alerts = [_alert(case, recipe, rule, catalogue, minutes) for case in firing]
            test["alert_rule_test"] = [
                *quiet, {"eval_time": f"{minutes}m", "alertname": rule.name, "exp_alerts": alerts}
            ]  # fmt: skip
        else:
            test["alert_rule_test"] = quiet
            test["promql_expr_test"] = [_identities(firing, recipe, rule, catalogue, f"{minutes}m")]
        tests.append(test)
    return {
        "rule_files": rule_files,
        "evaluation_interval": f"{EVALUATED_MINUTES}m",
        "group_eval_order": groups,
        "tests": tests,
    }


def history_minutes(case: Case, recipe: Recipe, lasts: int) -> int:
    """Minutes of history that a case needs before a fault of `lasts` minutes.

    A short history does not count if it is worse than the figure for a healthy service, nor if the fault lasts for so
    long that it becomes the history.
    """
    stand_ins = case.world.catalogue.tiers.stand_ins
    moves = [leaf for leaf in facts_of(recipe) if isinstance(leaf, Move)]
    here = {m.signal for m in moves if m.signal in stand_ins and next(case.world.levers(m.signal)) in case.world.raw}
    beyond = any(case.world.value(name, "healthy") > stand_ins[name].value for name in here)
    return CALM_MINUTES if beyond or (moves and lasts > SHORT_HISTORY_LASTS_MINUTES) else SHORT_CALM_MINUTES


def settling_minutes(recipe: Recipe) -> int:
    """After how many minutes of a fault everything that the rule of a cause requires shows it."""
    slow = any(isinstance(leaf, Slope) or (isinstance(leaf, Compared) and leaf.average) for leaf in facts_of(recipe))
    return WINDOW_MINUTES + (SLOW_MINUTES if slow else 0) + SPARE_MINUTES


def _rests_on(recipe: Recipe, rule: AlertRule, catalogue: Catalogue) -> list[str]:
    """The expression of a rule and those of all that is recorded for it."""
    rendering = recorded(catalogue)
    expression(recipe, rendering)
    return [rule.expr, *rendering.records.all.values()]


def _steady(recipe: Recipe, firing: list[Case]) -> bool:
    """Whether the number in the annotations stands still: the mean of a ramp depends on the server's window edges."""
    shown = first_leaf(recipe).signal
    return not any(case.world.raw[lever].ramp for case in firing for lever in case.world.levers(shown))


def _alert(case: Case, recipe: Recipe, rule: AlertRule, catalogue: Catalogue, minutes: int) -> dict[str, Any]:
    labels = _labels(case, recipe, rule, catalogue)
    value = float(POOL_SIZE) if recipe.pool_share else _value(case, case.shown or first_leaf(recipe))
    evaluated = 60 * (minutes - minutes % EVALUATED_MINUTES)
    annotations = {key: expand(text, labels, value, evaluated) for key, text in rule.annotations.items()}
    return {"exp_labels": labels, "exp_annotations": annotations}


def _identities(firing: list[Case], recipe: Recipe, rule: AlertRule, catalogue: Catalogue, at: str) -> dict[str, Any]:
    firing_now = f'ALERTS{{alertname="{rule.name}", alertstate="firing"}}'
    query = f"count by (namespace, severity, component, kind, cause) ({firing_now})"
    fixed = f'cause="{rule.cause}", component="{COMPONENT}", kind="{rule.kind}"'
    expected = [
        {"labels": f'{{{fixed}, namespace="{case.name}", severity="{rule.severity}"}}', "value": 1} for case in firing
    ]
    return {"expr": query, "eval_time": at, "exp_samples": expected}


def _labels(case: Case, recipe: Recipe, rule: AlertRule, catalogue: Catalogue) -> dict[str, str]:
    """The labels the alert carries: those of the first observation's series that the rule keeps."""
    signal = (case.shown or first_leaf(recipe)).signal
    metric = next(case.world.levers(signal))[0]
    kept = rule.by if recipe.pool_share else RECORDED_LABELS[catalogue.signals_of_rules[signal].level]
    series = {**pod_info(case), **identity(metric, case, "p0")}
    fixed = rule.fixed_labels
    return {**{name: series[name] for name in kept if name in series}, **fixed}


def _value(case: Case, leaf: Fact) -> float:
    return 1.0 if isinstance(leaf, Presence) else case.world.value(leaf.signal, "fault")
