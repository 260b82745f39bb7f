"""A source whose series are all about the same pods under the same names.

What a scrape configuration stores is read under all the labels that may show what a series is about, and handed on
under the usual names (`inferdoc.source.identity`): every page of a pod joins, and what is stored twice counts once.
This is worked out per label set, not per sample. Before `identify` was called nothing is looked at, and series keep the
first name that their labels give them.
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from operator import itemgetter
from typing import Any

import numpy as np

from inferdoc.catalogue.load import load_catalogue
from inferdoc.catalogue.names import IdentityLabels
from inferdoc.catalogue.recognise_names import NameReader, NotUnderstood
from inferdoc.source.base import InfoSeries, Scrapes, Source, SourceKind
from inferdoc.source.fleet_places import FleetPlaces, PartOfFleet, host_of
from inferdoc.source.grid import DEFAULT_INTERVAL_MS, LOOK_MS, scrape_interval_ms
from inferdoc.source.histograms import QuantileRequest, Quantiles
from inferdoc.source.identity import CLUSTER, FIELDS, NAMESPACE, Key, Naming, Who, key_of
from inferdoc.source.joins import GpuHosts, Joins, PodPlaces
from inferdoc.source.kept_series import KeepsSeries, matchers_of, word_of
from inferdoc.source.page_histograms import Called
from inferdoc.source.processes import OF_ENGINE, Copies, Crowd, Processes, match_processes
from inferdoc.source.readable import Readable
from inferdoc.source.reads import Grid, Matcher, Read, ReadResult
from inferdoc.source.renamed import Renamed, in_declared_unit, scaled
from inferdoc.source.rule_records import RuleRecords
from inferdoc.source.scrape_times import one_target

LONGEST_MS = 3_600_000
"""Of a longer time range the end is looked at: what was there before follows the same rules."""
FEW_LOOKS = 12
LOOKS = 120
"""At so many times of a time range label sets are looked at, and so many scrapes of totals where they collide."""
FRESH = 1.2
"""Intervals for which a total counts: an older one would seem to stand still."""
ENTITY = frozenset({"pod", "instance"})
"""A read by these is about targets; any other is a sum that has no owner."""
GPU_LABEL = "UUID"
"""A read by this is about GPUs."""


@dataclass(frozen=True)
class Findings:
    """What was found out about the labels. engines: how many there are; families: in how many clusters, namespaces and
    models; without_pod: whether no label names their pods;
    without_model: label sets without model_name; gpus, gpus_joined: label sets of GPUs, and those of an engine; copies,
    crowds, mixed: of `Processes`; hosts: how GPUs were joined that name no pod."""

    engines: int = 0
    families: int = 0
    without_pod: bool = False
    without_model: int = 0
    gpus: int = 0
    gpus_joined: int = 0
    copies: tuple[Copies, ...] = ()
    crowds: tuple[Crowd, ...] = ()
    mixed: tuple[str, ...] = ()
    hosts: GpuHosts = field(default_factory=GpuHosts)


class Identified(Readable):
    """Hands on what another source holds, under the usual names; implements `Source`. chosen: the user's own label by
    field (`[labels]`)."""

    def __init__(self, source: Source, labels: IdentityLabels, chosen: Mapping[str, str] | None = None) -> None:
        self.raw = source
        self.kind: SourceKind = source.kind
        self.location = source.location
        self.warnings, self.cost = source.warnings, source.cost
        self._labels = labels
        self._chosen = dict(chosen or {})
        self._naming = Naming(labels, self._chosen)
        self._joins: Joins | None = None
        self._span: tuple[int, int] | None = None
        self._known: dict[bool, dict[tuple[str, ...], Who]] = {False: {}, True: {}}
        self._plans: dict[tuple[str, ...], _Plan | None] = {}
        self._present: set[str] | None = None
        self._about: dict[tuple[str, str], dict[str, str]] = {}
        self.findings = Findings()
        self._fleet = FleetPlaces()
        self._is_apart = False
        self._since_ms: int | None = None
        self._expected: set[str] = set()
        self.stored: frozenset[str] = frozenset()
        """Labels that series of engines have as they are stored, by what was last looked at."""

    def __repr__(self) -> str:
        return repr(self.raw)

    @property
    def replica(self) -> tuple[str, ...]:
        """Labels of the server that stored a series."""
        return self._naming.replica

    def close(self) -> None:
        """Close what is behind it."""
        self.raw.close()  # type: ignore[attr-defined]

    @cached_property
    def renamed(self) -> Renamed:
        """The names that the source has for declared series."""
        return Renamed(NameReader(load_catalogue(self.catalogue)))

    def expect(self, names: Collection[str], since_ms: int | None = None) -> None:
        """Series names that will be requested, and from when on."""
        self._expected, self._since_ms = {*names, *self._labels.series}, since_ms
        self.raw.expect(self.renamed.stored(self._expected), since_ms)

    @cached_property
    def _infos(self) -> set[str]:
        """Info metrics that signals and changes are read from, under all their names."""
        catalogue = load_catalogue(self.catalogue)
        readings = (reading for signal in catalogue.signals.values() for reading in signal.readings)
        names = {*(reading.info for reading in readings), *(marker.info for marker in catalogue.markers)} - {None}
        return {alias for name in names for alias in catalogue.aliases.of(str(name))}

    def read_along(self, names: Collection[str]) -> None:
        """Series that a later call will ask for as well."""
        if isinstance(self.raw, Readable):
            self.raw.read_along(self.renamed.stored(names))

    def scrape_errors(self) -> dict[str, str]:
        """Why the newest scrape of a target failed, by instance."""
        return self.raw.scrape_errors()

    def target_count(self) -> int | None:
        """How many targets there are, None where that is not known at once."""
        return self.raw.target_count() if isinstance(self.raw, Readable) else None

    def leave_out_pods(self, keys: Collection[Key], hosts: Collection[str], start_ms: int, end_ms: int) -> bool:
        """From now on read nothing of the targets that these pods, and hosts, have in the time range, or of all again
        where there are none; whether the source can. Of what is read part by part (`apart`) these are the targets that
        `identify` saw: to ask for all of them again would be to read all parts. Raises SourceError."""
        if not isinstance(self.raw, Readable):
            return False
        fleet = self._fleet
        if keys and not self._is_apart:
            fleet = FleetPlaces.of({}, {}, [one.labels for one in self.raw.scrapes(start_ms, end_ms)], self._key)
        left, kept = list[Mapping[str, str]](), list[Mapping[str, str]]()
        for each, key, host in fleet.targets if keys else ():
            (left if key in keys or host in hosts else kept).append(each)
        return self.raw.leave_out(left, kept, self._engine_names)

    def read_pods(self, keys: Collection[Key], names: Collection[str], span: tuple[int, int]) -> bool:
        """From now on read of a server what is about these pods, and what is about none, such as routers; whether it
        has a label that names them. names: of series that will be read; span: where they are looked for, milliseconds.
        Raises SourceError."""
        if not isinstance(self.raw, KeepsSeries):
            return False
        clusters, pods = {cluster for cluster, _, _ in keys}, {pod for _, _, pod in keys}
        there = self.raw.names(*span).intersection(self.renamed.stored(names))
        matchers = matchers_of(self.raw, self._labels, there, pods, clusters, span)
        self.raw.keep_only(matchers)
        return any(word_of(name) in matchers for name in self._engine_names)

    def rule_records(self) -> RuleRecords | None:
        """What our recording rules left; None of a source where none do."""
        return self.raw.rule_records() if isinstance(self.raw, Readable) else None

    def read_all_pods(self) -> None:
        """Read all of a server again."""
        if isinstance(self.raw, KeepsSeries):
            self.raw.keep_only({})

    @property
    def _engine_names(self) -> set[str]:
        return self.renamed.stored(name for group in self._labels.engines for name in group)

    def _key(self, target: Mapping[str, str]) -> Key:
        return key_of(self.who(target))

    def parts(self, most: int) -> list[PartOfFleet]:
        """Whole families, so many together that they have about `most` targets, by what `identify` saw."""
        return self._fleet.parts(most)

    def read_part(self, part: PartOfFleet) -> None:
        """From now on read the targets of a part."""
        self._is_apart = True
        assert isinstance(self.raw, Readable)
        self.raw.leave_out(*self._fleet.divided(part), self._engine_names)

    def taught(self, source: Source) -> Identified:
        """What this one has found out, around another source of the same series."""
        other = copy.copy(self)
        other.raw, other.warnings, other.cost = source, source.warnings, source.cost
        return other

    def __getstate__(self) -> dict[str, Any]:
        """What was found out, without the source: for another process, which has its own (`taught`)."""
        return self.__dict__ | {"raw": None, "_known": {False: {}, True: {}}, "_plans": {}}

    def latest_ms(self) -> int | None:
        """Time of the newest sample, or None when the source holds none."""
        return self.raw.latest_ms()

    def label_names(self, start_ms: int, end_ms: int) -> set[str] | None:
        """Names of the labels that are stored."""
        return self.raw.label_names(start_ms, end_ms)

    def names(self, start_ms: int, end_ms: int) -> set[str]:
        """Series names that have a sample in the time range, and the declared ones that some of them stand for."""
        names = self.raw.names(start_ms, end_ms)
        return names | self.renamed.learn(names)

    def not_understood(self, names: Collection[str]) -> list[NotUnderstood]:
        """What looks like a page of the fleet among some names, and is not read."""
        return self.renamed.reader.not_understood(names)

    # ---- learning -------------------------------------------------------------------------------------------------

    def identify(self, start_ms: int, end_ms: int) -> None:
        """Find out which labels show what, from the label sets of a time range. Raises SourceError."""
        if self.renamed.learn(self.raw.names(start_ms, end_ms)):
            self.raw.expect(self.renamed.stored(self._expected), self._since_ms)
        start_ms = max(start_ms, end_ms - LONGEST_MS)
        if self._span is not None and self._span[0] <= start_ms and end_ms <= self._span[1]:
            return
        self._span = (start_ms, end_ms)
        names = self.names(start_ms, end_ms)
        first, *rest = self._names_of_engines(names)
        of_gpus = next((own for group in self._labels.gpus if (own := [n for n in group if n in names])), [])
        if isinstance(self.raw, Readable):
            self.raw.keep(self.renamed.stored({*first, *itertools.chain(*rest), *of_gpus, *self._infos}))
        present = self.raw.label_names(start_ms, end_ms)
        look, rare = (_grid(start_ms, end_ms, looks) for looks in (LOOKS, FEW_LOOKS))
        about = self.raw.info(self._labels.target_info, rare) if self._labels.target_info in names else []
        self._about = {_target(one.labels): one.labels for one in about}
        shown = {name: self._stored_info(name, look) for name in (*first, *itertools.chain(*rest))}
        self.stored = frozenset(name for each in shown.values() for one in each for name in one.labels)
        counters = self._without_parts({name: shown[name] for name in first})
        engines = [*counters]
        for group in rest:
            targets_there = {_target(one.labels) for one in engines}
            others = self._without_parts({name: shown[name] for name in group})
            engines += [one for one in others if _target(one.labels) not in targets_there]
        gpus = [one for name in of_gpus for one in self._stored_info(name, look)]
        gpus = [InfoSeries(self._reported(one.labels), one.values) for one in gpus]
        targets = self.raw.info("up", look) if "up" in names else []
        naming = Naming(self._labels, self._chosen)

        def totals() -> list[list[InfoSeries]]:
            interval = scrape_interval_ms(self.raw.scrapes(max(start_ms, end_ms - LOOK_MS), end_ms))
            count = max(1, min(LOOKS, (end_ms - start_ms) // interval + 1))
            fine = Grid(end_ms - interval * (count - 1), interval, count, interval, 0, int(FRESH * interval))
            groups = [*self._labels.totals, (self._labels.started,)]
            read = [{n: self._stored_info(n, fine) for n in group if n in names} for group in groups]
            return [self._without_parts(group) for group in read]

        processes = match_processes(naming, engines, gpus, totals, counters, targets)
        joins = Joins(processes, PodPlaces(), [one.labels for one in engines])
        joins.look_at_gpus([one.labels for one in gpus])
        lacks_pod = any(not who[FIELDS.index("pod")] for who in processes.who.values())
        if self._labels.pod_info in names and (
            lacks_pod or joins.hosts.alone or joins.hosts.crowded or joins.hosts.unknown
        ):
            places = PodPlaces.of(self.raw.info(self._labels.pod_info, rare), naming)
            joins = Joins(processes, places, [one.labels for one in engines])
            joins.look_at_gpus([one.labels for one in gpus])
        self._adopt(processes, joins, present)
        families, hosts = dict[tuple[str, str, str], set[Key]](), dict[str, set[Key]]()
        for one in engines:
            who = joins.who(one.labels, gpu=False)
            families.setdefault(_family(who, one.labels), set()).add(key_of(who))
        for one in gpus:
            if joins.is_engine(who := joins.who(one.labels, gpu=True)):
                hosts.setdefault(host_of(one.labels.get("instance", "")), set()).add(key_of(who))
        self._fleet = FleetPlaces.of(families, hosts, [one.labels for one in targets], self._key)
        models = {name: own for name, own in shown.items() if "model_name" in self._labels_of(name)}
        self.findings = Findings(
            len(joins.keys),
            len(families),
            bool(engines) and not joins.have_pods,
            sum(1 for one in self._without_parts(models) if not one.labels.get("model_name")),
            len(gpus),
            sum(1 for one in gpus if joins.is_engine(joins.who(one.labels, gpu=True))),
            tuple(processes.copies),
            tuple(processes.crowds),
            tuple(processes.mixed),
            joins.hosts,
        )

    def _adopt(self, processes: Processes, joins: Joins, present: set[str] | None) -> None:
        self._naming, self._joins, self._present = processes.naming, joins, present
        self._known = {False: {}, True: {}}
        self._plans = {}

    # ---- reading --------------------------------------------------------------------------------------------------

    def _reported(self, labels: Mapping[str, str]) -> dict[str, str]:
        """The labels, with what OTLP knows of their target."""
        own = {name: value for name, value in labels.items() if value}
        return {**self._about[_target(own)], **own} if self._about and _target(own) in self._about else own

    def _names_of_engines(self, names: Collection[str]) -> list[list[str]]:
        """Those of some names by which engines are recognised, by group: of each exporter the best that are there."""
        found, seen = list[list[str]](), set[str]()
        for group in self._labels.engines:
            found.append([name for name in group if name in names and self._exporter_of(name) not in seen])
            seen.update(map(self._exporter_of, found[-1]))
        return found

    def _without_parts(self, series: Mapping[str, Iterable[InfoSeries]]) -> list[InfoSeries]:
        """What a page shows by rank, priority or model, as one series of its engine. series: by name."""
        parts: dict[tuple[tuple[str, str], ...], list[np.ndarray]] = {}
        for name, own in series.items():
            of_parts = self._of_parts.get(self._exporter_of(name), frozenset())
            for one in own:
                labels = {n: v for n, v in self._reported(one.labels).items() if n not in of_parts}
                parts.setdefault(tuple(sorted(labels.items())), []).append(one.values)
        return [InfoSeries(dict(labels), _filled(rows)) for labels, rows in parts.items()]

    @cached_property
    def _of_parts(self) -> dict[str, frozenset[str]]:
        """By exporter, the labels that pages of engines put on their series: of parts of one process."""
        found: dict[str, set[str]] = {}
        for name in itertools.chain(*self._labels.engines):
            found.setdefault(self._exporter_of(name), set()).update(self._labels_of(name))
        usual = OF_ENGINE | set(self._naming.read(gpu=True))
        return {exporter: frozenset(labels - usual) for exporter, labels in found.items()}

    def _exporter_of(self, name: str) -> str:
        exporter, _ = self.renamed.reader.declared.get(name, (None, None))
        return "" if exporter is None else exporter.exporter

    def _labels_of(self, name: str) -> tuple[str, ...]:
        _, metric = self.renamed.reader.declared.get(name, (None, None))
        return () if metric is None else tuple(metric.labels)

    def who(self, labels: Mapping[str, str], gpu: bool = False) -> Who:
        """Who a series with these labels is about."""
        labels = self._reported(labels)
        if self._joins is None:
            return self._naming.of(labels, self._naming.first(labels, gpu))
        return self._joins.who(labels, gpu)

    def scrapes(self, start_ms: int, end_ms: int) -> list[Scrapes]:
        """Every scrape of every target, of one scraped or stored twice those of one of them."""
        groups: dict[tuple[tuple[str, str], ...], list[Scrapes]] = {}
        for one in self.raw.scrapes(start_ms, end_ms):
            groups.setdefault(tuple(sorted(self._usual(one.labels).items())), []).append(one)
        return [one_target(dict(key), group, self._naming.replica) for key, group in sorted(groups.items())]

    def info(self, name: str, grid: Grid, match: tuple[Matcher, ...] = ()) -> list[InfoSeries]:
        """Every series of an info metric."""
        groups: dict[tuple[tuple[str, str], ...], list[InfoSeries]] = {}
        for one in self._stored_info(name, grid, match):
            labels = self._usual(one.labels)
            groups.setdefault(tuple(sorted(labels.items())), []).append(InfoSeries(labels, one.values))
        return [InfoSeries(dict(key), _filled([one.values for one in group])) for key, group in sorted(groups.items())]

    def _stored_info(self, name: str, grid: Grid, match: tuple[Matcher, ...] = ()) -> list[InfoSeries]:
        """Every series of an info metric under all its names, with the labels that are stored."""
        return [one for each in sorted(self.renamed.stored([name])) for one in self.raw.info(each, grid, match)]

    def evaluate(self, reads: Sequence[Read], grid: Grid, match: tuple[Matcher, ...] = ()) -> dict[Read, ReadResult]:
        """All reads on the grid."""
        if not self.renamed:
            return self._evaluate(reads, grid, match)
        ways = {read: self.renamed.reads(read) for read in reads}
        found = self._evaluate(list(dict.fromkeys(one for way in ways.values() for one in way)), grid, match)
        return {
            read: _joined(
                [in_declared_unit(one, found[one], factor) for one, factor in way.items()],
                -(-grid.window_ms(read) // grid.step_ms),
            )
            for read, way in ways.items()
        }

    def _evaluate(self, reads: Sequence[Read], grid: Grid, match: tuple[Matcher, ...]) -> dict[Read, ReadResult]:
        """The same of series under the names that the source has."""
        plans = {read: self._plan(read.by) for read in reads}
        requested = {read: read if plan is None else replace(read, by=plan.by) for read, plan in plans.items()}
        results = self.raw.evaluate(list(requested.values()), grid, match)
        return {
            read: results[requested[read]]
            if plan is None
            else plan.renamed(results[requested[read]], -(-grid.window_ms(read) // grid.step_ms))
            for read, plan in plans.items()
        }

    def quantiles(
        self, requested: Sequence[QuantileRequest], grid: Grid, match: tuple[Matcher, ...] = ()
    ) -> dict[QuantileRequest, Quantiles | None]:
        """Quantiles on the grid: of raw samples page by page where histograms stand whole on a page."""
        outcome: dict[QuantileRequest, Quantiles | None] = {}
        if isinstance(self.raw, Readable):
            ways = {each: self.renamed.reads(each.read) for each in requested}
            alone = {each: next(iter(way.items())) for each, way in ways.items() if len(way) == 1}
            stored = {each: QuantileRequest(read, each.q) for each, (read, _) in alone.items()}
            found = self._of_pages(self.raw, list(stored.values()), grid, match)
            outcome = {each: scaled(found[one], alone[each][1]) for each, one in stored.items() if one in found}
        rest = [each for each in requested if each not in outcome]
        return outcome | (super().quantiles(rest, grid, match) if rest else {})

    def _of_pages(
        self, source: Readable, requested: Sequence[QuantileRequest], grid: Grid, match: tuple[Matcher, ...]
    ) -> dict[QuantileRequest, Quantiles | None]:
        shares: dict[Read, list[float]] = {}
        for read, q in requested:
            shares.setdefault(read, []).append(q)
        stored: dict[Read, Read] = {}
        selected: dict[Read, tuple[Sequence[float], Called]] = {}
        for read, own in shares.items():
            plan = self._plan(read.by)
            stored[read] = read if plan is None else replace(read, by=plan.by)
            selected[stored[read]] = own, (_as_stored if plan is None else plan.named)
        found = source.page_quantiles(selected, grid, match)
        return {each: found[stored[each.read]][each.q] for each in requested if stored[each.read] in found}

    def _usual(self, labels: Mapping[str, str]) -> dict[str, str]:
        outcome = self._naming.read(gpu=False)
        rest = {name: value for name, value in labels.items() if name not in outcome and value}
        who = self._resolved(tuple(labels.get(name, "") for name in outcome), outcome, gpu=False)
        rest |= self._described(who)
        return {n: v for n, v in (rest | dict(zip(FIELDS, who, strict=True))).items() if v}

    def _described(self, who: Who) -> Mapping[str, str]:
        return {} if self._joins is None else self._joins.processes.described_now(who)

    def _resolved(self, raw: tuple[str, ...], names: tuple[str, ...], gpu: bool) -> Who:
        return self.who(dict(zip(names, raw, strict=True)), gpu)

    def _plan(self, by: tuple[str, ...]) -> _Plan | None:
        if self._joins is None or not ENTITY.issubset(by):
            return None
        if by not in self._plans:
            gpu = GPU_LABEL in by
            outcome = tuple(
                n for n in self._naming.read(gpu) if self._present is None or n in self._present or n in FIELDS
            )
            known = self._known[gpu]

            def who(raw: tuple[str, ...]) -> Who:
                found = known.get(raw)
                if found is None:
                    found = known[raw] = self._resolved(raw, outcome, gpu)
                return found

            changed = self._joins.processes.described
            self._plans[by] = _Plan.of(by, outcome, who, self._described if changed else None)
        return self._plans[by]


@dataclass(frozen=True)
class _Plan:
    """How reads by some labels are read and renamed. requested: the labels of a read; by: those that it is read by, of
    which the first `outcome` show who a row is about; order: where the requested ones stand among the usual names
    and those read; who: given values -> usual ones; described: who -> labels that a pod has now, None if none did."""

    requested: tuple[str, ...]
    by: tuple[str, ...]
    outcome: int
    order: Callable[[tuple[str, ...]], tuple[str, ...]]
    who: Callable[[tuple[str, ...]], Who]
    described: Callable[[Who], Mapping[str, str]] | None

    @classmethod
    def of(
        cls,
        requested: tuple[str, ...],
        outcome: tuple[str, ...],
        who: Callable[[tuple[str, ...]], Who],
        described: Callable[[Who], Mapping[str, str]] | None,
    ) -> _Plan:
        by = (*outcome, *(n for n in requested if n not in outcome and n not in FIELDS))
        places = [FIELDS.index(n) if n in FIELDS else len(FIELDS) + by.index(n) for n in requested]
        return cls(requested, by, len(outcome), itemgetter(*places), who, described)

    def named(self, key: tuple[str, ...]) -> tuple[str, ...]:
        """The usual names of a row that is read without the last label."""
        return self._usual((*key, ""))[:-1]

    def _usual(self, key: tuple[str, ...]) -> tuple[str, ...]:
        who = self.who(key[: self.outcome])
        usual = self.order(who + key)
        now = self.described(who) if self.described is not None else None
        return tuple(now.get(n, v) for n, v in zip(self.requested, usual, strict=True)) if now else usual

    def renamed(self, result: ReadResult, window: int) -> ReadResult:
        """The rows under the usual names, sorted; of rows with one name the first that has a value, step by step.
        window: steps over which a value looks back."""
        rows: dict[tuple[str, ...], list[int]] = {}
        for row, key in enumerate(result.keys):
            rows.setdefault(self._usual(key), []).append(row)
        keys = sorted(rows)
        if len(rows) == len(result.keys):
            kept = [rows[key][0] for key in keys]
            values = result.values if kept == list(range(len(kept))) else result.values[kept]
            return ReadResult(self.requested, keys, values)
        stacked = [_filled([result.values[row] for row in rows[key]], window) for key in keys]
        return ReadResult(self.requested, keys, np.vstack(stacked))


def _joined(results: Sequence[ReadResult], window: int) -> ReadResult:
    """The rows of the same read under several names; of rows with one key the first that has a value, step by step."""
    if len(results) == 1:
        return results[0]
    rows: dict[tuple[str, ...], list[np.ndarray]] = {}
    for result in results:
        for key, values in zip(result.keys, result.values, strict=True):
            rows.setdefault(key, []).append(values)
    keys = sorted(rows)
    values = np.vstack([_filled(rows[key], window) for key in keys]) if keys else results[0].values
    return ReadResult(results[0].by, keys, values)


def _as_stored(key: tuple[str, ...]) -> tuple[str, ...]:
    return key


def _grid(start_ms: int, end_ms: int, looks: int) -> Grid:
    """A time range at so many times; each looks back so far that a scrape between two of them is seen."""
    step = max(DEFAULT_INTERVAL_MS, (end_ms - start_ms) // looks)
    count = (end_ms - start_ms) // step + 1
    return Grid(end_ms - step * (count - 1), step, count, 0, 0, 2 * step)


def _family(who: Who, labels: Mapping[str, str]) -> tuple[str, str, str]:
    return who[CLUSTER], who[NAMESPACE], labels.get("model_name", "")


def _target(labels: Mapping[str, str]) -> tuple[str, str]:
    return labels.get("job", ""), labels.get("instance", "")


def _filled(rows: Sequence[np.ndarray], window: int = 0) -> np.ndarray:
    """The first row, its gaps filled from the others: float64[T]. window: steps beside a gap, at which a rate is of
    less than its whole window, are taken from the others too."""
    values = rows[0]
    for other in rows[1:]:
        gaps = np.isnan(values)
        if gaps.any():
            wide = np.convolve(gaps, np.ones(2 * window + 1), "full")[window : window + len(gaps)] > 0
            values = np.where(wide & np.isfinite(other), other, values)
    return values
