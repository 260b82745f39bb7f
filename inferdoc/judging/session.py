"""One diagnosis under way: what was chosen, what is read of the source, and who is who in it."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

import numpy as np

from inferdoc.catalogue.aliases import Aliases, engines_there, of_engines
from inferdoc.catalogue.load import Catalogue
from inferdoc.catalogue.signal import WIDE, Exporter, Signal
from inferdoc.fleet.down_targets import add_silent
from inferdoc.fleet.lineage import Key, Lineage, divide, trace
from inferdoc.fleet.members import Assignment, FleetFilter, resolve, resolve_without_engines
from inferdoc.fleet.speeds import part_by_speed
from inferdoc.judging.changes import CODES
from inferdoc.judging.clock import Clock
from inferdoc.judging.cohort_signals import add_cohorts
from inferdoc.judging.context import Context
from inferdoc.judging.findings import Links
from inferdoc.judging.focus import Focus, check_matchers, focus_on, lost_peers
from inferdoc.judging.judge import LATENCY, PROGRESS
from inferdoc.judging.model import BaselineKind
from inferdoc.judging.reading import read_window
from inferdoc.judging.references.lifetime import Lifetime, Past
from inferdoc.judging.references.stored import StoredBaseline, check, lead_of
from inferdoc.judging.scan.model import Scan
from inferdoc.judging.settings import compare_settings
from inferdoc.judging.view import make_view
from inferdoc.judging.visibility import Visibility, scraped_once
from inferdoc.source.assemble import read_signals
from inferdoc.source.base import InfoSeries, Scrapes, Source
from inferdoc.source.frame import Entity, SignalFrame, SignalMatrix
from inferdoc.source.reads import Grid, Matcher
from inferdoc.times import Moment, resolve_window


@dataclass
class Options:
    """What the user chose. match: label matchers for every selector; needed: what the report is about; baseline: (from,
    until) in milliseconds, a stored one, or the life of the processes; stored: the folder of the baselines that a
    window without history is compared with (None: none is); lenient: a name of `needed` that is nobody's is passed over
    with a warning; deep: whether all pods are read in full, however many."""

    match: tuple[Matcher, ...] = ()
    selected: FleetFilter = field(default_factory=FleetFilter)
    assignments: Sequence[Assignment] = ()
    baseline: tuple[int, int] | StoredBaseline | Lifetime | None = None
    stored: Path | None = None
    links: Links = field(default_factory=Links)
    catalogue: Catalogue | None = None
    lenient: bool = False
    deep: bool = False


@dataclass
class Session:
    """source, catalogue, options: what was required; frame: the signals of history and window; scrapes: when targets
    were scraped; infos: the info metrics that show changes, by current name; older_than: the vLLM release that the
    engines are older than, where their pages show it; lineage: which pod took over from which; context: where
    conditions are evaluated; focus: the pods that the report is about; names: of the series that the source has; scan:
    of the whole fleet, where a part of it was read."""

    source: Source
    catalogue: Catalogue
    options: Options
    frame: SignalFrame
    scrapes: Sequence[Scrapes]
    infos: dict[str, list[InfoSeries]]
    older_than: str | None
    lineage: Lineage
    context: Context
    focus: Focus = field(default_factory=Focus)
    names: Collection[str] = ()
    scan: Scan | None = None

    @cached_property
    def aliases(self) -> Aliases:
        """Older names of metrics."""
        return self.catalogue.aliases

    @cached_property
    def engines(self) -> list[Exporter]:
        """The engines that are there."""
        return engines_there(self.catalogue.exporters.values(), self.names)

    @property
    def visibility(self) -> Visibility:
        """What can be seen, and why the rest cannot."""
        return Visibility(self.catalogue, self.names, self.frame.signals, scraped_once(self.scrapes))

    def read(self, signals: Sequence[str], grid: Grid) -> SignalFrame:
        """More signals, or other times, of the same part of the fleet."""
        return read_signals(self.source, signals, grid, self.catalogue.signals, self.aliases, self.options.match)


SETTLED_WINDOWS = 2
"""A series is gone when it is missing for so many rate windows of successful scrapes, up to the end."""


READY_ENDPOINTS = "router_ready_endpoints"
"""A router that no longer shows them for a model, and does for others, forgot the model. One that shows none may have
been started without them."""


def end_vanished(frame: SignalFrame, signals: Mapping[str, Signal], scrapes: Sequence[Scrapes]) -> None:
    """Set rates, and ready endpoints, of series that vanished to 0 from where they end, in place."""
    newest = _newest_success(scrapes)
    grid = frame.grid
    settled = max(1, SETTLED_WINDOWS * grid.rate_ms // grid.step_ms)
    for name, signal in signals.items():
        counts = name == READY_ENDPOINTS or any(r.rate or r.increase for r in signal.readings)
        if name not in frame or signal.level not in WIDE or not counts:
            continue
        matrix = frame[name]
        for row, entity in enumerate(matrix.entities):
            if name == READY_ENDPOINTS and not np.isfinite(matrix.values[_of_member(matrix, entity), -1]).any():
                continue
            values = matrix.values[row, -grid.count :]  # without a baseline put in front
            steps = np.flatnonzero(np.isfinite(values))
            answered = (newest.get(entity.member, 0) - grid.start_ms) // grid.step_ms
            if len(steps) and min(answered, grid.count - 1) - int(steps[-1]) >= settled:
                values[int(steps[-1]) + 1 : answered + 1] = 0.0


def _of_member(matrix: SignalMatrix, entity: Entity) -> list[int]:
    """The rows of the same pod."""
    return [row for row, other in enumerate(matrix.entities) if other.member == entity.member]


def _newest_success(scrapes: Sequence[Scrapes]) -> dict[Key, int]:
    """When each target last answered, milliseconds."""
    newest: dict[Key, int] = {}
    for target in scrapes:
        good = target.times_ms[target.up >= 0.5]
        if len(good):
            key = Entity.of_labels(target.labels).member
            newest[key] = max(newest.get(key, 0), int(good[-1]))
    return newest


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
    "probe_success",
    "probe_status",
    "kv_capacity_tokens",
    "computed_tokens_per_request",
    "prefill_seconds_per_token",
    "nixl_bytes_rate",
    "nixl_xfer_rate",
    "spec_acceptance_rate",
    "spec_acceptance_length",
)
"""Read besides what the recipes name: traffic, roles, changes, phases, and the inputs of the numbers in advice."""
TIER_SIGNALS = ("gpu_util", "sm_clock", *CODES)


Lead = tuple[BaselineKind, tuple[int, int]] | StoredBaseline | Lifetime
"""A baseline from elsewhere: a time range of the source (its reference; from, until in milliseconds), a stored one, or
what the counters hold since their processes started."""


@dataclass
class Inquiry:
    """One diagnosis: what is evaluated on which source, and the seconds that reading has taken so far."""

    source: Source
    catalogue: Catalogue
    options: Options
    window: tuple[Moment | None, Moment | None, Moment]
    seconds: float = 0.0

    @cached_property
    def span(self) -> tuple[int, int]:
        """From and until, milliseconds since 1970. Raises InferdocError."""
        return resolve_window(*self.window, self.source.latest_ms())

    @property
    def chosen(self) -> Lead | None:
        """The baseline that the user chose."""
        baseline = self.options.baseline
        return ("chosen", baseline) if isinstance(baseline, tuple) else baseline

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Inside, time counts as reading."""
        started = time.perf_counter()
        try:
            yield
        finally:
            self.seconds += time.perf_counter() - started

    def session(self, needed: Sequence[str], lead: Lead | None, scan: Scan | None = None) -> Session:
        """Read these signals. scan: of the whole fleet, where a part of it is read. Raises InferdocError."""
        session, seconds = read(self.source, self.catalogue, self.options, self.window, lead, needed)
        self.seconds += seconds
        session.scan = scan
        return session


