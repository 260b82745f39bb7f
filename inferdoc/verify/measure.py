"""Before and after a step: requests that miss their limits, mean latencies, and the evidence of the finding.

The intervals are those of the rollout gate, with what came after in the place of the candidate; requests of a minute go
together there as here. Unlike a gate the two are not of the same minutes: where traffic moved by more than a tenth the
way that would explain a move of latency by itself, the move says nothing about the step."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from inferdoc.canary.interval import ALIKE, compared, ratio
from inferdoc.canary.pairs import ArmCounts
from inferdoc.verify.model import UNDECIDED, MeasuredMove, Outcome, PredictionKept
from inferdoc.whatif.live import FINISHED, ITL, PREFILL, PROMPT, STEP, TPOT, TTFT, ObservedPool
from inferdoc.whatif.model import WhatIfAnswer
from inferdoc.whatif.run_simulation import TimesCounted

if TYPE_CHECKING:
    from inferdoc.source.identified import Identified

MARGIN = 0.01
"""Share of the requests: a difference below it is none (that of the rollout gate)."""
SETTLING = 120
"""Seconds after a step that are not counted: caches fill, queues drain."""
MEANS = ("ttft", "itl")
LEAST = 3
"""Intervals on each side."""


@dataclass(frozen=True)
class BeforeAfter:
    """The pool before and after a step, as many intervals on both sides."""

    before: ObservedPool
    after: ObservedPool

    def sums(self, name: str) -> np.ndarray:
        """float64[2, intervals] of a counter over all pods: after, then before."""
        return np.stack([side.counters[name].sum(axis=0) for side in (self.after, self.before)])

    def moved(self, above: str, below: str) -> float:
        """After over before of one counter over another, less 1; 0 where nothing shows."""
        (after, before), (of_after, of_before) = (self.sums(name).sum(axis=1) for name in (above, below))
        known = min(before, of_before, of_after) > 0
        return float(after / of_after / (before / of_before) - 1.0) if known else 0.0

    @property
    def traffic(self) -> float:
        """Prompt tokens that came, after over before, less 1."""
        after, before = self.sums(f"{PROMPT}_sum").sum(axis=1)
        return float(after / before - 1.0) if before > 0 else 0.0


def sides(pool: ObservedPool, onset: int, step_at: int) -> BeforeAfter | None:
    """What lies between onset and step, and what comes after it has settled, each as long as the shorter of both; None
    where one is too short."""
    first = max(0, -(-(onset - pool.begin) // STEP))
    step = min((step_at - pool.begin) // STEP, pool.intervals)
    begin = -(-(step_at + SETTLING - pool.begin) // STEP)
    count = min(step - first, pool.intervals - begin)
    if count < LEAST:
        return None
    return BeforeAfter(pool.part(step - count, step), pool.part(begin, begin + count))


def moves_of_users(both: BeforeAfter, limits: tuple[float, float]) -> list[MeasuredMove]:
    """Requests beyond each limit and beyond either, and mean latencies. limits: seconds to the first token and per
    token."""
    rows = []
    for name, metric, limit, title in (
        ("late", TTFT, limits[0], "first tokens beyond the limit"),
        ("slow", TPOT, limits[1], "requests slower per token than the limit"),
    ):
        counts = _beyond(both, metric, limit)
        if counts is not None:
            rows.append(_shares(name, title, counts))
    late, slow = (_beyond(both, metric, limit) for metric, limit in zip((TTFT, TPOT), limits, strict=True))
    if late is not None and slow is not None:
        either = np.minimum(late.bad + slow.bad, late.of)
        rows.append(_shares("bad", "requests that miss a limit, at most", ArmCounts(either, late.of)))
    for name, metric, title in (
        ("ttft", TTFT, "time to first token, mean"),
        ("itl", ITL, "between tokens, mean"),
        ("prefill", PREFILL, "prefill, mean"),
    ):
        move = _means(name, title, both.sums(f"{metric}_sum"), both.sums(f"{metric}_count"))
        rows += [move] if move is not None else []
    return rows


def _beyond(both: BeforeAfter, metric: str, limit: float) -> ArmCounts | None:
    bad, of = [], []
    for side in (both.after, both.before):
        spread = side.spreads.get(metric)
        if spread is None or spread.cells.sum() <= 0:
            return None
        within = np.array([TimesCounted(spread.bounds, cells).within(limit) for cells in spread.cells.T])
        of.append(spread.cells.sum(axis=0))
        bad.append((1.0 - within) * of[-1])
    return ArmCounts(np.stack(bad), np.stack(of))


def _shares(name: str, title: str, counts: ArmCounts) -> MeasuredMove:
    seen = compared(counts, MARGIN, 1)
    outcome: Outcome = UNDECIDED
    if seen.low > MARGIN:
        outcome = "worse"
    elif seen.high < -MARGIN:
        outcome = "helped"
    elif seen.low >= -MARGIN and seen.high <= MARGIN:
        outcome = "no difference"
    return MeasuredMove(
        name, title, "ratio", seen.stable, seen.candidate, seen.value, seen.low, seen.high, outcome, True
    )


def _means(
    name: str, title: str, above: np.ndarray, below: np.ndarray, unit: str = "s", of_users: bool = True
) -> MeasuredMove | None:
    times = ratio(above, below)
    if times is None:
        return None
    after, before = (above.sum(axis=1) / below.sum(axis=1)).tolist()
    outcome: Outcome = UNDECIDED
    if times.low > 1.0 and times.value > 1.0 + ALIKE:
        outcome = "worse"
    elif times.high < 1.0 and times.value < 1.0 - ALIKE:
        outcome = "helped"
    elif times.low > 1.0 - ALIKE and times.high < 1.0 + ALIKE:
        outcome = "no difference"
    change = (times.value - 1.0, times.low - 1.0, times.high - 1.0)
    return MeasuredMove(name, title, unit, before, after, *change, outcome, of_users)


def moves_of_evidence(
    source: Identified,
    both: BeforeAfter,
    evidence: Mapping[str, frozenset[str]],
    titles: Mapping[str, tuple[str, str, str]],
) -> list[MeasuredMove]:
    """The signals that the finding rests on, of its pods. titles: signal -> title, unit and which way is harm (`up`,
    `down`, else neither)."""
    frames = []
    for side in (both.after, both.before):
        end = side.begin + side.intervals * STEP
        frames.append(source.read(list(evidence), side.begin + STEP, end, STEP, window=STEP))
    rows = []
    for signal, pods in evidence.items():
        means = []
        for frame in frames:
            if signal in frame:
                matrix = frame[signal]
                mine = [at for at, entity in enumerate(matrix.entities) if not pods or entity.member[2] in pods]
                values = matrix.values[mine]
                known = np.isfinite(values).any(axis=0)
                means.append(np.nanmean(values[:, known], axis=0) if known.any() else np.empty(0))
        count = min((len(each) for each in means), default=0)
        if len(means) < 2 or count < LEAST:
            continue
        above = np.stack([each[:count] for each in means])
        title, unit, harm = titles[signal]
        move = _means(signal, title, above, np.ones_like(above), unit, of_users=False)
        if move is None:
            continue
        if harm == "down" and move.outcome in ("helped", "worse"):
            move.outcome = "worse" if move.outcome == "helped" else "helped"
        elif harm not in ("up", "down"):
            move.outcome = UNDECIDED if move.outcome != "no difference" else move.outcome
        rows.append(move)
    return rows


def outcome_of(moves: Sequence[MeasuredMove], both: BeforeAfter) -> tuple[Outcome, list[str]]:
    """What the step has brought to users, and why that is unknown."""
    seen = {move.outcome for move in moves if move.of_users}
    why = list(_explained(seen, both))
    if {"helped", "worse"} <= seen:
        return UNDECIDED, ["some latencies are better and others worse", *why]
    if why:
        return UNDECIDED, why
    if "helped" in seen:
        return "helped", []
    if "worse" in seen:
        return "worse", []
    # Shares of few requests stay open for long; where both means stand still nothing was brought.
    if {move.outcome for move in moves if move.name in MEANS} == {"no difference"}:
        return "no difference", []
    return UNDECIDED, ["the intervals hold both a difference and none: a longer time after the step decides"]


def _explained(seen: Iterable[Outcome], both: BeforeAfter) -> Iterable[str]:
    if "helped" in seen and both.traffic < -ALIKE:
        yield f"{-both.traffic:.0%} less prompt tokens came after the step, which helps by itself"
    if "worse" in seen and both.traffic > ALIKE:
        yield f"{both.traffic:.0%} more prompt tokens came after the step, which is worse by itself"


def kept(both: BeforeAfter, prediction: WhatIfAnswer, limits: tuple[float, float]) -> list[PredictionKept]:
    """What the what-if predicted of the pool after the change, beside what was measured."""
    after = both.after
    times = {name: TimesCounted(after.spreads[name].bounds, after.spreads[name].counts) for name in (TTFT, ITL, TPOT)}
    served = after.total(FINISHED) / after.seconds
    good = max(0.0, times[TTFT].within(limits[0]) + times[TPOT].within(limits[1]) - 1.0) * served
    measured = {
        "ttft_p50": times[TTFT].quantile(0.5),
        "ttft_p99": times[TTFT].quantile(0.99),
        "itl_p50": times[ITL].quantile(0.5),
        "itl_p99": times[ITL].quantile(0.99),
        "goodput": good,
        "served": served,
    }
    return [
        PredictionKept(
            row.name,
            row.title,
            row.unit,
            row.then.value,
            row.then.low,
            row.then.high,
            measured[row.name],
            row.then.low <= measured[row.name] <= row.then.high,
        )
        for row in prediction.rows
        if row.name in measured
    ]
