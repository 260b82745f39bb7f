"""Scores fired alerts against injected faults: right, wrong, too early, and sent after Alertmanager's inhibition."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import msgspec
import yaml

from inferdoc.backtest.recording import RecordingLabels
from inferdoc.backtest.replay import STEP_SECONDS, Firing, RuleSet
from inferdoc.generate.alertmanager import Matcher, read_matchers
from inferdoc.times import length_of

GROUP_WAIT = "30s"
"""Alertmanager's default: the delay before it sends a group. An alert that is inhibited by then is never sent."""


@dataclass(frozen=True)
class Inhibit:
    """While an alert that matches `source` fires, alerts that match `target` and agree in the labels `equal` are
    inhibited."""

    source: tuple[Matcher, ...]
    target: tuple[Matcher, ...]
    equal: tuple[str, ...]

    def holds_back(self, source: Mapping[str, str], target: Mapping[str, str]) -> bool:
        """Whether one alert inhibits another, by their labels with `alertname`. An alert that matches both sides is not
        inhibited by another that does."""
        both = _fit(self.source, target) and _fit(self.target, source)
        equal = all(source.get(label, "") == target.get(label, "") for label in self.equal)
        return equal and not both and _fit(self.source, source) and _fit(self.target, target)


@dataclass(frozen=True)
class Notifying:
    """Inhibition and group waits of an Alertmanager configuration. waits: of every route in order, its matchers and its
    wait in seconds."""

    inhibitions: tuple[Inhibit, ...] = ()
    waits: tuple[tuple[tuple[Matcher, ...], float], ...] = (((), length_of(GROUP_WAIT)),)

    def wait(self, labels: Mapping[str, str]) -> float:
        """Seconds that an alert waits before it is sent."""
        return next((seconds for matchers, seconds in self.waits if _fit(matchers, labels)), length_of(GROUP_WAIT))


def read_notifying(path: Path) -> Notifying:
    """Reads an Alertmanager configuration; without the file, nothing is inhibited. Raises InferdocError for a matcher
    that cannot be read."""
    if not path.is_file():
        return Notifying()
    document: dict[str, Any] = yaml.safe_load(path.read_text("utf-8")) or {}
    inhibitions = tuple(
        Inhibit(
            read_matchers(rule.get("source_matchers", ()), path),
            read_matchers(rule.get("target_matchers", ()), path),
            tuple(rule.get("equal", ())),
        )
        for rule in document.get("inhibit_rules", ())
    )
    waits = tuple(_waits(document.get("route") or {}, (), GROUP_WAIT, path))
    return Notifying(inhibitions, waits)


def _waits(
    route: Mapping[str, Any], above: tuple[Matcher, ...], inherited: str, path: Path
) -> Iterator[tuple[tuple[Matcher, ...], float]]:
    """Matchers and wait in seconds of a route and its child routes, the deepest first."""
    matchers = (*above, *read_matchers(route.get("matchers", ()), path))
    wait = route.get("group_wait", inherited)
    for each in route.get("routes", ()):
        yield from _waits(each, matchers, wait, path)
    yield matchers, length_of(wait)


def sent(firings: Sequence[Firing], notifying: Notifying) -> list[Firing]:
    """The firings with a notification: those that are not inhibited after the group wait."""
    return [each for each in firings if _goes_out(each, firings, notifying)]


def _goes_out(firing: Firing, others: Sequence[Firing], notifying: Notifying) -> bool:
    """Whether it fires at some moment after the wait of its route without being inhibited."""
    labels = named(firing)
    blocked = sorted(
        (other.begin, other.end + STEP_SECONDS)
        for other in others
        if other is not firing and any(rule.holds_back(named(other), labels) for rule in notifying.inhibitions)
    )
    free, end = firing.begin + notifying.wait(labels), firing.end + STEP_SECONDS
    for begin, until in blocked:
        if begin <= free < until:
            free = until
    return free < end


def named(firing: Firing) -> dict[str, str]:
    """The labels as Alertmanager sees them."""
    return {**firing.labels, "alertname": firing.alert}


