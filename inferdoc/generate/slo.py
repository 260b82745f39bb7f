"""Burn-rate alerts for service level objectives, over a long and a short window at once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from inferdoc.catalogue.content import content_file
from inferdoc.catalogue.document import decode, locate
from inferdoc.errors import CatalogueError
from inferdoc.generate.cause_rules import AlertRule
from inferdoc.generate.commands import diagnose_command
from inferdoc.generate.links import GeneratedLinks
from inferdoc.generate.recorded import INTERVAL
from inferdoc.judging.conditions.render import number
from inferdoc.source.plan import matchers
from inferdoc.source.reads import selector
from inferdoc.times import length_of

BY = ("cluster", "namespace", "model_name", "role")
PAGE = "unexplained-anomaly"
"""Where an alert about harm whose cause it does not know points to."""


class Latency(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Observations of a histogram within a limit, in its unit, are good."""

    histogram: str
    within: float


class Errors(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Events of a counter that have these labels are bad."""

    counter: str
    bad: dict[str, str]


class Slo(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """id: part of rule names; objective: the share that is to be good; exactly one of latency, errors."""

    id: str
    title: str
    objective: float
    latency: Latency | None = None
    errors: Errors | None = None


class SloFile(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """alerts/slo.yaml."""

    slos: tuple[Slo, ...]
    buckets: dict[str, tuple[float, ...]]
    period: str = "30d"
    min_events: int = 100


@dataclass(frozen=True)
class Burn:
    """spent: share of the period's budget that is gone when this rate lasted for the long window."""

    spent: float
    long: str
    short: str

    def factor(self, period: str) -> float:
        """How many times faster than sustainable the budget burns."""
        return self.spent * length_of(period) / length_of(self.long)


FAST = (Burn(0.02, "1h", "5m"), Burn(0.05, "6h", "30m"))
SLOW = (Burn(0.10, "1d", "2h"), Burn(0.10, "3d", "6h"))
"""The pairs of the SRE workbook, chapter "Alerting on SLOs"."""

SPEEDS = (("Fast", FAST, "2m", "critical"), ("Slow", SLOW, "15m", "warning"))
JUDGED = "6h"
"""Over how long there must be enough events."""


def load_slos(overlays: tuple[Path, ...] = ()) -> SloFile:
    """alerts/slo.yaml, checked. Raises CatalogueError: one line with file and place."""
    path = content_file("alerts", "slo.yaml", overlays)
    if path is None:
        raise CatalogueError("alerts/slo.yaml: not found; it holds the service level objectives")
    found = decode(path, SloFile)
    for index, slo in enumerate(found.slos):
        for key, problem in _problems(slo, found):
            raise CatalogueError(f"{locate(path, ('slos', index, key))}: {problem}")
    return found


def _problems(slo: Slo, file: SloFile) -> Iterator[tuple[str, str]]:
    if not 0 < slo.objective < 1:
        yield "objective", f"a share between 0 and 1 is expected, got {slo.objective:g}"
        return
    if (slo.latency is None) == (slo.errors is None):
        yield "id", "exactly one of latency, errors is needed"
    for burn in (*FAST, *SLOW):
        share = burn.factor(file.period) * (1 - slo.objective)
        if share >= 1:
            needs = f"({share:.0%} of the events would have to be bad): the alert over {burn.long} could never fire"
            factor = f"{burn.factor(file.period):.4g}"
            yield "objective", f"{slo.objective:g} leaves a budget that cannot burn {factor} times too fast {needs}"
    if slo.latency is not None:
        bounds = file.buckets.get(slo.latency.histogram)
        if bounds is None:
            yield "latency", f"buckets does not say the bounds of {slo.latency.histogram}"
        elif slo.latency.within not in bounds:
            near = min(bounds, key=lambda bound: abs(bound - slo.latency.within))  # type: ignore[union-attr]
            yield (
                "latency",
                f"{slo.latency.within:g} is no bucket bound of {slo.latency.histogram}; the nearest is {near:g}",
            )


def slo_records(file: SloFile) -> dict[str, str]:
    """Recording rules: bad and all events per second, and the share of bad ones over every window."""
    records = {}
    for slo in file.slos:
        bad, every = _events(slo)
        records[_record(slo, "bad", "rate5m")] = bad
        records[_record(slo, "all", "rate5m")] = every
        for window in _windows():
            records[_record(slo, "bad", f"ratio{window}")] = (
                f"sum_over_time({_record(slo, 'bad', 'rate5m')}[{window}])\n"
                f"/ (sum_over_time({_record(slo, 'all', 'rate5m')}[{window}]) > 0)"
            )
    return records


def slo_rules(file: SloFile, links: GeneratedLinks) -> list[AlertRule]:
    """Fast and slow burn of every objective, and whether there are enough events to judge it."""
    return [rule for slo in file.slos for rule in (*_burn_rules(slo, file, links), _too_few(slo, file, links))]


def _burn_rules(slo: Slo, file: SloFile, links: GeneratedLinks) -> Iterator[AlertRule]:
    for speed, burns, for_, severity in SPEEDS:
        pairs = [_pair(slo, burn, file) for burn in burns]
        ratio, allowed = "{{ $value | humanizePercentage }}", f"{100 * (1 - slo.objective):.4g} %"
        yield AlertRule(
            name=f"InferdocSlo{_camel(slo.id)}Burn{speed}",
            expr="\nor\n".join(f"(\n{pair}\n)" for pair in pairs),
            for_=for_,
            keep_firing_for=None,
            severity=severity,
            cause=PAGE,
            annotations=_said(
                links,
                f"{slo.title}: the error budget of model {{{{ $labels.model_name }}}} burns too fast",
                f"{ratio} of the events miss it over the long window, and it still goes on; {allowed} may. "
                f"That spends the budget {_pace(burns, file)} too fast. Next: {diagnose_command(BY)}",
            ),
            by=BY,
            labels=(("slo", slo.id),),
        )


def _pace(burns: tuple[Burn, ...], file: SloFile) -> str:
    return " or ".join(f"{burn.factor(file.period):.4g} times (over {burn.long})" for burn in burns)


def _pair(slo: Slo, burn: Burn, file: SloFile) -> str:
    limit = f"{number(round(burn.factor(file.period), 6))} * {number(round(1 - slo.objective, 9))}"
    return (
        f"  {_record(slo, 'bad', f'ratio{burn.long}')} > {limit}\n"
        f"  and {_record(slo, 'bad', f'ratio{burn.short}')} > {limit}\n"
        f"  and {_count(slo, burn.long)} >= {file.min_events}"
    )


def _too_few(slo: Slo, file: SloFile, links: GeneratedLinks) -> AlertRule:
    return AlertRule(
        name=f"InferdocSlo{_camel(slo.id)}TrafficTooLow",
        expr=f"{_count(slo, JUDGED)} < {file.min_events}",
        for_="1h",
        keep_firing_for=None,
        severity="info",
        cause=PAGE,
        annotations=_said(
            links,
            f"{slo.title}: too little traffic on model {{{{ $labels.model_name }}}} to judge it",
            f"{{{{ $value | humanize }}}} events in {JUDGED}; {file.min_events} are needed. Its alerts are silent.",
        ),
        by=BY,
        labels=(("slo", slo.id),),
    )


def _said(links: GeneratedLinks, summary: str, description: str) -> dict[str, str]:
    said = {"summary": summary, "description": description, "runbook_url": links.runbook(PAGE)}
    board = links.dashboard(BY)
    return said if board is None else {**said, "dashboard_url": board}


def _events(slo: Slo) -> tuple[str, str]:
    labels = ", ".join(BY)
    if slo.latency is not None:
        every = f"sum by ({labels}) (rate({slo.latency.histogram}_count[5m]))"
        bound = number(slo.latency.within)
        le = f"{bound}|{bound}[.]0" if float(slo.latency.within).is_integer() else bound.replace(".", "[.]")
        good = selector(f"{slo.latency.histogram}_bucket", (("le", "=~", le),))
        return f"{every}\n- sum by ({labels}) (rate({good}[5m]))", every
    assert slo.errors is not None
    every = f"sum by ({labels}) (rate({slo.errors.counter}[5m]))"
    bad = selector(slo.errors.counter, matchers(slo.errors.bad))
    return f"sum by ({labels}) (rate({bad}[5m]))\nor 0 * {every}", every


def _count(slo: Slo, window: str) -> str:
    """Events in a window: recorded once per interval, as events per second."""
    return f"{number(length_of(INTERVAL))} * sum_over_time({_record(slo, 'all', 'rate5m')}[{window}])"


def _record(slo: Slo, what: str, operation: str) -> str:
    return f"model:inferdoc_slo_{slo.id.replace('-', '_')}_{what}:{operation}"


def _windows() -> list[str]:
    found: Mapping[str, Any] = {window: None for burn in (*FAST, *SLOW) for window in (burn.short, burn.long)}
    return sorted(found, key=length_of)


def _camel(text: str) -> str:
    return "".join(part.capitalize() for part in text.replace("_", "-").split("-"))
