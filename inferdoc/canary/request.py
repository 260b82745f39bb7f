"""From the options of the command to the gate's decision: worse for sure, no worse for sure, or not known yet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import msgspec
import numpy as np

from inferdoc import __version__
from inferdoc.canary.checks import (
    DEFAULT_MARGINS,
    GOOD,
    Check,
    Guard,
    GuardAnswer,
    Margins,
    checks,
    guards,
    strictest,
    warm,
    words,
)
from inferdoc.canary.interval import ALIKE, ONE_SIDED, ArmsWatched, Ratio, ShareDifference, arms, compared, ratio
from inferdoc.capacity.service_level import joint_share
from inferdoc.catalogue.load import Catalogue
from inferdoc.config import Config
from inferdoc.errors import ExitCode
from inferdoc.fleet.members import Member, assignments_of
from inferdoc.json_document import JsonDocument
from inferdoc.judging.model import stamp
from inferdoc.judging.request import matcher
from inferdoc.slo.history import read_history
from inferdoc.slo.model import ERRORS, Objective, objectives
from inferdoc.source.identified import Identified
from inferdoc.times import length_of
from inferdoc.words import figure, how_many, lasting

CANARY_SCHEMA_ID = "inferdoc.canary/v1"
Decision = Literal["pass", "fail", "unknown"]


class ArmSeen(msgspec.Struct, frozen=True):
    """One group. goodput: requests/s of a pod that kept all promises, at least and at most; None without both."""

    pods: list[str]
    requests: int
    requests_per_second: float
    goodput: tuple[float, float] | None


class CheckAnswer(msgspec.Struct, frozen=True):
    """One question. limit: seconds at which is counted; candidate, stable: bad shares; difference, low, high, margin:
    shares (0.01 = one point); needed: requests of the candidate in all that would decide; design: the design effect;
    times: mean latency over that of the stable pods, low end, value and high end, where it counts."""

    name: str
    title: str
    kind: str
    limit: float | None
    decision: Decision
    candidate: float
    stable: float
    difference: float
    low: float
    high: float
    margin: float
    events: tuple[int, int]
    design: float
    needed: int
    times: tuple[float, float, float] | None
    formula: str
    source: str


class CanaryAnswer(JsonDocument, rename={"from_": "from"}):
    """Everything. from, until: the windows that were compared; interval: how often the intervals hold
    the true difference (0..1); needed: more requests of the candidate; reasons: why it is not known; assumed: what
    nobody gave."""

    schema: str
    inferdoc_version: str
    source: str
    from_: str
    until: str
    windows: int
    window_seconds: float
    decision: Decision
    interval: float
    summary: str
    candidate: ArmSeen
    stable: ArmSeen
    checks: list[CheckAnswer]
    guards: list[GuardAnswer]
    needed: int
    reasons: list[str]
    notes: list[str]
    assumed: list[str]


FORMULA = (
    "bad / all of the candidate less bad / all of the stable pods in the same windows; Newcombe's interval over "
    "requests / design effect, from a bootstrap of blocks of windows"
)


def canary_for_request(
    source: Identified, config: Config, catalogue: Catalogue, options: Mapping[str, Any]
) -> CanaryAnswer:
    """Compares the candidate with the stable pods. Raises InferdocError, SourceError."""
    match = tuple(matcher(text) for text in options.get("labels") or ())
    history = read_history(source, catalogue, assignments_of(config.pods), options["since"], options["until"], match)
    groups = arms(history.fleet.members, options["candidate"], options.get("baseline"))
    watched = ArmsWatched(history, groups)
    chosen = objectives(options.get("objective") or (), catalogue.slos, groups.pool)
    limits = [one for one in chosen if one.signal != ERRORS]  # of errors the margin counts, whatever is usual
    found, lacking = checks(watched, limits, _margins(options))
    requests = next(check for check in found if check.kind == "errors").counts.of
    windows = (requests > 0).all(axis=0) & warm(watched, length_of(options["warmup"], "--warmup"))
    answered = [one for check in found if (one := _seen(check, windows, options["looks"])) is not None]
    alike = guards(watched, windows, requests) if windows.any() else []
    count = float(requests[0, windows].sum())
    decision, reasons, needed = decided(answered, alike, count)
    if not windows.any():
        decision, reasons = "unknown", ["in no window did both groups serve requests, with the candidate warm"]
    seconds = int(windows.sum()) * watched.grid.step_ms / 1000
    return CanaryAnswer(
        CANARY_SCHEMA_ID,
        __version__,
        source.location,
        *_ends(watched, windows),
        int(windows.sum()),
        watched.grid.step_ms / 1000,
        decision,
        1 - 2 * ONE_SIDED / options["looks"],
        _summary(decision, reasons, answered, count, seconds, needed),
        _arm(groups.candidate, 0, answered, windows, requests, seconds),
        _arm(groups.stable, 1, answered, windows, requests, seconds),
        [_answer(one) for one in answered],
        [guard.shown for guard in alike],
        needed,
        reasons,
        [*(words(guard) for guard in alike if guard.shown.broken and words(guard) not in reasons), *lacking],
        _assumed(limits, options),
    )


def exit_code(answer: CanaryAnswer) -> int:
    """0: the candidate may continue; 1: it serves worse; 3: that is not known yet."""
    codes = {"pass": ExitCode.OK, "fail": ExitCode.FINDINGS, "unknown": ExitCode.UNKNOWN}
    return codes[answer.decision]


def _margins(options: Mapping[str, Any]) -> Margins:
    given = {name: options.get(f"{name}_margin") for name in ("promise", "usual", "errors")}
    return Margins(**{name: getattr(DEFAULT_MARGINS, name) if v is None else v for name, v in given.items()})


def _assumed(limits: Sequence[Objective], options: Mapping[str, Any]) -> list[str]:
    defaults = [
        f"{one.signal} within {figure(one.limit, one.unit)}: {one.source}; --objective sets another"
        for one in limits
        if one.assumed
    ]
    margins = {
        "--margin": ("promise", "requests beyond an objective"),
        "--usual-margin": ("usual", "requests slower than nine in ten now"),
        "--errors-margin": ("errors", "failed or refused requests"),
    }
    return defaults + [
        f"{figure(getattr(DEFAULT_MARGINS, name), 'ratio')} more {words} are put up with; {flag} sets another margin"
        for flag, (name, words) in margins.items()
        if options.get(f"{name}_margin") is None
    ]


def _seen(check: Check, windows: np.ndarray, looks: int) -> CheckSeen | None:
    counts = check.counts.at(windows)
    if not (counts.of.sum(axis=1) > 0).all():
        return None
    at_most = None
    if check.independent is not None:
        requests = check.independent[:, windows].sum(axis=1)
        at_most = float(requests[0]), float(requests[1])
    times = None if check.spent is None else ratio(check.spent[:, windows], counts.of)
    return CheckSeen(check, compared(counts, check.margin, looks, at_most), times)


def _ends(watched: ArmsWatched, windows: np.ndarray) -> tuple[str, str]:
    grid = watched.grid
    used = np.flatnonzero(windows) if windows.any() else np.array([0, grid.count - 1])
    ends = [(grid.start_ms + int(place) * grid.step_ms) / 1000 for place in (used[0], used[-1])]
    return stamp(ends[0] - grid.step_ms / 1000), stamp(ends[1])


def _arm(
    members: Sequence[Member],
    place: int,
    several: Sequence[CheckSeen],
    windows: np.ndarray,
    requests: np.ndarray,
    seconds: float,
) -> ArmSeen:
    count = float(requests[place, windows].sum())
    rate = count / seconds if seconds else 0.0
    strict = strictest([one.check for one in several])
    goodput = None
    if len(strict) == len(GOOD):
        counted = [one.seen for one in several if one.check in strict or one.check.kind == "errors"]
        low, high = joint_share([1 - (seen.candidate, seen.stable)[place] for seen in counted])
        goodput = (low * rate / len(members), high * rate / len(members))
    return ArmSeen(sorted(member.shown for member in members), round(count), rate, goodput)


def _answer(one: CheckSeen) -> CheckAnswer:
    check, seen = one.check, one.seen
    return CheckAnswer(
        check.name,
        check.title,
        check.kind,
        check.limit,
        one.decision,
        seen.candidate,
        seen.stable,
        seen.value,
        seen.low,
        seen.high,
        check.margin,
        (round(seen.requests[0]), round(seen.requests[1])),
        seen.design,
        seen.needed,
        None if one.times is None else (one.times.low, one.times.value, one.times.high),
        FORMULA,
        check.source,
    )


def _summary(
    decision: Decision, reasons: Sequence[str], several: Sequence[CheckSeen], count: float, seconds: float, needed: int
) -> str:
    over = f"over {how_many(round(count), 'request')} of the candidate in {lasting(seconds)}"
    if decision == "pass":
        return f"no worse than the stable pods {over}"
    if decision == "fail":
        worst = max((one for one in several if one.decision == "fail"), key=lambda one: one.seen.low - one.check.margin)
        limit = "" if worst.check.limit is None else f" {figure(worst.check.limit, 's')}"
        shares = f"{figure(worst.seen.candidate, 'ratio')}, {figure(worst.seen.stable, 'ratio')} on the stable pods"
        slower = "" if worst.times is None else f"; {worst.times.value:.3g} times the mean"
        return f"worse {over}: {worst.check.title}{limit}: {shares}{slower}"
    at_rate = f", about {lasting(needed / count * seconds)} at this rate" if needed and count else ""
    return f"{reasons[0]}{at_rate}; {over}"


LEAST_REQUESTS = 100
"""Of the candidate: below it the tail is a handful of requests, whatever an interval says (own choice)."""


@dataclass(frozen=True)
class CheckSeen:
    """A question and what was seen. times: the mean latency of the candidate over that of the stable pods, where the
    question is a shift that no promise forbids: a bucket bound in the middle of a narrow distribution parts it at the
    smallest one, so that what is worse must be slower on average too."""

    check: Check
    seen: ShareDifference
    times: Ratio | None = None

    @property
    def decision(self) -> Decision:
        """By the ends of the interval against the margin."""
        if self.seen.high < self.check.margin or (self.times is not None and self.times.high < 1 + ALIKE):
            return "pass"
        slower = self.times is None or self.times.value > 1 + ALIKE
        return "fail" if self.seen.low > self.check.margin and slower else "unknown"

    @property
    def latency(self) -> bool:
        """Whether load alone may be what it shows."""
        return self.check.kind != "errors"


def decided(several: Sequence[CheckSeen], guards: Sequence[Guard], requests: float) -> tuple[Decision, list[str], int]:
    """The decision, why it is not known, and how many more requests of the candidate it takes (0 where more of them do
    not help)."""
    broken = [guard for guard in guards if guard.shown.broken]
    void = [words(guard) for guard in broken if guard.voids == "any"]
    worse = [one for one in several if one.decision == "fail"]
    loaded = [words(guard) for guard in broken if guard.voids == "worse"]
    certain = [one for one in worse if not (one.latency and (loaded or void))]
    if requests < LEAST_REQUESTS:
        more = _more(several, requests)
        return "unknown", [_lacking(more)], more
    if certain:
        return "fail", [], 0
    if void or (worse and loaded):
        return "unknown", [*void, *loaded], 0
    if any(one.decision == "unknown" for one in several):
        more = _more(several, requests)
        return "unknown", [_lacking(more)], more
    return "pass", [], 0


def _more(several: Sequence[CheckSeen], requests: float) -> int:
    """Requests beyond those seen. Of gaps between tokens there are many in a request: in their proportion."""
    missing = [
        one.seen.needed * requests / one.seen.requests[0] - requests
        for one in several
        if one.decision == "unknown" and one.seen.requests[0] > 0
    ]
    return max(1, round(max([*missing, LEAST_REQUESTS - requests])))


def _lacking(more: int) -> str:
    return f"not enough requests: {more:,} more needed"
