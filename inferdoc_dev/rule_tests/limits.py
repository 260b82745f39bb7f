"""The limits that a rule puts on a signal for one condition, each by name, as the tests of the rules must see them."""

from __future__ import annotations

from dataclasses import dataclass

from inferdoc.catalogue.conditions import Compared, Fact, Level, Move, Odd, Reaches, Slope, Stall
from inferdoc.catalogue.load import Catalogue
from inferdoc.catalogue.span import deciding
from inferdoc.judging.conditions.render import FENCE, FEWEST_EVENTS, MIN_OBSERVATIONS


@dataclass(frozen=True)
class Course:
    """A signal's value when healthy, its value when the fault begins, its growth per second from then on, and the value
    between which and `healthy` it swung in the more distant past."""

    healthy: float
    fault: float
    ramp: float = 0.0
    swing: float | None = None


def names(condition: Fact) -> tuple[str, ...]:
    """Which limits a condition has: all must be met for it to hold."""
    if isinstance(condition, Compared):
        return ("factor", "by", "swing") if isinstance(condition, Move) and not condition.average else ("factor", "by")
    return ("limit", "work") if isinstance(condition, Stall) else ("limit",)


def met(condition: Fact, course: Course, value: float, work: float, catalogue: Catalogue) -> dict[str, bool]:
    """Which limits of a simple condition are met at a value of the faulty course; work: what `stalls` looks at."""
    match condition:
        case Level():
            limit = limit_of(condition, catalogue) or 0.0
            return {"limit": value > limit if condition.up else value < limit}
        case Slope():
            return {"limit": course.ramp > condition.per_second}
        case Stall():
            return {"limit": value == 0, "work": work > 0}
    healthy, by = course.healthy, least_move(condition, catalogue)
    factor, up = factor_of(condition)
    found = {"factor": value > factor * healthy if up else value < factor * healthy}
    found["by"] = value > healthy + by if up else value < healthy - by
    if not (isinstance(condition, Compared) and condition.average) and not isinstance(condition, Odd):
        edge = swing_edge(course, up)
        found["swing"] = value > edge if up else value < edge
    return found


def factor_of(condition: Fact) -> tuple[float, bool]:
    """The factor of a comparison, and whether it requires more. What compares with nothing counts as any fall."""
    match condition:
        case Move():
            return condition.ratio, condition.up
        case Odd():
            return condition.factor, condition.factor >= 1
    return 1.0, False


def swing_edge(course: Course, up: bool) -> float:
    """The fence of a past that was `healthy` for the longer and `swing` for the shorter part."""
    other = course.healthy if course.swing is None else course.swing
    low, high = sorted((course.healthy, other))
    return (1 + FENCE) * high - FENCE * low if up else (1 + FENCE) * low - FENCE * high


def swing_for(healthy: float, edge: float) -> float:
    """The value between which and `healthy` a signal must have swung for its fence to lie at `edge`."""
    return (edge + FENCE * healthy) / (1 + FENCE)


def needs_events(condition: Fact, catalogue: Catalogue) -> bool:
    """Whether a rule checks how many events a share rests on: if the fewest it looks at could exceed it by chance."""
    if (
        not (isinstance(condition, Level) and condition.up)
        or catalogue.signals_of_rules[condition.signal].unit != "ratio"
    ):
        return False
    return float(limit_of(condition, catalogue) or 0.0) * MIN_OBSERVATIONS < FEWEST_EVENTS


def edges(condition: Fact, healthy: float, catalogue: Catalogue) -> list[float]:
    """Values at which a condition begins or ceases to hold."""
    limit = limit_of(condition, catalogue)
    if limit is not None:
        return [limit]
    if not isinstance(condition, Move | Odd):
        return []
    (factor, up), by = factor_of(condition), least_move(condition, catalogue)
    return [factor * healthy, healthy + by if up else healthy - by]


def limit_of(condition: Fact, catalogue: Catalogue) -> float | None:
    """The absolute limit of a condition in figures."""
    if not isinstance(condition, Level | Reaches):
        return None
    limit = condition.limit
    return catalogue.tiers.thresholds[limit].value if isinstance(limit, str) else limit


def least_move(condition: Fact, catalogue: Catalogue) -> float:
    """By how much a relative condition must move at least."""
    by = condition.by if isinstance(condition, Compared) else None
    return max(by or 0.0, catalogue.signals_of_rules[condition.signal].floor)


def stated(condition: Fact, catalogue: Catalogue) -> tuple[str, ...]:
    """Those of its limits that its rule says: what can decide, and no swing of what is on or off."""
    if not isinstance(condition, Move | Odd):
        return names(condition)
    signal = catalogue.signals_of_rules[condition.signal]
    factor, up = factor_of(condition)
    used = (
        *deciding(factor, least_move(condition, catalogue), up, signal),
        *(() if signal.unit == "bool" else ("swing",)),
    )
    return tuple(name for name in names(condition) if name in used)
