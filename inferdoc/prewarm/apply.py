"""Brings one object's floor to what the plan says now, or back to the user's own base where there is no plan to follow.

Level-based: every run looks at what stands there and at the record on the object, and settles it; repeated, missed and
half-failed runs converge. A dry run unless told otherwise."""

from __future__ import annotations

import math
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from inferdoc.errors import InferdocError
from inferdoc.escaping import page
from inferdoc.prewarm import kubectl
from inferdoc.prewarm.emit.base import CEILING, OURS, ZONE, EmitOptions
from inferdoc.prewarm.emit.cronjob import patch_command
from inferdoc.prewarm.emit.llm_service import refuse_llm_service
from inferdoc.prewarm.emit.metric import APPLIED, SET, UNFOLLOWED, metric_text, plan_metrics, values_of
from inferdoc.prewarm.emit.parts import in_domain, part_of
from inferdoc.prewarm.emit.patch_target import PatchTarget, look, patch_target_of, put
from inferdoc.prewarm.emit.patches import refuse_hpa, refuse_inference_service
from inferdoc.prewarm.guide import Goal, Guide
from inferdoc.prewarm.plan import PlanRow
from inferdoc.prewarm.record import UNSET, Settled, own_floor, record_of, refuse_other_place, refuse_other_pool, settle

TRIES = 3


@dataclass(frozen=True)
class Applied:
    """before: what the cluster had (None in a dry run that did not look); after: what should stand there (None = no
    floor of ours and none of the user's); changed: whether something was sent; command: the words that change it;
    notes: what people should know; fault: why the plan was not followed; undone: what failed beside the floor."""

    before: int | None
    after: int | None
    changed: bool
    command: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    fault: InferdocError | None = None
    undone: InferdocError | None = None


def apply(led: Guide, kind: str, options: EmitOptions, really: bool, look_first: bool) -> Applied:
    """Settles the floor of `options.now` on the object `options.name`. With `really` the object is read, and patched
    where it differs; else nothing is sent. An object that would undo or ignore the floor gets its base back."""
    aim = patch_target_of(kind)
    if not really and not look_first:
        if led.plan is None or led.pool is None:
            return Applied(None, None, False, notes=[f"{led.why}: the user's base comes back"], fault=led.fault)
        wanted, base = led.pool.at(options.now), led.pool.row.base
        if aim.subresource or aim.ceiling or options.maximum is not None:
            refuse_above_ceiling(aim, str(options.name), led.pool.top, base, options.maximum)
        return Applied(None, wanted, False, patch_command(led.plan, led.pool, options, aim, wanted, base))
    return tried(lambda: _settled(led, aim, options, really))


def tried(work: Callable[[], Applied]) -> Applied:
    """Looks and settles again where somebody else was faster."""
    for attempt in range(TRIES):
        try:
            return work()
        except kubectl.ObjectChangedError:
            if attempt == TRIES - 1:
                raise
    raise AssertionError("unreachable")


def _settled(led: Guide, aim: PatchTarget, options: EmitOptions, really: bool) -> Applied:
    name = str(options.name)
    found = part_of(kubectl.get(aim.kubectl_resource, name, options.namespace), aim.domain)
    refuse_other_pool(found, str(options.pool))
    current = _integer(look(found, *aim.field))
    record = record_of(found, current)
    led = _refused(led, aim, found, options, own_floor(found, current))
    settled = settle(current, record, None if led.goal is None else led.goal.floor)
    notes = [*([f"{led.why}: the user's base comes back"] if led.goal is None else []), *settled.notes]
    notes += _zone_note(found, led.goal)
    patch = _patch(led.goal, aim, found, settled)
    if patch is None:
        return Applied(current, settled.floor, False, [], notes, led.fault)
    if "annotations" in patch["metadata"]:
        patch["metadata"]["annotations"] = in_domain(patch["metadata"]["annotations"], aim.domain)
    patch["metadata"] |= kubectl.unchanged(found)
    command = kubectl.patch_words(aim.kubectl_resource, name, options.namespace, patch)
    if really:
        kubectl.run(command)
    return Applied(current, settled.floor, really, command, notes, led.fault)


def _refused(led: Guide, aim: PatchTarget, found: dict[str, Any], options: EmitOptions, own: int) -> Guide:
    """Nothing to follow where the object cannot hold the plan, or should not. own: the user's own floor."""
    if led.pool is not None:
        refuse_other_place(led.pool.row, options, found)
    try:
        if led.goal is not None and aim.kind == "HorizontalPodAutoscaler":
            refuse_hpa(found, led.goal.top)
        if led.goal is not None and aim.kind == "InferenceService":
            refuse_inference_service(found)
        if led.goal is not None and aim.kind == "LLMInferenceService":
            refuse_llm_service(found, aim.field[:-1], led.goal.top)
        if led.goal is not None:
            refuse_above_ceiling(aim, str(options.name), led.goal.top, own, options.maximum, found)
    except InferdocError as fault:
        return Guide(why=str(fault), fault=fault)
    return led


def _integer(value: Any) -> int | None:
    return value if isinstance(value, int) else None


