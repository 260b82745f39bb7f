"""Summaries that fit the context of an agent, with a note of what was left out.

A tool answers in at most `MOST_CHARACTERS` of JSON, some 2,000 tokens of English. Lists are cut before sentences are,
and what was cut is listed, so that the agent can narrow its request.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, is_dataclass, replace
from typing import Any, TypeVar

MOST_CHARACTERS = 7_000
LONGEST = 240
"""Characters of one sentence."""
T = TypeVar("T")


@dataclass(frozen=True)
class EvidenceSummary:
    """role: symptom, harm or support; statement: what was observed, with units; pod: where; since: RFC 3339."""

    role: str
    statement: str
    pod: str
    since: str | None


@dataclass(frozen=True)
class StepSummary:
    """do: what to do; command: to paste, where there is one; undo: how to take it back."""

    do: str
    command: str | None
    undo: str


@dataclass(frozen=True)
class AlternativeSummary:
    """Another cause that was considered. probability: 0 to 1; decided_by: the observation that distinguishes it."""

    id: str
    probability: float
    decided_by: str | None


@dataclass(frozen=True)
class FindingSummary:
    """One root cause. certainty: proven, likely or possible; probability: how often findings like it were right; pods:
    some of `of_pods`; runbook: its id, for the tool `runbook`."""

    id: str
    title: str
    severity: str
    certainty: str
    probability: float | None
    onset: str
    ongoing: bool
    pods: list[str]
    of_pods: int
    evidence: list[EvidenceSummary]
    effects: list[str]
    change: str | None
    next_steps: list[StepSummary]
    rivals: list[AlternativeSummary]
    runbook: str


@dataclass(frozen=True)
class DiagnosisSummary:
    """verdict: healthy, degraded, critical or unknown; left_out: what did not fit into the answer."""

    verdict: str
    summary: str
    window_from: str
    window_until: str
    compared_with: str
    findings: list[FindingSummary]
    changes: list[str]
    could_not_judge: int
    warnings: list[str]
    left_out: list[str]


@dataclass(frozen=True)
class SignalSummary:
    """value: in words, with its unit; state: good, note, warn or bad; target: the band it should be in."""

    signal: str
    pod: str
    value: str
    state: str
    target: str


@dataclass(frozen=True)
class SignalList:
    """Signals, the worst first; left_out: what did not fit into the answer."""

    signals: list[SignalSummary]
    left_out: list[str]


@dataclass(frozen=True)
class PersistentIssueSummary:
    """A persistent issue of a pool. costs: why it costs; wasted: how much, in words; do: first step."""

    id: str
    title: str
    severity: str
    pool: str
    observed: list[str]
    costs: str
    wasted: str | None
    do: list[str]


@dataclass(frozen=True)
class AuditSummary:
    """Persistent issues, highest cost first."""

    verdict: str
    summary: str
    states: list[PersistentIssueSummary]
    cannot_tell: int
    left_out: list[str]


@dataclass(frozen=True)
class RecipeList:
    """Known causes, each as `id: title`."""

    recipes: list[str]
    left_out: list[str]


@dataclass(frozen=True)
class RunbookPage:
    """A runbook page. markdown: its text, the end cut off where `left_out` says so."""

    id: str
    markdown: str
    left_out: list[str]


@dataclass(frozen=True)
class LoadSummary:
    """The load of one pool ahead. now, peak_median, peak_high: in `unit`; peak_at: RFC 3339; abstained: why the numbers
    are fit for no schedule, None where they are."""

    pool: str
    unit: str
    now: float
    peak_median: float
    peak_high: float
    peak_at: str
    method: str
    abstained: str | None


@dataclass(frozen=True)
class ForecastSummary:
    """One entry per pool. hours: how far ahead."""

    hours: float
    pools: list[LoadSummary]
    left_out: list[str]


def sentence(text: str) -> str:
    """A text of one line, cut at `LONGEST`."""
    line = " ".join(text.split())
    return line if len(line) <= LONGEST else line[: LONGEST - 1] + "…"


def some(items: Iterable[T], most: int) -> list[T]:
    """The first of them."""
    return list(items)[:most]


def fitted(answer: T, *lists: str) -> T:
    """The answer in at most `MOST_CHARACTERS` of JSON: of its named lists, the last first, entries are taken from the
    end until it fits. Raises ValueError for an answer that does not fit without them."""
    assert is_dataclass(answer) and not isinstance(answer, type)
    cut: Any = answer
    for name in reversed(lists):
        whole: Sequence[Any] = getattr(cut, name)
        kept = list(whole)
        while kept and size(cut) > MOST_CHARACTERS:
            kept.pop()
            note = f"{len(whole) - len(kept)} of {len(whole)} {name}"
            others = [line for line in cut.left_out if not line.endswith(f" {name}")]
            cut = replace(cut, **{name: kept, "left_out": [*others, note]})
    if size(cut) > MOST_CHARACTERS:
        raise ValueError(f"{type(answer).__name__} without its lists has {size(cut)} characters")
    result: T = cut
    return result


def size(answer: Any) -> int:
    """Characters of the answer as JSON."""
    return len(json.dumps(asdict(answer)))