def read_session(source: Source, catalogue: Catalogue, options: Options, since: Moment, until: Moment) -> Session:
    """A window with its history, ready for observations to be looked for. Raises SourceError."""
    return read(source, catalogue, options, (since, None, until), None, needed_signals(catalogue))[0]


def read(
    source: Source,
    catalogue: Catalogue,
    options: Options,
    window: tuple[Moment | None, Moment | None, Moment],
    lead: Lead | None,
    needed: Sequence[str],
) -> tuple[Session, float]:
    """Read these signals of a window with its history, or with a baseline from elsewhere in the place of the history.
    Returns the seconds that it took as well. Raises InferdocError where a stored baseline is of another fleet."""
    started = time.perf_counter()
    frame, scrapes = read_window(source, needed, catalogue, *window, options.match, history=lead is None)
    present = source.names(frame.grid.oldest_ms, frame.grid.end_ms)
    baseline: Grid | None = None
    kind: BaselineKind = "none"
    past: Past | None = None
    if isinstance(lead, StoredBaseline):
        everyone = resolve(frame, catalogue.tiers, options.assignments).members
        check(lead, filter(options.selected.keeps, everyone), catalogue.flags.older_than(present))
        earlier = lead_of(lead, frame, everyone)
        baseline, kind = earlier.grid, "stored"
        frame.prepend(earlier)
    elif isinstance(lead, Lifetime):
        past = lead.lead(source, frame, needed, catalogue, options.match)
        baseline, kind = past.frame.grid, "lifetime"
        frame.prepend(past.frame)
    elif lead is not None:
        kind, (begin, end) = lead
        count = max(1, (end - begin) // frame.grid.step_ms + 1)
        baseline = replace(frame.grid, start_ms=begin, count=count)
        aliases = catalogue.aliases
        frame.prepend(read_signals(source, needed, baseline, catalogue.signals, aliases, options.match))
    infos = _infos(source, frame.grid, catalogue, present, options.match)
    owners = _owners(source, frame.grid, present)
    seconds = time.perf_counter() - started
    session = _session(source, catalogue, options, frame, scrapes, infos, present, owners, baseline, kind)
    session.context.view.lead_name = lead.name if isinstance(lead, StoredBaseline) else None
    session.context.view.lead_means = frozenset() if past is None else past.means
    return session, seconds


def _infos(
    source: Source, grid: Grid, catalogue: Catalogue, present: Collection[str], match: tuple[Matcher, ...]
) -> dict[str, list[InfoSeries]]:
    """The info metrics that show changes, by current name, as far as the source has them (`present`)."""
    names = [str(m.info) for m in catalogue.markers if m.info is not None]
    aliases = catalogue.aliases
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
    shown = (family.shown for family in catalogue.families.values() if family.shown is not None)
    names.update(dict.fromkeys(signal for condition in shown for signal in condition.signals))
    names.update(dict.fromkeys(slo.signal for slo in catalogue.slos if slo.agreed))
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
    add_silent(everyone, frame, scrapes)
    if not everyone.members:
        check_matchers(options.match, scrapes, source.label_names(frame.grid.oldest_ms, frame.grid.end_ms))
        everyone = resolve_without_engines(frame, catalogue.tiers)
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
    focus = focus_on(options.selected, fleet, lineage, scrapes, lenient=options.lenient)
    alone = lost_peers(options.match, fleet, scrapes) if options.match else None
    source.warnings += [one for one in (*focus.warnings, alone) if one is not None and one not in source.warnings]
    return Session(source, catalogue, options, frame, scrapes, infos, older_than, lineage, context, focus, present)
