"""`diagnose()`: from a source and a window to a Diagnosis."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from inferdoc.catalogue.aliases import Aliases
from inferdoc.catalogue.load import Catalogue, load_catalogue
from inferdoc.config import SloSection
from inferdoc.diagnose import phases, telemetry
from inferdoc.diagnose.changes import find_events, gaps
from inferdoc.diagnose.cohort_signals import add_cohorts
from inferdoc.diagnose.cohorts import traits_of
from inferdoc.diagnose.conditions import signals_of
from inferdoc.diagnose.context import Context
from inferdoc.diagnose.cycles import no_cycle_search
from inferdoc.diagnose.events import Event
from inferdoc.diagnose.excursion import Clock
from inferdoc.diagnose.findings import FindingMaker, Links
from inferdoc.diagnose.judge import LATENCY, PROGRESS, Judgement, can_judge, judge
from inferdoc.diagnose.match import Evidence
from inferdoc.diagnose.model import (
    Baseline,
    Change,
    Coverage,
    Diagnosis,
    Finding,
    NotJudged,
    SourceInfo,
    Timing,
    VerdictWord,
    Window,
    stamp,
)
from inferdoc.diagnose.rhythm import take_out_rhythm
from inferdoc.diagnose.view import View, make_view
from inferdoc.fleet.members import Assignment, Wanted, resolve
from inferdoc.source.assemble import read_signals
from inferdoc.source.base import InfoSeries, Scrapes, Source
from inferdoc.source.frame import SignalFrame
from inferdoc.source.grid import LOOK_MS, make_grid, scrape_interval_ms
from inferdoc.source.plan import series_names
from inferdoc.source.reads import Grid, Matcher
from inferdoc.times import Moment, resolve_window
from inferdoc.version import __version__

CONTEXT_SIGNALS = (
    *PROGRESS,
    *LATENCY,
    "running",
    "waiting",
    "kv_usage",
    "output_len_mean",
    "process_start_time",
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


@dataclass
class Options:
    """What the user chose. match: label matchers for every selector; wanted: the part of the fleet; baseline: (from,
    until) in milliseconds; slo: limits per model and tier."""

    match: tuple[Matcher, ...] = ()
    wanted: Wanted = field(default_factory=Wanted)
    assignments: Sequence[Assignment] = ()
    baseline: tuple[int, int] | None = None
    slo: tuple[SloSection, ...] = ()
    links: Links = field(default_factory=Links)
    catalogue: Catalogue | None = None


class Judged(Diagnosis, dict=True):
    """A Diagnosis made here: the same document, and beside it the series that it was judged on, for plots."""

    @property
    def view(self) -> View | None:
        """The series; not part of the document. None after a copy."""
        return self.__dict__.get("view")


@no_cycle_search()
def diagnose(
    source: Source,
    since: Moment | None = None,
    until: Moment = "latest",
    from_: Moment | None = None,
    options: Options | None = None,
) -> Diagnosis:
    """Judge a window of a source.

    since: how long before `until` (a duration such as "1h"), from_: or when (RFC 3339, Unix seconds); until: the same,
    "now" or "latest" (the newest sample). Raises SourceError where the source cannot be read, InferdocError where a
    time cannot be understood. Answers a Diagnosis whose verdict is "unknown" where there is not enough to judge.
    """
    options = options or Options()
    catalogue = options.catalogue or load_catalogue()
    began = time.perf_counter()
    wanted = needed_signals(catalogue)
    frame, scrapes = read_window(source, wanted, catalogue, since, from_, until, options.match)
    grid = frame.grid
    lead = None
    if options.baseline is not None:
        count = max(1, (options.baseline[1] - options.baseline[0]) // grid.step_ms + 1)
        lead = replace(grid, start_ms=options.baseline[0], count=count)
        aliases = Aliases(catalogue.exporters.values())
        frame.prepend(read_signals(source, wanted, lead, catalogue.signals, aliases, options.match))
    present = source.names(grid.start_ms, grid.end_ms)
    infos = _read_infos(source, grid, catalogue, present, options.match)
    read_done = time.perf_counter()
    old = catalogue.flags.older_than(present)
    return _judge_frame(source, frame, scrapes, infos, old, catalogue, options, wanted, lead, began, read_done)


def read_window(
    source: Source,
    wanted: Sequence[str],
    catalogue: Catalogue,
    since: Moment | None,
    from_: Moment | None,
    until: Moment,
    match: tuple[Matcher, ...] = (),
    plateaus: Sequence[tuple[str, float]] = (),
) -> tuple[SignalFrame, list[Scrapes]]:
    """The signals of a window, and every scrape in it. A window longer than the data is clipped to the data. plateaus:
    of a benchmark, by pod (`add_telemetry`)."""
    latest = source.latest_ms()
    aliases = Aliases(catalogue.exporters.values())
    markers = [alias for m in catalogue.markers if m.info is not None for alias in aliases.of(m.info)]
    source.expect(series_names(wanted, catalogue.signals, aliases).union(markers))
    from_ms, until_ms = resolve_window(since, from_, until, latest)
    scrapes = source.scrapes(from_ms, until_ms) if latest is not None else []
    interval = scrape_interval_ms(_recent(scrapes))
    newest = max((int(s.times_ms[-1]) for s in scrapes if len(s.times_ms)), default=None)
    oldest = min((int(s.times_ms[0]) for s in scrapes if len(s.times_ms)), default=from_ms)
    grid = make_grid(max(from_ms, oldest), until_ms, interval, newest if until == "latest" else None)
    if latest is None:
        return SignalFrame(grid), scrapes
    frame = read_signals(source, wanted, grid, catalogue.signals, aliases, match)
    telemetry.add_telemetry(frame, catalogue.signals, scrapes, plateaus)
    return frame, scrapes


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
            names.update(dict.fromkeys(signals_of(condition)))
        names.update(dict.fromkeys(recipe.optional))
    return list(names)


def _recent(scrapes: Iterable[Scrapes]) -> list[Scrapes]:
    newest = max((int(s.times_ms[-1]) for s in scrapes if len(s.times_ms)), default=0)
    kept = []
    for target in scrapes:
        late = target.times_ms >= newest - LOOK_MS
        kept.append(Scrapes(target.labels, target.times_ms[late], target.up[late]))
    return kept


def _judge_frame(
    source: Source,
    frame: SignalFrame,
    scrapes: Sequence[Scrapes],
    infos: Mapping[str, Sequence[InfoSeries]],
    older_than: str | None,
    catalogue: Catalogue,
    options: Options,
    wanted: Sequence[str],
    lead: Grid | None,
    began: float,
    read_done: float,
) -> Diagnosis:
    grid = frame.grid
    fleet = resolve(frame, catalogue.tiers, options.assignments, options.wanted)
    add_cohorts(frame, catalogue.signals, fleet)
    view = make_view(frame, fleet, lead, catalogue.signals)
    clock = Clock(view.step_seconds, grid.interval_ms / 1000, view.window_steps, view.lead_steps)
    context = Context(view, catalogue.signals, catalogue.tiers, clock, slo=options.slo)
    judgement = judge(context, catalogue.recipes)
    aliases = Aliases(catalogue.exporters.values())
    rhythm = take_out_rhythm(source, context, judgement.roots, catalogue.signals, aliases, options.match)
    _rank_unexplained(source, context, judgement, aliases, options)
    events = find_events(context, scrapes, catalogue.markers, infos) + (rhythm.events if rhythm else [])
    traits = traits_of(view, scrapes, catalogue.markers, infos)
    maker = FindingMaker(
        context, judgement, catalogue.recipes, events, options.links, traits, catalogue.flags, older_than
    )
    findings = [maker.make(root) for root in judgement.roots]
    judged = can_judge(context) or bool(findings)
    onset = judgement.roots[0].onset if judgement.roots else None
    units = [m.unit for m in judgement.roots[0].matches] if judgement.roots else view.units
    verdict = _verdict(findings, judged)
    not_judged = maker.not_judged() if view.units else _blind(catalogue)
    answer = Judged(
        schema="inferdoc.diagnosis/v1",
        inferdoc_version=__version__,
        window=Window(
            stamp(grid.start_ms / 1000),
            stamp(grid.end_ms / 1000),
            view.step_seconds,
            _baseline(judgement, grid, lead) if rhythm is None else rhythm.baseline(grid),
        ),
        source=SourceInfo(source.kind, source.location, list(source.warnings)),
        verdict=verdict,
        summary=summarise(verdict, findings, len(fleet.members)),
        phases=phases.split_phases(view, units, onset),
        findings=findings,
        not_judged=not_judged,
        changes=[Change(stamp(e.at), e.kind, e.entity, e.detail) for e in events],
        coverage=_coverage(frame, scrapes, wanted, len(fleet.members), grid),
        timing=Timing(
            round(read_done - began, 4),
            round(time.perf_counter() - read_done, 4),
            source.cost.queries,
            source.cost.samples,
        ),
    )
    answer.__dict__["view"] = view
    return answer


def _rank_unexplained(
    source: Source, context: Context, judgement: Judgement, aliases: Aliases, options: Options
) -> None:
    """Harm without a known cause gets the most unusual signals as its support."""
    odd = [root for root in judgement.roots if root.recipe.kind == "unexplained"]
    if odd:
        from inferdoc.diagnose.anomaly import unusual
        from inferdoc.diagnose.witnesses import earlier_days, read_rest

        read_rest(source, context, aliases, options.match)
        earlier = earlier_days(source, context, aliases, options.match, options.assignments)
        for root in odd:
            root.best.evidence += [Evidence("support", outcome) for outcome in unusual(context, root, earlier)]


def _baseline(judgement: Judgement, grid: Grid, lead: Grid | None) -> Baseline:
    if lead is not None:
        return Baseline(stamp(lead.start_ms / 1000), stamp(lead.end_ms / 1000), "chosen")
    if not judgement.roots or judgement.roots[0].best.from_start:
        return Baseline(None, None, "none")
    until = grid.start_ms + grid.step_ms * judgement.roots[0].onset
    return Baseline(stamp(grid.start_ms / 1000), stamp(until / 1000), "calm-before")


def _verdict(findings: Sequence[Finding], judged: bool) -> VerdictWord:
    if any(f.severity == "critical" for f in findings):
        return "critical"
    if findings:
        return "degraded"
    return "healthy" if judged else "unknown"


def summarise(verdict: VerdictWord, findings: Sequence[Finding], pods: int) -> str:
    """One sentence for a ticket."""
    if verdict == "unknown":
        return "Not enough data to judge: no engine shows both traffic and a latency or progress signal in the window."
    if not findings:
        return f"No cause found on {pods} pod{'s' if pods != 1 else ''}; nothing is judged harmful in the window."
    first = findings[0]
    pods_named = ", ".join(first.scope.pods[:3]) + (
        f" and {len(first.scope.pods) - 3} more" if len(first.scope.pods) > 3 else ""
    )
    pods_named += "".join(f", all with {name} {value}" for name, value in list(first.scope.shared.items())[:1])
    harm = next((e.statement for e in first.evidence if e.role == "harm"), "")
    state = "since" if first.ongoing else "began"
    ended = "" if first.ongoing else f", ended {first.ended}"
    more = f" ({len(findings) - 1} more finding{'s' if len(findings) > 2 else ''})" if len(findings) > 1 else ""
    near = "no harm yet, but " if first.imminent else ""
    return f"{first.title} on {pods_named}, {state} {first.onset}{ended} ({first.certainty}): {near}{harm}.{more}"


def _coverage(frame: SignalFrame, scrapes: Sequence[Scrapes], wanted: Sequence[str], pods: int, grid: Grid) -> Coverage:
    present = [name for name in wanted if name in frame]
    missing = [name for name in wanted if name not in frame]
    return Coverage(pods, len(scrapes), present, missing, gaps(scrapes, grid.interval_ms))


def _blind(catalogue: Catalogue) -> list[NotJudged]:
    """Without any engine in the source nothing is judged: every cause with the signals it would need."""
    found = []
    for recipe in catalogue.recipes.values():
        missing = list(dict.fromkeys(name for c in recipe.symptoms for name in signals_of(c)))
        ways = dict.fromkeys(catalogue.signals[n].enable for n in missing if catalogue.signals[n].enable)
        enable = "; ".join(str(w) for w in ways) or "scrape the /metrics page of the vLLM API port"
        found.append(NotJudged(recipe.id, missing, enable))
    return found


__all__ = ["Event", "Judged", "Options", "diagnose", "needed_signals", "summarise"]
