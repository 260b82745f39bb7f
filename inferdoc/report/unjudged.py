"""What could not be judged, by why: what could be seen first, since somebody can act on it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from inferdoc.judging.model import AbsenceKind, NotJudged

KINDS: dict[AbsenceKind, tuple[str, str]] = {
    "blind": ("could be seen", "could be seen"),
    "off": ("needs something that is not in use", "need something that is not in use"),
    "later": ("shows with its first event", "show with their first event"),
}
"""Every kind of absence in words that follow one cause, and several; the one to act on first."""


def why(kind: AbsenceKind, number: int) -> str:
    """What keeps so many causes from being judged."""
    return KINDS[kind][number > 1]


@dataclass(frozen=True)
class Blind:
    """One reason: remedy: what would show it, or what is not in use; causes: that it keeps from being judged; missing:
    their signals."""

    kind: AbsenceKind
    remedy: str
    causes: list[str]
    missing: list[str]


def by_reason(entries: Sequence[NotJudged]) -> list[Blind]:
    """Every reason once, those of a kind together, most causes first."""
    reasons: dict[tuple[AbsenceKind, str], Blind] = {}
    for entry in entries:
        reason = reasons.setdefault((entry.kind, entry.enable), Blind(entry.kind, entry.enable, [], []))
        reason.causes.append(entry.id)
        reason.missing.extend(name for name in entry.missing if name not in reason.missing)
    order = list(KINDS)
    return sorted(reasons.values(), key=lambda reason: (order.index(reason.kind), -len(reason.causes)))


def counted(entries: Sequence[NotJudged]) -> str:
    """`3 could be seen, 12 need something that is not in use`."""
    numbers = {kind: sum(entry.kind == kind for entry in entries) for kind in KINDS}
    return ", ".join(f"{number} {why(kind, number)}" for kind, number in numbers.items() if number)
