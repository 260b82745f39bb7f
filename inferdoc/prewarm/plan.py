"""The neutral plan (`inferdoc.prewarm/v1`): what every emitter, the check and the scheduled job read."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import msgspec
import numpy as np

from inferdoc.errors import NOT_JSON, InferdocError, SourceError
from inferdoc.forecast.calendar import zone_of
from inferdoc.prewarm.week import DAYS, MINUTES_PER_DAY, WeekWindow, floor_of, minute_of_week

SCHEMA = "inferdoc.prewarm/v1"
ADDED, ADDED_TO_FORECASTS = ("request", "files"), ("weights", "candidates", "arima", "without_arima")
ADDED_TO_POOLS = ("tuning", "cluster", "namespace")
"""Fields that plans of earlier versions lack; empty, they do not count in the id."""
NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")


class WindowRow(msgspec.Struct, forbid_unknown_fields=True):
    """A window as written: days of its start (`mon`..`sun`), local clock times HH:MM, minutes, the floor, and why."""

    days: list[str]
    start: str
    end: str
    minutes: int
    replicas: int
    reason: str = ""


class PolicyRow(msgspec.Struct, forbid_unknown_fields=True):
    """How load became replicas. capacity: load per second that one replica serves at its SLO, in `capacity_unit`."""

    name: str
    quantile: float
    utilisation: float
    safety_factor: float
    capacity: float
    capacity_unit: str
    capacity_source: str
    cold_start_seconds: int
    lead_seconds: int
    dwell_seconds: int
    ramp: int | None = None
    cap_load: float | None = None
    budget_hours: float | None = None


class CandidateRow(msgspec.Struct, forbid_unknown_fields=True):
    """A path of the combination on the back-tested days: its mean absolute error per step, and the path whose errors
    are most like its own, with their correlation."""

    name: str
    error: float
    like: str
    correlation: float


class WithoutRow(msgspec.Struct, forbid_unknown_fields=True):
    """The plan without ARIMA: skill of its forecast, mean absolute error per step with and without it, replica-hours a
    week, and minutes a week at which its floor is another."""

    skill: float | None
    error: float
    error_with: float
    hours: float
    minutes: int


class ForecastRow(msgspec.Struct, forbid_unknown_fields=True):
    """The forecast behind the windows. weights: share of each path of the combination on the first
    day; candidates: their errors; arima: the model, or why there is none."""

    method: str
    skill: float | None
    folds: int
    abstained: bool
    reason: str
    coverage: dict[str, float]
    history_days: float
    first_step: datetime
    last_step: datetime
    weights: dict[str, float] = {}
    candidates: list[CandidateRow] = []
    arima: str = ""
    without_arima: WithoutRow | None = None


class SettingRow(msgspec.Struct, forbid_unknown_fields=True):
    """The back-test of a quantile and a safety factor. avoided: share of the reactive scaler's overload; surely: the
    least of it, whichever one day is left out and for every dearer setting; price: replica-hours over those of perfect
    foresight."""

    quantile: float
    safety_factor: float
    avoided: float
    surely: float
    price: float


class TuningRow(msgspec.Struct, forbid_unknown_fields=True):
    """The choice of `--tune backtest`. days: replayed; tried: settings; met: whether the chosen one surely avoids
    enough at a fair price; usual: the result of the policy's own setting; enough: the cheapest that would have avoided
    enough, at whatever price, where the chosen one does not."""

    days: int
    tried: int
    met: bool
    chosen: SettingRow
    usual: SettingRow | None = None
    enough: SettingRow | None = None


class PoolRow(msgspec.Struct, forbid_unknown_fields=True):
    """One pool. base: the floor outside windows; maximum: never exceeded; hours: replica-hours of the floor in a week;
    cluster, namespace: of its pods, empty if unknown."""

    name: str
    role: str
    zone: str
    base: int
    maximum: int
    scale_to_zero: bool
    windows: list[WindowRow]
    policy: PolicyRow
    forecast: ForecastRow
    hours: float
    base_hours: float
    notes: list[str] = []
    tuning: TuningRow | None = None
    cluster: str = ""
    namespace: str = ""


class PlanRow(msgspec.Struct, forbid_unknown_fields=True):
    """The whole plan. plan_id: hash of everything else, so that equal plans have equal ids; request: its options, such
    as `--max=20`, without those of the source; files: by option, the text of the files among them."""

    schema: str
    plan_id: str
    generated_at: datetime
    valid_until: datetime
    pools: list[PoolRow]
    notes: list[str] = []
    request: list[str] = []
    files: dict[str, str] = {}


@dataclass(frozen=True)
class PlanRequest:
    """The options of a request: words as on the command line, and by option the text of the files among them."""

    words: list[str] = field(default_factory=list)
    files: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class PoolPlan:
    """A pool ready to use. floor: int64[10080], minutes of the local week."""

    row: PoolRow
    zone: ZoneInfo
    windows: list[WeekWindow]
    floor: np.ndarray = field(repr=False)

    @property
    def top(self) -> int:
        """The highest floor of any window, the base without windows."""
        return max([w.replicas for w in self.windows], default=self.row.base)

    def covering(self, minute: int) -> list[tuple[WeekWindow, WindowRow]]:
        """The windows that cover a minute of the week."""
        pairs = zip(self.windows, self.row.windows, strict=True)
        return [(window, row) for window, row in pairs if window.covers(minute)]

    def at(self, moment: float) -> int:
        """The floor at Unix seconds `moment`."""
        return int(self.floor[minute_of_week(moment, self.zone)])


def to_json(plan: PlanRow) -> str:
    return json.dumps(msgspec.to_builtins(plan), indent=1) + "\n"


def stamped(plan: PlanRow) -> PlanRow:
    """The plan with the id of its content."""
    content: dict[str, Any] = msgspec.to_builtins(plan)
    content.pop("plan_id")
    pools = content["pools"]
    later = [(content, ADDED), *((pool, ADDED_TO_POOLS) for pool in pools)]
    later += [(pool["forecast"], ADDED_TO_FORECASTS) for pool in pools]
    for row, names in later:
        for name in names:
            if not row[name]:
                row.pop(name)
    digest = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
    return msgspec.structs.replace(plan, plan_id=digest[:12])


def schema() -> dict[str, Any]:
    """The JSON Schema of a plan."""
    return {"$id": SCHEMA, **msgspec.json.schema(PlanRow)}


def load(path: str) -> PlanRow:
    """A plan file, checked: SourceError when it cannot be read, InferdocError when it is no plan or was edited."""
    try:
        raw = Path(path).read_bytes()
    except OSError as fault:
        raise SourceError(f"{path}: cannot be read: {fault.strerror or fault}") from fault
    return parse(raw, path)


def parse(raw: bytes, where: str) -> PlanRow:
    try:
        plan = msgspec.json.decode(raw, type=PlanRow)
    except NOT_JSON as fault:
        raise InferdocError(f"{where}: no prewarm plan: {fault}") from fault
    if plan.schema != SCHEMA:
        raise InferdocError(f"{where}: schema `{plan.schema}`, expected `{SCHEMA}`; make the plan with this version")
    if stamped(plan).plan_id != plan.plan_id:
        raise InferdocError(
            f"{where}: the content does not match plan_id {plan.plan_id}; edit the inputs, then make a new plan"
        )
    names = [pool.name for pool in plan.pools]
    if len(set(names)) < len(names):
        raise InferdocError(f"{where}: a pool occurs twice; two floors on one object need one plan")
    for pool in plan.pools:
        pool_plan(pool, where)
        last = pool.forecast.last_step + timedelta(days=1)
        if plan.valid_until > last:
            raise InferdocError(
                f"{where}: valid until {plan.valid_until:%Y-%m-%d %H:%M}Z, but pool {pool.name} was forecast until"
                f" {pool.forecast.last_step:%Y-%m-%d %H:%M}Z only; make a new plan"
            )
    return plan


def pool_plan(row: PoolRow, where: str = "plan") -> PoolPlan:
    """The pool with its windows resolved; InferdocError naming the pool when they make no sense."""
    if not NAME.fullmatch(row.name):
        raise InferdocError(f"{where}: pool `{row.name}`: use lower-case letters, digits, - and .")
    windows = [_window(w, f"{where}: pool {row.name}") for w in row.windows]
    least = min([row.base, *(window.replicas for window in windows)])
    if least < 0:
        raise InferdocError(f"{where}: pool {row.name}: {least} replicas are negative; make a new plan")
    if least == 0 and not row.scale_to_zero:
        raise InferdocError(
            f"{where}: pool {row.name} goes to 0 replicas without scale_to_zero; make a new plan with --scale-to-zero"
        )
    top = max([w.replicas for w in windows], default=row.base)
    if top > row.maximum:
        raise InferdocError(f"{where}: pool {row.name}: a window needs {top} replicas, the maximum is {row.maximum}")
    return PoolPlan(row, zone_of(row.zone), windows, floor_of(windows, row.base))


def _window(row: WindowRow, where: str) -> WeekWindow:
    start, end = _minute(row.start, where), _minute(row.end, where)
    unknown = [day for day in row.days if day not in DAYS]
    if unknown or not row.days:
        raise InferdocError(f"{where}: days {row.days} are not of {', '.join(DAYS)}")
    window = WeekWindow(tuple(sorted(DAYS.index(day) for day in row.days)), start, row.minutes, row.replicas)
    if row.minutes < 1 or window.end != end:
        raise InferdocError(f"{where}: window {row.start}-{row.end} does not last {row.minutes} minutes")
    return window


def _minute(text: str, where: str) -> int:
    match = re.fullmatch(r"([01]\d|2[0-3]):([0-5]\d)", text)
    if match is None:
        raise InferdocError(f"{where}: `{text}` is not a time of day HH:MM")
    return int(match[1]) * 60 + int(match[2])


def window_row(window: WeekWindow, reason: str) -> WindowRow:
    """A window as written in the plan."""
    return WindowRow(
        days=[DAYS[day] for day in window.days],
        start=hhmm(window.start),
        end=hhmm(window.end),
        minutes=window.length,
        replicas=window.replicas,
        reason=reason,
    )


def hhmm(minute: int) -> str:
    return f"{minute % MINUTES_PER_DAY // 60:02d}:{minute % 60:02d}"


def rescaled(row: PoolRow, change: Callable[[int], int]) -> PoolRow:
    """The pool with every number of replicas turned into another unit (groups, for a LeaderWorkerSet)."""
    windows = [msgspec.structs.replace(w, replicas=change(w.replicas)) for w in row.windows]
    return msgspec.structs.replace(row, windows=windows, base=change(row.base), maximum=change(row.maximum))


def lifted(row: PoolRow, least: int) -> PoolRow:
    """The pool with no floor under `least`; windows that this makes the same as the base are left out."""
    row = rescaled(row, lambda replicas: max(replicas, least))
    return msgspec.structs.replace(row, windows=[w for w in row.windows if w.replicas > row.base])
