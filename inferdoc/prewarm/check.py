"""Proves that what is emitted equals the plan: minute by minute over 400 days in seven zones, and in shape."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

import msgspec
import numpy as np
import yaml

from inferdoc.catalogue.yaml_text import load_all_yaml
from inferdoc.errors import InferdocError
from inferdoc.forecast.calendar import zone_of
from inferdoc.prewarm import oracle
from inferdoc.prewarm.emit.aim import AIMS
from inferdoc.prewarm.emit.base import EmitOptions
from inferdoc.prewarm.emit.metric import FLOOR
from inferdoc.prewarm.emit.registry import emit
from inferdoc.prewarm.oracle import MinuteSpan
from inferdoc.prewarm.plan import PlanRow, PoolRow, pool_plan, stamped, window_row
from inferdoc.prewarm.schemas import faults
from inferdoc.prewarm.week import clear_of_jumps, grouped, segments

ZONES = (
    "UTC",
    "Europe/Berlin",
    "America/New_York",
    "America/Sao_Paulo",
    "Asia/Kolkata",
    "Australia/Lord_Howe",
    "Pacific/Apia",
)
DAYS = 400
LEAD_DAYS, TAIL_DAYS = 8, 8
PATCHED = {
    "cronjob": AIMS["HorizontalPodAutoscaler"].field,
    "kserve": AIMS["InferenceService"].field,
    "wva": AIMS["VariantAutoscaling"].field,
    "lws": AIMS["LeaderWorkerSet"].field,
}
MOMENTARY = ("hpa", "keda-prometheus", "textfile", "json")


@dataclass(frozen=True)
class TargetCheck:
    """Of one target in one zone. minutes: compared; wrong: how many differ; first: the first that does, for people."""

    target: str
    zone: str
    minutes: int
    wrong: int
    first: str = ""

    @property
    def ok(self) -> bool:
        return self.wrong == 0 and not self.first


def check(plan: PlanRow, pool: str | None, target: str, zones: tuple[str, ...] = ZONES) -> list[TargetCheck]:
    """One verdict per zone for one pool: the plan is moved to each zone, emitted, read back and compared."""
    row = _row(plan, pool)
    zones = tuple(dict.fromkeys((row.zone, *zones)))
    return [_verdict(in_zone(plan, row, zone), target, zone) for zone in zones]


def _row(plan: PlanRow, pool: str | None) -> PoolRow:
    found = [row for row in plan.pools if pool in (None, row.name)]
    if len(found) != 1:
        raise InferdocError(f"choose one pool with --pool: {', '.join(sorted(r.name for r in plan.pools))}")
    return found[0]


def in_zone(plan: PlanRow, row: PoolRow, zone: str) -> PlanRow:
    """The plan with the one pool moved to another zone's wall clock; changes stay out of that zone's clock changes."""
    windows = row.windows
    if zone != row.zone:
        floor = pool_plan(row).floor
        clear, _ = clear_of_jumps(floor, zone_of(zone), plan.generated_at, DAYS + LEAD_DAYS + TAIL_DAYS)
        windows = [window_row(w, "") for w in grouped(segments(clear, row.base))]
    moved = msgspec.structs.replace(row, zone=zone, windows=windows)
    return stamped(msgspec.structs.replace(plan, pools=[moved]))


def _verdict(plan: PlanRow, target: str, zone: str) -> TargetCheck:
    options = EmitOptions(now=plan.generated_at.timestamp(), server="http://prometheus:9090", host_zone="UTC")
    if target in MOMENTARY:
        return _momentary(plan, target, zone, options)
    text = emit(plan, target, options)
    wrong = shape_faults(text, target)
    if wrong:
        return TargetCheck(target, zone, 0, len(wrong), wrong[0])
    return compare(plan, text, target, zone)


def shape_faults(text: str, target: str) -> list[str]:
    """Faults of the manifests in `text`; none for targets that are not YAML."""
    if target in ("crontab", "systemd", "textfile", "json"):
        return []
    return [fault for obj in objects(text) for fault in faults(obj)]


def objects(text: str) -> list[dict[str, Any]]:
    try:
        found = [o for o in load_all_yaml(text) if o is not None]
    except yaml.YAMLError as fault:
        raise InferdocError(f"the manifest is no YAML: {str(fault).splitlines()[0]}") from fault
    if not all(isinstance(o, dict) for o in found):
        raise InferdocError("the manifest holds something that is no object")
    return found


def compare(plan: PlanRow, text: str, target: str, zone: str) -> TargetCheck:
    """Reads `text` by the rules of what runs it and compares with the plan's windows, minute by minute."""
    begin = int(plan.generated_at.timestamp()) // 60
    span = MinuteSpan(begin - LEAD_DAYS * 1440, (DAYS + LEAD_DAYS + TAIL_DAYS) * 1440)
    pool = msgspec.to_builtins(plan.pools[0])
    wanted = oracle.intent(span, pool)
    try:
        given = _given(span, plan, text, target)
    except (ValueError, KeyError, StopIteration, TypeError) as fault:
        return TargetCheck(target, zone, 0, 1, f"cannot be read back: {fault}")
    if target in PATCHED:
        ending = oracle.ending_faults(objects(text), PATCHED[target], plan.valid_until, pool["base"])
        if ending:
            return TargetCheck(target, zone, 0, len(ending), ending[0])
    inside = slice(LEAD_DAYS * 1440, (LEAD_DAYS + DAYS) * 1440)
    differs = np.flatnonzero(wanted[inside] != given[inside])
    first = ""
    if len(differs):
        at = int(differs[0]) + LEAD_DAYS * 1440
        there = datetime.fromtimestamp((span.begin + at) * 60, UTC).astimezone(zone_of(zone))
        first = f"{there:%a %Y-%m-%d %H:%M} {zone}: plan {wanted[at]}, {target} {given[at]}"
    return TargetCheck(target, zone, DAYS * 1440, len(differs), first)


