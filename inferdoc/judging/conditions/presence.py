"""present, absent: whether a signal exists for the entity at all."""

from __future__ import annotations

from inferdoc.catalogue.conditions import Presence
from inferdoc.judging.conditions.render import Rendering
from inferdoc.judging.context import Context, Outcome
from inferdoc.judging.view import Unit


def evaluate(condition: Presence, context: Context, unit: Unit) -> Outcome:
    """Whether the signal is there, or is not, as required."""
    signal, needed = condition.signal, condition.there
    there = context.view.get(unit, signal) is not None
    title = context.signals[signal].title
    return Outcome(
        there == needed,
        f"{title} is {'visible' if there else 'not visible'}",
        signal,
        unit.name,
        from_start=True,
        missing=() if there or not needed else (signal,),
    )


def explain(condition: Presence) -> str:
    """The condition in words."""
    return f"`{condition.signal}` is {'visible' if condition.there else 'not visible'}"


def promql(condition: Presence, rendering: Rendering) -> str | None:
    """What is absent cannot be distinguished from an entity that is absent altogether."""
    return rendering.present(condition.signal) if condition.there else None
