"""Rows of the incident database: incidents, alerts and diagnosis runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

import msgspec

from inferdoc.judging.model import Diagnosis, Finding, seconds

Why = Literal["alert", "reopened", "joined", "again", "repeat", "resolved"]
"""Why somebody is to look: a first alert, one that came back, a further one, because the look before found nothing
or came early, because the alert is repeated, because all alerts are over."""
RunState = Literal["waiting", "running", "done", "failed"]


class AlertScope(msgspec.Struct, frozen=True):
    """Scope of the alerts, as far as their labels agree; empty fields are unknown."""

    cluster: str = ""
    namespace: str = ""
    model: str = ""
    pod: str = ""

    @property
    def pool(self) -> tuple[str, str, str]:
        """All but the pod."""
        return self.cluster, self.namespace, self.model

    def words(self) -> str:
        """In one line; empty if nothing is known."""
        named = (
            ("cluster", self.cluster),
            ("namespace", self.namespace),
            ("model", self.model),
            ("pod", self.pod),
        )
        return ", ".join(f"{name} {value}" for name, value in named if value)


class ReceivedAlert(msgspec.Struct):
    """One alert. fingerprint: Alertmanager's, of its labels; starts, ends: Unix seconds, ends None while it fires;
    url: of its rule in Prometheus."""

    fingerprint: str
    name: str
    labels: dict[str, str]
    annotations: dict[str, str]
    starts: float
    ends: float | None
    url: str = ""

    @property
    def place(self) -> AlertScope:
        """Whom it is about."""
        label = self.labels.get
        return AlertScope(
            label("cluster", ""), label("namespace", ""), label("model_name", label("model", "")), label("pod", "")
        )


class Story(msgspec.Struct, frozen=True):
    """Summary of a verdict, to compare runs. cause: of the first finding; pods: of it."""

    verdict: str
    summary: str
    cause: str | None = None
    title: str | None = None
    severity: str | None = None
    certainty: str | None = None
    onset: str | None = None
    pods: tuple[str, ...] = ()


class DiagnosisRun(msgspec.Struct):
    """One diagnosis of an incident. requested, due, started, ended: Unix seconds; from_, until: of the window, RFC
    3339; story: the result; failure: why there is none."""

    number: int
    incident: str
    why: Why
    state: RunState
    requested: float
    due: float
    started: float | None = None
    ended: float | None = None
    from_: str | None = None
    until: str | None = None
    story: Story | None = None
    failure: str | None = None


class Incident(msgspec.Struct):
    """Alerts that belong together. opened, resolved: Unix seconds, resolved None while an alert fires; reopened: how
    often it came back; ended_by: what changed when it ended."""

    id: str
    tenant: str
    place: AlertScope
    opened: float
    resolved: float | None
    reopened: int
    ended_by: str | None
    alerts: list[ReceivedAlert]
    story: Story | None = None

    @property
    def firing(self) -> list[ReceivedAlert]:
        """The alerts that go on."""
        return [alert for alert in self.alerts if alert.ends is None]


def common_place(alerts: Sequence[ReceivedAlert]) -> AlertScope:
    """What all the alerts agree on."""
    places = [alert.place for alert in alerts]
    shared = {
        name: getattr(places[0], name)
        for name in AlertScope.__struct_fields__
        if places and len({getattr(place, name) for place in places}) == 1
    }
    return AlertScope(**shared)


def fits(one: AlertScope, other: AlertScope) -> bool:
    """Whether two scopes may be the same: at least one field is known in both, and all such fields are equal."""
    known = [(a, b) for a, b in zip(one.pool, other.pool, strict=True) if a and b]
    return bool(known) and all(a == b for a, b in known)


class Difference(msgspec.Struct):
    """what: in words; before, after: None where there is nothing; weighty: whether it changes the result."""

    what: str
    before: str | None
    after: str | None
    weighty: bool = True


def differences(before: Diagnosis, after: Diagnosis) -> list[Difference]:
    """Differences in verdict, findings, scope, certainty and onset, then in the rest."""
    return [*_story(before, after), *_beside(before, after)]


def same_story(before: Diagnosis, after: Diagnosis) -> bool:
    """Whether both have the same findings on the same pods with the same onset."""
    return not any(each.weighty for each in _story(before, after))


def _story(before: Diagnosis, after: Diagnosis) -> Iterator[Difference]:
    if before.verdict != after.verdict:
        yield Difference("verdict", before.verdict, after.verdict)
    old, new = placed(before), placed(after)
    for key in [*old, *(key for key in new if key not in old)]:
        if key not in new:
            yield Difference(key, _brief(old[key]), None)
        elif key not in old:
            yield Difference(key, None, _brief(new[key]))
        else:
            yield from _finding(key, old[key], new[key])
    if before.findings and after.findings and _key(before.findings[0]) != _key(after.findings[0]):
        yield Difference("first finding", before.findings[0].id, after.findings[0].id)


def placed(answer: Diagnosis) -> dict[str, Finding]:
    """The findings by cause and place, in order; of several that agree in both, the further ones with their number."""
    found: dict[str, Finding] = {}
    for finding in answer.findings:
        key = _key(finding)
        number = 1 + sum(known == key or known.startswith(f"{key} no. ") for known in found)
        found[key if number == 1 else f"{key} no. {number}"] = finding
    return found


def _key(finding: Finding) -> str:
    scope = finding.scope
    place = "/".join(word for word in (scope.cluster, scope.namespace, scope.model, scope.role) if word)
    return f"{finding.id} ({place})" if place else finding.id


def _brief(finding: Finding) -> str:
    return f"{finding.severity}, {finding.certainty}, {', '.join(finding.scope.pods)}, since {finding.onset}"


def _finding(key: str, old: Finding, new: Finding) -> Iterator[Difference]:
    if sorted(old.scope.pods) != sorted(new.scope.pods):
        yield Difference(f"{key}: pods", ", ".join(sorted(old.scope.pods)), ", ".join(sorted(new.scope.pods)))
    apart = abs(seconds(old.onset) - seconds(new.onset))
    if apart >= 1:
        within = apart <= max(old.onset_uncertainty_seconds, new.onset_uncertainty_seconds)
        yield Difference(f"{key}: since", old.onset, new.onset, weighty=not within)
    for what, one, other in (
        ("severity", old.severity, new.severity),
        ("certainty", old.certainty, new.certainty),
        ("effects", ", ".join(old.effects), ", ".join(new.effects)),
        ("goes on", str(old.ongoing).lower(), str(new.ongoing).lower()),
    ):
        if one != other:
            yield Difference(f"{key}: {what}", one, other, weighty=what == "severity")


def _beside(before: Diagnosis, after: Diagnosis) -> Iterator[Difference]:
    old, new = ({f"{c.kind} {c.entity}: {c.detail}" for c in each.changes} for each in (before, after))
    for words in sorted(old - new):
        yield Difference("change", words, None, weighty=False)
    for words in sorted(new - old):
        yield Difference("change", None, words, weighty=False)
    unjudged = [", ".join(sorted(entry.id for entry in each.not_judged)) for each in (before, after)]
    if unjudged[0] != unjudged[1]:
        was, now = (f"{len(each.not_judged)} causes" for each in (before, after))
        yield Difference("could not be judged", was, now, weighty=False)
    if before.coverage.pods != after.coverage.pods:
        yield Difference("pods seen", str(before.coverage.pods), str(after.coverage.pods), weighty=False)
    if before.inferdoc_version != after.inferdoc_version:
        yield Difference("inferdoc", before.inferdoc_version, after.inferdoc_version, weighty=False)
