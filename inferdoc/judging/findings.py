"""From roots to the findings of the document: scope, evidence with queries, look-alikes ruled out, next steps."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from msgspec import structs

from inferdoc.catalogue.recipe import Recipe, Step
from inferdoc.catalogue.signal import WIDE, Exporter
from inferdoc.catalogue.tables import Calibration, Flags
from inferdoc.config_sections import fleet_board
from inferdoc.judging.advice import LONGER_REQUESTS, fill, longer_requests, pool_size
from inferdoc.judging.changes import ORDER, Event, workload_events
from inferdoc.judging.cohort_signals import Traits, shared
from inferdoc.judging.conditions.render import Rendering
from inferdoc.judging.context import Context, Outcome
from inferdoc.judging.deviation import Departure, course_of
from inferdoc.judging.differential import MOST_CANDIDATES, Candidate, contradicted, decisive, opinions, shares
from inferdoc.judging.fold import WIDE_SCOPES, Cause, score
from inferdoc.judging.judge import Judgement, ongoing
from inferdoc.judging.model import (
    Change,
    DecidedBy,
    EvidenceItem,
    Finding,
    NextStep,
    Occurrence,
    Rival,
    RuledOut,
    Scope,
    StageReached,
    StageStart,
    stamp,
)
from inferdoc.judging.places import Places, filled, runs_on_kubernetes
from inferdoc.judging.settings import Settings, elsewhere, settings_of, with_previous
from inferdoc.judging.verdict import Evidence, Match
from inferdoc.judging.view import Unit
from inferdoc.source.reads import Matcher

NEAR_WINDOWS = 2
"""A change is near an onset when it precedes it by at most this many rate windows (and at least a minute)."""
MIN_NEAR_SECONDS = 60.0
NEAR_DEPLOY_SECONDS = 600.0
"""Settings, versions and replicas rarely change: ten minutes (two windows of five minutes) before an onset is near."""
MAX_EVIDENCE = 12
NEAR = 0.1
"""A look-alike with a smaller share of the odds is no candidate: it is ruled out by what does not hold."""
MOST_SHOWN = 3
"""Sentences for and against a candidate."""
RELEASE = "configuration-or-release"
RELEASES = ("version", "config", "capacity", "restart", "rollout")
RELEASE_ODDS = 0.7 / 0.3
"""Some 70 % of outages are due to changes in a live system (B. Beyer and others, "Site Reliability Engineering",
O'Reilly 2016, chapter 1): the odds of a change just before an onset against chance."""


@dataclass(frozen=True)
class Links:
    """runbook_base, dashboard_base: URL prefixes from the configuration, or None."""

    runbook_base: str | None = None
    dashboard_base: str | None = None

    def runbook(self, recipe_id: str) -> str | None:
        """The address of a cause's page, or None."""
        return None if self.runbook_base is None else f"{self.runbook_base.rstrip('/')}/{recipe_id}"

    def dashboard(self, cause: Cause) -> str | None:
        """The address of the fleet dashboard for a cause's pool, or None."""
        if self.dashboard_base is None:
            return None
        board = fleet_board(self.dashboard_base.rstrip("/"))
        return f"{board}?var-namespace={cause.pool.namespace}&var-model_name={cause.pool.model}"


@dataclass(frozen=True)
class FindingMaker:
    """Builds findings from roots. events: everything that changed in the window; older_than: the vLLM release that the
    engines are older than, where their pages show it; places: where steps are to be done; server: the address of the
    Prometheus that was read, if one was; settings: what the engines show of theirs; engines: which there are; stored:
    the labels of their series, as the source has them."""

    context: Context
    judgement: Judgement
    recipes: Mapping[str, Recipe]
    events: Sequence[Event]
    links: Links
    traits: Traits = field(default_factory=dict)
    flags: Flags = field(default_factory=Flags)
    older_than: str | None = None
    calibration: Calibration | None = None
    places: Places = field(default_factory=Places)
    server: str | None = None
    settings: Settings = field(default_factory=dict)
    engines: Sequence[Exporter] = ()
    stored: frozenset[str] = frozenset()

    def make(self, cause: Cause) -> Finding:
        """The finding of one root."""
        recipe, view = cause.recipe, self.context.view
        episodes = sorted([(cause.onset, cause.last), *((m.onset, m.last) for m in cause.again)])
        last = max(end for _, end in episodes)
        going = ongoing(last, self.context)
        match = cause.best
        graded = [] if self._stands_alone(cause) else opinions(self.context, cause, self.recipes)
        agrees = not contradicted(graded, recipe)
        certainty = match.certainty if agrees else "possible"
        probability = None if self.calibration is None else self.calibration.probability(certainty)
        left = 1 - (probability or 0.0)
        change = self._change(cause)
        if recipe.is_family:
            members, rivals = self._rivals(graded, cause, probability or 0.0), self._released(cause, change, left, 0.0)
        else:
            members, rivals = [], self._differential(graded, cause, change, left)
        reached = [StageStart(r.number, r.name, self._at(r.first)) for r in match.stages]
        stage = None
        if reached:
            latest = reached[-1]
            stage = StageReached(latest.index, len(recipe.stages), latest.name, latest.began, reached)
        return Finding(
            id=recipe.id,
            title=recipe.title,
            severity=cause.severity,
            certainty=certainty,
            score=round(score(cause), 3),
            phase=recipe.phase,
            scope=self.scope(cause),
            onset=stamp(view.time_at(episodes[0][0])),
            onset_uncertainty_seconds=self._uncertainty(cause),
            ongoing=going,
            ended=None if going else stamp(view.time_at(last)),
            evidence=self._evidence(cause),
            stage=stage,
            effects=[name for name in dict.fromkeys(c.recipe.id for c in cause.effects) if name != cause.recipe.id],
            change=change,
            ruled_out=self._ruled_out(cause, {each.id for each in rivals}),
            next_steps=self._steps(cause),
            runbook=recipe.id,
            runbook_url=self.links.runbook(recipe.id),
            dashboard_url=self.links.dashboard(cause),
            family=recipe.family,
            members=members,
            request_share=self._request_share(cause),
            imminent=all(m.imminent for m in cause.matches),
            probability=probability,
            differential=rivals,
            episodes=[Occurrence(stamp(view.time_at(first)), stamp(view.time_at(end))) for first, end in episodes],
        )

    def _stands_alone(self, cause: Cause) -> bool:
        """Whether no other cause is weighed against it. A breach at first look is no name yet: what it is most like,
        and what would decide, is all there is to go on with."""
        first_look = self.context.view.lead_kind == "lifetime"
        unknown = cause.recipe.kind == "unexplained" and cause.recipe.family is None
        return cause.recipe.kind == "telemetry" or (unknown and not first_look)

    def _differential(
        self, graded: Sequence[Candidate], cause: Cause, change: Change | None, left: float
    ) -> list[Rival]:
        """The next candidates, with what would decide between each and the finding. left: the probability that the
        finding leaves to all of them, which they share by their odds."""
        rivals = self._rivals(graded, cause, left)
        odds = sum(math.exp(one.log_odds) for one in graded if one.recipe.id in {each.id for each in rivals})
        released = self._released(cause, change, left, odds)
        for rival in rivals if released else ():
            rival.probability = round(rival.probability * (1 - released[0].probability / max(left, 1e-9)), 3)
        return sorted([*rivals, *released], key=lambda rival: -rival.probability)

    def _released(self, cause: Cause, change: Change | None, left: float, odds: float) -> list[Rival]:
        """The release or setting just before an onset as a candidate, beside others of so much odds together."""
        family = cause.recipe.family
        if change is None or change.kind not in RELEASES or family == RELEASE:
            return []
        if family == "engine-stopped" and change.kind == "restart":  # that is how it shows
            return []
        share = RELEASE_ODDS / (RELEASE_ODDS + odds)
        texts = f"{change.detail} ({change.entity}), shortly before"
        return [Rival(RELEASE, round(left * share, 3), [texts], [], [], None)]

    def _rivals(self, graded: Sequence[Candidate], cause: Cause, among: float) -> list[Rival]:
        """The graded candidates beside the cause. among: the probability that they share by their odds."""
        own = next((candidate for candidate in graded if candidate.recipe is cause.recipe), None)
        if own is None:
            return []
        unknown, of_family = cause.recipe.kind == "unexplained", cause.recipe.is_family
        rest = [
            one
            for share, one in zip(shares(graded), graded, strict=True)
            if one is not own and one.speaks_for
            if (not self._is_off(one.recipe, cause) if unknown else share >= NEAR)
            if one.judged or not of_family
        ]
        rivals = list(zip(shares(rest), rest, strict=True)) if rest else []
        return [
            Rival(
                candidate.recipe.id,
                round(among * share, 3),
                candidate.speaks_for[:MOST_SHOWN],
                candidate.speaks_against[:MOST_SHOWN],
                candidate.not_seen,
                self._decided_by(decisive(candidate, own, self.context, cause.best.unit), cause.best.unit),
            )
            for share, candidate in rivals[:MOST_CANDIDATES]
        ]

    def _is_off(self, recipe: Recipe, cause: Cause) -> bool:
        """Whether a cause rests on a feature of which nothing is visible, or can hardly be decided without what is
        not."""
        rests = [name for one in (*recipe.symptoms, *recipe.proof) for name in one.signals]
        rests = [name for name in rests if name in self.context.signals and self.context.signals[name].feature]
        return any(self.context.view.get(cause.best.unit, name) is None for name in (*rests, *recipe.optional))

    def _query(self, signal: str, unit: Unit) -> str | None:
        """What reads a signal of a unit and of nobody who is called the same in another place; of what is counted above
        the pods, that of its place."""
        of_pod = self.context.signals[signal].level not in WIDE
        own: list[Matcher] = []
        for label, value in zip(("cluster", "namespace", "pod"), unit.member.key, strict=True):
            if value and (of_pod if label == "pod" else label in self.stored):
                own.append((label, "=", value))
        return Rendering(self.context.signals, self.context.tiers, extra=tuple(own)).signal(signal)

    def _decided_by(self, signal: str | None, unit: Unit) -> DecidedBy | None:
        """The observation that is not visible, and the query that shows it once it is switched on."""
        if signal is None:
            return None
        known = self.context.signals[signal]
        way = known.enable or "no exporter in the source shows it"
        query = self._query(signal, unit)
        queries = query is not None and self.server is not None
        command = f"promtool query instant {self.server} '{query}'" if queries else "inferdoc doctor"
        return DecidedBy(f"{known.title}: {way}", command)

    def _at(self, step: int | None) -> str | None:
        return None if step is None else stamp(self.context.view.time_at(step))

    def _step(self, step: Step, match: Match) -> NextStep | None:
        """A step with its numbers, None where it rests on a number that is not known or on pods that are not there; a
        flag that the engines are too old for is marked with the release that has it."""
        if step.peers and pool_size(self.context, match) < 2:
            return None
        command = step.command
        if command is not None and "kubectl" in command and not runs_on_kubernetes(match):
            command = None
        undo = with_previous(step.undo, step.flags, settings_of(self.settings, match.unit.member.key))
        texts = [fill(text, self.context, match) for text in (step.do, step.why, step.cost, undo, command or "")]
        known = [filled(text, self.places, self.context, match) for text in texts if text is not None]
        if len(known) < len(texts):
            return None
        do, why, cost, undo, command = known
        do += elsewhere(step.flags, self.engines)
        if self.older_than is not None:
            came = self.flags.too_new(step.flags, self.older_than)
            for flag, release in came.items():
                do += f" ({flag} needs vLLM {release} or later; these pages are of a release before {self.older_than})"
        return NextStep(do, why, cost, undo, command or None)

    def _steps(self, cause: Cause) -> list[NextStep]:
        """The steps of a cause, and the first one for the load change that set it off: before them where requests have
        become longer, which no setting of an engine undoes."""
        own = self._known_steps(cause.recipe, cause.best)
        drivers = [(change.recipe, change.best) for change in _upstream(cause.load_changes)[:1]]
        longer = [self.recipes[name] for name in longer_requests(self.context, cause.best) if name in self.recipes]
        for recipe, match in drivers or [(r, cause.best) for r in longer if self._brings_about(r, cause.recipe)]:
            steps = self._known_steps(recipe, match)
            if steps and steps[0].do not in [one.do for one in own]:
                step = structs.replace(steps[0], do=f"For what set it off ({recipe.id}): {steps[0].do}")
                own = [step, *own] if recipe.id in LONGER_REQUESTS else [*own, step]
        return own

    def _brings_about(self, driver: Recipe, recipe: Recipe) -> bool:
        """Whether a cause is an effect of another, or the family of one."""
        effects = (self.recipes[name] for name in driver.effects if name in self.recipes)
        return any(recipe.id in (effect.id, effect.family) for effect in effects)

    def _known_steps(self, recipe: Recipe, match: Match) -> list[NextStep]:
        return [step for one in recipe.next_steps if (step := self._step(one, match)) is not None]

    def _request_share(self, cause: Cause) -> float | None:
        """How many of the requests of a model its pods serve, over all that was read: 0..1."""
        if cause.recipe.kind == "telemetry":
            return None
        like = [u for u in self.context.view.units if u.member.pool.family == cause.pool.family]
        like = [unit for unit in like if unit.member.role == cause.pool.role]
        traces = {unit: self.context.view.get(unit, "request_rate") for unit in like}
        served = {unit: float(np.nansum(trace.values)) for unit, trace in traces.items() if trace is not None}
        total = sum(served.values())
        pods = cause.pods
        return round(sum(n for unit, n in served.items() if unit.member.key in pods) / total, 3) if total else None

    def scope(self, cause: Cause) -> Scope:
        """Where it is."""
        there = self._there(cause)
        pods = list(dict.fromkeys(m.unit.member.pod for m in there))
        of_pods = sum(1 for member in self.context.view.fleet.members if member.pool == cause.pool)
        pool = cause.pool
        hit = [m.unit for m in there]
        like = [unit for unit in self.context.view.units if unit.member.pool == pool]
        common = shared(self.traits, hit, like)
        level, place = cause.recipe.scope, (pool.namespace, pods, of_pods)
        return Scope(level, pool.model, pool.role, pool.tier, *place, shared=common, cluster=pool.cluster)

    def _there(self, cause: Cause) -> list[Match]:
        """The matches on pods that were there when it started: signals of a pool speak for pods that had gone before.
        A gauge is read for a while after its last sample, and an onset is known to a scrape."""
        if cause.recipe.scope not in WIDE_SCOPES:
            return cause.matches
        seen = [(m, self.context.view.get(m.unit, "target_up")) for m in cause.matches]
        grid = self.context.view.frame.grid
        after = cause.onset + (grid.gauge_ms - grid.interval_ms) // grid.step_ms
        there = [m for m, up in seen if up is None or (np.nan_to_num(up.values[after:]) > 0).any()]
        return there or cause.matches

    def _uncertainty(self, cause: Cause) -> float:
        """One scrape where a gauge shows it; a rate window more where the onset was read off a rate."""
        if cause.best.from_start:
            return float(self.context.view.step_seconds * (cause.last - cause.onset))
        return self.context.clock.scrape_seconds + self.context.view.frame.grid.rate_ms / 1000

    def _evidence(self, cause: Cause) -> list[EvidenceItem]:
        pieces: dict[tuple[str, str, str], tuple[Evidence, Outcome, Unit]] = {}
        # The clearest match first: what it shows must not be crowded out by what many pods have in common.
        for match in (cause.best, *sorted(cause.matches, key=lambda m: m.onset)):
            for piece in match.evidence:
                for outcome in piece.outcome.leaves:
                    denied = outcome is not piece.outcome and outcome.first is None  # by its group
                    counted = Evidence("symptom", outcome) if denied or _is_unmoved(outcome) else piece
                    key = (counted.role, outcome.signal, outcome.entity)
                    if outcome.holds and key not in pieces:
                        pieces[key] = (counted, outcome, match.unit)
        for child in cause.effects:
            for piece in child.best.evidence:
                if piece.role == "harm":
                    key = (piece.role, piece.outcome.signal, piece.outcome.entity)
                    pieces.setdefault(key, (piece, piece.outcome, child.best.unit))
        ranked, shown = (
            sorted(some, key=lambda known: ("harm", "symptom", "support").index(known[0].role))
            for some in (pieces.values(), list(pieces.values())[:MAX_EVIDENCE])
        )
        if cause.recipe.kind == "unexplained":  # what is unusual is all there is to go by: harm must not crowd it out
            unusual = [known for known in ranked if known[0].role == "support"]
            others = [known for known in ranked if known[0].role != "support"]
            shown = [*others[: MAX_EVIDENCE - len(unusual)], *unusual]
        return [self._item(*known) for known in shown]

    def _item(self, piece: Evidence, outcome: Outcome, unit: Unit) -> EvidenceItem:
        query = self._query(outcome.signal, unit) if outcome.signal in self.context.signals else None
        since = None if outcome.first is None or outcome.from_start else stamp(self.context.view.time_at(outcome.first))
        course = self._course(outcome, unit)
        return EvidenceItem(
            outcome.signal,
            outcome.text + ("" if course is None else course.words),
            piece.role,
            outcome.entity,
            _plain(outcome.baseline),
            _plain(outcome.observed),
            _plain(outcome.threshold),
            outcome.unit,
            since,
            query,
            outcome.reference,
            None if course is None else course.shape,
            None if course is None else course.times,
        )

    def _course(self, outcome: Outcome, unit: Unit) -> Departure | None:
        """How a series of the unit itself left its baseline."""
        view, way = self.context.view, (outcome.baseline, outcome.observed)
        trace = view.get(unit, outcome.signal) if outcome.signal and outcome.entity == unit.name else None
        if trace is None or outcome.first is None or outcome.from_start or outcome.reference in ("absolute", "peers"):
            return None
        if way[0] is None or way[1] is None or outcome.ahead:
            return None
        return course_of(trace.values, (way[0], way[1]), outcome.first, view.window_steps, view.step_seconds)

    def _change(self, cause: Cause) -> Change | None:
        """What changed just before the onset: an event of these pods, a load change, or a shift of the traffic."""
        at = self.context.view.time_at(cause.onset)
        for event in reversed(self.events):
            if (
                self._concerns(event, cause)
                and at - self._near(event) <= event.at <= at + self.context.clock.scrape_seconds
            ):
                return Change(stamp(event.at), event.kind, event.entity, event.detail)
        for load_change in _upstream(cause.load_changes):
            detail = f"{load_change.recipe.title}: {load_change.best.evidence[0].outcome.text}"
            started = stamp(self.context.view.time_at(load_change.onset))
            return Change(started, "workload", load_change.best.unit.name, detail, load_change.recipe.id)
        if cause.best.from_start:
            return None
        for match in cause.matches:
            for event in workload_events(self.context, match.unit, match.onset, match.last):
                return Change(stamp(event.at), event.kind, event.entity, event.detail)
        return None

    def _near(self, event: Event) -> float:
        """How long before an onset a change is still near it, seconds."""
        near = max(MIN_NEAR_SECONDS, NEAR_WINDOWS * self.context.view.frame.grid.rate_ms / 1000)
        return near if event.kind == "restart" else max(near, NEAR_DEPLOY_SECONDS)

    def _concerns(self, event: Event, cause: Cause) -> bool:
        """Whether a change is one of the pods of a cause, or of their pool where pods came or went."""
        if event.unit is None:
            return False
        if event.kind in ("replicas", "rollout"):
            return event.unit.member.pool == cause.pool
        return event.kind in ORDER and event.unit.member.key in cause.pods

    def _ruled_out(self, cause: Cause, rivals: set[str]) -> list[RuledOut]:
        """The look-alikes of a root that are no candidates, each with the observation that speaks against it."""
        explained = rivals | {one.recipe.id for one in (cause, *cause.effects, *cause.load_changes)}
        found = []
        for name in cause.recipe.look_alikes:
            verdict = self.judgement.verdicts.get(name, {}).get(cause.best.unit)
            if name in explained or verdict is None or verdict.match is not None or verdict.missing:
                continue
            found.append(RuledOut(name, verdict.against))
        return found


def _upstream(load_changes: Sequence[Cause]) -> list[Cause]:
    """Those last that another of them brings about: longer prompts before the queue that they make."""
    brought = {effect for load_change in load_changes for effect in load_change.recipe.effects}
    return sorted(load_changes, key=lambda load_change: load_change.recipe.id in brought)


def _is_unmoved(outcome: Outcome) -> bool:
    """Whether it reports that a signal stays at its baseline: part of a pattern, and never the impact itself."""
    return outcome.observed is None and outcome.baseline is not None


def _plain(value: float | None) -> float | None:
    """JSON has no infinity and no NaN."""
    return None if value is None or value != value or abs(value) == float("inf") else float(value)
