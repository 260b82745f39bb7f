"""Latency that is out of the usual now, of a model or of one of its pods: pages that need no window of an hour."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from inferdoc.catalogue.load import Catalogue
from inferdoc.catalogue.signal import WIDE
from inferdoc.catalogue.slo import Slo
from inferdoc.generate.cause_rules import AlertRule, described
from inferdoc.generate.links import GeneratedLinks
from inferdoc.generate.recorded import INTERVAL
from inferdoc.generate.slo_events import (
    ABOVE,
    BY,
    NOW,
    SHOWN_BY,
    UNKNOWN,
    alert_name,
    counted_as,
    in_buckets,
    of_engines,
    of_latency,
    record_name,
)
from inferdoc.judging.conditions.render import clause, number
from inferdoc.times import length_of

SLOWER, CHANCE = 1.3, 5.0
"""Latency grew where its mean is 1.3 times the usual (observation first_tokens_later), and more than chance makes of so
few requests: they spread by twice their mean, so that 2.5 errors of a mean of n are 5 / sqrt(n) of it."""
FELT = 0.1
"""It matters as soon as the mean is a tenth of the target: one in a hundred then comes near it."""
PAST, LAG, FEWEST_MEANS, SINCE = "30m", "5m", 10, "15m"
"""What is usual for the mean: the half hour before the newest five minutes, in a record that is so old at least."""
SOON = "1m"
"""In a younger one, what is older than half of the newest window."""
QUIETER = 0.25
"""The quieter quarter of that: a fault soon fills the later half of a short record."""
USUAL_SPREAD = 0.9
"""Beyond nine of ten means of that past, so that what swings all the time pages nobody."""
ROUNDING = 1.001
"""A quantile between two equal means may be rounded below them."""
BEFORE = f"{{}} offset {NOW}"
"""A counter without the newest window."""
FEWEST_BEFORE = 1000
"""Events that a mean over the life of an engine rests on: it strays by 2 / sqrt(n), 6 % of so many."""
FAR, FEWEST_FAR = 4.0, 10
"""Beyond four times the target the mean of ten events needs no past: own choice, 10 s for first tokens. So the
recorded mean is of ten at least."""
FEWEST_GROWN = 50
"""Events in the newest window: what serves slowly serves few."""


def latency_records(slo: Slo, catalogue: Catalogue) -> dict[str, str]:
    """Recording rules, none for an objective about no latency: by pod, where engines count them, events per second,
    their mean, and how many times that of its others it is, where that is much; by model, where there are enough for a
    mean."""
    if slo.histogram(catalogue.signals_of_rules) is None:
        return {}
    took, every = of_latency(slo, catalogue, f"rate({{}}[{NOW}])")
    records = {}
    if _by_pod(slo, catalogue):
        pod_all, pod_mean = _of_pod(slo, counted_as(slo)), _of_pod(slo, "mean")
        records = {pod_all: every, pod_mean: f"{clause(took)}\n/ ({pod_all} > 0)"}
        others = f"{pod_mean}\n/ ({clause(_others(pod_mean, pod_all))} > 0)"
        records[_of_pod(slo, "over_others")] = f"{others} > {number(SLOWER)}"
        took, every = f"{pod_mean} * {pod_all}", pod_all
    all_, mean = _model(slo)
    records |= {
        all_: f"sum by ({', '.join(BY)}) {clause(every)}",
        mean: f"sum by ({', '.join(BY)}) {clause(took)}\n/ ({all_} > 0)\nand {_events(all_)} >= {FEWEST_FAR}",
    }
    return records


def usual_records(slo: Slo, catalogue: Catalogue) -> dict[str, str]:
    """What is usual for the mean of a latency: it moves over half an hour, and need not be judged as often as pages."""
    if slo.histogram(catalogue.signals_of_rules) is None:
        return {}
    all_, mean = _model(slo)
    return {record_name(slo, "mean", f"median{PAST}"): _usual(slo, catalogue, mean, all_)}


def _usual(slo: Slo, catalogue: Catalogue, mean: str, all_: str) -> str:
    """The first that there is: the middle of half an hour; as after an install, what the counters of the engines show,
    which started before the record, or the first minutes of the record where they were worse: a busy hour is no
    incident, nor is one that gets busier by as much; half of the target, as in `stand_ins` of tiers.yaml."""
    past = f"{mean}[{PAST}] offset {LAG}"
    full = f"({all_} and {all_} offset {NOW})[{PAST}:{INTERVAL}]"  # a rate reads too low until its window is full
    quieter = (f"{mean}[{PAST}]", full)
    young, before = (f"quantile_over_time({number(QUIETER)}, {each} offset {SOON})" for each in quieter)
    life = _life(*(f"sum by ({', '.join(BY)}) {clause(text)}" for text in of_latency(slo, catalogue, BEFORE)))
    enough = f"count_over_time({past}) >= {FEWEST_MEANS}\nand {mean} offset {SINCE}"
    known = clause(f"{clause(life)} >= {young} or {young} and {clause(life)}")
    return "\nor ".join(
        (
            f"quantile_over_time(0.5, {past})\nand {enough}",
            f"{known} * clamp_min({all_} / {clause(f'{before} or {all_}')}, 1)",
            f"0 * {mean} + {number(in_buckets(slo, catalogue) / 2)}",
        )
    )


def slower_rules(slo: Slo, catalogue: Catalogue, links: GeneratedLinks) -> Iterator[AlertRule]:
    """The model as a whole; and one of its pods, whose wait the mean over all shows late or never."""
    if slo.histogram(catalogue.signals_of_rules) is None:
        return
    (all_, mean), usual = _model(slo), record_name(slo, "mean", f"median{PAST}")
    target = number(in_buckets(slo, catalogue))
    felt = f"{number(FELT)} * {target}"
    grown = f"{mean} > {_factor(all_)} * {usual}\nand {mean} > {felt}\nand {_events(all_)} >= {FEWEST_GROWN}"
    yield _slower(
        slo,
        links,
        "Slower",
        BY,
        f"{clause(f'{grown}{chr(10)}unless {mean} <= {_swing(mean)}')}\nor {mean} > {number(FAR)} * {target}",
        "critical",
        "The latency of a model rose above its usual range.",
        f" or {number(FAR)} times the target",
    )
    if not _by_pod(slo, catalogue):
        return
    mean, all_ = _of_pod(slo, "mean"), _of_pod(slo, counted_as(slo))
    life = _life(*of_engines(slo, catalogue, BEFORE))
    beyond = (
        f"{mean}\nand {_of_pod(slo, 'over_others')} > {_chance(all_)}\n"  # the record requires SLOWER
        f"and {mean} / on ({', '.join(SHOWN_BY)}) group_left () {clause(life)} > {_factor(all_)}\n"
        f"and {mean} > {felt}\n"
        f"and {_events(all_)} >= {FEWEST_GROWN}\n"
        f"unless {mean} <= {_swing(mean)}"
    )
    yield _slower(
        slo,
        links,
        "PodSlower",
        SHOWN_BY,
        # a fault may change what a pod is taken for, and its page goes on
        f"max by ({', '.join(SHOWN_BY)}) {clause(beyond)}",
        "warning",
        "The latency of a pod rose above its usual range and that of its pool.",
        "",
    )


def _slower(
    slo: Slo, links: GeneratedLinks, ending: str, by: tuple[str, ...], expr: str, severity: str, summary: str, far: str
) -> AlertRule:
    return objective_rule(
        slo,
        links,
        ending,
        expr,
        for_="2m",
        keep_firing_for="5m",
        severity=severity,
        page="slo-latency",
        summary=summary,
        observation=f"mean latency of objective {{{{ $labels.slo }}}} is {{{{ $value | humanizeDuration }}}} over {NOW}"
        f", limit {number(SLOWER)} times its usual value{far}",
        action="Run the command in diagnose_command: it compares the pods and names the cause",
        by=by,
    )


def objective_rule(
    slo: Slo,
    links: GeneratedLinks,
    ending: str,
    expr: str,
    *,
    for_: str,
    page: str,
    summary: str,
    observation: str,
    action: str,
    severity: str = "critical",
    kind: Literal["symptom", "monitoring"] = "symptom",
    keep_firing_for: str | None = None,
    by: tuple[str, ...] = BY,
) -> AlertRule:
    """A rule of one objective. ending: of its name; page: its runbook; observation, action: of its description."""
    description = described(by, observation, for_, action)
    return AlertRule(
        name=alert_name(ending),
        expr=expr,
        for_=for_,
        keep_firing_for=keep_firing_for,
        severity=severity,
        cause=UNKNOWN,
        annotations=links.annotations(page, by, summary, description, diagnosed=kind == "symptom"),
        by=by,
        labels=(("slo", slo.id),),
        kind=kind,
    )


def _model(slo: Slo) -> tuple[str, str]:
    """The records of a model: events per second, and their mean."""
    return record_name(slo, counted_as(slo), f"rate{NOW}"), record_name(slo, "mean", f"rate{NOW}")


def _by_pod(slo: Slo, catalogue: Catalogue) -> bool:
    return catalogue.signals_of_rules[slo.signal].level not in WIDE


def _of_pod(slo: Slo, what: str) -> str:
    return record_name(slo, what, f"rate{NOW}").replace("model:", "pod:", 1)


def _life(took: str, every: str) -> str:
    """The mean over the life of the engines, as their counters show."""
    return f"{took}\n/ ({every} >= {FEWEST_BEFORE})"


def _others(mean: str, all_: str) -> str:
    """The mean of the other pods of its pool. Where it has none, of the model: a fault may change what a pod is taken
    for, a decode pod that computes prompts. Of a model of one pod no number, which nothing is beyond."""
    pool, model = (_without_it(mean, all_, ", ".join(by)) for by in (BY, ABOVE))
    return f"{pool} >= 0\nor {model}"


def _without_it(mean: str, all_: str, by: str) -> str:
    took = f"sum by ({by}) ({mean} * {all_}) - on ({by}) group_right () {mean} * {all_}"
    return f"({took})\n/ (sum by ({by}) ({all_}) - on ({by}) group_right () {all_})"


def _events(all_: str) -> str:
    return f"{number(length_of(NOW))} * {all_}"


def _factor(all_: str) -> str:
    """How much more than usual counts, of so many events per second."""
    return f"clamp_min({_chance(all_)}, {number(SLOWER)})"


def _chance(all_: str) -> str:
    """How many times the usual chance makes of so many events per second."""
    return f"1 + {number(CHANCE)} / sqrt({_events(all_)})"


def _swing(mean: str) -> str:
    return f"{number(ROUNDING)} * quantile_over_time({number(USUAL_SPREAD)}, {mean}[{PAST}] offset {LAG})"
