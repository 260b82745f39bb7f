"""What a run follows: a plan's pool, the floor a scheduled job states, or nothing, and then why."""

from __future__ import annotations

from dataclasses import dataclass

from inferdoc.errors import InferdocError
from inferdoc.prewarm.emit.base import EmitOptions, chosen, fresh, stamps
from inferdoc.prewarm.plan import PlanRow, PoolPlan


@dataclass(frozen=True)
class Goal:
    """What should stand on an object. floor: now; top: the most that is ever asked for; maximum: never exceeded;
    stamp: of the plan, as every object carries it."""

    floor: int
    top: int
    maximum: int
    stamp: dict[str, str]


@dataclass(frozen=True)
class Guide:
    """What there is to follow. plan, pool, goal: None where there is nothing (a floor that a job states has no plan);
    why: there is nothing; fault: the same as an error (None = the plan itself says so: the forecast abstained)."""

    plan: PlanRow | None = None
    pool: PoolPlan | None = None
    goal: Goal | None = None
    why: str = ""
    fault: InferdocError | None = None


def guide(plan: PlanRow, options: EmitOptions) -> Guide:
    """The pool of a plan that can be followed at `options.now`, or why there is none."""
    row = next((row for row in plan.pools if row.name == options.pool), None)
    if options.pool is None and len(plan.pools) == 1:
        row = plan.pools[0]
    if row is not None and row.forecast.abstained:
        return Guide(why=f"the forecast abstained ({row.forecast.reason})")
    try:
        fresh(plan, options.now)
        pool = chosen(plan, options)
    except InferdocError as fault:
        if options.pool is None and len(plan.pools) != 1:
            raise
        return Guide(why=str(fault), fault=fault)
    maximum = pool.row.maximum if options.maximum is None else min(pool.row.maximum, options.maximum)
    return Guide(plan, pool, Goal(pool.at(options.now), pool.top, maximum, stamps(plan, pool.row)))
