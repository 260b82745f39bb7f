"""What scheduled jobs do to one object: hold a floor that they state, or give the object back."""

from __future__ import annotations

from dataclasses import dataclass

from inferdoc.errors import InferdocError
from inferdoc.prewarm import kubectl
from inferdoc.prewarm.apply import Applied, apply, tried
from inferdoc.prewarm.emit.aim import Aim, aim_of, look
from inferdoc.prewarm.emit.base import PLAN_BASE, VALID_UNTIL, EmitOptions
from inferdoc.prewarm.emit.keda import RESOURCE
from inferdoc.prewarm.guide import Goal, Guide
from inferdoc.prewarm.triggered import apply_triggers
from inferdoc.times import moment_of


@dataclass(frozen=True)
class Order:
    """A floor to hold. levels: all floors of the plan; stamp: of the plan."""

    floor: int
    levels: tuple[int, ...]
    maximum: int
    stamp: dict[str, str]


def hold(target: str, order: Order, options: EmitOptions, really: bool) -> Applied:
    """Settles the floor of an order on the object, by the record on it; past the plan's validity the base comes back.
    The object is looked at in any case."""
    aim, until = aim_of(target), order.stamp[VALID_UNTIL]
    led = Guide(goal=Goal(order.floor, max(order.levels), order.maximum, order.stamp))
    if options.now > moment_of(until, "--until"):
        stale = InferdocError(f"the plan of this job was valid until {until} and is stale; make a new one")
        led = Guide(why=str(stale), fault=stale)
    if aim.subresource is None:
        return apply(led, target, options, really, look_first=True)
    return tried(lambda: _scaled(led, aim, order, options, really))


def _scaled(led: Guide, aim: Aim, order: Order, options: EmitOptions, really: bool) -> Applied:
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


def release(target: str, options: EmitOptions, only_expired: bool, really: bool) -> Applied:
    """Gives the object back: the user's base, none of our annotations, none of our triggers. only_expired: not before
    the plan stamped on it is past its validity. An object that is not there needs nothing."""
    triggered = target in ("keda-cron", "ScaledObject")
    resource = RESOURCE if triggered else aim_of(target).kubectl_resource
    try:
        found = kubectl.get(resource, str(options.name), options.namespace)
    except kubectl.ObjectMissingError:
        return Applied(None, None, False, notes=["it is not there, so there is nothing to give back"])
    marks = look(found, "metadata", "annotations") or {}
    until = marks.get(VALID_UNTIL)
    if only_expired and (until is None or options.now < moment_of(until, f"annotation {VALID_UNTIL}")):
        why = "it holds no plan of ours" if until is None else f"its plan is valid until {until}"
        return Applied(None, None, False, notes=[f"{why}, nothing is changed"])
    led = Guide(why=f"its plan was valid until {until}" if only_expired else "given back")
    if triggered:
        return apply_triggers(led, options, really)
    return apply(led, target, options, really, look_first=True)
