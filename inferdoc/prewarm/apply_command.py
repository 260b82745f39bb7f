"""Runs `inferdoc prewarm apply`, `hold` and `release`, and installs the jobs in the cluster that end a plan.

`hold` and `release` are what scheduled jobs run on one object: set a floor, or restore the base floor."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from inferdoc.errors import ExitCode, InferdocError
from inferdoc.forecast.command import write
from inferdoc.prewarm import kubectl
from inferdoc.prewarm.apply import (
    Applied,
    DesiredFloor,
    PlanState,
    apply,
    apply_triggers,
    lines,
    plan_state,
    retried,
    run_metrics,
)
from inferdoc.prewarm.command import read_plan
from inferdoc.prewarm.emit.base import (
    GENERATED,
    PLAN_BASE,
    PLAN_ID,
    POOL,
    VALID_UNTIL,
    ZONE,
    EmitOptions,
    changes,
    prune_words,
    selector,
    to_yaml,
)
from inferdoc.prewarm.emit.cronjob import cronjob_for, expiry_by_stamp, expiry_name, over_own_floor
from inferdoc.prewarm.emit.kinds import PLACES, PatchTarget, TriggerPlace, look, part_of, patch_target_of
from inferdoc.prewarm.emit.registry import emit
from inferdoc.prewarm.kubectl import refuse_other_place
from inferdoc.prewarm.plan import PlanRow
from inferdoc.prewarm.plan_options import PerPool
from inferdoc.times import moment_of

KINDS = "cronjobs,serviceaccounts,roles,rolebindings"


def apply_jobs(state: PlanState, options: EmitOptions, really: bool) -> Applied:
    """The floor first, then the jobs; what a failure leaves undone, the next run does. The object is read in any
    case."""
    patched = patch_target_of(options.kind or "HorizontalPodAutoscaler")
    result = apply(state, patched.kind, options, really, look_first=True)
    pool, text = str(options.pool), None
    words = ["kubectl", "delete", KINDS, f"--selector={selector(pool)}", f"--namespace={options.namespace}"]
    if state.plan is not None and state.pool is not None and result.fault is None:
        found = kubectl.get(patched.kubectl_resource, str(options.name), options.namespace)
        if changes(over_own_floor(state.pool, found, patched)[0]):
            words = prune_words(pool, options.namespace)
            text = cronjob_for(state.plan, replace(options, existing=found), patched)
    if really:
        kubectl.run(words, text)
    return result


POD = ("spec", "jobTemplate", "spec", "template", "spec", "containers")


def with_ending(
    result: Applied, state: PlanState, place: TriggerPlace | PatchTarget, options: EmitOptions, really: bool
) -> Applied:
    """The result of a run, after the job is in place beside what follows a plan, or is gone with the last of it. A
    failure leaves the object as it is and is reported beside it; the next run tries again."""
    try:
        return replace(result, notes=[*result.notes, *_settle_expiry_job(result, state, place, options, really)])
    except InferdocError as fault:
        undone = type(fault)(f"the job that ends the plan is not in place: {fault}; --no-expiry goes without it")
        return replace(result, undone=undone)


def _settle_expiry_job(
    result: Applied, state: PlanState, place: TriggerPlace | PatchTarget, options: EmitOptions, really: bool
) -> list[str]:
    pool, namespace = str(options.pool), f"--namespace={options.namespace}"
    name = expiry_name(pool)
    there = _there(name, options.namespace)
    prunes = isinstance(place, TriggerPlace)
    if state.plan is None or state.pool is None or result.fault is not None:
        ours = [KINDS, f"--selector={selector(pool)}"] if prunes else ["cronjobs", name]
        if there is not None and really:
            kubectl.run(["kubectl", "delete", *ours, namespace])
        return [] if there is None else [f"CronJob {name} goes with the plan"]
    objects = expiry_by_stamp(state.plan, state.pool, options, place)
    if there is not None and _alike(there, objects[-1]):
        return []
    if really:
        # Beside a floor there may be the jobs of the target daily under the same label, so only triggers prune.
        words = prune_words(pool, options.namespace) if prunes else ["kubectl", "apply", namespace, "-f", "-"]
        kubectl.run(words, to_yaml(objects, []))
    return [f"CronJob {name} ends the plan where no run does"]


def _there(name: str, namespace: str) -> dict[str, Any] | None:
    try:
        return kubectl.get("cronjobs", name, namespace)
    except kubectl.ObjectMissingError:
        return None


def _alike(there: dict[str, Any], desired: dict[str, Any]) -> bool:
    """Whether a job already does the desired work. The API server fills in the rest of it, or it names the plan: the
    job reads the stamp on the object."""

    def does(job: dict[str, Any]) -> tuple[Any, ...]:
        box = (look(job, *POD) or [{}])[0]
        return (
            look(job, "spec", "schedule"),
            look(job, "spec", "suspend") or False,
            box.get("image"),
            box.get("command"),
        )

    return does(there) == does(desired)


@dataclass(frozen=True)
class ScheduledFloor:
    """A floor that a scheduled job sets. levels: all floors of the plan; stamp: of the plan; scale_to_zero: whether 0
    is allowed."""

    floor: int
    levels: tuple[int, ...]
    maximum: int
    stamp: dict[str, str]
    scale_to_zero: bool = False


def hold(target: str, scheduled: ScheduledFloor, options: EmitOptions, really: bool) -> Applied:
    """Sets the floor of a scheduled job on the object, by the record on it; after the plan's validity the base floor is
    restored. The object is read in any case."""
    patched, until = patch_target_of(target), scheduled.stamp[VALID_UNTIL]
    levels = (scheduled.floor, *scheduled.levels)
    top, least = max(levels), min(*levels, int(scheduled.stamp[PLAN_BASE]))
    if top > scheduled.maximum:
        raise InferdocError(f"--floor and --levels need {top} replicas, --max is {scheduled.maximum}")
    if least < 0:
        raise InferdocError(f"--levels: {least} replicas are negative")
    if scheduled.floor == 0 and not scheduled.scale_to_zero:
        raise InferdocError("--floor 0 takes every replica away; give --scale-to-zero")
    state = PlanState(desired=DesiredFloor(scheduled.floor, top, scheduled.maximum, scheduled.stamp))
    if options.now > moment_of(until, "--until"):
        stale = InferdocError(f"the plan of this job was valid until {until} and is stale; make a new one")
        state = PlanState(why=str(stale), fault=stale)
    if patched.subresource is None:
        return apply(state, target, replace(options, maximum=scheduled.maximum), really, look_first=True)
    return retried(lambda: _scaled(state, patched, scheduled, options, really))


def _scaled(
    state: PlanState, patched: PatchTarget, scheduled: ScheduledFloor, options: EmitOptions, really: bool
) -> Applied:
    """Sets the scale subresource, which stores no record: a number of replicas that is no level of the plan was set by
    the user and is never lowered."""
    name = str(options.name)
    found = kubectl.get(patched.kubectl_resource, name, options.namespace, scale=True)
    current = look(found, "spec", "replicas") or 0
    desired_replicas = int(scheduled.stamp[PLAN_BASE]) if state.desired is None else state.desired.floor
    notes = [f"{state.why}: the base floor is restored"] if state.desired is None else []
    if current not in scheduled.levels and current > desired_replicas:
        notes.append(f"{current}, set by hand, is kept")
        desired_replicas = current
    if current == desired_replicas:
        return Applied(current, desired_replicas, False, [], notes, state.fault)
    patch = {"metadata": kubectl.unchanged(found), "spec": {"replicas": desired_replicas}}
    command = kubectl.patch_words(patched.kubectl_resource, name, options.namespace, patch, scale=True)
    if really:
        kubectl.run(command)
    return Applied(current, desired_replicas, really, command, notes, state.fault)


def release(target: str, options: EmitOptions, only_expired: bool, really: bool, job: str | None = None) -> Applied:
    """Restores the object: the user's base floor, without our annotations and triggers. only_expired: not before the
    plan stamped on it has expired. A missing object needs nothing. job: the CronJob that runs this, deleted when
    nothing of ours is left."""
    place = PLACES.get(target)
    target_object = place or patch_target_of(target)
    state = PlanState(why="released")
    try:
        found = part_of(
            kubectl.get(target_object.kubectl_resource, str(options.name), options.namespace), target_object.domain
        )
    except kubectl.ObjectMissingError:
        result = Applied(None, None, False, notes=["the object does not exist, so there is nothing to restore"])
        return _with_its_job(result, job, options, really)
    until = look(found, "metadata", "annotations", VALID_UNTIL)
    if only_expired:
        if until is None:
            result = Applied(None, None, False, notes=["it carries no plan of ours, nothing is changed"])
            return _with_its_job(result, job, options, really)
        if options.now < moment_of(until, f"annotation {VALID_UNTIL}"):
            return Applied(None, None, False, notes=[f"its plan is valid until {until}, nothing is changed"])
        state = PlanState(why=f"its plan was valid until {until}")
    if place is not None:
        result = apply_triggers(state, place, options, really)
    else:
        result = apply(state, target, options, really, look_first=True)
    return _with_its_job(result, job, options, really)


def _with_its_job(result: Applied, job: str | None, options: EmitOptions, really: bool) -> Applied:
    if job is not None and really:
        kubectl.run(kubectl.delete_jobs_words(options.namespace, [job]))
    return result


@dataclass(frozen=True)
class PoolObject:
    """A pool and the object that holds its floor."""

    pool: str
    target: str
    name: str
    namespace: str


def apply_plan(
    *,
    path: str,
    goal: PerPool[str],
    pool: str | None,
    name: PerPool[str | None],
    namespace: PerPool[str | None],
    maximum: PerPool[int | None],
    really: bool,
    look_first: bool,
    ending: bool,
    now: str | None,
    metrics: str | None,
    target: str | None,
    **given: Any,
) -> int:
    """Sets the current floors, or prints what would be set: of one pool, or of all that the plan or an option names.
    Without a usable plan the user's base floor is restored, and the reason is the error. A pool that fails does not
    stop the others."""
    options = _options(now, given)
    if goal.usual == "textfile":
        write(emit(read_plan(path), "textfile", replace(options, pool=pool)).encode(), target)
        return ExitCode.OK
    made, lost = None, None
    try:
        made = read_plan(path)
    except InferdocError as fault:
        lost = fault
    places = _places(made, lost, pool, goal, name, namespace)
    settled: dict[str, Applied] = {}
    failed: dict[str, InferdocError] = {}
    texts = []
    for place in places:
        own = replace(options, pool=place.pool, name=place.name, namespace=place.namespace)
        own = replace(own, maximum=maximum.of(place.pool))
        try:
            state = PlanState(why=str(lost), fault=lost) if made is None else plan_state(made, own)
            if state.pool is not None:
                refuse_other_place(state.pool.row, own)
            result = _settled(place, state, own, really, look_first, ending)
        except InferdocError as fault:
            failed[place.pool] = fault
            continue
        settled[place.pool] = result
        texts.append(lines(result, place.name))
        if (why := result.fault or result.undone) is not None:
            failed[place.pool] = why
    write("".join(texts).encode(), target)
    if metrics is not None and really and settled:
        write(run_metrics(made, settled, [p.pool for p in places], options.now, _text(metrics)).encode(), metrics)
    if failed:
        raise _together(failed, len(places))
    return ExitCode.OK


def _places(
    made: PlanRow | None,
    lost: InferdocError | None,
    pool: str | None,
    goal: PerPool[str],
    name: PerPool[str | None],
    namespace: PerPool[str | None],
) -> list[PoolObject]:
    """The pools and their objects. A pool that an option names is included although the plan no longer contains it: its
    base floor is restored."""
    named = [*name.own, *goal.own, *namespace.own]
    planned = [] if made is None else [row.name for row in made.pools]
    pools = list(dict.fromkeys([*planned, *named])) if pool is None else [pool]
    if not pools and lost is not None:
        raise lost
    if name.usual is not None and len(pools) > 1:
        raise InferdocError(
            f"--name {name.usual} would be the object of {len(pools)} pools; write --name POOL=NAME: {', '.join(pools)}"
        )
    planned_for = {} if made is None else {row.name: row.namespace for row in made.pools}
    return [
        PoolObject(p, goal.of(p), name.of(p) or p, namespace.of(p) or planned_for.get(p) or "default") for p in pools
    ]


def _settled(
    place: PoolObject, state: PlanState, options: EmitOptions, really: bool, look_first: bool, ending: bool
) -> Applied:
    triggers = PLACES.get(place.target)
    if triggers is not None:
        result = apply_triggers(state, triggers, options, really)
        return with_ending(result, state, triggers, options, really) if ending else result
    if place.target == "cronjob":
        return apply_jobs(state, options, really)
    result = apply(state, place.target, options, really, look_first)
    looked = really or look_first
    return with_ending(result, state, patch_target_of(place.target), options, really) if ending and looked else result


def _together(failed: dict[str, InferdocError], count: int) -> InferdocError:
    """One error, one line, of the worst kind among them."""
    worst = max(failed.values(), key=lambda fault: fault.exit_code)
    if count == 1:
        return worst
    whys: dict[str, list[str]] = {}
    for pool, fault in failed.items():
        whys.setdefault(str(fault), []).append(pool)
    text = "; ".join(f"{', '.join(pools)}: {why}" for why, pools in whys.items())
    return type(worst)(f"{len(failed)} of {count} pools do not follow the plan: {text}")


def _text(path: str) -> str:
    """The content of a file, empty if it cannot be read."""
    try:
        return Path(path).read_text("utf-8")
    except (OSError, UnicodeDecodeError):
        return ""


def hold_floor(
    *,
    goal: str,
    floor: int,
    levels: str,
    maximum: int,
    until: str,
    base: int,
    plan_id: str,
    generated: str,
    zone: str,
    scale_to_zero: bool,
    now: str | None,
    really: bool,
    **given: Any,
) -> int:
    """Sets the floor that a scheduled job states."""
    options = _one_object(now, given)
    stamp = {PLAN_ID: plan_id, GENERATED: generated, VALID_UNTIL: until, PLAN_BASE: str(base), ZONE: zone}
    stamp[POOL] = str(options.pool)
    try:
        order = ScheduledFloor(floor, tuple(int(word) for word in levels.split(",")), maximum, stamp, scale_to_zero)
    except ValueError as fault:
        raise InferdocError(f"--levels `{levels}`: write whole numbers with commas between") from fault
    return _write_result(hold(goal, order, options, really), options)


def release_object(
    *, goal: str, only_expired: bool, job: str | None, now: str | None, really: bool, **given: Any
) -> int:
    """Restores the base floor of one object."""
    options = _one_object(now, given)
    return _write_result(release(goal, options, only_expired, really, job), options)


def _write_result(result: Applied, options: EmitOptions) -> int:
    write(lines(result, str(options.name)).encode(), None)
    if result.fault is not None:
        raise result.fault
    return ExitCode.OK


def _one_object(now: str | None, given: dict[str, Any]) -> EmitOptions:
    options = _options(now, given)
    return replace(options, name=options.name or options.pool)


def _options(now: str | None, given: dict[str, Any]) -> EmitOptions:
    moment = time.time() if now is None else moment_of(now, "--now")
    return EmitOptions(now=moment, **{key: value for key, value in given.items() if value is not None})
