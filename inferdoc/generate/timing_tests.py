"""promtool unit tests of when an alert waits, fires and clears, at the interval at which its rules are judged: how long
it is pending, and for how long it stays after its condition is over."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import ceil
from typing import Any

from inferdoc.catalogue.conditions import Fact, Move
from inferdoc.catalogue.load import Catalogue
from inferdoc.catalogue.recipe import Recipe
from inferdoc.generate.cases import Case, facts_of, has_pool
from inferdoc.generate.cause_rules import AlertRule
from inferdoc.generate.rule_tests import CALM_MINUTES, SPARE_MINUTES, settling_minutes
from inferdoc.generate.series import FaultSpan, lines
from inferdoc.times import length_of

EVERY_SECONDS = {"symptom": 30, "cause": 120, "monitoring": 120}
"""How often rules of a kind are judged, at least."""
SHORT_CALM_MINUTES = 60
"""Enough where nothing but the last half hour is asked for."""
YOUNG_LASTS_MINUTES = 20
"""Half an hour less the newest ten minutes becomes that of the fault 25 minutes after it began."""


def timing_test(
    recipe: Recipe,
    rule: AlertRule,
    catalogue: Catalogue,
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
    span = FaultSpan(_calm(sick, facts_of(recipe), catalogue, lasts), lasts, settles + stays)
    series = list(lines(sick, has_pool(recipe), span))
    end = span.calm + span.faulty + span.after - 1
    watched = f"[{end - span.calm + SPARE_MINUTES}m"
    state = f'ALERTS{{alertname="{rule.name}", alertstate="%s"}}{watched}]'
    pending, firing = (f"sum by (namespace) (count_over_time({state % each}))" for each in ("pending", "firing"))
    holds = f"sum_over_time((count by (namespace) (\n{rule.expr}\n)){watched}:{every}s])"
    waiting, staying = (ceil(length_of(text) / every) for text in (rule.for_, rule.keep_firing_for or "0s"))
    asked = [
        _asked(pending, end, waiting or None),
        _asked(f"{firing} - {holds}", end, staying - waiting),
        _asked(f'count by (namespace) (ALERTS{{alertname="{rule.name}"}})', end, None),
    ]
    test = {"interval": "1m", "input_series": series, "promql_expr_test": asked}
    return {
        "rule_files": rule_files,
        "evaluation_interval": f"{every}s",
        "group_eval_order": groups,
        "tests": [test],
    }


def _asked(query: str, minute: int, value: int | None) -> dict[str, Any]:
    samples = [] if value is None else [{"labels": '{namespace="fires"}', "value": value}]
    return {"expr": query, "eval_time": f"{minute}m", "exp_samples": samples}


def _calm(case: Case, conditions: Sequence[Fact], catalogue: Catalogue, lasts: int) -> int:
    """A past of less than an hour does not count where it is beyond the figure that stands for a healthy service, and
    becomes that of the fault where this lasts for longer than half of what the past rests on."""
    stand_ins = catalogue.tiers.stand_ins
    moves = [leaf for leaf in conditions if isinstance(leaf, Move)]
    here = {m.signal for m in moves if m.signal in stand_ins and next(case.world.levers(m.signal)) in case.world.raw}
    beyond = any(case.world.value(name, "calm") > stand_ins[name].value for name in here)
    return CALM_MINUTES if beyond or (moves and lasts > YOUNG_LASTS_MINUTES) else SHORT_CALM_MINUTES


def _minutes(text: str) -> int:
    return ceil(length_of(text) / 60)
