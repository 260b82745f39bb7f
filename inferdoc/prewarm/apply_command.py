"""What `inferdoc prewarm apply`, `hold` and `release` do, behind the command line."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from inferdoc.errors import ExitCode, InferdocError
from inferdoc.forecast.command import write
from inferdoc.prewarm.apply import Applied, apply, lines, run_metrics
from inferdoc.prewarm.command import read_plan
from inferdoc.prewarm.emit.base import GENERATED, PLAN_BASE, PLAN_ID, POOL, VALID_UNTIL, ZONE, EmitOptions
from inferdoc.prewarm.emit.parts import PLACES
from inferdoc.prewarm.emit.patch_target import patch_target_of
from inferdoc.prewarm.emit.registry import emit
from inferdoc.prewarm.ending import apply_jobs, with_ending
from inferdoc.prewarm.guide import Guide, guide
from inferdoc.prewarm.hold import Order, hold, release
from inferdoc.prewarm.plan import PlanRow
from inferdoc.prewarm.plan_options import PerPool
from inferdoc.prewarm.record import refuse_other_place
from inferdoc.prewarm.triggered import apply_triggers
from inferdoc.times import moment_of


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
    **asked: Any,
) -> int:
    """Settles the floors of now, or says what would be set: of one pool, or of all that the plan or an option names.
    Where there is no plan to follow the user's base comes back, and the reason is the error. A pool that fails keeps no
    other from being settled."""
    options = _options(now, asked)
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
            led = Guide(why=str(lost), fault=lost) if made is None else guide(made, own)
            if led.pool is not None:
                refuse_other_place(led.pool.row, own)
            result = _settled(place, led, own, really, look_first, ending)
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
    """The pools to settle and their objects. A pool that an option names is settled although it is in no plan any
    more: its object gets its base back."""
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
    place: PoolObject, led: Guide, options: EmitOptions, really: bool, look_first: bool, ending: bool
) -> Applied:
    triggers = PLACES.get(place.target)
    if triggers is not None:
        result = apply_triggers(led, triggers, options, really)
        return with_ending(result, led, triggers, options, really) if ending else result
    if place.target == "cronjob":
        return apply_jobs(led, options, really)
    result = apply(led, place.target, options, really, look_first)
    looked = really or look_first
    return with_ending(result, led, patch_target_of(place.target), options, really) if ending and looked else result


def _together(failed: dict[str, InferdocError], count: int) -> InferdocError:
    """One error, one line, of the worst kind among them."""
    worst = max(failed.values(), key=lambda fault: fault.exit_code)
    if count == 1:
        return worst
    whys: dict[str, list[str]] = {}
    for pool, fault in failed.items():
        whys.setdefault(str(fault), []).append(pool)
    told = "; ".join(f"{', '.join(pools)}: {why}" for why, pools in whys.items())
    return type(worst)(f"{len(failed)} of {count} pools do not follow the plan: {told}")


def _text(path: str) -> str:
    """What stands there, nothing where that cannot be read."""
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
    **asked: Any,
) -> int:
    """Holds the floor that a scheduled job states."""
    options = _one_object(now, asked)
    stamp = {PLAN_ID: plan_id, GENERATED: generated, VALID_UNTIL: until, PLAN_BASE: str(base), ZONE: zone}
    stamp[POOL] = str(options.pool)
    try:
        order = Order(floor, tuple(int(word) for word in levels.split(",")), maximum, stamp, scale_to_zero)
    except ValueError as fault:
        raise InferdocError(f"--levels `{levels}`: write whole numbers with commas between") from fault
    return _told(hold(goal, order, options, really), options)


def release_object(
    *, goal: str, only_expired: bool, job: str | None, now: str | None, really: bool, **asked: Any
) -> int:
    """Gives one object back to the user."""
    options = _one_object(now, asked)
    return _told(release(goal, options, only_expired, really, job), options)


def _told(result: Applied, options: EmitOptions) -> int:
    write(lines(result, str(options.name)).encode(), None)
    if result.fault is not None:
        raise result.fault
    return ExitCode.OK


def _one_object(now: str | None, asked: dict[str, Any]) -> EmitOptions:
    options = _options(now, asked)
    return replace(options, name=options.name or options.pool)


def _options(now: str | None, asked: dict[str, Any]) -> EmitOptions:
    moment = time.time() if now is None else moment_of(now, "--now")
    return EmitOptions(now=moment, **{key: value for key, value in asked.items() if value is not None})
