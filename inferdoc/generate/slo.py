"""Burn-rate alerts for service level objectives, over a long and a short window at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from inferdoc.catalogue.burn import FAST, SLOW, Burn, windows
from inferdoc.catalogue.load import Catalogue
from inferdoc.catalogue.signal import WIDE
from inferdoc.catalogue.slo import Audience, Slo, events_of, narrower
from inferdoc.errors import CatalogueError
from inferdoc.generate.cause_rules import AlertRule
from inferdoc.generate.commands import diagnose_command
from inferdoc.generate.links import GeneratedLinks
from inferdoc.generate.pod_info import INFO, POD, joined, joined_where_known
from inferdoc.generate.recorded import INTERVAL
from inferdoc.judging.conditions.render import clause, number
from inferdoc.source.plan import matchers
from inferdoc.source.reads import Matcher, selector
from inferdoc.times import length_of

BY = ("cluster", "namespace", "model_name", "tier", "role")
SHOWN_BY = ("cluster", "namespace", "pod", "model_name")
"""What engines are told apart by before the tier and role of their pod are joined."""
ABOVE = ("cluster", "namespace", "model_name")
LABELS = {"model": "model_name", "tier": "tier", "role": "role"}
"""What a scope names, and the label of the info series of pods that holds it."""
PAGE = "unexplained-anomaly"
"""Where an alert about harm whose cause it does not know points to."""
SPEEDS = (("Fast", FAST, "2m", "critical"), ("Slow", SLOW, "15m", "warning"))
MOST, OUTAGE_EVENTS = 0.5, 20
"""An outage: most events of five minutes miss the objective, of at least so many. The windows of an hour come later."""
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
        share = burn.factor(slo.window) * _budget(slo)
        if share >= 1:
            raise CatalogueError(
                f"{slo.where}: {slo.signal} with {1 - _budget(slo):g} good leaves a budget that cannot burn "
                f"{burn.factor(slo.window):.4g} times too fast ({share:.0%} of the events would have to be bad): "
                f"the alert over {burn.long} could never fire; raise it, or write burn: false"
            )


def _refuse_unbound(slo: Slo, catalogue: Catalogue) -> None:
    histogram = slo.histogram(catalogue.signals)
    if histogram is None:
        return
    declared = catalogue.spellings.get(histogram)
    bounds = catalogue.objectives.buckets.get(histogram) or (declared.metric.bounds if declared else ())
    if not bounds:
        raise CatalogueError(
            f"{slo.where}: nothing declares the bucket bounds of {histogram}: say them under buckets in "
            "alerts/slo.yaml, or write burn: false"
        )
    if not any(abs(_in_buckets(slo, catalogue) - bound) <= 1e-9 * bound for bound in bounds):
        near = sorted(sorted(bounds, key=lambda bound: abs(bound - slo.target))[:NEAREST])
        raise CatalogueError(
            f"{slo.where}: {slo.target:g} is no bucket bound of {histogram}, so no rule can count it; the nearest are "
            f"{', '.join(f'{bound:g}' for bound in near)} (or burn: false)"
        )


def slo_records(slo: Slo, catalogue: Catalogue) -> dict[str, str]:
    """Recording rules: bad and all events per second, and the share of bad ones over every window."""
    every, bad = _events(slo, catalogue, _record(slo, "all", "rate5m"))
    records = {_record(slo, "all", "rate5m"): every, _record(slo, "bad", "rate5m"): bad}
    for window in windows():
        records[_record(slo, "bad", f"ratio{window}")] = (
            f"sum_over_time({_record(slo, 'bad', 'rate5m')}[{window}])\n"
            f"/ (sum_over_time({_record(slo, 'all', 'rate5m')}[{window}]) > 0)"
        )
    return records


def slo_rules(slo: Slo, catalogue: Catalogue, links: GeneratedLinks) -> list[AlertRule]:
    """Fast and slow burn of an objective, and whether there are enough events to judge it."""
    least = catalogue.objectives.min_events
    return [_outage(slo, links), *_burn_rules(slo, least, links), _too_few(slo, least, links)]


def _outage(slo: Slo, links: GeneratedLinks) -> AlertRule:
    bad, every = _record(slo, "bad", "rate5m"), _record(slo, "all", "rate5m")
    return AlertRule(
        name=f"InferdocSlo{_camel(slo.id)}Outage",
        expr=f"{bad} / ({every} > 0) > {number(MOST)}\nand {number(length_of('5m'))} * {every} >= {OUTAGE_EVENTS}",
        for_="1m",
        keep_firing_for=None,
        severity="critical",
        cause=PAGE,
        annotations=_about(
            links,
            f"{slo.title}: most requests of model {{{{ $labels.model_name }}}} miss it now",
            f"{{{{ $value | humanizePercentage }}}} of the events of five minutes. Next: {diagnose_command(BY)}",
        ),
        by=BY,
        labels=(("slo", slo.id),),
        kind="symptom",
    )


def _burn_rules(slo: Slo, least: int, links: GeneratedLinks) -> Iterator[AlertRule]:
    for speed, burns, for_, severity in SPEEDS:
        pairs = [_pair(slo, burn, least) for burn in burns]
        ratio, allowed = "{{ $value | humanizePercentage }}", f"{100 * _budget(slo):.4g} %"
        yield AlertRule(
            name=f"InferdocSlo{_camel(slo.id)}Burn{speed}",
            expr="\nor\n".join(f"(\n{pair}\n)" for pair in pairs),
            for_=for_,
            keep_firing_for=None,
            severity=severity,
            cause=PAGE,
            annotations=_about(
                links,
                f"{slo.title}: the error budget of model {{{{ $labels.model_name }}}} burns too fast",
                f"{ratio} of the events miss it over the long window, and it still goes on; {allowed} may. "
                f"That spends the budget {_pace(burns, slo)} too fast. Next: {diagnose_command(BY)}",
            ),
            by=BY,
            labels=(("slo", slo.id),),
            kind="symptom",
        )


def _pace(burns: tuple[Burn, ...], slo: Slo) -> str:
    return " or ".join(f"{burn.factor(slo.window):.4g} times (over {burn.long})" for burn in burns)


def _pair(slo: Slo, burn: Burn, least: int) -> str:
    limit = f"{number(round(burn.factor(slo.window), 6))} * {number(_budget(slo))}"
    return (
        f"  {_record(slo, 'bad', f'ratio{burn.long}')} > {limit}\n"
        f"  and {_record(slo, 'bad', f'ratio{burn.short}')} > {limit}\n"
        f"  and {_count(slo, burn.long)} >= {least}"
    )


def _too_few(slo: Slo, least: int, links: GeneratedLinks) -> AlertRule:
    return AlertRule(
        name=f"InferdocSlo{_camel(slo.id)}TrafficTooLow",
        expr=f"{_count(slo, JUDGED)} < {least}",
        for_="1h",
        keep_firing_for=None,
        severity="info",
        cause=PAGE,
        annotations=_about(
            links,
            f"{slo.title}: too little traffic on model {{{{ $labels.model_name }}}} to judge it",
            f"{{{{ $value | humanize }}}} events in {JUDGED}; {least} are needed. Its alerts are silent.",
        ),
        by=BY,
        labels=(("slo", slo.id),),
        kind="monitoring",
    )


def _about(links: GeneratedLinks, summary: str, description: str) -> dict[str, str]:
    annotations = {"summary": summary, "description": description, "runbook_url": links.runbook(PAGE)}
    board = links.dashboard(BY)
    return annotations if board is None else {**annotations, "dashboard_url": board}


def _events(slo: Slo, catalogue: Catalogue, recorded: str) -> tuple[str, str]:
    """All and bad events per second, without those that a narrower objective speaks for. recorded: the name under which
    all are recorded first."""
    parts = [other.scope for other in narrower(slo, catalogue.slos)]
    above = catalogue.signals[slo.signal].level in WIDE
    histogram = slo.histogram(catalogue.signals)
    if histogram is not None:
        match = matchers(catalogue.signals[slo.signal].readings[0].match)
        every = _of_scope(f"{histogram}_count", match, slo.scope, parts, above)
        good = (*match, ("le", "=~", _le(_in_buckets(slo, catalogue))))
        return every, f"{recorded}\n- {_of_scope(f'{histogram}_bucket', good, slo.scope, [], above)}"
    counted = events_of(catalogue.signals[slo.signal])
    assert counted is not None
    bad, total = counted
    every = _of_scope(str(total.rate), matchers(total.match), slo.scope, parts, above)
    wrong = _of_scope(str(bad.rate), matchers(bad.match), slo.scope, [], above)
    return every, f"{clause(f'{wrong}{chr(10)}and {recorded}')}\nor 0 * {recorded}"


def _of_scope(name: str, match: Sequence[Matcher], scope: Audience, without: list[Audience], above: bool) -> str:
    """Events per second of what is in a scope, and not in one of its parts."""
    text = _rate(name, match, scope, above)
    for other in without:
        text = clause(f"{text}\nunless {_rate(name, match, other, above)}")
    return text


def _rate(name: str, match: Sequence[Matcher], scope: Audience, above: bool) -> str:
    """Events per second by what the rules split: of engines with the tier and role of their pod, of what is counted
    above the pods by model."""
    own: list[Matcher] = [*match, *((label, "=", value) for label, value in scope.tenant)]
    if scope.model is not None:
        own.append((LABELS["model"], "=", scope.model))
    inner = f"sum by ({', '.join(SHOWN_BY)}) (rate({selector(name, tuple(own))}[5m]))"
    if above:
        return inner.replace(f"({', '.join(SHOWN_BY)})", f"({', '.join(ABOVE)})", 1)
    pool: list[Matcher] = [(LABELS[key], "=", value) for key, value in scope.fields.items() if key != "model"]
    text = joined_where_known(inner) if not pool else joined(inner)
    if pool:
        text = f"{clause(text)}\nand on ({', '.join(POD)}) {selector(INFO, tuple(pool))}"
    return f"sum by ({', '.join(BY)}) {clause(text)}"


def _in_buckets(slo: Slo, catalogue: Catalogue) -> float:
    """The target in the unit of the histogram's bounds."""
    return slo.target / catalogue.signals[slo.signal].readings[0].scale


def _le(bound: float) -> str:
    """Go writes le="1", Python le="1.0"."""
    text = number(bound)
    return f"{text}|{text}[.]0" if float(bound).is_integer() else text.replace(".", "[.]")


def _budget(slo: Slo) -> float:
    assert slo.good is not None
    return round(1 - slo.good, 9)


def _count(slo: Slo, window: str) -> str:
    """Events in a window: recorded once per interval, as events per second."""
    return f"{number(length_of(INTERVAL))} * sum_over_time({_record(slo, 'all', 'rate5m')}[{window}])"


def _record(slo: Slo, what: str, operation: str) -> str:
    return f"model:inferdoc_slo_{slo.id.replace('-', '_')}_{what}:{operation}"


def _camel(text: str) -> str:
    return "".join(part.capitalize() for part in text.replace("_", "-").split("-"))
