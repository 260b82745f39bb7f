"""From what was judged to the document: the findings of the pods in focus, the verdict, and what was looked at."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from msgspec.structs import replace

from inferdoc.judging import phases
from inferdoc.judging.answer import baseline_of, coverage_of, newest_sample, summarise, verdict_of
from inferdoc.judging.changes import Event, find_events, of_window
from inferdoc.judging.cohorts import traits_of
from inferdoc.judging.completeness import listed_signs
from inferdoc.judging.context import Context
from inferdoc.judging.doubts import rising, stopped
from inferdoc.judging.findings import NEAR_DEPLOY_SECONDS, FindingMaker
from inferdoc.judging.focus import ASPECTS, Focus
from inferdoc.judging.judge import can_judge, short_of_steps
from inferdoc.judging.judged import Judged
from inferdoc.judging.model import (
    Change,
    Diagnosis,
    Elsewhere,
    FocusInfo,
    NotJudged,
    SourceInfo,
    Timing,
    UnreadNames,
    Window,
    stamp,
)
from inferdoc.judging.places import Places, read_places
from inferdoc.judging.session import Session, needed_signals
from inferdoc.judging.settings import CACHE_SETTINGS, newest_settings
from inferdoc.judging.unjudged import explain_unknown, not_judged, nothing_to_judge
from inferdoc.judging.view import View
from inferdoc.source.base import Source
from inferdoc.source.identified import Identified
from inferdoc.version import __version__


class DiagnosisWithSeries(Diagnosis, dict=True):
    """A Diagnosis made here: the same document, and beside it the series that it was judged on, for plots."""

    @property
    def view(self) -> View | None:
        """The series; not part of the document. None after a copy."""
        return self.__dict__.get("view")


def document(judged: Judged) -> DiagnosisWithSeries:
    """The document of what was judged."""
    session, context, rhythm = judged.session, judged.context, judged.rhythm
    view, grid, focus = context.view, session.frame.grid, session.focus
    roots = [root for root in judged.roots if focus.concerns(root)]
    events = find_events(context, session.scrapes, session.catalogue.markers, session.infos)
    events += rhythm.events if rhythm else []
    events = of_window(events, context, [root.onset for root in judged.roots], NEAR_DEPLOY_SECONDS)
    maker = _maker(judged, events)
    findings = [maker.make(root) for root in roots]
    others = [Elsewhere(root.recipe.id, maker.scope(root).pods) for root in judged.roots if root not in roots]
    units = [unit for unit in view.units if focus.holds(unit.member)]
    short = short_of_steps(context)
    too_new = None if findings else rising(context, units)
    gone = None if findings else stopped(context, units)
    verdict = verdict_of(findings, can_judge(context, units) and not short and too_new is None and gone is None)
    hit = [match.unit for match in roots[0].matches] if roots else units
    fleet = view.fleet.members if session.scan is None else session.scan.members
    answer = DiagnosisWithSeries(
        schema="inferdoc.diagnosis/v1",
        inferdoc_version=__version__,
        window=Window(
            stamp(view.time_at(view.begin)),
            stamp(grid.end_ms / 1000),
            view.step_seconds,
            baseline_of(view, roots) if rhythm is None else rhythm.baseline(grid),
            newest_sample(session.scrapes, grid),
        ),
        source=SourceInfo(session.source.kind, session.source.location, list(session.source.warnings)),
        verdict=verdict,
        summary=summarise(
            verdict,
            findings,
            len(fleet) if focus.members is None else len(focus.keys),
            _ask_again(context, short),
            judged.first_look is not None,
            view.fleet.spread,
            _too_old(session),
            None if too_new is None else (context.signals[too_new.signal].title, too_new),
            gone,
        ),
        phases=phases.split_phases(view, hit, roots[0].onset if roots else None),
        findings=findings,
        not_judged=_not_judged(judged),
        changes=[Change(stamp(e.at), e.kind, e.entity, e.detail) for e in events if _is_about(e, focus)],
        coverage=replace(
            coverage_of(view, session.scrapes, needed_signals(session.catalogue), _listed(session), session.scan),
            not_understood=unread_names(session.source, session.names),
        ),
        timing=Timing(0.0, 0.0, 0, 0),
        focus=None if focus.members is None else _described(focus, len(view.fleet.members), others),
        rising=too_new,
        stopped=gone,
    )
    explain_unknown(answer, session)
    answer.__dict__["view"] = view
    return answer


def _maker(judged: Judged, events: Sequence[Event]) -> FindingMaker:
    session, context = judged.session, judged.context
    source, catalogue = session.source, session.catalogue
    return FindingMaker(
        context,
        judged.judgement,
        catalogue.recipes,
        events,
        session.options.links,
        traits_of(context.view, session.scrapes, catalogue.markers, session.infos),
        catalogue.flags,
        session.older_than,
        catalogue.calibration,
        read_places(source, session.frame.grid, session.scrapes) if judged.roots else Places(),
        source.location if source.kind == "prometheus" else None,
        newest_settings(session.infos.get(CACHE_SETTINGS, ())),
        session.engines,
        source.stored if isinstance(source, Identified) else frozenset(),
    )


def _not_judged(judged: Judged) -> list[NotJudged]:
    visibility = judged.session.visibility
    return not_judged(judged.judgement, visibility) if judged.context.view.units else nothing_to_judge(visibility)


def unread_names(source: Source, names: Collection[str]) -> list[UnreadNames]:
    """The names of series that look like those of an engine or a router, and that no declaration explains."""
    told = source.not_understood(names) if isinstance(source, Identified) else []
    return [UnreadNames(one.word, one.families, one.example, one.nearest, one.hidden) for one in told]


def _too_old(session: Session) -> str | None:
    """The time of the newest sample, where all that the source holds is older than the window."""
    if session.context.view.units or session.scrapes:
        return None
    newest, frame = session.source.latest_ms(), session.frame
    begin_ms = frame.grid.start_ms + frame.begin * frame.grid.step_ms
    return stamp(newest / 1000) if newest is not None and newest < begin_ms else None


def _ask_again(context: Context, short: int) -> str | None:
    """When there will be enough to judge, where too few scrapes were seen; None where that is not what is missing."""
    if not short or not can_judge(context):
        return None
    return stamp(context.view.time_at(context.view.steps - 1 + short))


def _described(focus: Focus, of_pods: int, elsewhere: list[Elsewhere]) -> FocusInfo:
    pods = list(dict.fromkeys(member.pod for member in focus.members or ()))
    chosen = {name: getattr(focus.wanted, name) for name in ASPECTS}
    return FocusInfo(**chosen, pods=pods, of_pods=of_pods, elsewhere=elsewhere)


def _is_about(event: Event, focus: Focus) -> bool:
    """Whether a change is one of a pod in focus, of its pool where pods came or went, or of no pod at all."""
    if event.unit is None or focus.holds(event.unit.member):
        return True
    pools = {member.pool for member in focus.members or ()}
    return event.kind in ("replicas", "rollout") and event.unit.member.pool in pools


def _listed(session: Session) -> set[str]:
    """Which signs of engines the source lists. None where its names may be those of other engines than the ones that
    were read."""
    if session.options.match or len(session.engines) != 1:
        return set()
    return listed_signs(session.catalogue, session.names)
