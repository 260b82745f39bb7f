"""all, any, not: how the answers of several conditions combine."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from inferdoc.judging.conditions.render import Expression
from inferdoc.judging.context import Outcome


def combine(kind: str, outcomes: Sequence[Outcome]) -> Outcome:
    """One answer of several: unknown counts as unknown unless the others decide without it. The parts of `any` are
    alternative observations of one thing, so one that can be made decides; those of `all` must overlap in time;
    `witnesses` are an `all` of those that are visible."""
    if kind == "not":
        (one,) = outcomes
        return one.but(holds=None if one.holds is None else not one.holds, first=None, last=None, parts=(one,))
    if kind == "any":
        holding = [one for one in outcomes if one.holds]
        if holding:
            return _whole(holding).but(parts=tuple(outcomes))
        unknown = [o for o in outcomes if o.holds is None]
        pick = next((o for o in outcomes if o.holds is False), outcomes[0])
        return pick.but(
            holds=None if len(unknown) == len(outcomes) else False, missing=_missing(unknown), parts=tuple(outcomes)
        )
    for one in outcomes:
        if one.holds is False:
            return one.but(parts=tuple(outcomes))
    unknown = [o for o in outcomes if o.holds is None]
    holding = [o for o in outcomes if o.holds]
    if kind == "witnesses" and unknown and holding:
        return combine("all", holding).but(missing=_missing(unknown), parts=tuple(outcomes))
    if unknown:
        return unknown[0].but(missing=_missing(unknown), parts=tuple(outcomes))
    first = max((o.first for o in outcomes if o.first is not None), default=None)
    last = min((o.last for o in outcomes if o.last is not None), default=None)
    text = "; ".join(o.text for o in outcomes)
    if first is not None and last is not None and first > last:
        return outcomes[0].but(holds=False, text=f"not at the same time: {text}", parts=tuple(outcomes))
    return outcomes[0].but(text=text, first=first, last=last, parts=tuple(outcomes))


def _whole(holding: Sequence[Outcome]) -> Outcome:
    """Of several observations of one thing the first, unless it saw only a part of what a later one did: a gauge is
    beyond its limit for a few scrapes of the minutes in which a rate is. Of what has no beginning nothing is a part. It
    is evaluated on all pods of a pool for each of them."""
    best = holding[0]
    if best.first is None or best.last is None or best.from_start:
        return best
    first, last = best.first, best.last
    for other in holding:
        if other.first is None or other.first > first or other.last is None or other.last < last or other.from_start:
            continue
        if 2 * (last - first + 1) < other.last - other.first + 1:
            best, first, last = other, other.first, other.last
    return best


def k_of(needed: int, outcomes: Sequence[Outcome]) -> Outcome:
    """The answer where at least so many hold: from when so many do; unknown where those that are unknown decide."""
    holding = [one for one in outcomes if one.holds]
    if len(holding) >= needed:
        firsts = sorted(one.first or 0 for one in holding)
        lasts = sorted((one.last for one in holding if one.last is not None), reverse=True)
        text = "; ".join(one.text for one in holding)
        last = lasts[needed - 1] if len(lasts) >= needed else None
        return holding[0].but(text=text, first=firsts[needed - 1], last=last, parts=tuple(outcomes))
    unknown = [one for one in outcomes if one.holds is None]
    pick = next((one for one in outcomes if one.holds is False), outcomes[0])
    known = len(holding) + len(unknown) < needed
    return pick.but(holds=False if known else None, missing=_missing(unknown), parts=tuple(outcomes))


def at_least_half(outcomes: Sequence[Outcome]) -> Outcome:
    """The answer of the first that holds where at least half of them do, else that of one that does not."""
    holding = [one for one in outcomes if one.holds]
    if 2 * len(holding) >= len(outcomes):
        return holding[0].but(parts=tuple(outcomes))
    unknown = [one for one in outcomes if one.holds is None]
    known = 2 * len(unknown) < len(outcomes)
    pick = next((one for one in outcomes if not one.holds), outcomes[0])
    return pick.but(holds=False if known else None, missing=_missing(unknown), parts=tuple(outcomes))


def _missing(outcomes: Sequence[Outcome]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for o in outcomes for name in o.missing))


def explain(kind: str, parts: Sequence[str]) -> str:
    """The members of a group in words, joined."""
    if kind == "not":
        return f"not: {parts[0]}"
    return (" or " if kind == "any" else " and ").join(parts)


def promql(
    kind: str,
    parts: Sequence[Expression | None],
    barred: Sequence[Expression | None] = (),
    visible: Sequence[Expression | None] = (),
) -> Expression | None:
    """`all` leaves out what PromQL cannot say (the rule is then a little wider); `any` needs one.

    barred: what must not hold beside the parts of an `all`; alone, or in an `any`, no rule can say it. visible: of each
    part of `witnesses`, series while it is known: a series that is missing then silences no rule.
    """
    texts = [part for part in parts if part is not None]
    if kind == "witnesses" and not barred:
        return _of_witnesses(parts, visible)
    if not texts or kind == "not" or (kind == "any" and barred):
        return None
    known = reduce(lambda one, other: one.joined("or" if kind == "any" else "and", other), texts)
    return reduce(lambda one, other: one.joined("unless", other), [part for part in barred if part is not None], known)


def _of_witnesses(parts: Sequence[Expression | None], visible: Sequence[Expression | None]) -> Expression | None:
    """One holds, and no known one does not."""
    pairs = [(part, seen) for part, seen in zip(parts, visible, strict=True) if part is not None]
    if not pairs:
        return None
    known = reduce(lambda one, other: one.joined("or", other), [part for part, _ in pairs])
    if len(pairs) == 1:
        return known
    against = [seen.joined("unless", part) for part, seen in pairs if seen is not None]
    return reduce(lambda one, other: one.joined("unless", other), against, known)
