"""Words that every form of a report uses, and why a cause could not be evaluated."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from inferdoc.judging.focus import ASPECTS
from inferdoc.judging.model import AbsenceKind, Baseline, BaselineKind, FocusInfo, NotJudged
from inferdoc.words import some

MOST_PODS = 3


def in_focus(focus: FocusInfo) -> str:
    """`pod decode-3: 1 of 8 pods, all of which were read and compared`."""
    chosen = [f"{name} {value}" for name in ASPECTS if (value := getattr(focus, name))]
    return f"{', '.join(chosen)}: {len(focus.pods)} of {focus.of_pods} pods, all of which were read and compared"


def elsewhere(focus: FocusInfo) -> str:
    """What was found on others: `slow-gpu on decode-5, engine-down on decode-1`; empty where nothing was."""
    return "; ".join(f"{one.id} on {some(one.pods, MOST_PODS)}" for one in focus.elsewhere)


HARM = "harm"


def role_word(role: str) -> str:
    """The word for people of a role of evidence."""
    return "impact" if role == HARM else role


WORDS: dict[BaselineKind, str] = {
    "calm-before": "the part of the window before the change",
    "history": "the history before the window",
    "stored": "a stored baseline",
    "same-hour-yesterday": "the same hour yesterday",
    "last-week": "the same hour a week ago",
    "predecessors": "the pods that were replaced",
    "peers": "peers of the same pool",
    "absolute": "limits: objectives, bands, physics",
    "chosen": "the baseline that was chosen",
    "lifetime": "the mean since each engine started, which its counters hold",
    "none": "the course of the window alone: there is no earlier data",
}


def compared_with(baseline: Baseline, clock: Callable[[str], str]) -> str:
    """What it is, the name of a stored baseline, and its time range. clock: format of a time."""
    name = f" {baseline.name}" if baseline.name else ""
    span = f", {clock(baseline.from_)} to {clock(baseline.until)}" if baseline.from_ and baseline.until else ""
    return f"{WORDS[baseline.kind]}{name}{span}"


KINDS: dict[AbsenceKind, tuple[str, str]] = {
    "blind": ("needs a metric that you can enable", "need a metric that you can enable"),
    "off": ("needs a feature that is not in use", "need a feature that is not in use"),
    "later": ("needs a first event", "need a first event"),
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
    """`3 need a metric that you can enable, 12 need a feature that is not in use`."""
    numbers = {kind: sum(entry.kind == kind for entry in entries) for kind in KINDS}
    return ", ".join(f"{number} {why(kind, number)}" for kind, number in numbers.items() if number)
