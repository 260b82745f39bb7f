"""The gate's answer as a document: `inferdoc.canary/v1`."""

from __future__ import annotations

from typing import Literal

import msgspec

from inferdoc.json_document import JsonDocument

CANARY_SCHEMA_ID = "inferdoc.canary/v1"
Decision = Literal["pass", "fail", "unknown"]


class ArmSeen(msgspec.Struct, frozen=True):
    """One group. goodput: requests/s of a pod that kept all promises, at least and at most; None without both."""

    pods: list[str]
    requests: int
    requests_per_second: float
    goodput: tuple[float, float] | None


class CheckAnswer(msgspec.Struct, frozen=True):
    """One question. limit: seconds at which is counted; candidate, stable: bad shares; difference, low, high, margin:
    shares (0.01 = one point); needed: requests of the candidate in all that would decide; design: the design effect;
    times: mean latency over that of the stable pods, low end, value and high end, where it counts."""

    name: str
    title: str
    kind: str
    limit: float | None
    decision: Decision
    candidate: float
    stable: float
    difference: float
    low: float
    high: float
    margin: float
    events: tuple[int, int]
    design: float
    needed: int
    times: tuple[float, float, float] | None
    formula: str
    source: str


class GuardAnswer(msgspec.Struct, frozen=True):
    """Whether the groups are alike in one quantity."""

    name: str
    title: str
    unit: str
    candidate: float
    stable: float
    ratio: float
    broken: bool


class CanaryAnswer(JsonDocument, rename={"from_": "from"}):
    """Everything. from, until: the windows that were compared; interval: how often the intervals hold
    the true difference (0..1); needed: more requests of the candidate; reasons: why it is not known; assumed: what
    nobody gave."""

    schema: str
    inferdoc_version: str
    source: str
    from_: str
    until: str
    windows: int
    window_seconds: float
    decision: Decision
    interval: float
    summary: str
    candidate: ArmSeen
    stable: ArmSeen
    checks: list[CheckAnswer]
    guards: list[GuardAnswer]
    needed: int
    reasons: list[str]
    notes: list[str]
    assumed: list[str]
