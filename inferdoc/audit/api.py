"""Run an audit of a source and a window."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

from inferdoc import __version__
from inferdoc.audit.declared import add_declared
from inferdoc.audit.describe import cannot_tell, nowhere, pool_of, state_of, summarise
from inferdoc.audit.evaluate import about, judge
from inferdoc.audit.manifest import Declared
from inferdoc.audit.model import SCHEMA_ID, Audit, AuditTiming, AuditVerdict, AuditWindow, rank
from inferdoc.audit.observe import REGISTRY
from inferdoc.audit.waste import WASTES
from inferdoc.audit.window_data import ENDS, GPU_SIGNAL, SETTINGS, WORK, Watched, settings_of
from inferdoc.catalogue.document import nearest
from inferdoc.catalogue.load import Catalogue, load_catalogue
from inferdoc.config import Config
from inferdoc.errors import CatalogueError
from inferdoc.fleet.lineage import Lineage
from inferdoc.fleet.members import ENGINE_SIGNS, FleetFilter, assignments_of, resolve
from inferdoc.judging.cohort_signals import add_cohorts
from inferdoc.judging.completeness import silent_pods, without_metrics
from inferdoc.judging.focus import focus_on
from inferdoc.judging.model import SourceInfo, stamp
from inferdoc.judging.reading import read_window
from inferdoc.judging.view import make_view
from inferdoc.source.base import InfoSeries, Scrapes, Source, incomplete
from inferdoc.source.reads import Grid, Matcher
from inferdoc.times import Moment

NUMBER = re.compile(r"\{(\w+)\}")


def problems(catalogue: Catalogue) -> Iterator[str]:
    """One line per error in the persistent issues of a catalogue."""
    standing = catalogue.standing
    limits = catalogue.tiers.thresholds
    causes = {*catalogue.recipes, *catalogue.disabled}  # a disabled cause has its runbook too
    yield from standing.problems(catalogue.signals, limits, causes, catalogue.flags.flags)
    yield from unknown_names(catalogue)


def unknown_names(catalogue: Catalogue) -> Iterator[str]:
    """Signals, limits, quantities, formulas and numbers that do not exist: what would break an audit."""
    standing = catalogue.standing
    for name, one in standing.observations.items():
        if one.quantity is not None and one.quantity not in REGISTRY:
            yield f'observations.{name}: no such quantity "{one.quantity}"{nearest(one.quantity, REGISTRY)}'
    for state in standing.states.values():
        if state.waste is not None and state.waste not in WASTES:
            yield f'{state.id}: waste: no such formula "{state.waste}"{nearest(state.waste, WASTES)}'
        texts = " ".join(f"{step.do} {step.why} {step.cost} {step.undo}" for step in state.next_steps)
        for number in NUMBER.findall(texts):
            if number not in REGISTRY:
                yield f'{state.id}: next_steps: no such number "{number}"{nearest(number, REGISTRY)}'


def refuse_unknown(catalogue: Catalogue) -> None:
    """Raise CatalogueError for the first problem."""
    for problem in problems(catalogue):
        raise CatalogueError(f"diagnostics/standing: {problem}")


ALWAYS_READ = (
    *WORK,
    *ENDS,
    *ENGINE_SIGNS,
    GPU_SIGNAL,
    "sm_clock",
    "output_len_mean",
    "target_up",
    "prompt_tokens_rate",
    "prefill_seconds_per_token",
    "preemption_rate",
    "kv_capacity_tokens",
    "spec_draft_length",
    "router_prefix_hit_ratio",
)
"""Traffic, roles and tiers, and the inputs of the formulas of waste."""


@dataclass
class AuditOptions:
    """What the user chose. match: label matchers for every selector; wanted: the pods to report on; declared: what
    manifests say of the workloads."""

    match: tuple[Matcher, ...] = ()
    selected: FleetFilter = field(default_factory=FleetFilter)
    config: Config = field(default_factory=Config)
    catalogue: Catalogue | None = None
    declared: tuple[Declared, ...] = ()


def audit(
    source: Source,
    since: Moment | None = None,
    until: Moment = "latest",
    from_: Moment | None = None,
    options: AuditOptions | None = None,
) -> Audit:
    """The persistent issues of a fleet in a window of a source.

    since: how long before `until` (a duration such as "24h"), from_: or when; until: a time, "now" or "latest". Raises
    SourceError where the source cannot be read, CatalogueError where a state names what does not exist.
    """
    options = options or AuditOptions()
    catalogue = options.catalogue or load_catalogue()
    started = time.perf_counter()
    watched, scrapes = watch(source, (since, from_, until), options)
    view, frame, fleet = watched.view, watched.view.frame, watched.view.fleet
    read_done = time.perf_counter()
    focus = focus_on(options.selected, fleet, Lineage(), scrapes)
    verdicts = about(focus, judge(watched, catalogue.standing))
    states = [state_of(watched, options.config, catalogue.standing, entry) for entry in verdicts.standing]
    states.sort(key=rank)
    open_states = [state for state in states if state.accepted is None]
    doubts = cannot_tell(watched, verdicts.doubts)
    gaps = incomplete(source.warnings)
    if silent := without_metrics(view, scrapes):
        gaps.append(silent_pods(silent))
    verdict: AuditVerdict = "standing" if open_states else "nothing" if verdicts.judged and not gaps else "unknown"
    return Audit(
        schema_=SCHEMA_ID,
        inferdoc_version=__version__,
        window=AuditWindow(
            stamp(frame.grid.start_ms / 1000), stamp(frame.grid.end_ms / 1000), view.step_seconds, len(watched.parts())
        ),
        source=SourceInfo(source.kind, source.location, list(map(str, source.warnings)), gaps),
        verdict=verdict,
        summary=summarise(verdict, open_states, len(focus.keys) or len(fleet.members), watched, gaps),
        states=open_states,
        accepted=[state for state in states if state.accepted is not None],
        cannot_tell=doubts,
        not_applicable=nowhere(watched, verdicts),
        pools=[pool_of(watched, pool) for pool in watched.pools if focus.has_pool(pool)],
        timing=AuditTiming(
            round(read_done - started, 4),
            round(time.perf_counter() - read_done, 4),
            source.cost.queries,
            source.cost.samples,
        ),
    )


def watch(
    source: Source, window: tuple[Moment | None, Moment | None, Moment], options: AuditOptions
) -> tuple[Watched, list[Scrapes]]:
    """The series of a window (since, from, until) with all that states and formulas of waste read, and every scrape in
    it."""
    catalogue = options.catalogue or load_catalogue()
    refuse_unknown(catalogue)
    since, from_, until = window
    plateaus = [(p.pod, p.tokens_per_second) for p in options.config.pods if p.tokens_per_second]
    names = needed_signals(catalogue)
    frame, scrapes = read_window(source, names, catalogue, since, from_, until, options.match, plateaus)
    infos = _settings(source, catalogue, frame.grid, options.match) if frame.signals else []
    fleet = resolve(frame, catalogue.tiers, assignments_of(options.config.pods))
    add_cohorts(frame, catalogue.signals, fleet)
    view = make_view(frame, fleet, None, catalogue.signals)
    settings = settings_of(view, infos)
    watched = Watched(view, catalogue.signals, catalogue.tiers, settings, options.config.pods, catalogue.slos)
    named = [one.setting for one in catalogue.standing.observations.values() if one.setting is not None]
    source.warnings += add_declared(watched, options.declared, named)
    return watched, scrapes


def needed_signals(catalogue: Catalogue) -> list[str]:
    """Every signal that a state, a quantity or a formula reads."""
    names: dict[str, None] = dict.fromkeys((*ALWAYS_READ, *(s.signal for s in catalogue.slos if s.agreed)))
    for one in catalogue.standing.observations.values():
        if one.signal is not None:
            names[one.signal] = None
        if one.quantity is not None:
            quantity = REGISTRY[one.quantity]
            names |= dict.fromkeys((*quantity.inputs, *quantity.optional))
    return [name for name in names if name in catalogue.signals]


def _settings(source: Source, catalogue: Catalogue, grid: Grid, match: tuple[Matcher, ...]) -> list[InfoSeries]:
    present = source.names(grid.start_ms, grid.end_ms)
    aliases = catalogue.aliases
    return [one for name in aliases.of(SETTINGS) if name in present for one in source.info(name, grid, match)]
