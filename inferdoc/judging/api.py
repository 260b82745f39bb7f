"""`diagnose()`: from a source and a window to a Diagnosis."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace

from inferdoc.catalogue.aliases import Aliases
from inferdoc.catalogue.engines import engines_there, of_engines
from inferdoc.catalogue.load import Catalogue, load_catalogue
from inferdoc.errors import InferdocError, TooSlowError
from inferdoc.extras import install
from inferdoc.fleet.lineage import divide, trace
from inferdoc.fleet.members import resolve
from inferdoc.fleet.silent import add_silent
from inferdoc.fleet.speeds import part_by_speed
from inferdoc.judging import phases
from inferdoc.judging.absolute import FirstLook, absolute, doubted
from inferdoc.judging.answer import baseline_of, coverage_of, summarise, timing_of, verdict_of
from inferdoc.judging.breaches import UNEXPLAINED
from inferdoc.judging.changes import find_events, of_window
from inferdoc.judging.clock import Clock
from inferdoc.judging.cohort_signals import add_cohorts
from inferdoc.judging.cohorts import traits_of
from inferdoc.judging.context import Context
from inferdoc.judging.cycles import no_cycle_search
from inferdoc.judging.events import Event
from inferdoc.judging.findings import NEAR_DEPLOY_SECONDS, FindingMaker
from inferdoc.judging.focus import focus_on, lost_peers
from inferdoc.judging.inherit import compare_settings
from inferdoc.judging.judge import LATENCY, PROGRESS, Judgement, can_judge, judge, short_of_steps
from inferdoc.judging.ladder import better_times
from inferdoc.judging.lifetime import Lifetime, Past
from inferdoc.judging.match import Evidence
from inferdoc.judging.model import BaselineKind, Change, Diagnosis, SourceInfo, Timing, Window, stamp
from inferdoc.judging.narrow import Judged, Whole, narrowed
from inferdoc.judging.places import Places, read_places
from inferdoc.judging.reading import read_window
from inferdoc.judging.released import blame_rollouts
from inferdoc.judging.rhythm import take_out_rhythm
from inferdoc.judging.session import Options, Session
from inferdoc.judging.settings import CACHE_SETTINGS, newest_settings
from inferdoc.judging.stored import StoredBaseline
from inferdoc.judging.stored_lead import check, fitting, lead_of
from inferdoc.judging.unjudged import not_judged, nothing_to_judge
from inferdoc.judging.vanished import end_vanished
from inferdoc.judging.view import make_view
from inferdoc.judging.visibility import Visibility
from inferdoc.judging.young import since_start
from inferdoc.source.assemble import read_signals
from inferdoc.source.base import InfoSeries, Scrapes, Source
from inferdoc.source.frame import SignalFrame
from inferdoc.source.reads import Grid, Matcher
from inferdoc.times import Moment, around_window
from inferdoc.version import __version__

CONTEXT_SIGNALS = (
    *PROGRESS,
    *LATENCY,
    "running",
    "waiting",
    "kv_usage",
    "output_len_mean",
    "process_start_time",
    "kubelet_restarts",
    "kv_blocks",
    "error_rate",
    "arrival_rate",
    "prompt_tokens_per_request",
    "prompt_len_mean",
    "queue_time_mean",
    "prefill_time_mean",
    "decode_time_mean",
    "nixl_xfer_mean",
    "router_ttft_mean",
    "target_up",
    "kv_capacity_tokens",
    "computed_tokens_per_request",
    "prefill_seconds_per_token",
    "nixl_bytes_rate",
    "nixl_xfer_rate",
    "spec_acceptance_rate",
    "spec_acceptance_length",
)
"""Read besides what the recipes name: traffic, roles, changes, phases, and the inputs of the numbers in advice."""
TIER_SIGNALS = ("gpu_util", "sm_clock")


Lead = tuple[BaselineKind, tuple[int, int]] | StoredBaseline | Lifetime
"""A baseline from elsewhere: a stretch of the source (its rung; from, until in milliseconds), a stored one, or
what the counters hold since their processes began."""


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
    lead: Lead | None = ("chosen", options.baseline) if isinstance(options.baseline, tuple) else options.baseline
    session, read_seconds = _read(source, catalogue, options, window, lead)
    answer, whole = _answer(session)
    for again in [] if lead is not None or _explained(answer) else _lower_rungs(session, answer):
        try:
            later, more_seconds = _read(source, catalogue, options, window, again)
        except TooSlowError as error:
            source.warnings.append(f"{error}; the window is compared with its own history alone")
            break
        read_seconds += more_seconds
        by_rung, of_rung = _answer(later)
        if _tells_more(by_rung, answer, again):
            answer, whole = by_rung, of_rung
        if answer.findings:
            break
    answer = narrowed(answer, whole)
    answer.source.warnings = list(source.warnings)
    judge_seconds = round(time.perf_counter() - began - read_seconds, 4)
    answer.timing = timing_of(source.cost, round(read_seconds, 4), judge_seconds)
    return answer


def read_session(source: Source, catalogue: Catalogue, options: Options, since: Moment, until: Moment) -> Session:
    """A window with its history, ready for observations to be looked for. Raises SourceError."""
    return _read(source, catalogue, options, (since, None, until), None)[0]


def _explained(answer: Diagnosis) -> bool:
    """Whether there is a finding that names a cause."""
    return any(finding.id != UNEXPLAINED for finding in answer.findings)


def _lower_rungs(session: Session, answer: Diagnosis) -> Iterator[Lead]:
    """What else a window without a known cause can be held against, nearest first; each is looked for when it is asked.
    Harm that shows without a past is held against a stored baseline alone: that it is harm needs no better times."""
    stored = fitting(session)
    if stored is not None:
        yield stored
    rung = better_times(session) if session.context.view.units and not answer.findings else None
    if rung is not None:
        yield rung.kind, (rung.grid.start_ms, rung.grid.end_ms)
    life = since_start(session)
    if life is not None:
        yield life


def _tells_more(by_rung: Diagnosis, answer: Diagnosis, rung: Lead) -> bool:
    """Whether to take the answer by a lower rung. That the life of the processes was no better speaks for nothing."""
    if isinstance(rung, Lifetime):
        return _explained(by_rung) or bool(by_rung.findings and not answer.findings)
    return bool(by_rung.findings or not answer.findings)


def _read(
    source: Source,
    catalogue: Catalogue,
    options: Options,
    window: tuple[Moment | None, Moment | None, Moment],
    lead: Lead | None,
) -> tuple[Session, float]:
    """Read a window with its history, or with a baseline from elsewhere in the place of the history. Returns the
    seconds that it took as well. Raises InferdocError where a stored baseline is of another fleet."""
    began = time.perf_counter()
    wanted = needed_signals(catalogue)
    frame, scrapes = read_window(source, wanted, catalogue, *window, options.match, history=lead is None)
    present = source.names(frame.grid.start_ms, frame.grid.end_ms)
    baseline: Grid | None = None
    kind: BaselineKind = "none"
    past: Past | None = None
    if isinstance(lead, StoredBaseline):
        everyone = resolve(frame, catalogue.tiers, options.assignments).members
        check(lead, filter(options.wanted.keeps, everyone), catalogue.flags.older_than(present))
        earlier = lead_of(lead, frame, everyone)
        baseline, kind = earlier.grid, "stored"
        frame.prepend(earlier)
    elif isinstance(lead, Lifetime):
        past = lead.lead(source, frame, wanted, catalogue, options.match)
        baseline, kind = past.frame.grid, "lifetime"
        frame.prepend(past.frame)
    elif lead is not None:
        kind, (begin, end) = lead
        count = max(1, (end - begin) // frame.grid.step_ms + 1)
        baseline = replace(frame.grid, start_ms=begin, count=count)
        aliases = Aliases(catalogue.exporters.values())
        frame.prepend(read_signals(source, wanted, baseline, catalogue.signals, aliases, options.match))
    infos = _read_infos(source, frame.grid, catalogue, present, options.match)
    owners = _owners(source, frame.grid, present)
    seconds = time.perf_counter() - began
    session = _session(source, catalogue, options, frame, scrapes, infos, present, owners, baseline, kind)
    session.context.view.lead_name = lead.name if isinstance(lead, StoredBaseline) else None
    session.context.view.lead_means = frozenset() if past is None else past.means
    return session, seconds


def _read_infos(
    source: Source, grid: Grid, catalogue: Catalogue, present: Collection[str], match: tuple[Matcher, ...]
) -> dict[str, list[InfoSeries]]:
    """The info metrics that tell of changes, by current name, as far as the source has them (`present`)."""
    names = [str(m.info) for m in catalogue.markers if m.info is not None]
    aliases = Aliases(catalogue.exporters.values())
    return {
        name: [one for alias in aliases.of(name) if alias in present for one in source.info(alias, grid, match)]
        for name in names
    }


OWNER = "kube_pod_owner"


def _owners(source: Source, grid: Grid, present: Collection[str]) -> dict[str, str]:
    """Pod -> who made it, where kube-state-metrics is scraped."""
    series = source.info(OWNER, grid) if OWNER in present else []
    labels = [one.labels for one in series if one.labels.get("owner_name")]
    return {each.get("pod", ""): each["owner_name"] for each in labels}


def needed_signals(catalogue: Catalogue) -> list[str]:
    """Every signal that a recipe or the report reads and that comes from a source."""
    moved = (str(m.signal) for m in catalogue.markers if m.signal is not None)
    names: dict[str, None] = dict.fromkeys(
        n for n in (*CONTEXT_SIGNALS, *TIER_SIGNALS, *moved) if n in catalogue.signals
    )
    for recipe in catalogue.recipes.values():
        parts = (
            *recipe.symptoms,
            *recipe.harm,
            *recipe.support,
            *recipe.proof,
            *recipe.unless,
            *(s.when for s in recipe.stages),
        )
        for condition in (*parts, *((recipe.critical_when,) if recipe.critical_when else ())):
            names.update(dict.fromkeys(condition.signals))
        names.update(dict.fromkeys(recipe.optional))
    names.update(dict.fromkeys(slo.signal for slo in catalogue.slos if slo.promised))
    return list(names)


def _session(
    source: Source,
    catalogue: Catalogue,
    options: Options,
    frame: SignalFrame,
    scrapes: list[Scrapes],
    infos: dict[str, list[InfoSeries]],
    present: Collection[str],
    owners: Mapping[str, str],
    lead: Grid | None,
    lead_kind: BaselineKind,
) -> Session:
    """Who is who, and where conditions are evaluated."""
    everyone = resolve(frame, catalogue.tiers, options.assignments)
    part_by_speed(everyone, frame)
    add_silent(everyone, scrapes)
    lineage = trace(frame, everyone, scrapes, owners)
    fleet = divide(everyone, lineage, frame.begin)
    end_vanished(frame, catalogue.signals, scrapes)
    compare_settings(frame, catalogue.signals, infos, lineage)
    add_cohorts(frame, catalogue.signals, fleet)
    view = make_view(frame, fleet, lead, catalogue.signals, lineage)
    view.lead_kind = lead_kind
    scrape_seconds = frame.grid.interval_ms / 1000
    clock = Clock(view.step_seconds, scrape_seconds, view.window_steps, view.lead_steps, view.begin)
    exporters = list(catalogue.exporters.values())
    engines = {engine.exporter for engine in engines_there(exporters, present)}
    shown = of_engines(catalogue.signals, exporters, engines) if engines else catalogue.signals
    context = Context(view, shown, catalogue.tiers, clock, slo=catalogue.slos)
    older_than = catalogue.flags.older_than(present)
    focus = focus_on(options.wanted, fleet, lineage, scrapes, lenient=options.lenient)
    alone = lost_peers(options.match, fleet, scrapes) if options.match else None
    source.warnings += [one for one in (*focus.warnings, alone) if one is not None and one not in source.warnings]
    return Session(source, catalogue, options, frame, scrapes, infos, older_than, lineage, context, focus, present)


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
    )
    visibility = Visibility(catalogue, session.names, session.frame.signals)
    roots = judgement.roots
    findings = [maker.make(root) for root in roots]
    units = [m.unit for m in roots[0].matches] if roots else view.units
    short = short_of_steps(context)
    verdict = verdict_of(findings, can_judge(context) and not short)
    again = _ask_again(context, short)
    window = Window(
        stamp(view.time_at(view.begin)),
        stamp(grid.end_ms / 1000),
        view.step_seconds,
        baseline_of(view, judgement) if rhythm is None else rhythm.baseline(grid),
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
            len(view.fleet.members),
            again,
            first_look is not None,
            view.fleet.spread,
            _too_old(session),
        ),
        phases=phases.split_phases(view, units, roots[0].onset if roots else None),
        findings=findings,
        not_judged=not_judged(judgement, visibility) if view.units else nothing_to_judge(visibility),
        changes=[Change(stamp(e.at), e.kind, e.entity, e.detail) for e in events],
        coverage=coverage_of(view, session.scrapes, needed_signals(catalogue)),
        timing=Timing(0.0, 0.0, 0, 0),
    )
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


__all__ = ["Event", "Judged", "Options", "diagnose", "needed_signals", "read_window", "summarise"]
