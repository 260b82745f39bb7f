"""present, absent: whether a signal exists for the entity at all."""

from __future__ import annotations

from inferdoc.catalogue.recipe import Condition
from inferdoc.judging.conditions.render import Rendering
from inferdoc.judging.context import Context, Outcome
from inferdoc.judging.view import Unit


def evaluate(condition: Condition, context: Context, unit: Unit) -> Outcome:
    """Whether the signal is there, or is not, as asked."""
    signal = str(condition.signal)
    there = context.view.get(unit, signal) is not None
    wanted = bool(condition.present) if condition.present is not None else not condition.absent
    title = context.signals[signal].title
    return Outcome(
        there == wanted,
        f"{title} is {'visible' if there else 'not visible'}",
        signal,
        unit.name,
        from_start=True,
        missing=() if there or not wanted else (signal,),
    )


def explain(condition: Condition) -> str:
    """The condition in words."""
    wanted = bool(condition.present) if condition.present is not None else not condition.absent
    return f"`{condition.signal}` is {'visible' if wanted else 'not visible'}"


def promql(condition: Condition, rendering: Rendering) -> str | None:
    """What is absent cannot be told from an entity that is absent altogether."""
    if condition.absent or condition.present is False:
        return None
    return rendering.present(str(condition.signal))
