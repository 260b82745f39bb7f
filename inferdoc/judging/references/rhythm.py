"""What happens at the same hour every day, or every week, is the rhythm of the traffic and not an incident.

The baseline before a change is the baseline of a diagnosis. Where a source goes back far enough, a cause is looked at
again: if every symptom and every harm of it had about the same level at the same hour yesterday, or a week ago, it is
reported as a change and no more. Only causes that rest on change alone are looked at: what crosses a limit of its own
(a full cache, errors, an SLO), is critical or stands off its like is an incident on every day.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from inferdoc.catalogue.conditions import Condition, Fact, Move, Not, OfParts, Presence, Stall
from inferdoc.judging.changes import Event
from inferdoc.judging.context import Context, Outcome, quiet
from inferdoc.judging.fold import Cause
from inferdoc.judging.model import Baseline, BaselineKind, stamp
from inferdoc.judging.session import Session
from inferdoc.source.frame import Entity, SignalFrame
from inferdoc.source.reads import Grid

DAY_MS = 86_400_000
BEFORE: tuple[tuple[BaselineKind, int, str], ...] = (
    ("same-hour-yesterday", DAY_MS, "at the same hour yesterday"),
    ("last-week", 7 * DAY_MS, "at the same hour a week ago"),
)
LONGEST_MS = DAY_MS // 2
"""A longer window holds a good part of the rhythm itself."""
MOST_OF_IT = 0.7
"""At least so much of a change stood there then as well."""
KINDS = ("load", "unexplained")
"""What the traffic brings, and what nobody can name. A slow link or a lost cache is an incident however often it
comes."""


@dataclass(frozen=True)
class Rhythm:
    """kind: which earlier day showed it; events: the causes that it explained, as changes; back_ms: how long before."""

    kind: BaselineKind
    events: list[Event]
    back_ms: int

    def baseline(self, grid: Grid) -> Baseline:
        """The time range that showed it."""
        begin, end = (stamp((ms - self.back_ms) / 1000) for ms in (grid.start_ms, grid.end_ms))
        return Baseline(begin, end, self.kind)


def take_out_rhythm(session: Session, roots: list[Cause]) -> Rhythm | None:
    """Take the causes that are rhythm out of the list; None where none is. Reads what they rest on, a day and a week
    earlier, and nothing where there is nothing to query."""
    source, context = session.source, session.context
    grid = context.view.frame.grid
    required = [root for root in roots if _on_change_alone(root, context)]
    if not required or context.view.lead is not None or grid.end_ms - grid.start_ms > LONGEST_MS:
        return None
    needed = list(dict.fromkeys(o.signal for root in required for o in _observations(root)))
    for kind, back_ms, words in BEFORE:
        earlier = replace(grid, start_ms=grid.start_ms - back_ms)
        if "up" not in source.names(earlier.start_ms, earlier.end_ms):
            continue
        frame = session.read(needed, earlier)
        usual = [root for root in required if _stood_there(root, context, frame)]
        for root in usual:
            roots.remove(root)
        if usual:
            return Rhythm(kind, [_event(root, context, words) for root in usual], back_ms)
    return None


def _on_change_alone(root: Cause, context: Context) -> bool:
    """Whether all that holds of its symptoms and its harm compares with the baseline, and no SLO stands in for it."""
    recipe, best = root.recipe, root.best
    if recipe.kind not in KINDS or root.severity == "critical" or root.effects:
        return False
    if best.from_start or context.limits(best.unit):
        return False
    required = [leaf for condition in (*recipe.symptoms, *recipe.harm) for leaf in _simple(condition)]
    found = _observations(root)
    return bool(found) and all(_relative(one, [c for c in required if c.signal == one.signal]) for one in found)


def _simple(condition: Condition) -> Iterator[Fact]:
    """The facts of a condition that must hold; what must not hold is left out."""
    if not isinstance(condition, OfParts):
        yield condition
    elif not isinstance(condition, Not):
        for part in condition.parts:
            yield from _simple(part)


def _relative(one: Outcome, required: Sequence[Fact]) -> bool:
    """Whether an observation is one of change: so is every condition on its signal, but for a standstill (0). A queue
    that grows without end is none: it affects users on every day."""
    known = [c for c in required if not isinstance(c, Presence)]
    known = [c for c in known if not (one.observed and isinstance(c, Stall) and c.scope == "own")]
    return bool(known) and all(isinstance(c, Move) and c.scope == "own" for c in known)


def _observations(root: Cause) -> list[Outcome]:
    """The changes that a cause rests on, on the pod that shows it best."""
    pieces = (e.outcome for e in root.best.evidence if e.role in ("symptom", "harm"))
    leaves = [leaf for one in pieces for leaf in one.leaves]
    return [o for o in leaves if o.baseline is not None and o.observed is not None and o.first is not None]


def _stood_there(root: Cause, context: Context, earlier: SignalFrame) -> bool:
    """Whether most of every change was there at the same time of the earlier day."""
    found = _observations(root)
    return bool(found) and all(_same_level(root, one, context, earlier) for one in found)


def _same_level(root: Cause, one: Outcome, context: Context, earlier: SignalFrame) -> bool:
    matrix, series = earlier.signals.get(one.signal), context.view.get(root.best.unit, one.signal)
    if matrix is None or series is None or one.baseline is None or one.first is None:
        return False
    steps = slice(one.first, (root.last if one.last is None else one.last) + 1)
    now, then = quiet(series.values[steps]), quiet(matrix.values[_rows_of(root, matrix.entities)][:, steps].ravel())
    if now is None or then is None or now == one.baseline:
        return False
    return (then - one.baseline) / (now - one.baseline) >= MOST_OF_IT


def _rows_of(root: Cause, entities: Sequence[Entity]) -> list[int]:
    """The pods of the cause; where they had other names then, all pods of that model."""
    same = [row for row, entity in enumerate(entities) if entity.member in root.pods]
    return same or [row for row, entity in enumerate(entities) if _same_model(root, entity)]


def _same_model(root: Cause, entity: Entity) -> bool:
    pool = root.pool
    return (entity.get("cluster"), entity.get("namespace")) == (pool.cluster, pool.namespace) and entity.get(
        "model_name"
    ) in ("", pool.model)


def _event(root: Cause, context: Context, words: str) -> Event:
    unit, observed = root.best.unit, _texts(_observations(root))
    detail = f"{root.recipe.title}: no incident, it was like this {words} ({observed})"
    return Event(context.view.time_at(root.onset), "rhythm", unit.name, detail, unit)


def _texts(outcomes: Iterable[Outcome]) -> str:
    return "; ".join(dict.fromkeys(o.text for o in outcomes))
