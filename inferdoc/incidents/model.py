"""Rows of the incident database: incidents, alerts and diagnosis runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec

Why = Literal["alert", "reopened", "joined", "again", "repeat", "resolved"]
"""Why somebody is to look: a first alert, one that came back, a further one, because the look before told nothing
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

    def is_same_story(self, other: Story | None) -> bool:
        """Whether a reader of the other one learns nothing new from this one."""
        return other is not None and (self.verdict, self.cause) == (other.verdict, other.cause)


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
