"""What a run applies: a pool of a plan, the floor of a scheduled job, or nothing with the reason."""

from __future__ import annotations

from dataclasses import dataclass

from inferdoc.errors import InferdocError
from inferdoc.prewarm.emit.base import EmitOptions, chosen, fresh, stamps
from inferdoc.prewarm.plan import PlanRow, PoolPlan


@dataclass(frozen=True)
class DesiredFloor:
    """The desired floor of an object. floor: now; top: the highest floor of the plan; maximum: never exceeded; stamp:
    annotations that name the plan."""

    floor: int
    top: int
    maximum: int
    stamp: dict[str, str]


@dataclass(frozen=True)
class PlanState:
    """What a run applies. plan, pool, desired: None if there is nothing (the floor of a job has no plan); why: the
    reason for that; fault: the same as an error (None = the forecast abstained)."""

    plan: PlanRow | None = None
    pool: PoolPlan | None = None
    desired: DesiredFloor | None = None
    why: str = ""
    fault: InferdocError | None = None


def plan_state(plan: PlanRow, options: EmitOptions) -> PlanState:
    """The pool of a plan that is usable at `options.now`, or why there is none."""
    row = next((row for row in plan.pools if row.name == options.pool), None)
    if options.pool is None and len(plan.pools) == 1:
        row = plan.pools[0]
    if row is not None and row.forecast.abstained:
        return PlanState(why=f"the forecast abstained ({row.forecast.reason})")
    try:
        fresh(plan, options.now)
        pool = chosen(plan, options)
    except InferdocError as fault:
        if options.pool is None and len(plan.pools) != 1:
            raise
        return PlanState(why=str(fault), fault=fault)
    maximum = pool.row.maximum if options.maximum is None else min(pool.row.maximum, options.maximum)
    return PlanState(plan, pool, DesiredFloor(pool.at(options.now), pool.top, maximum, stamps(plan, pool.row)))