def _given(span: MinuteSpan, plan: PlanRow, text: str, target: str) -> np.ndarray:
    if target == "keda-cron":
        return oracle.keda_floor(span, objects(text)[0]["spec"])
    if target in PATCHED:
        return oracle.cronjob_floor(span, objects(text), PATCHED[target])
    level = _level(span, plan)
    if target == "crontab":
        return oracle.crontab_floor(span, text, "UTC", level)
    if target == "systemd":
        return oracle.systemd_floor(span, text, level)
    raise InferdocError(f"target `{target}` cannot be checked")


def _level(span: MinuteSpan, plan: PlanRow) -> np.ndarray:
    """int64[count]: what `prewarm apply` would set at each minute, by the code that it runs."""
    pool = pool_plan(plan.pools[0])
    clock, weekday = span.wall(pool.row.zone)
    return np.asarray(pool.floor[(weekday - 1) % 7 * 1440 + clock])


def _momentary(plan: PlanRow, target: str, zone: str, options: EmitOptions) -> TargetCheck:
    """Targets that state the floor of one moment: emitted at every change of the plan's validity and the minute
    before."""
    begin = -(-int(plan.generated_at.timestamp()) // 60)
    span = MinuteSpan(begin, int((plan.valid_until - plan.generated_at).total_seconds() // 60) - 1)
    wanted = oracle.intent(span, msgspec.to_builtins(plan.pools[0]))
    changes = np.flatnonzero(np.diff(wanted)) + 1
    moments = np.unique(np.concatenate([[0], changes, changes - 1]))
    for at in moments.tolist():
        text = emit(plan, target, replace(options, now=float((span.begin + at) * 60)))
        wrong = shape_faults(text, target)
        if wrong:
            return TargetCheck(target, zone, 0, len(wrong), wrong[0])
        given = _stated(text, target)
        if given is not None and given != wanted[at]:
            return TargetCheck(target, zone, len(moments), 1, f"minute {at}: plan {wanted[at]}, {target} {given}")
    return TargetCheck(target, zone, len(moments), 0)


def _stated(text: str, target: str) -> int | None:
    if target == "hpa":
        return int(objects(text)[0]["spec"]["minReplicas"])
    if target == "textfile":
        line = next(line for line in text.splitlines() if line.startswith(FLOOR))
        return int(line.split()[-1])
    return None
