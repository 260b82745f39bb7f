"""Proves that what is emitted equals the plan: minute by minute over 400 days in seven zones, and in shape.

The text is read back by the rules of the component that runs it (`reference_check`)."""

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
from inferdoc.prewarm import reference_check
from inferdoc.prewarm.emit.base import TRIGGERS, EmitOptions
from inferdoc.prewarm.emit.keda import PREFIX, untouched
from inferdoc.prewarm.emit.kinds import BY_WORD, PatchTarget, TriggerPlace, look, part_of, patch_target_of, place_on
from inferdoc.prewarm.emit.registry import emit, target_of
from inferdoc.prewarm.kubectl import own_floor
from inferdoc.prewarm.plan import PlanRow, PoolRow, pool_plan, stamped, window_row
from inferdoc.prewarm.reference_check import MinuteSpan
from inferdoc.prewarm.schemas import faults, trigger_faults
from inferdoc.prewarm.week import clear_of_jumps, grouped, segments


def objects(text: str) -> list[dict[str, Any]]:
    try:
        found = [o for o in load_all_yaml(text) if o is not None]
    except yaml.YAMLError as fault:
        raise InferdocError(f"the manifest is no YAML: {str(fault).splitlines()[0]}") from fault
    if not all(isinstance(o, dict) for o in found):
        raise InferdocError("the manifest holds something that is no object")
    return found


def patched_object(target: str, options: EmitOptions, plan: PlanRow) -> PatchTarget:
    """The kind of object whose floor the jobs of a target set."""
    if look(options.existing, "kind") == "LLMInferenceService":
        return BY_WORD["llm-service-prefill" if plan.pools[0].role == "prefill" else "llm-service"]
    if target == "cronjob" and options.kind is not None:
        return patch_target_of(options.kind)
    return _patched(target)


def _patched(target: str) -> PatchTarget:
    found = target_of(target).patched
    if found is None:
        raise InferdocError(f"target `{target}` patches no object")
    return found


def place_of(obj: dict[str, Any], plan: PlanRow) -> TriggerPlace | None:
    """The place of KEDA's triggers for the plan's pool on an object; None if KEDA does not scale it."""
    place = place_on(obj, plan.pools[0].role)
    there = place.kind == "ScaledObject" or isinstance(look(obj, *place.scaling, "keda"), dict)
    return place if obj.get("kind") == place.kind and there else None


