"""The questions an agent may ask, each answered from the same functions as the command of that name.

Nothing here writes, applies or sends anything. A source is opened for each question and closed after it, so that a
server which restarts, or a store that is replaced, is read as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from inferdoc.agents.summaries import (
    AlternativeSummary,
    AuditSummary,
    DiagnosisSummary,
    EvidenceSummary,
    FindingSummary,
    ForecastSummary,
    LoadSummary,
    PersistentIssueSummary,
    RecipeList,
    RunbookPage,
    SignalList,
    SignalSummary,
    StepSummary,
    fitted,
    sentence,
    some,
)
from inferdoc.audit.model import StandingState, Wasted
from inferdoc.audit.persistent import diagnosis
from inferdoc.audit.request import audited
from inferdoc.catalogue.document import nearest
from inferdoc.catalogue.load import Catalogue
from inferdoc.config import Config
from inferdoc.errors import InferdocError
from inferdoc.fleet.members import assignments_of
from inferdoc.judging.model import Diagnosis, Finding, stamp
from inferdoc.report.health import STATES, Shown, table
from inferdoc.report.runbook import page, pages
from inferdoc.report.signals import limits
from inferdoc.source.identified import Identified
from inferdoc.times import seconds_of
from inferdoc.words import figure

MOST_PODS, MOST_EVIDENCE, MOST_STEPS, MOST_RIVALS, MOST_CHANGES, MOST_WARNINGS = 6, 5, 3, 3, 6, 3
MOST_SIGNALS = 60
ROLES = ("prefill", "decode", "both")


@dataclass(frozen=True)
class FleetPart:
    """What a report is about; everything is read and compared all the same. None for all."""

    model: str | None = None
    namespace: str | None = None
    cluster: str | None = None
    tier: str | None = None
    role: str | None = None
    pod: str | None = None

    def as_options(self) -> dict[str, Any]:
        """As the options of the command line. Raises InferdocError for a role that there is not."""
        if self.role is not None and self.role not in ROLES:
            raise InferdocError(f"role {self.role!r} is none of {', '.join(ROLES)}")
        return {name: getattr(self, name) for name in ("model", "namespace", "cluster", "tier", "role", "pod")}


@dataclass(frozen=True)
class Tools:
    """opened: opens the source; overlays: folders of the user's own catalogue."""

    config: Config
    catalogue: Catalogue
    opened: Callable[[], Identified]
    overlays: Sequence[str] = ()

    def diagnose(self, since: str = "1h", until: str = "now", focus: FleetPart | None = None) -> DiagnosisSummary:
        """What is wrong in a window, since when, on which pods, and what to do next."""
        return self._diagnosed({"since": since, "until": until}, focus)

    def around(self, moment: str, focus: FleetPart | None = None) -> DiagnosisSummary:
        """The same for half an hour before and after a moment."""
        return self._diagnosed({"around": moment}, focus)

    def _diagnosed(self, window: dict[str, Any], focus: FleetPart | None) -> DiagnosisSummary:
        params = window | (focus or FleetPart()).as_options()
        with closing(self.opened()) as source:
            return summarise(diagnosis(source, self.config, self.catalogue, params))

    def signals(
        self, until: str = "latest", pod: str | None = None, namespace: str | None = None, names: Sequence[str] = ()
    ) -> SignalList:
        """The monitoring table: newest values against their target bands, the worst first."""
        shown = Shown(pod, namespace, tuple(names))
        with closing(self.opened()) as source:
            lines = shown.lines(table(source, self.config, self.catalogue, until), self.catalogue)
        rows = [
            (
                STATES.index(state),
                SignalSummary(row.signal, row.pod, figure(row.value, row.unit), state, limits(row.band, row.unit)),
            )
            for line in lines
            for row, state in zip(line.values, line.states, strict=True)
        ]
        worst = [row for _, row in sorted(rows, key=lambda entry: -entry[0])]
        left = [f"{len(worst) - MOST_SIGNALS} of {len(worst)} rows"] if len(worst) > MOST_SIGNALS else []
        return fitted(SignalList(worst[:MOST_SIGNALS], left), "signals")

    def recipes(self, word: str | None = None) -> RecipeList:
        """Known causes, or those with a word in id or title."""
        every = [f"{one.id}: {one.title}" for one in self.catalogue.recipes.values()]
        matching = [line for line in every if word is None or word.lower() in line.lower()]
        if not matching:
            near = nearest(word or "", self.catalogue.recipes)
            raise InferdocError(f"no cause holds the word {word!r}{near}; ask without a word for all of them")
        return fitted(RecipeList(matching, []), "recipes")

    def runbook(self, cause: str | None = None) -> RunbookPage:
        """The page of a cause; without one, the list of pages."""
        if cause is None:
            text = "\n".join(f"- {name}: {title}" for name, title in pages(self.overlays))
        else:
            text = page(cause, self.overlays)
        paragraphs = text.split("\n\n") if cause else text.split("\n")
        joint = "\n\n" if cause else "\n"
        return _cut(cause or "all", paragraphs, joint)

    def forecast(self, hours: float = 24.0, pool: str | None = None, zone: str = "UTC") -> ForecastSummary:
        """The load ahead of each pool: its peak, and when."""
        from inferdoc.forecast.command import Origin
        from inferdoc.forecast.engine import Request, forecast

        if not 0 < hours <= 24 * 14:
            raise InferdocError(f"{hours:g} hours ahead: ask for more than 0 and at most 336 (14 days)")
        with closing(self.opened()) as source:
            known = (source, self.catalogue.tiers, assignments_of(self.config.pods), self.catalogue.slos)
            loads = Origin(pool=pool, open=lambda: known).series()
        request = Request(horizon=seconds_of(f"{hours * 3600:.0f}s", "hours"), zone=zone)
        found = []
        for series in loads:
            ahead = forecast(series, request)
            high = ahead.quantiles[max(ahead.quantiles)]
            at = int(high.argmax())
            found.append(
                LoadSummary(
                    ahead.name,
                    ahead.unit,
                    round(float(series.values[-1]), 3),
                    round(float(ahead.p50[at]), 3),
                    round(float(high[at]), 3),
                    stamp(float(ahead.times[at])),
                    ahead.method,
                    sentence(ahead.reason) if ahead.abstained else None,
                )
            )
        return fitted(ForecastSummary(hours, found, []), "pools")

    def audit(self, since: str = "24h", until: str = "now", focus: FleetPart | None = None) -> AuditSummary:
        """Persistent inefficiencies, highest cost first."""
        params = {"since": since, "until": until} | (focus or FleetPart()).as_options()
        with closing(self.opened()) as source:
            answer = audited(source, self.config, self.catalogue, params)
        states = [_state(each) for each in answer.states]
        short = AuditSummary(answer.verdict, sentence(answer.summary), states, len(answer.cannot_tell), [])
        return fitted(short, "states")


