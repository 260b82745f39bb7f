"""promtool unit tests of the generated rules, from the same conditions as the rules."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil
from typing import Any

from inferdoc.catalogue.conditions import Compared, Fact, Presence, Slope
from inferdoc.catalogue.load import Catalogue
from inferdoc.catalogue.recipe import Recipe
from inferdoc.generate.cases import POOL_SIZE, Case, facts_of, has_pool
from inferdoc.generate.cause_rules import COMPONENT, AlertRule, expression, first_leaf
from inferdoc.generate.decoys import selectors, with_decoys
from inferdoc.generate.recorded import RECORDED_LABELS, recorded
from inferdoc.generate.series import FaultSpan, identity, lines, pod_info
from inferdoc.generate.templating import expand
from inferdoc.times import length_of

CALM_MINUTES = 190
"""Past the lag of the usual values by more than they need: an hour, and two hours of values at one in two minutes."""
EVALUATED_MINUTES = 2
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
    found = [with_decoys(case, read) for case in cases]
    waits = EVALUATED_MINUTES * ceil(length_of(rule.for_) / 60 / EVALUATED_MINUTES)
    faulty = settling_minutes(recipe) + waits
    span = FaultSpan(CALM_MINUTES, faulty + 2)
    series = [line for case in found for line in lines(case, has_pool(recipe), span)]
    minutes = CALM_MINUTES + faulty
    at = f"{minutes}m"
    test: dict[str, Any] = {"interval": "1m", "input_series": series}
    quiet = [{"eval_time": f"{CALM_MINUTES + waits}m", "alertname": rule.name, "exp_alerts": []}]
    firing = [case for case in found if case.fires]
    if _steady(recipe, firing):
        alerts = [_alert(case, recipe, rule, catalogue, minutes) for case in firing]
        test["alert_rule_test"] = [*quiet, {"eval_time": at, "alertname": rule.name, "exp_alerts": alerts}]
    else:
        test["alert_rule_test"] = quiet
        test["promql_expr_test"] = [_identities(firing, recipe, rule, catalogue, at)]
    return {
        "rule_files": rule_files,
        "evaluation_interval": f"{EVALUATED_MINUTES}m",
        "group_eval_order": groups,
        "tests": [test],
    }


def settling_minutes(recipe: Recipe) -> int:
    """After how many minutes of a fault everything that the rule of a cause asks for shows it."""
    slow = any(isinstance(leaf, Slope) or (isinstance(leaf, Compared) and leaf.average) for leaf in facts_of(recipe))
    return WINDOW_MINUTES + (SLOW_MINUTES if slow else 0) + SPARE_MINUTES


def _rests_on(recipe: Recipe, rule: AlertRule, catalogue: Catalogue) -> list[str]:
    """The expression of a rule and those of all that is recorded for it."""
    rendering = recorded(catalogue)
    expression(recipe, rendering)
    return [rule.expr, *(text for texts in vars(rendering.records).values() for text in texts.values())]


def _steady(recipe: Recipe, firing: list[Case]) -> bool:
    """Whether the number in the annotations stands still: the mean of a ramp depends on the server's window edges."""
    shown = first_leaf(recipe).signal
    return not any(case.world.raw[lever].ramp for case in firing for lever in case.world.levers(shown))


def _alert(case: Case, recipe: Recipe, rule: AlertRule, catalogue: Catalogue, minutes: int) -> dict[str, Any]:
    labels = _labels(case, recipe, rule, catalogue)
    value = float(POOL_SIZE) if recipe.pool_share else _value(case, case.shown or first_leaf(recipe))
    evaluated = 60 * (minutes - minutes % EVALUATED_MINUTES)
    said = {key: expand(text, labels, value, evaluated) for key, text in rule.annotations.items()}
    return {"exp_labels": labels, "exp_annotations": said}


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
