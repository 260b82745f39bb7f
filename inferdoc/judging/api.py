"""`diagnose()`: from a source and a window to a Diagnosis."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Sequence

from inferdoc.catalogue.load import load_catalogue
from inferdoc.catalogue.recipe import CERTAINTIES
from inferdoc.errors import InferdocError, TooSlowError
from inferdoc.extras import install
from inferdoc.judging import phases
from inferdoc.judging.absolute import FirstLook, absolute, doubted
from inferdoc.judging.answer import (
    baseline_of,
    coverage_of,
    newest_sample,
    scraped_in_window,
    summarise,
    timing_of,
    verdict_of,
)
from inferdoc.judging.breaches import UNEXPLAINED
from inferdoc.judging.changes import find_events, of_window
from inferdoc.judging.chosen import read_chosen
from inferdoc.judging.cohorts import traits_of
from inferdoc.judging.completeness import qualify
from inferdoc.judging.context import Context
from inferdoc.judging.cycles import no_cycle_search
from inferdoc.judging.events import Event
from inferdoc.judging.families import name_mechanisms
from inferdoc.judging.findings import NEAR_DEPLOY_SECONDS, FindingMaker
from inferdoc.judging.first_minutes import better_start
from inferdoc.judging.judge import Judgement, can_judge, judge, short_of_steps
from inferdoc.judging.ladder import better_times
from inferdoc.judging.lifetime import Lifetime
from inferdoc.judging.model import Change, Diagnosis, SourceInfo, Timing, Window, stamp
from inferdoc.judging.narrow import Judged, Whole, narrowed
from inferdoc.judging.not_yet import rising
from inferdoc.judging.part_scans import PartScans, PartSeen
from inferdoc.judging.places import Places, read_places
from inferdoc.judging.reading import read_window
from inferdoc.judging.recorded_scan import RecordedScan, by_records, read_only
from inferdoc.judging.released import blame_rollouts
from inferdoc.judging.rhythm import take_out_rhythm
from inferdoc.judging.scan import Family, Looked, Scan
from inferdoc.judging.session import Options, Session
from inferdoc.judging.sessions import Inquiry, Lead, needed_signals, read_session
from inferdoc.judging.settings import CACHE_SETTINGS, newest_settings
from inferdoc.judging.stored_lead import fitting
from inferdoc.judging.traffic import stopped
from inferdoc.judging.triage import (
    has_families,
    hurt_families,
    is_scanned_whole,
    looked,
    may_leave_out,
    scan_signals,
    targets_at_once,
)
from inferdoc.judging.unjudged import explain_unknown, not_judged, nothing_to_judge
from inferdoc.judging.verdict import Evidence
from inferdoc.judging.young import since_start
from inferdoc.source.base import Source
from inferdoc.source.identified import Identified
from inferdoc.times import Moment, around_window
from inferdoc.version import __version__


@no_cycle_search()
def diagnose(
    source: Source,
    since: Moment | None = None,
    until: Moment = "latest",
    from_: Moment | None = None,
    options: Options | None = None,
    around: Moment | None = None,
) -> Diagnosis:
    """Judge a window of a source.

    since: how long before `until` (a duration such as "1h"), from_: or when (RFC 3339, Unix seconds); until: the same,
    "now" or "latest" (the newest sample); around: instead of these, a time at which something was wrong (half an hour
    on either side of it). The history before the window is read along, to compare the window with. Raises
    SourceError where the source cannot be read, InferdocError where a time cannot be understood, or where a name of
    `options.wanted` is that of nobody. Answers a Diagnosis whose verdict is "unknown" where there is not enough to
    judge.
    """
    options = options or Options()
    catalogue = options.catalogue or load_catalogue()
    if around is not None:
        if since is not None or from_ is not None:
            raise InferdocError("--around says where the window begins, as --since and --from do: give one of them")
        from_, until = around_window(around, until, source.latest_ms())
    window = (since, from_, until)
    began = time.perf_counter()
    inquiry = Inquiry(source, catalogue, options, window)
    wanted = needed_signals(catalogue)
    answer = _judged_by_size(inquiry, wanted)
    answer.source.warnings = list(source.warnings)
    qualify(answer, source.warnings, catalogue.calibration)
    judge_seconds = round(time.perf_counter() - began - inquiry.seconds, 4)
    answer.timing = timing_of(source.cost, round(inquiry.seconds, 4), judge_seconds)
    return answer


def _judged(inquiry: Inquiry, wanted: Sequence[str], scan: Scan | None = None) -> Judged:
    """The answer by the history before the window, or by the first lower rung that tells more. scan: what was looked at
    before, where the source reads a part only."""
    source, lead = inquiry.source, inquiry.chosen
    session = inquiry.session(wanted, lead)
    session.scan = scan
    answer, whole = _answer(session)
    rhythm = whole.baseline is not None  # it was held against an earlier day already
    for again in [] if lead is not None or _compared(answer) else _lower_rungs(session, rhythm):
        try:
            later = inquiry.session(wanted, again)
        except TooSlowError as error:
            source.warnings.append(f"{error}; the window is compared with its own history alone")
            break
        later.scan = scan
        by_rung, of_rung = _answer(later)
        if _tells_more(by_rung, answer, again):
            answer, whole = by_rung, of_rung
            if answer.findings:
                break
    return narrowed(answer, whole)


def _judged_by_size(inquiry: Inquiry, wanted: Sequence[str]) -> Judged:
    """The answer of a deep read, or of a scan and a deep read of what it chose, where there is much to read."""
    if not may_leave_out(inquiry):
        return _judged(inquiry, wanted)
    recorded = by_records(inquiry)
    if recorded is not None and len(recorded.looked.sizes) > 1:
        return _of_records(inquiry, recorded, wanted)
    return (_in_two_stages if has_families(inquiry, wanted) else _judged)(inquiry, wanted)


def _of_records(inquiry: Inquiry, recorded: RecordedScan, wanted: Sequence[str]) -> Judged:
    """The answer where rules recorded who is hurt."""
    source = inquiry.source
    assert isinstance(source, Identified)
    try:
        return _judged(inquiry, wanted, read_only(inquiry, recorded))
    finally:
        source.read_all_pods()


def _in_two_stages(inquiry: Inquiry, wanted: Sequence[str]) -> Judged:
    """Scan all pods for impacts, and read those families in full in which there are any."""
    source = inquiry.source
    assert isinstance(source, Identified)
    try:
        if is_scanned_whole(source):
            return _scanned_whole(inquiry, source, wanted)
        return _scanned_in_parts(inquiry, source, wanted)
    finally:
        source.leave_out_pods((), (), 0, 0)


def _scanned_whole(inquiry: Inquiry, source: Identified, wanted: Sequence[str]) -> Judged:
    """The answer where one look holds what is scanned of all pods."""
    signals = scan_signals(inquiry.catalogue)
    session = inquiry.session(signals, None)
    overview = _looked(session)
    hurt = hurt_families(session.context, inquiry.catalogue.recipes)
    answer = _of_part(inquiry, overview, hurt, wanted) if hurt else None
    if answer is None or not _explained(answer):
        source.leave_out_pods((), (), 0, 0)
        further = hurt | _hurt_by_lower_rungs(inquiry, session, signals)
        if answer is None or further != hurt:
            answer = _of_part(inquiry, overview, further, wanted)
    return answer


def _scanned_in_parts(inquiry: Inquiry, source: Identified, wanted: Sequence[str]) -> Judged:
    """The answer where some families are looked at beside others, so that memory does not grow with the fleet."""
    with PartScans.of(inquiry, scanned_part, targets_at_once()) as scans:
        scans.run()
        overview, hurt, below = scans.together()
    answer = _of_part(inquiry, overview, hurt, wanted) if hurt else None
    if answer is None or not _explained(answer):
        if below is None:
            source.leave_out_pods((), (), 0, 0)
            with PartScans.of(inquiry, scanned_part, targets_at_once(), scans) as scans:
                scans.run(always=True)
                _, _, below = scans.together()
        if answer is None or below:
            answer = _of_part(inquiry, overview, hurt | (below or set()), wanted)
    return answer


def scanned_part(inquiry: Inquiry, climbs: bool) -> PartSeen:
    """What is seen of the families that are read now, which of them are hurt, and where none is, which are by a lower
    rung."""
    signals = scan_signals(inquiry.catalogue)
    session = inquiry.session(signals, None)
    hurt = hurt_families(session.context, inquiry.catalogue.recipes)
    below = set[Family]() if hurt else _hurt_by_lower_rungs(inquiry, session, signals) if climbs else None
    return PartSeen(_looked(session), frozenset(hurt), None if below is None else frozenset(below))


def _looked(session: Session) -> Looked:
    return looked(session.context, scraped_in_window(session.context.view, session.scrapes))


def _of_part(inquiry: Inquiry, overview: Looked, hurt: Collection[Family], wanted: Sequence[str]) -> Judged:
    """The answer with only these families, and one beside them, read in full."""
    scan = overview.scan(hurt)
    read_chosen(inquiry, scan, (overview.start_ms, overview.end_ms), overview.quiet_hosts(scan))
    return _judged(inquiry, wanted, scan)


def _hurt_by_lower_rungs(inquiry: Inquiry, session: Session, signals: Sequence[str]) -> set[Family]:
    """The families that are hurt against the first lower rung by which any is."""
    for again in _lower_rungs(session, False):
        try:
            later = inquiry.session(signals, again)
        except TooSlowError:
            break
        first_look = FirstLook.of(later.context.view) if later.context.view.lead_kind == "lifetime" else None
        recipes = inquiry.catalogue.recipes
        hurt = hurt_families(later.context, absolute(recipes, first_look) if first_look else recipes)
        if hurt:
            return hurt
    return set()


def _explained(answer: Diagnosis) -> bool:
    """Whether there is a finding that names a cause."""
    return any(finding.id not in (UNEXPLAINED, finding.family) for finding in answer.findings)


def _compared(answer: Diagnosis) -> bool:
    """Whether there is a finding that names a cause, and by more than limits: a past may tell it better."""
    return _explained(answer) and answer.window.baseline.kind != "absolute"


def _lower_rungs(session: Session, rhythm: bool) -> Iterator[Lead]:
    """What else a window without a known cause can be held against, nearest first; each is looked for when it is asked.
    rhythm: what it shows is that of an earlier day, so that no better times tell anything."""
    stored = fitting(session)
    if stored is not None:
        yield stored
    for earlier in (better_times, better_start) if session.context.view.units and not rhythm else ():
        rung = earlier(session)
        if rung is not None:
            yield rung.kind, (rung.grid.start_ms, rung.grid.end_ms)
    life = since_start(session)
    if life is not None:
        yield life


def _tells_more(by_rung: Diagnosis, answer: Diagnosis, rung: Lead) -> bool:
    """Whether to take the answer by a lower rung. That the life of the processes was no better speaks for nothing;
    where harm shows by itself, only a cause tells more."""
    if _explained(answer):
        first, then = answer.findings[0], by_rung.findings[0] if by_rung.findings else None
        return then is not None and CERTAINTIES.index(then.certainty) >= CERTAINTIES.index(first.certainty)
    if isinstance(rung, Lifetime) or answer.findings:
        return _explained(by_rung) or bool(by_rung.findings and not answer.findings)
    return True


def _answer(session: Session) -> tuple[Judged, Whole]:
    """Judge the session, and write the document; beside it what it was made from."""
    context, catalogue, source = session.context, session.catalogue, session.source
    view, grid = context.view, session.frame.grid
    first_look = FirstLook.of(view) if view.lead_kind == "lifetime" else None
    recipes = absolute(catalogue.recipes, first_look) if first_look else catalogue.recipes
    judgement = judge(context, recipes)
    if first_look:
        doubted(judgement.roots, catalogue.recipes, first_look)
    rhythm = take_out_rhythm(session, judgement.roots)
    _rank_unexplained(session, judgement)
    judgement.roots = blame_rollouts(judgement.roots, context, catalogue.recipes)
    name_mechanisms(judgement.roots, context, catalogue.families)
    events = find_events(context, session.scrapes, catalogue.markers, session.infos)
    events += rhythm.events if rhythm else []
    events = of_window(events, context, [root.onset for root in judgement.roots], NEAR_DEPLOY_SECONDS)
    traits = traits_of(view, session.scrapes, catalogue.markers, session.infos)
    links, flags = session.options.links, catalogue.flags
    places = read_places(source, grid, session.scrapes) if judgement.roots else Places()
    server = source.location if source.kind == "prometheus" else None
    older, calibration = session.older_than, catalogue.calibration
    settings = newest_settings(session.infos.get(CACHE_SETTINGS, ()))
    maker = FindingMaker(
        context,
        judgement,
        catalogue.recipes,
        events,
        links,
        traits,
        flags,
        older,
        calibration,
        places,
        server,
        settings,
        session.engines,
        source.stored if isinstance(source, Identified) else frozenset(),
    )
    visibility = session.visibility
    roots = judgement.roots
    findings = [maker.make(root) for root in roots]
    units = [m.unit for m in roots[0].matches] if roots else view.units
    short = short_of_steps(context)
    too_new = None if findings else rising(context, view.units)
    gone = None if findings else stopped(context, view.units)
    verdict = verdict_of(findings, can_judge(context) and not short and too_new is None and gone is None)
    again = _ask_again(context, short)
    window = Window(
        stamp(view.time_at(view.begin)),
        stamp(grid.end_ms / 1000),
        view.step_seconds,
        baseline_of(view, judgement) if rhythm is None else rhythm.baseline(grid),
        newest_sample(session.scrapes, grid),
    )
    answer = Judged(
        schema="inferdoc.diagnosis/v1",
        inferdoc_version=__version__,
        window=window,
        source=SourceInfo(source.kind, source.location, list(source.warnings)),
        verdict=verdict,
        summary=summarise(
            verdict,
            findings,
            len(view.fleet.members if session.scan is None else session.scan.members),
            again,
            first_look is not None,
            view.fleet.spread,
            _too_old(session),
            None if too_new is None else (context.signals[too_new.signal].title, too_new),
            gone,
        ),
        phases=phases.split_phases(view, units, roots[0].onset if roots else None),
        findings=findings,
        not_judged=not_judged(judgement, visibility) if view.units else nothing_to_judge(visibility),
        changes=[Change(stamp(e.at), e.kind, e.entity, e.detail) for e in events],
        coverage=coverage_of(view, session.scrapes, needed_signals(catalogue), session.scan),
        timing=Timing(0.0, 0.0, 0, 0),
        rising=too_new,
        stopped=gone,
    )
    explain_unknown(answer, session)
    answer.__dict__["view"] = view
    return answer, Whole(session, judgement, events, None if rhythm is None else answer.window.baseline)


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


def _rank_unexplained(session: Session, judgement: Judgement) -> None:
    """Harm without a known cause gets the most unusual signals as its support."""
    odd = [root for root in judgement.roots if root.recipe.kind == "unexplained"]
    if odd:
        from inferdoc.judging.anomaly import has_forest, unusual
        from inferdoc.judging.witnesses import earlier_days, read_rest

        if not has_forest():
            text = f"unusual signals are ranked by how far they moved alone; better with: {install('scikit-learn')}"
            session.source.warnings.append(text)
        read_rest(session)
        earlier = earlier_days(session)
        for root in odd:
            root.best.evidence += [Evidence("support", outcome) for outcome in unusual(session.context, root, earlier)]


__all__ = ["Event", "Judged", "Options", "diagnose", "needed_signals", "read_session", "read_window", "summarise"]