def summarise(answer: Diagnosis) -> DiagnosisSummary:
    """A diagnosis in short."""
    baseline = answer.window.baseline
    compared = baseline.kind if baseline.from_ is None else f"{baseline.kind}, {baseline.from_} to {baseline.until}"
    short = DiagnosisSummary(
        answer.verdict,
        sentence(answer.summary),
        answer.window.from_,
        answer.window.until,
        compared,
        [_finding(each) for each in answer.findings],
        [sentence(f"{c.at} {c.kind} {c.entity}: {c.detail}") for c in some(answer.changes, MOST_CHANGES)],
        len(answer.not_judged),
        [sentence(line) for line in some(_warnings(answer), MOST_WARNINGS)],
        [],
    )
    return fitted(short, "findings", "changes")


def _warnings(answer: Diagnosis) -> list[str]:
    """What was not read comes first."""
    gaps = [f"incomplete: {line}" for line in answer.source.incomplete]
    return [*gaps, *(line for line in answer.source.warnings if line not in answer.source.incomplete)]


def _finding(one: Finding) -> FindingSummary:
    order = {"harm": 0, "symptom": 1, "support": 2}
    evidence = sorted(one.evidence, key=lambda piece: order[piece.role])
    symptoms = [piece for piece in evidence if piece.role == "symptom"]
    shown = [*some(evidence, 2), *(piece for piece in symptoms if piece not in evidence[:2])]
    return FindingSummary(
        one.id,
        sentence(one.title),
        one.severity,
        one.certainty,
        one.probability,
        one.onset,
        one.ongoing,
        some(one.scope.pods, MOST_PODS),
        one.scope.of_pods,
        [EvidenceSummary(e.role, sentence(e.statement), e.entity, e.since) for e in some(shown, MOST_EVIDENCE)],
        one.effects,
        sentence(f"{one.change.kind} {one.change.entity}: {one.change.detail}") if one.change else None,
        [StepSummary(sentence(s.do), s.command, sentence(s.undo)) for s in some(one.next_steps, MOST_STEPS)],
        [
            AlternativeSummary(r.id, r.probability, r.decided_by.observation if r.decided_by else None)
            for r in some(one.differential, MOST_RIVALS)
        ],
        one.runbook,
    )


def _state(one: StandingState) -> PersistentIssueSummary:
    place = one.place
    return PersistentIssueSummary(
        one.id,
        sentence(one.title),
        one.severity,
        "/".join(word for word in (place.cluster, place.namespace, place.model, place.role, place.tier) if word),
        [sentence(seen.statement) for seen in some(one.observed, 2)],
        sentence(one.costs),
        None if one.wasted is None else _wasted(one.wasted),
        [sentence(step.do) for step in some(one.next_steps, 2)],
    )


def _wasted(one: Wasted) -> str:
    gpus = f"{one.gpus:.2f} GPU-hours an hour ({one.share:.0%} of the audited GPUs)"
    money = "" if one.money is None else f", {one.money:.2f} {one.currency} an hour"
    return f"{one.bound + ' ' if one.bound else ''}{gpus}{money}"


def _cut(name: str, parts: Sequence[str], joint: str) -> RunbookPage:
    """As many of the parts of a page as fit."""
    for kept in range(len(parts), 0, -1):
        left = [] if kept == len(parts) else [f"{len(parts) - kept} of {len(parts)} paragraphs at the end"]
        cut = RunbookPage(name, joint.join(parts[:kept]), left)
        try:
            return fitted(cut)
        except ValueError:
            continue
    return RunbookPage(name, parts[0][:1000], ["all but the beginning"])