def _fit(matchers: Iterable[Matcher], labels: Mapping[str, str]) -> bool:
    return all(matcher.fits(labels) for matcher in matchers)


KINDS = ("cause", "symptom", "monitoring")
CAUSE, SYMPTOM, MONITORING = KINDS
GROUPED_BY = ("cluster", "namespace", "model_name", "slo", "metric")
"""Alerts that agree in these are one notification, as the routes group them."""
SLACK_INTERVALS = 2
QUIET = ("info", "none")
"""Severities of alerts that need no action."""
UNKNOWN = "unexplained-anomaly"
"""Cause label of alerts that describe user impact without naming a cause."""


class FiredAlert(msgspec.Struct, frozen=True):
    """The alerts of one name and group. first: seconds since the epoch; delay: after the onset; verdict: right, wrong,
    noise (before the onset, in a control or on a healthy pod), symptom, info or monitoring; sent: a notification goes
    out; hours: alert hours, of every label set."""

    alert: str
    kind: str
    severity: str
    cause: str
    verdict: str
    first: float
    delay: float | None
    label_sets: int
    hours: float
    sent: bool


class RecordingOutcome(msgspec.Struct, frozen=True):
    """One recording under one rule set. begin, end: replayed time range; named: seconds from the onset until the right
    cause is named; felt: until the first page about a symptom; prompt: whether that came within the `for` of its rule
    and two intervals of the first impact."""

    recording: str
    control: bool
    severity: str | None
    expected: tuple[str, ...]
    onset: float | None
    begin: float
    end: float
    alerts: tuple[FiredAlert, ...]
    named: float | None = None
    felt: float | None = None
    prompt: bool | None = None

    @property
    def hours(self) -> float:
        """How long was replayed."""
        return (self.end - self.begin) / 3600


class Totals(msgspec.Struct, frozen=True):
    """Over recordings. recall: incidents whose right cause is named; median_delay: seconds, of those; paged_severe:
    severe incidents that page; prompt: of those that page, within the time that the rule needs; wrong_pages: pages for
    a wrong cause, in all; wrong_tickets, wrong_tickets_sent: per incident, before and after inhibition; quiet_*: in
    controls."""

    incidents: int
    controls: int
    recall: float | None
    median_delay: float | None
    paged_severe: float | None
    prompt: float | None
    wrong_pages: int
    wrong_tickets: float | None
    wrong_tickets_sent: float | None
    quiet_hours: float
    quiet_cause_alerts: int
    quiet_pages: int
    quiet_symptom_ticket_hours: float
    quiet_monitoring_tickets: int


def outcome(
    labels: RecordingLabels, firings: Sequence[Firing], span: tuple[float, float], rules: RuleSet, notifying: Notifying
) -> RecordingOutcome:
    """Scores one recording. firings: what fired in it; span: seconds since the epoch."""
    out = set(map(id, sent(firings, notifying)))
    groups: dict[tuple[str, ...], list[Firing]] = {}
    for firing in firings:
        verdict = _verdict(labels, firing, kind_of(firing))
        group = (firing.alert, verdict, *(firing.labels.get(label, "") for label in GROUPED_BY))
        groups.setdefault(group, []).append(firing)
    alerts = sorted(
        (
            _fired(labels, verdict, members, kind_of(members[0]), any(id(each) in out for each in members))
            for (_, verdict, *_), members in groups.items()
        ),
        key=lambda each: (each.first, each.alert),
    )
    right = [a.delay for a in alerts if a.verdict == "right" and a.severity not in QUIET and a.delay is not None]
    pages = [a for a in alerts if _is_page(a) and a.sent and a.verdict in ("right", "symptom") and a.delay is not None]
    felt = min(pages, key=lambda each: each.first, default=None)
    return RecordingOutcome(
        recording=labels.file.removesuffix(".om.gz"),
        control=labels.control,
        severity=labels.severity,
        expected=labels.expected,
        onset=labels.onset,
        begin=span[0],
        end=span[1],
        alerts=tuple(alerts),
        named=min(right, default=None),
        felt=felt.delay if felt else None,
        prompt=_prompt(labels, felt, rules),
    )


