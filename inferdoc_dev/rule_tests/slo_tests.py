"""promtool unit tests of the burn-rate alerts: shares of bad events just above and just below what must fire."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import sqrt
from typing import Any

from inferdoc.catalogue.load import Catalogue
from inferdoc.catalogue.slo import FAST, SLOW, Slo, events_of
from inferdoc.escaping import label_pairs
from inferdoc.generate.cause_rules import AlertRule
from inferdoc.generate.recorded import INTERVAL
from inferdoc.generate.slo import MOST, OUTAGE_EVENTS
from inferdoc.generate.slo_events import GAPS, LABELS, NOW, alert_name, counted_as, in_buckets, mean_series
from inferdoc.generate.slo_latency import CHANCE, FAR, FELT, FEWEST_BEFORE, FEWEST_FAR, FEWEST_GROWN, SLOWER
from inferdoc.judging.conditions.render import ENGINE_SIGN, number
from inferdoc.source.plan import matchers
from inferdoc.times import length_of

EVALUATED_MINUTES = 4
GOOD_MINUTES = 300
BAD_MINUTES = 68
AT = GOOD_MINUTES + BAD_MINUTES
PER_SECOND = 100.0
SOME_PER_SECOND, FEW_PER_SECOND = 1.0, 0.001
NEAR = 0.04
SOON = GOOD_MINUTES + 8
"""When latency that grew at GOOD_MINUTES has been so for long enough, and is not yet usual."""
WELL_MINUTES = 10
"""Longer than a page stays, after the windows that show what was."""
NINE, KNOWN, JUST_INSTALLED = 9, 1e6, 6
SWUNG_BEFORE, SWUNG_MINUTES = 26, 6
"""More than a tenth of the half hour that shows what is usual, and over before it matters."""
USUAL_SHARE = 0.2
"""Of the target: a usual mean that matters when it grows by half."""


PLACES = ("cluster", "namespace")
SUDDEN = ("PodSlower", "Slower")
ENDINGS = (*SUDDEN, "Fast", "Slow", "Outage", "TrafficTooLow")


@dataclass(frozen=True)
class BurnCourse:
    """Share of bad events before and after GOOD_MINUTES, and which speeds fire at the end. means: as shares of the
    target, before and after; recorded: for how many minutes of those before there are samples; known, of_events: what
    the counters show when they start; beside: the means of a pod that serves NINE times as much; on: its tier; busier:
    how many times the events there are after GOOD_MINUTES; good, bad, well: how long it is healthy, then not, and then
    healthy again; swung: for how many minutes the mean was before as it is then, SWUNG_BEFORE minutes earlier;
    lasts: latency pages to the end."""

    name: str
    before: float
    after: float
    fires: tuple[str, ...]
    per_second: float = PER_SECOND
    means: tuple[float, float] = (0.01, 0.01)
    recorded: int = GOOD_MINUTES
    known: float = 0.0
    of_events: float = 0.0
    beside: tuple[float, float] | None = None
    on: str | None = None
    busier: float = 1.0
    good: int = GOOD_MINUTES
    bad: int = BAD_MINUTES
    well: int = 0
    swung: int = 0
    lasts: bool = False


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
    for name, share, fires in (
        ("most-of-enough", above, ("Fast", "Slow", "Outage")),
        ("most-of-few", below, ("Fast", "Slow")),
    ):
        yield BurnCourse(name, 0.0, MOST * above, fires, OUTAGE_EVENTS * share / length_of(NOW))
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
    yield BurnCourse("swings", 0.0, 0.0, (), means=(usual, SLOWER * above * usual), swung=SWUNG_MINUTES)
    yield BurnCourse("slower-of-few", 0.0, 0.0, ("TrafficTooLow",), FEW_PER_SECOND, (usual, 4 * usual))
    few = 4 * FEWEST_FAR / length_of(NOW)
    fewest = FEWEST_FAR / length_of(NOW)
    yield BurnCourse("far", 0.0, 0.0, ("Slower",), few, (usual, FAR * above), lasts=True)
    yield BurnCourse("short-of-far", 0.0, 0.0, (), few, (usual, FAR * below))
    yield BurnCourse("far-of-enough", 0.0, 0.0, ("Slower",), fewest * above, (usual, FAR * above), lasts=True)
    yield BurnCourse("far-of-few", 0.0, 0.0, (), fewest * below, (usual, FAR * above))
    yield from _young_courses()
    yield from _pod_courses()


def _young_courses() -> Iterator[BurnCourse]:
    """After an install: the counters show what was before, or too few do, and the first minutes show it."""
    above, below, usual = 1 + NEAR, 1 - NEAR, USUAL_SHARE
    few = 1 + CHANCE / sqrt(length_of(NOW) * SOME_PER_SECOND)
    for name, fires, mean in (("slow-since-start", ("Slower",), above), ("healthy-start", (), below)):
        yield BurnCourse(name, 0.0, 0.0, fires, SOME_PER_SECOND, (0.0, few / 2 * mean), recorded=0)

    def installed(name: str, known: float, grown: float, *fires: str, busier: float = 1.0) -> BurnCourse:
        course = BurnCourse(name, 0.0, 0.0, fires, means=(usual, SLOWER * grown * usual), recorded=JUST_INSTALLED)
        return replace(course, known=known, of_events=KNOWN, busier=busier)

    yield installed("installed-before", usual, above, "Slower")
    yield installed("installed-short-of-slower", usual, below)
    yield installed("installed-in-a-busy-hour", usual / 2, below)
    yield installed("installed-in-a-good-hour", 2 * usual, above)
    yield installed("installed-and-busier", usual, above, busier=1.5)
    yield installed("installed-and-slower-still", usual, 1.6 * above, "Slower", busier=1.5)


def _pod_courses() -> Iterator[BurnCourse]:
    """One pod of several, which the mean of the model does not show: beyond what its counters and its others show."""
    above, below, usual = 1 + NEAR, 1 - NEAR, USUAL_SHARE
    even, slower = (usual, usual), (usual, 1.2 * usual)

    def pod(
        name: str, grown: float, *fires: str, per_second: float = PER_SECOND, before: float = usual, **more: Any
    ) -> BurnCourse:
        given = {"beside": even, "known": before, "of_events": KNOWN, **more}
        return BurnCourse(name, 0.0, 0.0, fires, per_second, (before, grown), **given)

    yield pod("pod-slower", SLOWER * above * usual, "PodSlower")
    yield pod("pod-short-of-slower", SLOWER * below * usual)
    chance = 1 + CHANCE / sqrt(length_of(NOW) * SOME_PER_SECOND)
    yield pod("pod-slower-than-chance", chance * above * usual, "PodSlower", per_second=SOME_PER_SECOND)
    yield pod("pod-by-chance", chance * below * usual, per_second=SOME_PER_SECOND)
    low = usual / 3
    for name, near in (("short-of", SLOWER * below), ("by-chance-beside", chance * below)):
        rate = PER_SECOND if name == "short-of" else SOME_PER_SECOND
        yield pod(f"pod-{name}-others", near * usual, per_second=rate, known=low)
        yield pod(f"pod-{name}-its-life", near * usual, per_second=rate, beside=(low, low))
    fewest = FEWEST_GROWN / length_of(NOW)
    yield pod("pod-of-enough", 3 * usual, "PodSlower", per_second=1.2 * fewest)
    yield pod("pod-of-few", 3 * usual, per_second=0.96 * fewest)
    low = FELT / 3
    yield pod("pod-slow-enough", FELT * above, "PodSlower", before=low, beside=(low, low))
    yield pod("pod-still-fast", FELT * below, before=low, beside=(low, low))
    yield pod("pod-with-others", SLOWER * above * usual, beside=slower)
    yield pod("pod-slow-of-old", SLOWER * above * usual, known=2 * usual, of_events=1e7)
    yield pod("pod-alone-of-its-tier", SLOWER * above * usual, "PodSlower", "Slower", on="other")
    yield pod("pod-alone-with-slow-others", SLOWER * above * usual, "Slower", on="other", beside=slower)
    fresh = {"recorded": JUST_INSTALLED, "per_second": SOME_PER_SECOND}
    yield pod("pod-known-enough", 3 * usual, "PodSlower", **fresh, of_events=FEWEST_BEFORE)
    yield pod("pod-known-too-little", 3 * usual, **fresh, of_events=FEWEST_BEFORE / 4)


def slo_test(
    slo: Slo, catalogue: Catalogue, rules: list[AlertRule], rule_files: list[str], groups: list[str]
) -> dict[str, Any]:
    """The test file of one objective: its rules over every course."""
    latency = slo.histogram(catalogue.signals_of_rules) is not None
    made = [*courses(slo), *(slower_courses() if latency else ())]
    if "tier" in slo.scope.fields:  # pods of another are none of its pods
        made = [course for course in made if course.on is None]
    together = [[course] for course in made] if "namespace" in slo.scope.fields else [made]
    return {
        "rule_files": rule_files,
        "evaluation_interval": f"{EVALUATED_MINUTES}m",
        "group_eval_order": groups,
        "tests": [_test(slo, catalogue, rules, each) for each in together],
    }


def _test(slo: Slo, catalogue: Catalogue, rules: list[AlertRule], beside: list[BurnCourse]) -> dict[str, Any]:
    """Courses beside each other: namespaces distinguish them."""
    checks = []
    for rule in rules:
        speed = next(end for end in ENDINGS if rule.name.endswith(end))
        firing = [_namespace(slo, course) for course in beside if speed in course.fires]
        at = SOON if speed in SUDDEN else AT
        checks.append(_check(slo, rule, at, firing))
        if speed in SUDDEN:
            lasting = [_namespace(slo, course) for course in beside if course.lasts and speed in course.fires]
            checks += [_check(slo, rule, GOOD_MINUTES - 2, []), _check(slo, rule, AT, lasting)]
        if speed in (*SUDDEN, "Outage"):
            before = [_namespace(slo, course) for course in beside if course.swung and speed == "Slower"]
            checks.append(_waits(rule, [*firing, *before]))
    series = [line for course in beside for line in _series(slo, catalogue, course)]
    series += [line for key in PLACES if key in slo.scope.fields for line in _elsewhere(slo, catalogue, key)]
    return {"interval": "1m", "input_series": series, "promql_expr_test": checks}


def waiting_tests(slo: Slo, catalogue: Catalogue, rules: Sequence[AlertRule]) -> Iterator[dict[str, Any]]:
    """How long pages wait, and stay when it is over, evaluated as often as a server does: a course for each, of
    minutes."""
    healthy = BurnCourse("", 0.0, 0.0, (), good=8, bad=8, well=WELL_MINUTES)
    slower = replace(healthy, means=(USUAL_SHARE, 3 * USUAL_SHARE), known=USUAL_SHARE, of_events=KNOWN)
    for course in (
        replace(slower, name="slower-at-once", fires=("Slower",)),
        replace(slower, name="pod-slower-at-once", fires=("PodSlower",), beside=(USUAL_SHARE, USUAL_SHARE)),
        replace(healthy, name="out-at-once", fires=("Outage",), after=1.0),
    ):
        rule = next((rule for rule in rules if rule.name == alert_name(course.fires[0])), None)
        if rule is None:
            continue
        end = course.good + course.bad + course.well
        place = f"{{{label_pairs({'namespace': _namespace(slo, course)})}}}"
        both = (rule.for_, rule.keep_firing_for or "0s")
        waits, stays = (round(length_of(text) / length_of(INTERVAL)) for text in both)
        state = f"sum by (namespace) (count_over_time({_alerts(rule, '%s')}[{end}m]))"
        holds = f"sum_over_time((count by (namespace) (\n{rule.expr}\n))[{end}m:{INTERVAL}])"
        states = ((state % "pending", waits), (f"{state % 'firing'} - {holds}", stays - waits))
        checks = [
            {"expr": expr, "eval_time": f"{end}m", "exp_samples": [{"labels": place, "value": value}]}
            for expr, value in states
        ]
        yield {"interval": "1m", "input_series": list(_series(slo, catalogue, course)), "promql_expr_test": checks}


def _alerts(rule: AlertRule, state: str) -> str:
    """The alerts of the rule of one objective: all objectives have alerts of one name."""
    labels = "".join(f', {label}="{value}"' for label, value in rule.labels)
    return f'ALERTS{{alertname="{rule.name}", alertstate="{state}"{labels}}}'


def _namespace(slo: Slo, course: BurnCourse) -> str:
    return slo.scope.namespace or course.name


def _check(slo: Slo, rule: AlertRule, minute: int, firing: list[str]) -> dict[str, Any]:
    """The namespaces in which a rule fires at a minute."""
    labels = f'severity="{rule.severity}", slo="{slo.id}"'
    return {
        "expr": f"count by (namespace, severity, slo) ({_alerts(rule, 'firing')})",
        "eval_time": f"{minute}m",
        "exp_samples": [{"labels": f"{{{label_pairs({'namespace': name})}, {labels}}}", "value": 1} for name in firing],
    }


def _waits(rule: AlertRule, firing: list[str]) -> dict[str, Any]:
    """The namespaces in which a rule was pending before it fired."""
    pending = f"count_over_time({_alerts(rule, 'pending')}[{AT}m])"
    fired = f"last_over_time({_alerts(rule, 'firing')}[{AT}m])"
    return {
        "expr": f"count by (namespace) ({pending} and ignoring (alertstate) {fired})",
        "eval_time": f"{AT}m",
        "exp_samples": [{"labels": f"{{{label_pairs({'namespace': name})}}}", "value": 1} for name in firing],
    }


def _labels(slo: Slo, namespace: str) -> dict[str, str]:
    labels = {
        "cluster": "c1",
        "namespace": namespace,
        "job": "vllm",
        "pod": "p0",
        "model_name": "model-a",
        "engine": "0",
    }
    return labels | {LABELS[key]: value for key, value in slo.scope.fields.items()} | dict(slo.scope.tenant)


def _series(slo: Slo, catalogue: Catalogue, course: BurnCourse) -> Iterator[dict[str, str]]:
    labels = _labels(slo, _namespace(slo, course))
    yield from _of_pod(slo, catalogue, course, labels)
    if course.beside is not None:
        on = {"tier": course.on} if course.on else {}
        beside = replace(course, per_second=NINE * course.per_second, means=course.beside, beside=None)
        yield from _of_pod(slo, catalogue, beside, {**labels, "pod": "p1", **on})


def _elsewhere(slo: Slo, catalogue: Catalogue, key: str) -> Iterator[dict[str, str]]:
    """Users whom it does not cover, of whom most miss it: no alert is about them."""
    missed = BurnCourse("elsewhere", 0.0, 1.0, (), means=(USUAL_SHARE, 2 * SLOWER * USUAL_SHARE))
    yield from _of_pod(slo, catalogue, missed, _labels(slo, missed.name) | {LABELS[key]: "another"})


def _of_pod(slo: Slo, catalogue: Catalogue, course: BurnCourse, labels: dict[str, str]) -> Iterator[dict[str, str]]:
    minutes = course.good + course.bad + course.well + 10
    yield {"series": f"{ENGINE_SIGN}{{{label_pairs(labels)}}}", "values": f"4x{minutes}"}
    base = label_pairs(labels)
    rates = (course.per_second, course.busier * course.per_second)
    bad = tuple(rate * share for rate, share in zip(rates, (course.before, course.after), strict=True))
    good = tuple(rate - each for rate, each in zip(rates, bad, strict=True))
    signal = catalogue.signals_of_rules[slo.signal]
    name, counted = slo.histogram(catalogue.signals_of_rules), events_of(signal)
    if name is not None:
        bound = number(slo.target / signal.readings[0].scale)
        (seconds, *_), (events, *_) = mean_series(slo, catalogue)
        weight, every = GAPS if counted_as(slo) == "gaps" else 1, _counter(course, rates, course.of_events)
        target, known = weight * in_buckets(slo, catalogue), course.known * course.of_events
        steps = [rate * mean * target for rate, mean in zip(rates, course.means, strict=True)]
        took = _swinging(course, steps) if course.swung else _counter(course, steps, known * target)
        weighed = _counter(course, [weight * rate for rate in rates], weight * course.of_events)
        values = {
            f'{name}_bucket{{{base}, le="{bound}"}}': _counter(course, good, course.of_events),
            f'{name}_bucket{{{base}, le="+Inf"}}': every,
            f"{name}_count{{{base}}}": every,
            f"{events[0]}{{{base}}}": weighed,
            f"{seconds[0]}{{{base}}}": took,
        }
        yield from ({"series": part, "values": text} for part, text in values.items())
    elif counted is not None:
        wrong, total = counted
        both = {label: value for label, _, value in matchers(total.match)}
        inside = both | {label: value for label, _, value in matchers(wrong.match)}
        other = {label: both.get(label, "other") for label in inside}
        rest = good if wrong.rate == total.rate else rates
        yield {"series": f"{wrong.rate}{{{label_pairs(labels | inside)}}}", "values": _counter(course, bad)}
        yield {"series": f"{total.rate}{{{label_pairs(labels | other)}}}", "values": _counter(course, rest)}


def _swinging(course: BurnCourse, rates: Sequence[float]) -> str:
    """A counter that grew for some minutes of the healthy time as it does after it."""
    minutes = (course.good - SWUNG_BEFORE, course.swung, SWUNG_BEFORE - course.swung, course.bad + 10)
    parts, reached = [], 0.0
    for place, length in enumerate(minutes):
        step = 60 * rates[place % 2]
        first = step * (place > 0)  # the first sample stands at minute 0
        parts.append(f"{reached + first:.12g}+{step:.12g}x{length - (place > 0)}")
        reached += step * length
    return " ".join(parts)


def _counter(course: BurnCourse, rates: Sequence[float], start: float = 0.0) -> str:
    """A counter by what it grows a second, while it is healthy, as far as that is recorded, and then."""
    step, then = (60 * rate for rate in rates)
    minutes = min(course.recorded, course.good)
    unseen = f"_x{course.good - minutes} " if minutes < course.good else ""
    reached = start + step * minutes + then
    fault = course.bad - 1 if course.well else course.bad + 10
    after = f" {reached + then * fault + step:.12g}+{step:.12g}x{course.well + 10}" if course.well else ""
    return f"{unseen}{start:.12g}+{step:.12g}x{minutes} {reached:.12g}+{then:.12g}x{fault}{after}"
