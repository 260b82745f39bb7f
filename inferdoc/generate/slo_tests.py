"""promtool unit tests of the burn-rate alerts: shares of bad events just above and just below what must fire."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import sqrt
from typing import Any

from inferdoc.catalogue.burn import FAST, SLOW
from inferdoc.catalogue.load import Catalogue
from inferdoc.catalogue.slo import Slo, events_of
from inferdoc.generate.cause_rules import AlertRule
from inferdoc.generate.slo import CHANCE, FELT, MOST, NOW, SLOWER
from inferdoc.generate.slo_events import LABELS, in_buckets
from inferdoc.judging.conditions.render import ENGINE_SIGN, number
from inferdoc.source.plan import matchers
from inferdoc.times import length_of

EVALUATED_MINUTES = 2
GOOD_MINUTES = 300
BAD_MINUTES = 66
AT = GOOD_MINUTES + BAD_MINUTES
PER_SECOND = 100.0
SOME_PER_SECOND, FEW_PER_SECOND = 1.0, 0.001
NEAR = 0.04
SOON = GOOD_MINUTES + 8
"""When latency that grew at GOOD_MINUTES has been so for long enough, and is not yet usual."""
USUAL_SHARE = 0.2
"""Of the target: a usual mean that matters when it grows by half."""


@dataclass(frozen=True)
class BurnCourse:
    """Share of bad events before and after GOOD_MINUTES, and which speeds fire at the end. means: as shares of the
    target, before and after; young: there is nothing before."""

    name: str
    before: float
    after: float
    fires: tuple[str, ...]
    per_second: float = PER_SECOND
    means: tuple[float, float] = (0.01, 0.01)
    young: bool = False


def courses(slo: Slo) -> Iterator[BurnCourse]:
    """The two fast pairs each on its own, the slow one, each just short, and too little traffic."""
    assert slo.good is not None
    budget = 1 - slo.good
    quick, steady = (burn.factor(slo.window) * budget for burn in FAST)
    slow = min(burn.factor(slo.window) for burn in SLOW) * budget
    above, below = 1 + NEAR, 1 - NEAR
    yield BurnCourse("burst", 0.0, min(1.0, quick * above), ("Fast", "Slow"))
    yield BurnCourse("short-of-a-burst", 0.0, quick * below, ("Slow",))
    yield BurnCourse("steady", steady * above, steady * above, ("Fast", "Slow"))
    yield BurnCourse("short-of-steady", steady * below, steady * below, ("Slow",))
    yield BurnCourse("slow", slow * above, slow * above, ("Slow",))
    yield BurnCourse("within-budget", slow * below, slow * below, ())
    yield BurnCourse("over", min(1.0, quick * above), 0.0, ("Slow",) if FAST[0].long == "1h" else ())
    yield BurnCourse("most", 0.0, MOST * above, ("Fast", "Slow", "Outage"))
    yield BurnCourse("short-of-most", 0.0, MOST * below, ("Fast", "Slow"))
    yield BurnCourse("too-few", quick * above, min(1.0, quick * above), ("TrafficTooLow",), FEW_PER_SECOND)


def slower_courses() -> Iterator[BurnCourse]:
    """Latency that grows enough, or a little less; too little to matter; no more than chance does; without a past."""
    above, below, usual = 1 + NEAR, 1 - NEAR, USUAL_SHARE
    yield BurnCourse("slower", 0.0, 0.0, ("Slower",), means=(usual, SLOWER * above * usual))
    yield BurnCourse("short-of-slower", 0.0, 0.0, (), means=(usual, SLOWER * below * usual))
    yield BurnCourse("slow-enough", 0.0, 0.0, ("Slower",), means=(FELT / 3, FELT * above))
    yield BurnCourse("still-fast", 0.0, 0.0, (), means=(FELT / 3, FELT * below))
    chance = 1 + CHANCE / sqrt(length_of(NOW) * SOME_PER_SECOND)
    yield BurnCourse("slower-than-chance", 0.0, 0.0, ("Slower",), SOME_PER_SECOND, (usual, chance * above * usual))
    yield BurnCourse("by-chance", 0.0, 0.0, (), SOME_PER_SECOND, (usual, chance * below * usual))
    yield BurnCourse("slower-of-few", 0.0, 0.0, ("TrafficTooLow",), FEW_PER_SECOND, (usual, 4 * usual))
    yield BurnCourse("slow-since-it-began", 0.0, 0.0, ("Slower",), means=(0.0, SLOWER / 2 * above), young=True)
    yield BurnCourse("began-well", 0.0, 0.0, (), means=(0.0, SLOWER / 2 * below), young=True)


def slo_test(
    slo: Slo, catalogue: Catalogue, rules: list[AlertRule], rule_files: list[str], groups: list[str]
) -> dict[str, Any]:
    """The test file of one objective: its rules over every course."""
    latency = slo.histogram(catalogue.signals) is not None
    made = [*courses(slo), *(slower_courses() if latency else ())]
    checks = []
    for rule in rules:
        speed = next(end for end in ("Fast", "Slow", "Slower", "Outage", "TrafficTooLow") if rule.name.endswith(end))
        firing = [course.name for course in made if speed in course.fires]
        at = SOON if speed == "Slower" else AT
        checks.append(_check(slo, rule, at, firing))
        if speed == "Slower":
            checks += [_check(slo, rule, GOOD_MINUTES - 2, []), _check(slo, rule, AT, [])]
    series = [line for course in made for line in _series(slo, catalogue, course)]
    test = {"interval": "1m", "input_series": series, "promql_expr_test": checks}
    return {
        "rule_files": rule_files,
        "evaluation_interval": f"{EVALUATED_MINUTES}m",
        "group_eval_order": groups,
        "tests": [test],
    }


def _check(slo: Slo, rule: AlertRule, minute: int, firing: list[str]) -> dict[str, Any]:
    """The namespaces in which a rule fires at a minute."""
    labels = f'severity="{rule.severity}", slo="{slo.id}"'
    return {
        "expr": f'count by (namespace, severity, slo) (ALERTS{{alertname="{rule.name}", alertstate="firing"}})',
        "eval_time": f"{minute}m",
        "exp_samples": [{"labels": f'{{namespace="{name}", {labels}}}', "value": 1} for name in firing],
    }


def _series(slo: Slo, catalogue: Catalogue, course: BurnCourse) -> Iterator[dict[str, str]]:
    labels = {
        "cluster": "c1",
        "namespace": course.name,
        "job": "vllm",
        "pod": "p0",
        "model_name": "model-a",
        "engine": "0",
    }
    labels |= {LABELS[key]: value for key, value in slo.scope.fields.items()} | dict(slo.scope.tenant)
    yield {"series": f"{ENGINE_SIGN}{{{_inside(labels)}}}", "values": f"4x{AT + 10}"}
    base = _inside(labels)
    bad = tuple(course.per_second * share for share in (course.before, course.after))
    good = tuple(course.per_second - each for each in bad)
    signal = catalogue.signals[slo.signal]
    name, counted = slo.histogram(catalogue.signals), events_of(signal)
    if name is not None:
        bound = number(slo.target / signal.readings[0].scale)
        every = _counter(course.per_second, course.per_second)
        took = [course.per_second * mean * in_buckets(slo, catalogue) for mean in course.means]
        for part, values in (
            (f'{name}_bucket{{{base}, le="{bound}"}}', _counter(*good)),
            (f'{name}_bucket{{{base}, le="+Inf"}}', every),
            (f"{name}_count{{{base}}}", every),
            (f"{name}_sum{{{base}}}", _counter(*took)),
        ):
            yield {"series": part, "values": _young(values) if course.young else values}
    elif counted is not None:
        wrong, total = counted
        both = {label: value for label, _, value in matchers(total.match)}
        inside = both | {label: value for label, _, value in matchers(wrong.match)}
        other = {label: both.get(label, "other") for label in inside}
        rest = good if wrong.rate == total.rate else (course.per_second, course.per_second)
        yield {"series": f"{wrong.rate}{{{_inside(labels | inside)}}}", "values": _counter(*bad)}
        yield {"series": f"{total.rate}{{{_inside(labels | other)}}}", "values": _counter(*rest)}


def _young(values: str) -> str:
    """The same without what is before GOOD_MINUTES."""
    return f"_x{GOOD_MINUTES} {values.partition(' ')[2]}"


def _inside(labels: dict[str, str]) -> str:
    return ", ".join(f'{label}="{value}"' for label, value in labels.items())


def _counter(before: float, after: float) -> str:
    step, then = before * 60, after * 60
    reached = step * GOOD_MINUTES + then
    return f"0+{step:.12g}x{GOOD_MINUTES} {reached:.12g}+{then:.12g}x{BAD_MINUTES + 10}"