def planned_floor(span: MinuteSpan, plan: PlanRow, target: str, options: EmitOptions) -> np.ndarray:
    """int64[count]: the plan's windows, in groups for a LeaderWorkerSet, and never under what the object has of its
    own."""
    planned = reference_check.intent(span, msgspec.to_builtins(plan.pools[0]))
    if target_of(target).grouped:
        planned = -(-planned // options.per_group)
    return np.asarray(np.maximum(planned, _own(span, plan, target, options)))


def _own(span: MinuteSpan, plan: PlanRow, target: str, options: EmitOptions) -> np.ndarray:
    existing, known = options.existing, target_of(target)
    left_to_object = known.states == "moment" and known.over_existing is None
    if existing is None or left_to_object or existing.get("kind") == "CustomResourceDefinition":
        return np.zeros(span.count, dtype=np.int64)
    scaled = _keda_spec(existing, plan)
    if scaled is None:
        patched = known.over_existing or patched_object(target, options, plan)
        return np.full(span.count, own_floor(part_of(existing, patched.domain), look(existing, *patched.field)))
    place = place_on(existing, plan.pools[0].role)
    base = own_floor(part_of(existing, place.domain), scaled.get("minReplicaCount"), place.absent)
    theirs = [t for t in scaled["triggers"] if not str(t.get("name", "")).startswith(PREFIX)]
    return reference_check.keda_floor(span, {"minReplicaCount": base, "triggers": theirs})


def _keda_spec(obj: dict[str, Any], plan: PlanRow) -> dict[str, Any] | None:
    """minReplicaCount and triggers of an object that KEDA scales."""
    place = place_of(obj, plan)
    if place is None:
        return None
    return {"minReplicaCount": look(obj, *place.floor_path), "triggers": look(obj, *place.trigger_path) or []}


def emitted_floor(span: MinuteSpan, plan: PlanRow, text: str, target: str, options: EmitOptions) -> np.ndarray:
    """int64[count]: the floor at each minute when `text` is applied and nothing else happens."""
    known = target_of(target)
    if known.read_week is not None:
        return known.read_week(span, text, options, _level(span, plan))
    found = objects(text)
    scaled = _keda_spec(found[0], plan)
    if scaled is not None:
        return reference_check.keda_floor(span, scaled)
    if known.patched is not None:
        return reference_check.cronjob_floor(span, found, patched_object(target, options, plan).word)
    raise InferdocError(f"target `{target}` cannot be checked")


def _level(span: MinuteSpan, plan: PlanRow) -> np.ndarray:
    """int64[count]: what `prewarm apply` would set at each minute, by the code that it runs."""
    pool = pool_plan(plan.pools[0])
    clock, weekday = span.wall(pool.row.zone)
    return np.asarray(pool.floor[(weekday - 1) % 7 * 1440 + clock])


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


@dataclass(frozen=True)
class TargetCheck:
    """The check of one target in one zone. minutes: compared; wrong: differing minutes; first: the first of them, as
    text."""

    target: str
    zone: str
    minutes: int
    wrong: int
    first: str = ""

    @property
    def ok(self) -> bool:
        return self.wrong == 0 and not self.first


def check(
    plan: PlanRow, pool: str | None, target: str, zones: tuple[str, ...] = ZONES, options: EmitOptions | None = None
) -> list[TargetCheck]:
    """One verdict per zone for one pool: the plan is moved to each zone, emitted, read back and compared."""
    row = _row(plan, pool)
    zones = tuple(dict.fromkeys((row.zone, *zones)))
    emit_options = options or EmitOptions(now=0.0, server="http://prometheus:9090", host_zone="UTC")
    emit_options = replace(emit_options, now=plan.generated_at.timestamp(), pool=row.name)
    return [_verdict(in_zone(plan, row, zone), target, zone, emit_options) for zone in zones]


def prove(plan: PlanRow, text: str, target: str, options: EmitOptions) -> None:
    """Raises InferdocError if the emitted `text` differs from the plan."""
    wrong = shape_faults(text, target, options.existing)
    if not wrong and target_of(target).states != "nothing":
        row = _row(plan, options.pool)
        own = msgspec.structs.replace(plan, pools=[row])
        if target_of(target).states == "moment":
            span = MinuteSpan(int(options.now) // 60, 1)
            planned = planned_floor(span, own, target, options)
            found = _stated(own, text, target, options, int(planned[0]))
        elif set_by_hand(options.existing, row.role):
            return
        else:
            found = compare(own, text, target, row.zone, options)
        wrong = [] if found.ok else [found.first]
    if wrong:
        raise InferdocError(f"the text for {target} differs from the plan, nothing is written: {wrong[0]}")


def set_by_hand(existing: dict[str, Any] | None, role: str) -> bool:
    """Whether triggers of ours were changed on the existing object: its floor is then the user's, not the plan's."""
    if existing is None:
        return False
    place = place_on(existing, role)
    record = part_of(existing, place.domain)["metadata"]["annotations"].get(TRIGGERS)
    return record is not None and not untouched(look(existing, *place.trigger_path) or [], record)


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


def _verdict(plan: PlanRow, target: str, zone: str, options: EmitOptions) -> TargetCheck:
    if target_of(target).states == "moment":
        return _momentary(plan, target, zone, options)
    text = emit(plan, target, options)
    wrong = shape_faults(text, target, options.existing)
    if wrong:
        return TargetCheck(target, zone, 0, len(wrong), wrong[0])
    if target_of(target).states == "nothing":
        return TargetCheck(target, zone, 0, 0)
    return compare(plan, text, target, zone, options)


def shape_faults(text: str, target: str, existing: dict[str, Any] | None = None) -> list[str]:
    """Faults of the manifests in `text`; none for targets that are not YAML. Of an existing object of the user only our
    triggers are checked."""
    if not target_of(target).manifests:
        return []
    theirs = existing is not None and bool(faults(existing))
    checked = [(obj, theirs and obj.get("kind") == look(existing, "kind")) for obj in objects(text)]
    return [fault for obj, foreign in checked for fault in (trigger_faults(obj) if foreign else faults(obj))]


def compare(plan: PlanRow, text: str, target: str, zone: str, options: EmitOptions | None = None) -> TargetCheck:
    """Reads `text` by the rules of what runs it and compares with the plan's windows, minute by minute."""
    options = options or EmitOptions(now=plan.generated_at.timestamp())
    begin = int(plan.generated_at.timestamp()) // 60
    span = MinuteSpan(begin - LEAD_DAYS * 1440, (DAYS + LEAD_DAYS + TAIL_DAYS) * 1440)
    planned = planned_floor(span, plan, target, options)
    try:
        emitted = emitted_floor(span, plan, text, target, options)
        ending = _ending(plan, text, target, options)
    except (ValueError, KeyError, StopIteration, TypeError) as fault:
        return TargetCheck(target, zone, 0, 1, f"cannot be read back: {fault}")
    if ending:
        return TargetCheck(target, zone, 0, len(ending), ending[0])
    inside = slice(LEAD_DAYS * 1440, (LEAD_DAYS + DAYS) * 1440)
    differs = np.flatnonzero(planned[inside] != emitted[inside])
    first = ""
    if len(differs):
        at = int(differs[0]) + LEAD_DAYS * 1440
        there = datetime.fromtimestamp((span.begin + at) * 60, UTC).astimezone(zone_of(zone))
        first = f"{there:%a %Y-%m-%d %H:%M} {zone}: plan {planned[at]}, {target} {emitted[at]}"
    return TargetCheck(target, zone, DAYS * 1440, len(differs), first)


def _ending(plan: PlanRow, text: str, target: str, options: EmitOptions) -> list[str]:
    found = objects(text) if target_of(target).manifests else []
    place = None if not found else place_of(found[0], plan)
    if place is not None:
        return reference_check.release_faults(found, place.word)
    if not any(obj["kind"] == "CronJob" for obj in found):
        return []
    patched = patched_object(target, options, plan)
    base = -(-plan.pools[0].base // options.per_group) if target_of(target).grouped else plan.pools[0].base
    if options.existing is not None and options.existing.get("kind") != "CustomResourceDefinition":
        base = own_floor(part_of(options.existing, patched.domain), look(options.existing, *patched.field))
    return reference_check.ending_faults(found, patched.word, plan.valid_until, base)


def _momentary(plan: PlanRow, target: str, zone: str, options: EmitOptions) -> TargetCheck:
    """Targets that state the floor of one moment: emitted at every change of the plan's validity and the minute
    before."""
    begin = -(-int(plan.generated_at.timestamp()) // 60)
    span = MinuteSpan(begin, int((plan.valid_until - plan.generated_at).total_seconds() // 60) - 1)
    planned = planned_floor(span, plan, target, options)
    changes = np.flatnonzero(np.diff(planned)) + 1
    moments = np.unique(np.concatenate([[0], changes, changes - 1]))
    for at in moments.tolist():
        emit_options = replace(options, now=float((span.begin + at) * 60))
        found = _stated(plan, emit(plan, target, emit_options), target, options, int(planned[at]))
        if not found.ok:
            return found
    return TargetCheck(target, zone, len(moments), 0)


def _stated(plan: PlanRow, text: str, target: str, options: EmitOptions, planned: int) -> TargetCheck:
    """Compares the floor of a target of one moment with the plan."""
    zone = plan.pools[0].zone
    wrong = shape_faults(text, target, options.existing)
    if wrong:
        return TargetCheck(target, zone, 0, len(wrong), wrong[0])
    emitted = target_of(target).read_moment(text, plan.pools[0].name)
    if emitted is not None and emitted != planned:
        return TargetCheck(target, zone, 1, 1, f"plan {planned}, {target} {emitted}")
    return TargetCheck(target, zone, 1, 0)
