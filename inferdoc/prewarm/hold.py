"""Runs of scheduled jobs on one object: set a floor, or restore the base floor."""

from __future__ import annotations

from dataclasses import dataclass, replace

from inferdoc.errors import InferdocError
from inferdoc.prewarm import kubectl
from inferdoc.prewarm.apply import Applied, apply, retried
from inferdoc.prewarm.emit.base import PLAN_BASE, VALID_UNTIL, EmitOptions
from inferdoc.prewarm.emit.parts import PLACES, part_of
from inferdoc.prewarm.emit.patch_target import PatchTarget, look, patch_target_of
from inferdoc.prewarm.guide import DesiredFloor, PlanState
from inferdoc.prewarm.triggered import apply_triggers
from inferdoc.times import moment_of


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
    state = PlanState(why="given back")
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
