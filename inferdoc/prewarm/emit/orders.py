"""The commands of scheduled jobs: hold a floor, give the object back. Each looks at the object before it writes."""

from __future__ import annotations

from inferdoc.prewarm.emit.aim import Aim
from inferdoc.prewarm.emit.base import GENERATED, PLAN_BASE, PLAN_ID, VALID_UNTIL, ZONE, EmitOptions, stamps
from inferdoc.prewarm.plan import PlanRow, PoolPlan

SAID = {
    "--plan-id": PLAN_ID,
    "--generated": GENERATED,
    "--until": VALID_UNTIL,
    "--base": PLAN_BASE,
    "--zone": ZONE,
}
"""What of a plan's stamp a command says beside the pool."""


def hold_words(plan: PlanRow, pool: PoolPlan, options: EmitOptions, aim: Aim, floor: int, base: int) -> list[str]:
    """Puts a floor on the object unless the user set another. base: the user's own."""
    aim.refuse(floor)
    stamp = {**stamps(plan, pool.row), PLAN_BASE: str(base)}
    levels = sorted({base, pool.row.base, *(window.replicas for window in pool.windows)})
    return [
        *_start("hold", aim.word, pool.row.name, options),
        f"--floor={floor}",
        f"--levels={','.join(map(str, levels))}",
        f"--max={pool.row.maximum if options.maximum is None else min(pool.row.maximum, options.maximum)}",
        *(f"{option}={stamp[key]}" for option, key in SAID.items()),
        *(["--scale-to-zero"] if floor == 0 else []),
        "--yes",
    ]


def release_words(pool: str, options: EmitOptions, target: str) -> list[str]:
    """Gives the object back once its plan is past its validity; before, and where nothing of ours is left, it changes
    nothing. target: the short word of its kind, or `keda-cron`."""
    return [*_start("release", target, pool, options), "--expired", "--yes"]


def _start(verb: str, target: str, pool: str, options: EmitOptions) -> list[str]:
    place = [f"--name={options.name or pool}", f"--namespace={options.namespace}"]
    return ["inferdoc", "prewarm", verb, f"--target={target}", f"--pool={pool}", *place]
