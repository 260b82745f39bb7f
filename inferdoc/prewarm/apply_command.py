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
from inferdoc.prewarm.guide import PlanState, plan_state
from inferdoc.prewarm.hold import ScheduledFloor, hold, release
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
