"""The most replicas that a run may set on an object, whatever its plan says."""

from __future__ import annotations

from typing import Any

from inferdoc.errors import InferdocError
from inferdoc.prewarm.emit.aim import Aim, look

MOST_TIMES = 20
"""Without a maximum: so many times what runs without a plan. A plan that is wrong, or of another fleet, is off by more
than a day's peak is over its night."""
MAXIMUM = "maxReplicas"


def refuse_above_ceiling(
    aim: Aim, name: str, top: int, own: int, given: int | None, found: dict[str, Any] | None = None
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