def totals(outcomes: Sequence[RecordingOutcome]) -> Totals:
    """The outcomes of a rule set together; shares are None where there is nothing to share."""
    incidents = [o for o in outcomes if not o.control]
    quiet = [o for o in outcomes if o.control]
    severe = [o for o in incidents if o.severity == "severe"]
    delays = [o.named for o in incidents if o.named is not None]
    wrong = [a for o in incidents for a in o.alerts if a.kind == CAUSE and a.verdict in ("wrong", "noise")]
    tickets = [a for a in wrong if a.severity == "warning"]
    silent = [a for o in quiet for a in o.alerts]
    prompt = [o.prompt for o in incidents if o.prompt is not None]
    return Totals(
        incidents=len(incidents),
        controls=len(quiet),
        recall=_share([o.named is not None for o in incidents]),
        median_delay=median(delays) if delays else None,
        paged_severe=_share([o.felt is not None for o in severe]),
        prompt=_share(prompt),
        wrong_pages=sum(_is_page(a) and a.sent for o in incidents for a in o.alerts if a.verdict in ("wrong", "noise")),
        wrong_tickets=len(tickets) / len(incidents) if incidents else None,
        wrong_tickets_sent=sum(a.sent for a in tickets) / len(incidents) if incidents else None,
        quiet_hours=sum(o.hours for o in quiet),
        quiet_cause_alerts=sum(a.kind == CAUSE and a.verdict == "noise" for a in silent),
        quiet_pages=sum(_is_page(a) for a in silent),
        quiet_symptom_ticket_hours=sum(a.hours for a in silent if a.kind == SYMPTOM and a.severity == "warning"),
        quiet_monitoring_tickets=sum(a.kind == MONITORING and a.severity not in QUIET for a in silent),
    )


def kind_of(firing: Firing) -> str:
    """The kind of an alert, by its label `kind`. Without one it is about a cause if a label `cause` names one, else
    about a symptom."""
    own = firing.labels.get("kind", "")
    return own if own in KINDS else CAUSE if firing.labels.get("cause") else SYMPTOM


def _verdict(labels: RecordingLabels, firing: Firing, kind: str) -> str:
    cause = firing.labels.get("cause", "")
    if kind == MONITORING and cause not in labels.accepted:
        return MONITORING
    if cause in (labels.edge_accepts or ()) and labels.control:
        return "info"
    if firing.labels.get("severity") in QUIET:
        return "info"
    if labels.control or labels.onset is None or firing.begin < labels.onset:
        return "noise"
    if firing.labels.get("pod") in labels.healthy_pods:
        return "wrong"
    if kind == SYMPTOM and cause in (UNKNOWN, ""):
        return SYMPTOM
    if cause in labels.accepted:
        return "right"
    return SYMPTOM if kind == SYMPTOM else "wrong"


def _fired(labels: RecordingLabels, verdict: str, members: Sequence[Firing], kind: str, goes_out: bool) -> FiredAlert:
    first = min(each.begin for each in members)
    return FiredAlert(
        alert=members[0].alert,
        kind=kind,
        severity=members[0].labels.get("severity", ""),
        cause=members[0].labels.get("cause", ""),
        verdict=verdict,
        first=first,
        delay=None if labels.onset is None else first - labels.onset,
        label_sets=len({tuple(sorted(each.labels.items())) for each in members}),
        hours=sum(each.end - each.begin + STEP_SECONDS for each in members) / 3600,
        sent=goes_out,
    )


def _prompt(labels: RecordingLabels, page: FiredAlert | None, rules: RuleSet) -> bool | None:
    if page is None or labels.impact is None:
        return None
    waits: Mapping[str, float] = {
        rule["alert"]: length_of(rule.get("for", "0s")) for rule in rules.rules if "alert" in rule
    }
    return page.first - labels.impact <= waits.get(page.alert, 0.0) + SLACK_INTERVALS * STEP_SECONDS


def _is_page(alert: FiredAlert) -> bool:
    return alert.severity == "critical"


def _share(marks: Sequence[bool]) -> float | None:
    return sum(marks) / len(marks) if marks else None