def _zone_note(found: dict[str, Any], goal: Goal | None) -> list[str]:
    old = look(found, "metadata", "annotations", ZONE)
    if goal is None or old is None or old == goal.stamp[ZONE]:
        return []
    return [f"the plan lives by the clock of {goal.stamp[ZONE]} now, the one before by that of {old}"]


def _patch(goal: Goal | None, aim: PatchTarget, found: dict[str, Any], settled: Settled) -> dict[str, Any] | None:
    """The merge patch from what stands there to what should, None where nothing differs. Only what differs is in it, so
    that a field of the user's is never written without need."""
    marks = look(found, "metadata", "annotations") or {}
    wanted: dict[str, str | None] = dict.fromkeys(OURS)
    fields: list[tuple[tuple[str, ...], int | None]] = []
    current = look(found, *aim.field)
    if settled.record is not None and goal is not None and settled.floor is not None:
        wanted |= {**goal.stamp, **settled.record.annotations()}
        aim.refuse(settled.floor)
        fields.append((aim.field, settled.floor))
        wanted[CEILING] = marks.get(CEILING)
        ceiling = None if aim.ceiling is None else look(found, *aim.ceiling)
        if aim.ceiling is not None and (ceiling is None or ceiling < settled.floor):
            before = marks[CEILING].split(",")[0] if CEILING in marks else UNSET if ceiling is None else str(ceiling)
            fields.append((aim.ceiling, goal.maximum))
            wanted[CEILING] = f"{before},{goal.maximum}"
    else:
        fields.append((aim.field, settled.floor))
        before, _, placed = marks.get(CEILING, "").partition(",")
        if aim.ceiling is not None and placed and placed == str(look(found, *aim.ceiling)):
            fields.append((aim.ceiling, None if before == UNSET else int(before)))
    patch: dict[str, Any] = {"metadata": {}}
    differing = {key: value for key, value in wanted.items() if marks.get(key) != value}
    if differing:
        patch["metadata"]["annotations"] = differing
    changed = False
    for path, value in fields:
        here = current if path == aim.field else look(found, *path)
        if here != value:
            put(patch, path, value)
            changed = True
    return patch if changed or differing else None


def run_metrics(
    plan: PlanRow | None, settled: Mapping[str, Applied], pools: Sequence[str], now: float, before: str
) -> str:
    """What a run left behind, for a textfile collector. plan: None where it could not be read; settled: by pool; pools:
    all of the run, of which those that failed keep what `before`, the metrics of the last run, says of them."""
    planned: dict[str, dict[str, float]] = {}
    if plan is not None:
        every = plan_metrics(plan, EmitOptions(now=now))
        planned = {name: {p: v for p, v in values.items() if p in pools} for name, values in every.items()}
    own: dict[str, dict[str, float]] = {
        SET: {pool: result.after for pool, result in settled.items() if result.after is not None},
        APPLIED: {pool: math.floor(now) for pool in settled},
        UNFOLLOWED: {pool: float(result.fault is not None) for pool, result in settled.items()},
    }
    old = values_of(before)
    for pool in [pool for pool in pools if pool not in settled]:
        for name, values in own.items():
            if (name, pool) in old:
                values[pool] = old[name, pool]
    return metric_text({**planned, **own})


def sentence(result: Applied, name: str) -> str:
    """One line for people."""
    if result.changed and result.before != result.after:
        return f"{name}: floor {_word(result.before)} -> {_word(result.after)}"
    if result.before is not None and result.before == result.after:
        return f"{name}: floor is {result.after} already"
    if result.after is None:
        return f"{name}: no floor of ours"
    return f"{name}: floor should be {result.after} now (dry run; --yes applies it)"


def _word(value: int | None) -> str:
    return "unset" if value is None else str(value)


def lines(result: Applied, name: str) -> str:
    """What a run did, with the command of a dry run and one line per remark."""
    parts = [sentence(result, name)]
    if result.command and not result.changed and result.before != result.after:
        parts.append(shlex.join(result.command))
    said = [f"{name}: {note}" for note in result.notes]
    return page([*parts, *said]) + "\n"


MOST_TIMES = 20
"""Without a maximum: so many times what runs without a plan. A plan that is wrong, or of another fleet, is off by more
than a day's peak is over its night."""
MAXIMUM = "maxReplicas"


def refuse_above_ceiling(
    aim: PatchTarget, name: str, top: int, own: int, given: int | None, found: dict[str, Any] | None = None
) -> None:
    """Raises InferdocError where `top`, the most replicas of the plan, is above `--max` (given), above the maximum of
    the object (found), or, without either, above a multiple of the user's own replicas (own)."""
    # Of a VariantAutoscaling the maximum is raised with the floor; a scale has none.
    stated = None if aim.ceiling or aim.subresource else look(found, *aim.field[:-1], MAXIMUM)
    for what, limit in (("--max", given), (MAXIMUM, stated)):
        if isinstance(limit, int) and 0 < limit < top:
            raise InferdocError(f"{aim.kind} {name} has {what} {limit}, the plan wants {top}; raise it first")
    if given is None and not stated and top > MOST_TIMES * max(1, own):
        raise InferdocError(
            f"{aim.kind} {name}: the plan wants {top} replicas, more than {MOST_TIMES} times the {own} without a plan,"
            " and no maximum is known; check the plan, or give --max"
        )
