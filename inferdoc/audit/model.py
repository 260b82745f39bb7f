"""The audit document `inferdoc.audit/v1`, highest cost first."""

from __future__ import annotations

from typing import Literal

import msgspec

from inferdoc.json_document import JsonDocument
from inferdoc.judging.model import SourceInfo

SEVERITIES = ("info", "warning")


def rank(state: StandingState) -> tuple[bool, float, float, int, str]:
    """A sort key: money where there is a price, else GPUs; without a figure by severity, then by name."""
    cost, severity = state.wasted, -SEVERITIES.index(state.severity)
    if cost is None:
        return True, 0.0, 0.0, severity, state.id
    return False, -(cost.money or 0.0), -cost.gpus, severity, state.id


SCHEMA_ID = "inferdoc.audit/v1"
AuditVerdict = Literal["nothing", "standing", "unknown"]
Reason = Literal["missing", "window", "traffic"]


class AuditWindow(msgspec.Struct, rename={"from_": "from"}):
    """The window, clipped to the data. parts: into how many it was cut."""

    from_: str
    until: str
    step_seconds: float
    parts: int


class Place(msgspec.Struct):
    """The pool, and the pods of it that show the state."""

    cluster: str
    namespace: str
    model: str
    role: str
    tier: str
    pods: list[str]
    of_pods: int


class Observed(msgspec.Struct):
    """One observation of the pod that shows it most. value, threshold: in `unit`; held: share of the window in which it
    holds; limit: the name of the threshold in tiers.yaml."""

    observation: str
    statement: str
    because: str
    entity: str
    value: float | None
    threshold: float | None
    unit: str
    held: float | None
    limit: str | None
    source: str


class Wasted(msgspec.Struct):
    """What a state costs at the load of the window. gpus: GPU-hours per hour; share: of the GPUs looked at; money: per
    hour, where a price is known; bound: "up to" or "at least"; assumed: pods whose number of GPUs is not known count
    as one GPU."""

    gpus: float
    share: float
    money: float | None
    currency: str | None
    formula: str
    bound: str | None
    assumed: bool


class Advice(msgspec.Struct):
    do: str
    why: str
    cost: str
    undo: str


class StandingState(msgspec.Struct):
    """One state on one pool. wasted: None where no formula gives a figure; accepted: why it is meant to be so."""

    id: str
    title: str
    severity: Literal["info", "warning"]
    certainty: Literal["likely", "possible"]
    place: Place
    observed: list[Observed]
    costs: str
    wasted: Wasted | None
    next_steps: list[Advice]
    intended_when: str
    runbook: str | None
    runbook_url: str | None
    sources: list[str]
    accepted: str | None = None


class UndeterminedState(msgspec.Struct):
    """A state that could not be judged on some pools. reason: signals are missing, the window is too short, or too
    little traffic; what: in words; enable: what to do."""

    id: str
    title: str
    reason: Reason
    pools: list[str]
    what: str
    missing: list[str]
    enable: str


class AuditedPool(msgspec.Struct):
    """A pool as it was looked at. gpus: None where not known; requests: ended in the window; busy: share of the
    window; use: at the busiest twentieth, by the scarcest of cache, prefill and batch."""

    name: str
    pods: int
    quiet_pods: int
    gpus: int | None
    requests: float | None
    busy: float
    peak_use: float | None


class AuditTiming(msgspec.Struct):
    read_seconds: float
    judge_seconds: float
    queries: int
    samples: int


class Audit(JsonDocument, rename={"schema_": "schema"}):
    """The whole document. states: highest cost first; accepted: those that the configuration accepts; not_applicable:
    states of features that are not in use."""

    schema_: str
    inferdoc_version: str
    window: AuditWindow
    source: SourceInfo
    verdict: AuditVerdict
    summary: str
    states: list[StandingState]
    accepted: list[StandingState]
    cannot_tell: list[UndeterminedState]
    not_applicable: list[str]
    pools: list[AuditedPool]
    timing: AuditTiming
