"""What scheduled jobs do to one object: hold a floor that they state, or give the object back."""

from __future__ import annotations

from dataclasses import dataclass, replace

from inferdoc.errors import InferdocError
from inferdoc.prewarm import kubectl
from inferdoc.prewarm.apply import Applied, apply, tried
from inferdoc.prewarm.emit.base import PLAN_BASE, VALID_UNTIL, EmitOptions
from inferdoc.prewarm.emit.parts import PLACES, part_of
from inferdoc.prewarm.emit.patch_target import PatchTarget, look, patch_target_of
from inferdoc.prewarm.guide import Goal, Guide
from inferdoc.prewarm.triggered import apply_triggers
from inferdoc.times import moment_of


@dataclass(frozen=True)
class Order:
    """A floor to hold. levels: all floors of the plan; stamp: of the plan; scale_to_zero: whether 0 is meant."""

    floor: int
    levels: tuple[int, ...]
    maximum: int
    stamp: dict[str, str]
    scale_to_zero: bool = False


def hold(target: str, order: Order, options: EmitOptions, really: bool) -> Applied:
    """Settles the floor of an order on the object, by the record on it; past the plan's validity the base comes back.
    The object is looked at in any case."""
    aim, until = patch_target_of(target), order.stamp[VALID_UNTIL]
    top, least = max(order.floor, *order.levels), min(order.floor, *order.levels, int(order.stamp[PLAN_BASE]))
    if top > order.maximum:
        raise InferdocError(f"--floor and --levels want {top} replicas, --max is {order.maximum}")
    if least < 0:
        raise InferdocError(f"--levels: {least} replicas are negative")
    if order.floor == 0 and not order.scale_to_zero:
        raise InferdocError("--floor 0 takes every replica away; give --scale-to-zero")
    led = Guide(goal=Goal(order.floor, top, order.maximum, order.stamp))
    if options.now > moment_of(until, "--until"):
        stale = InferdocError(f"the plan of this job was valid until {until} and is stale; make a new one")
        led = Guide(why=str(stale), fault=stale)
    if aim.subresource is None:
        return apply(led, target, replace(options, maximum=order.maximum), really, look_first=True)
    return tried(lambda: _scaled(led, aim, order, options, really))


def _scaled(led: Guide, aim: PatchTarget, order: Order, options: EmitOptions, really: bool) -> Applied:
    """Through the scale alone, which holds no record: replicas that are no level of the plan were set by the user, and
    nothing goes under them."""
    name = str(options.name)
    found = kubectl.get(aim.kubectl_resource, name, options.namespace, scale=True)
    current = look(found, "spec", "replicas") or 0
    wanted = int(order.stamp[PLAN_BASE]) if led.goal is None else led.goal.floor
    notes = [f"{led.why}: the base comes back"] if led.goal is None else []
    if current not in order.levels and current > wanted:
        notes.append(f"{current}, set by hand, is kept")
        wanted = current
    if current == wanted:
        return Applied(current, wanted, False, [], notes, led.fault)
    patch = {"metadata": kubectl.unchanged(found), "spec": {"replicas": wanted}}
    command = kubectl.patch_words(aim.kubectl_resource, name, options.namespace, patch, scale=True)
    if really:
        kubectl.run(command)
    return Applied(current, wanted, really, command, notes, led.fault)


def release(target: str, options: EmitOptions, only_expired: bool, really: bool, job: str | None = None) -> Applied:
    """Gives the object back: the user's base, none of our annotations, none of our triggers. only_expired: not before
    the plan stamped on it is past its validity. An object that is not there needs nothing. job: the CronJob that asks,
    which goes when nothing of ours is left."""
    place = PLACES.get(target)
    held = place or patch_target_of(target)
    led = Guide(why="given back")
    try:
        found = part_of(kubectl.get(held.kubectl_resource, str(options.name), options.namespace), held.domain)
    except kubectl.ObjectMissingError:
        result = Applied(None, None, False, notes=["it is not there, so there is nothing to give back"])
        return _with_its_job(result, job, options, really)
    until = look(found, "metadata", "annotations", VALID_UNTIL)
    if only_expired:
        if until is None:
            result = Applied(None, None, False, notes=["it holds no plan of ours, nothing is changed"])
            return _with_its_job(result, job, options, really)
        if options.now < moment_of(until, f"annotation {VALID_UNTIL}"):
            return Applied(None, None, False, notes=[f"its plan is valid until {until}, nothing is changed"])
        led = Guide(why=f"its plan was valid until {until}")
    if place is not None:
        result = apply_triggers(led, place, options, really)
    else:
        result = apply(led, target, options, really, look_first=True)
    return _with_its_job(result, job, options, really)


def _with_its_job(result: Applied, job: str | None, options: EmitOptions, really: bool) -> Applied:
    if job is not None and really:
        kubectl.run(kubectl.delete_jobs_words(options.namespace, [job]))
    return result
