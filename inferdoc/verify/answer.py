"""Verify a step: compare users' latencies and the evidence of a finding before and after it.

The intervals are those of the rollout gate, with what came after in the place of the candidate; requests of a minute go
together there as here. Unlike a gate the two are not of the same minutes: where traffic moved by more than a tenth the
way that would explain a move of latency by itself, the move says nothing about the step."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from inferdoc.canary.interval import ALIKE, ArmCounts, compared, ratio
from inferdoc.catalogue.document import nearest
from inferdoc.errors import NOT_JSON, ExitCode, InferdocError
from inferdoc.judging.model import Diagnosis, Finding
from inferdoc.times import moment_of, rfc3339
from inferdoc.verify.model import UNDECIDED, VERIFICATION_SCHEMA_ID, MeasuredMove, Outcome, PredictionKept, Verification
from inferdoc.version import __version__
from inferdoc.whatif.answer import limits_for_request
from inferdoc.whatif.live import FINISHED, ITL, PREFILL, PROMPT, STEP, TPOT, TTFT, ObservedPool, observed
from inferdoc.whatif.predict import WhatIfAnswer
from inferdoc.whatif.run_simulation import TimesCounted

if TYPE_CHECKING:
    from inferdoc.catalogue.load import Catalogue
    from inferdoc.config import Config
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


MOST_HISTORY = "24h"


def verified(source: Identified, config: Config, catalogue: Catalogue, options: Mapping[str, Any]) -> Verification:
    """What the step has brought. Raises InferdocError."""
    request = verify_for_request(options, catalogue)
    pool = observed(source, config, catalogue, {**options, "history": MOST_HISTORY})
    both = sides(pool, request.onset, request.step_at)
    if both is None:
        raise InferdocError(
            f"{pool.name}: {LEAST} minutes with traffic are needed between onset and step, and after the step from "
            f"{SETTLING // 60} minutes on; give --at as it was, or wait"
        )
    limits = limits_for_request(pool, catalogue, options)
    titles = {
        name: (catalogue.signals[name].title, catalogue.signals[name].unit, str(catalogue.signals[name].harm))
        for name in request.evidence
    }
    moves = [*moves_of_users(both, limits), *moves_of_evidence(source, both, request.evidence, titles)]
    outcome, why = outcome_of(moves, both)
    prediction = request.prediction
    return Verification(
        VERIFICATION_SCHEMA_ID,
        __version__,
        request.finding,
        pool.name,
        rfc3339(request.onset, "seconds"),
        rfc3339(request.step_at, "seconds"),
        rfc3339(both.after.begin + both.after.intervals * STEP, "seconds"),
        outcome,
        why,
        moves,
        {} if prediction is None else prediction.changes,
        [] if prediction is None else kept(both, prediction, limits),
    )


def exit_code(answer: Verification) -> int:
    """0: no worse; 1: worse; 3: that is unknown."""
    return {"worse": ExitCode.FINDINGS, UNDECIDED: ExitCode.UNKNOWN}.get(answer.outcome, ExitCode.OK)


MOST_BEFORE = 3600
"""Seconds before the step that are compared at most."""


@dataclass(frozen=True)
class VerifyRequest:
    """onset, step_at: Unix seconds; evidence: signal -> the pods it was seen on; prediction: None without one."""

    finding: str
    onset: int
    step_at: int
    evidence: Mapping[str, frozenset[str]]
    prediction: WhatIfAnswer | None


def verify_for_request(options: Mapping[str, Any], catalogue: Catalogue) -> VerifyRequest:
    """The finding of --diagnosis FILE, or a cause with --onset. Raises InferdocError."""
    if not options.get("finding"):
        raise InferdocError(
            "which finding? name a cause, with --diagnosis FILE or --onset TIME; --list shows the ledger"
        )
    if not options.get("step_at"):
        raise InferdocError("--at: when was the step taken?")
    step_at = moment_of(options["step_at"], "--at")
    name, evidence = options["finding"], dict[str, frozenset[str]]()
    if options.get("diagnosis"):
        finding = _finding(_document(options["diagnosis"], Diagnosis, "--diagnosis"), name, options["diagnosis"])
        onset = moment_of(options.get("onset") or finding.onset, "--onset")
        for item in finding.evidence:
            if item.signal in catalogue.signals:
                evidence[item.signal] = frozenset(finding.scope.pods)
    elif options.get("onset"):
        if name not in catalogue.recipes:
            raise InferdocError(f'no cause "{name}"{nearest(name, catalogue.recipes)}; see `inferdoc recipes list`')
        onset = moment_of(options["onset"], "--onset")
    else:
        raise InferdocError(
            f"{name}: since when? give --diagnosis FILE, as `diagnose -o json` writes it, or --onset TIME"
        )
    if onset >= step_at:
        raise InferdocError(
            "--at: the step must come after the onset; what was before it is compared with what came after"
        )
    predicted = options.get("prediction")
    return VerifyRequest(
        name,
        max(onset, step_at - MOST_BEFORE),
        step_at,
        evidence,
        None if predicted is None else _document(predicted, WhatIfAnswer, "--prediction"),
    )


def _document(path: str, kind: type[Any], flag: str) -> Any:
    try:
        return msgspec.json.decode(Path(path).read_bytes(), type=kind)
    except OSError as error:
        raise InferdocError(f"{flag} {path}: cannot be read: {error.strerror or error}") from None
    except NOT_JSON:
        command = "diagnose -o json" if kind is Diagnosis else "whatif -o json"
        raise InferdocError(f"{flag} {path}: not what `inferdoc {command}` writes") from None


def _finding(document: Diagnosis, name: str, path: str) -> Finding:
    found = next((each for each in document.findings if each.id == name), None)
    if found is None:
        ids = ", ".join(each.id for each in document.findings) or "none"
        raise InferdocError(f'--diagnosis {path}: no finding "{name}"; it has {ids}')
    return found
