"""Burn-rate alerts for service level objectives, over a long and a short window at once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from inferdoc.catalogue.load import Catalogue
from inferdoc.catalogue.slo import FAST, SLOW, Burn, Slo, windows
from inferdoc.errors import CatalogueError
from inferdoc.generate.cause_rules import AlertRule
from inferdoc.generate.links import GeneratedLinks
from inferdoc.generate.recorded import INTERVAL
from inferdoc.generate.slo_events import NOW, events, in_buckets, record_name
from inferdoc.generate.slo_latency import FEWEST_BEFORE, latency_records, objective_rule, slower_rules, usual_records
from inferdoc.judging.conditions.render import clause, number
from inferdoc.times import length_of

SPEEDS = (("Fast", FAST, "2m", "critical"), ("Slow", SLOW, "15m", "warning"))
MOST, OUTAGE_EVENTS = 0.5, 20
"""An outage: most events of the newest window miss the objective, of at least so many."""
QUICK = "1h"
"""The longest window whose share a few bad minutes move."""
JUDGED = "6h"
"""Over how long there must be enough events."""
NEAREST = 4
"""Bounds that are named where a target is none."""


def watched(catalogue: Catalogue) -> list[Slo]:
    """The objectives whose burn rate rules watch. Raises CatalogueError for one that no rule can watch: its target is
    no bucket bound, or its budget is so large that it cannot burn fast enough."""
    found = [slo for slo in catalogue.slos if slo.burn]
    for slo in found:
        _refuse_slow_budgets(slo)
        _refuse_unbound(slo, catalogue)
    return found


def _refuse_slow_budgets(slo: Slo) -> None:
    for burn in (*FAST, *SLOW):
        share = burn.factor(slo.window) * budget(slo)
        if share >= 1:
            raise CatalogueError(
                f"{slo.where}: {slo.signal} with {1 - budget(slo):g} good leaves a budget that cannot burn "
                f"{burn.factor(slo.window):.4g} times too fast ({share:.0%} of the events would have to be bad): "
                f"the alert over {burn.long} could never fire; raise it, or write burn: false"
            )


def _refuse_unbound(slo: Slo, catalogue: Catalogue) -> None:
    histogram = slo.histogram(catalogue.signals_of_rules)
    if histogram is None:
        return
    declared = catalogue.spellings.get(histogram)
    bounds = catalogue.objectives.buckets.get(histogram) or (declared.metric.bounds if declared else ())
    if not bounds:
        raise CatalogueError(
            f"{slo.where}: nothing declares the bucket bounds of {histogram}: say them under buckets in "
            "alerts/slo.yaml, or write burn: false"
        )
    if not any(abs(in_buckets(slo, catalogue) - bound) <= 1e-9 * bound for bound in bounds):
        near = sorted(sorted(bounds, key=lambda bound: abs(bound - slo.target))[:NEAREST])
        raise CatalogueError(
            f"{slo.where}: {slo.target:g} is no bucket bound of {histogram}, so no rule can count it; the nearest are "
            f"{', '.join(f'{bound:g}' for bound in near)} (or burn: false)"
        )


def slo_records(slo: Slo, catalogue: Catalogue) -> dict[str, str]:
    """Recording rules that pages need at once: bad and all events per second, and the share of bad ones over windows of
    up to an hour."""
    records = latency_records(slo, catalogue)
    for window in ("5m", NOW):
        all_, bad = (record_name(slo, what, f"rate{window}") for what in ("all", "bad"))
        every, _ = events(slo, catalogue, all_, f"rate({{}}[{window}])")
        # of a latency all may be recorded of engines whose buckets nothing counts: those are no bad events
        own = all_ if records.setdefault(all_, every) == every else clause(every)
        _, records[bad] = events(slo, catalogue, own, f"rate({{}}[{window}])")
    return records | _shares(slo, (window for window in windows() if length_of(window) <= length_of(QUICK)))


def slow_records(slo: Slo, catalogue: Catalogue) -> dict[str, str]:
    """Recording rules of what moves over hours: the share of bad events over longer windows, and what is usual."""
    longer = (window for window in windows() if length_of(window) > length_of(QUICK))
    return usual_records(slo, catalogue) | _shares(slo, longer) | _never_met(slo, catalogue)


def _never_met(slo: Slo, catalogue: Catalogue) -> dict[str, str]:
    """The share of bad events over the life of the engines without the newest hour, where it is most of them: a target
    that does not fit the model, as 2.5 s for first tokens after prompts of 38,000 tokens, is no incident."""
    if slo.histogram(catalogue.signals_of_rules) is None:
        return {}
    every, _ = events(slo, catalogue, "", "{}")
    _, bad = events(slo, catalogue, clause(every), "{}")
    every, bad = (
        clause(f"{clause(text)} - {_count(slo, QUICK, what)}") for text, what in ((every, "all"), (bad, "bad"))
    )
    return {_unfit(slo): f"{bad}\n/ ({every} >= {FEWEST_BEFORE}) > {number(MOST)}"}


def _unfit(slo: Slo) -> str:
    return record_name(slo, "bad", "life")


def _shares(slo: Slo, over: Iterable[str]) -> dict[str, str]:
    return {
        record_name(slo, "bad", f"ratio{window}"): (
            f"sum_over_time({record_name(slo, 'bad', 'rate5m')}[{window}])\n"
            f"/ (sum_over_time({record_name(slo, 'all', 'rate5m')}[{window}]) > 0)"
        )
        for window in over
    }


def slo_rules(slo: Slo, catalogue: Catalogue, links: GeneratedLinks) -> list[AlertRule]:
    """An objective that most miss now, latency that is out of the usual now, fast and slow burn, and whether there are
    enough events to judge it."""
    least = catalogue.objectives.min_events
    now = [_outage(slo, links), *slower_rules(slo, catalogue, links)]
    return [*now, *_burn_rules(slo, catalogue, links), _too_few(slo, least, links)]


def _outage(slo: Slo, links: GeneratedLinks) -> AlertRule:
    bad, every = record_name(slo, "bad", f"rate{NOW}"), record_name(slo, "all", f"rate{NOW}")
    return objective_rule(
        slo,
        links,
        "Outage",
        f"{bad} / ({every} > 0) > {number(MOST)}\nand {number(length_of(NOW))} * {every} >= {OUTAGE_EVENTS}",
        for_="1m",
        page="slo-outage",
        summary="Most requests of a model miss a service level objective.",
        observation=f"{{{{ $value | humanizePercentage }}}} of its requests in {NOW} miss objective "
        f"{{{{ $labels.slo }}}}, limit {MOST:.0%}",
        action="Shift traffic to a healthy pool or roll back the last change, then run the command in diagnose_command",
    )


def _burn_rules(slo: Slo, catalogue: Catalogue, links: GeneratedLinks) -> Iterator[AlertRule]:
    for speed, burns, for_, severity in SPEEDS:
        limits = " or ".join(f"{burn.factor(slo.window):.4g} over {burn.long}" for burn in burns)
        expr = "\nor\n".join(f"(\n{_pair(slo, burn, catalogue.objectives.min_events)}\n)" for burn in burns)
        if severity == "critical" and slo.histogram(catalogue.signals_of_rules) is not None:
            expr = f"{clause(expr)}\nunless {_unfit(slo)}"
        yield objective_rule(
            slo,
            links,
            f"Burn{speed}",
            expr,
            for_=for_,
            severity=severity,
            page="slo-burn",
            summary="A model burns the error budget of an objective too fast.",
            observation="objective {{ $labels.slo }} burns its error budget at {{ $value | humanize }} times the "
            f"allowed rate, limit {limits}",
            action="Run the command in diagnose_command: it names the pod or the model and the cause",
        )


def _pair(slo: Slo, burn: Burn, least: int) -> str:
    factor, share = number(round(burn.factor(slo.window), 6)), number(budget(slo))
    return (
        f"  {record_name(slo, 'bad', f'ratio{burn.long}')} / {share} > {factor}\n"
        f"  and {record_name(slo, 'bad', f'ratio{burn.short}')} > {factor} * {share}\n"
        f"  and {_count(slo, burn.long)} >= {least}"
    )


def _too_few(slo: Slo, least: int, links: GeneratedLinks) -> AlertRule:
    return objective_rule(
        slo,
        links,
        "TrafficTooLow",
        f"{_count(slo, JUDGED)} < {least}",
        for_="1h",
        severity="info",
        page="slo-burn",
        summary="A model has too few requests to evaluate an objective.",
        observation=f"{{{{ $value | humanize }}}} events of objective {{{{ $labels.slo }}}} in {JUDGED}, fewer than "
        f"the limit {least}",
        action="Lower min_events in alerts/slo.yaml, or take this objective as not evaluated",
        kind="monitoring",
    )


def merged(rules: Iterable[AlertRule]) -> list[AlertRule]:
    """One rule for all objectives per alert: the label `slo`, which names the objective, is put on the series. Alerts
    whose text or wait differs (other windows) stay apart."""
    alike: dict[str, list[AlertRule]] = {}
    for rule in rules:
        alike.setdefault(f"{rule.name} {rule.for_} {rule.annotations}", []).append(rule)
    return [
        replace(each[0], expr="\nor\n".join(map(_of_objective, each)), by=(*each[0].by, "slo"), labels=())
        for each in alike.values()
    ]


def _of_objective(rule: AlertRule) -> str:
    ((label, value),) = rule.labels
    return f'label_replace(\n{rule.expr},\n"{label}", "{value}", "", "")'


def budget(slo: Slo) -> float:
    """The share of events that may miss an objective."""
    assert slo.good is not None
    return round(1 - slo.good, 9)


def _count(slo: Slo, window: str, what: str = "all") -> str:
    """Events in a window: recorded once per interval, as events per second."""
    return f"{number(length_of(INTERVAL))} * sum_over_time({record_name(slo, what, 'rate5m')}[{window}])"
