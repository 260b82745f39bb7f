"""The limits that a rule puts on a signal for one condition, each by name, as the tests of the rules must see them."""

from __future__ import annotations

from dataclasses import dataclass

from inferdoc.catalogue.load import Catalogue
from inferdoc.catalogue.recipe import Condition
from inferdoc.generate.recorded import FEWEST_EVENTS
from inferdoc.judging.conditions.render import FENCE, MIN_OBSERVATIONS


@dataclass(frozen=True)
class Course:
    """A signal's value when calm, its value when the fault begins, its growth per second from then on, and the value
    between which and `calm` it swung in the more distant past."""

    calm: float
    fault: float
    ramp: float = 0.0
    swing: float | None = None


def names(condition: Condition) -> tuple[str, ...]:
    """Which limits a condition has: all must be met for it to hold."""
    kind = condition.kind
    if kind in ("rises", "falls"):
        return ("factor", "by") if condition.average else ("factor", "by", "swing")
    return {"differs": ("factor", "by"), "stalls": ("limit", "work")}.get(kind, ("limit",))


def met(condition: Condition, course: Course, value: float, work: float, catalogue: Catalogue) -> dict[str, bool]:
    """Which limits of a simple condition are met at a value of the faulty course; work: what `stalls` looks at."""
    calm, kind = course.calm, condition.kind
    by, limit = least_move(condition, catalogue), limit_of(condition, catalogue) or 0.0
    if kind == "above":
        return {"limit": value > limit}
    if kind == "below":
        return {"limit": value < limit}
    if kind == "slope":
        return {"limit": course.ramp > float(condition.slope or 0.0)}
    if kind == "stalls":
        return {"limit": value == 0, "work": work > 0}
    factor = float(condition.rises or condition.falls or condition.differs or 1.0)
    up = condition.rises is not None or (condition.differs is not None and factor >= 1)
    found = {"factor": value > factor * calm if up else value < factor * calm}
    found["by"] = value > calm + by if up else value < calm - by
    if kind != "differs" and not condition.average:
        edge = swing_edge(course, up)
        found["swing"] = value > edge if up else value < edge
    return found


def swing_edge(course: Course, up: bool) -> float:
    """The fence of a past that was `calm` for the longer and `swing` for the shorter part."""
    other = course.calm if course.swing is None else course.swing
    low, high = sorted((course.calm, other))
    return (1 + FENCE) * high - FENCE * low if up else (1 + FENCE) * low - FENCE * high


def swing_for(calm: float, edge: float) -> float:
    """The value between which and `calm` a signal must have swung for its fence to lie at `edge`."""
    return (edge + FENCE * calm) / (1 + FENCE)


def needs_events(condition: Condition, catalogue: Catalogue) -> bool:
    """Whether a rule asks how many events a share rests on: where the fewest it looks at could exceed it by chance."""
    if condition.above is None or catalogue.signals[str(condition.signal)].unit != "ratio":
        return False
    return float(limit_of(condition, catalogue) or 0.0) * MIN_OBSERVATIONS < FEWEST_EVENTS


def edges(condition: Condition, calm: float, catalogue: Catalogue) -> list[float]:
    """Values at which a condition begins or ceases to hold."""
    limit, by = limit_of(condition, catalogue), least_move(condition, catalogue)
    if limit is not None:
        return [limit]
    if condition.rises is not None:
        return [condition.rises * calm, calm + by]
    if condition.falls is not None:
        return [condition.falls * calm, calm - by]
    if condition.differs is not None:
        return [condition.differs * calm, calm + by if condition.differs >= 1 else calm - by]
    return []


def limit_of(condition: Condition, catalogue: Catalogue) -> float | None:
    """The absolute limit of a condition in figures."""
    for value in (condition.above, condition.below, condition.reaches):
        if value is not None:
            return catalogue.tiers.thresholds[value].value if isinstance(value, str) else value
    return None


def least_move(condition: Condition, catalogue: Catalogue) -> float:
    """By how much a relative condition must move at least."""
    return max(condition.by or 0.0, catalogue.signals[str(condition.signal)].floor)
