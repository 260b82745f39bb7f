"""The frame seen by the judge: one row per engine of a pod, whatever labels the series of a signal carry."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from inferdoc.catalogue.signal import WIDE, Signal
from inferdoc.fleet.lineage import Key, Lineage
from inferdoc.fleet.members import Family, Fleet, Member, Pool
from inferdoc.judging.model import BaselineKind
from inferdoc.source.frame import Entity, SignalFrame, SignalMatrix
from inferdoc.source.reads import Grid

UP, HEALTH = "target_up", "health_probe"
SETTLING_WINDOWS = 2
"""A newborn has its share of the work when the first requests that it was given have ended, and its rates cover none of
the time before: until then nobody is compared with it."""


@dataclass(frozen=True, eq=False)
class Unit:
    """One engine (DP rank) of one pod: the finest thing a cause is judged on. gpu: one GPU of its pod, where a single
    condition is looked at GPU by GPU. A view makes each once: units are the same where they are one object, and nothing
    is looked up by more often."""

    member: Member
    engine: str
    gpu: str = ""

    @cached_property
    def name(self) -> str:
        """The pod, the engine where it is not the first, and the GPU where one is meant."""
        name = self.member.shown if self.engine in ("", "0") else f"{self.member.shown} engine={self.engine}"
        return f"{name} {self.gpu}" if self.gpu else name

    @cached_property
    def _of_gpus(self) -> dict[str, Unit]:
        return {}

    def of_gpu(self, gpu: str) -> Unit:
        """The same of one GPU of its pod."""
        known = self._of_gpus.get(gpu)
        if known is None:
            known = self._of_gpus[gpu] = Unit(self.member, self.engine, gpu)
        return known


@dataclass
class Trace:
    """One signal of one unit: values float64[T]; counts float64[T] observations per window or None; bounds of its
    buckets or None."""

    values: np.ndarray
    counts: np.ndarray | None = None
    bounds: np.ndarray | None = None


@dataclass
class View:
    """frame: the signals; fleet: who is who; units: what is judged; lead: the grid of a baseline from elsewhere, whose
    values stand before those of the frame; lead_kind: which reference that is; lead_name: of a stored one; lead_means:
    signals of which it holds a mean over days and nights alone; wide: signals
    above the pod, with whether more of them is better; of_namespaces: those of one namespace, which say nothing of
    another; lineage: whose history a pod has. `get` answers None where the
    unit lacks a signal."""

    frame: SignalFrame
    fleet: Fleet
    units: list[Unit] = field(default_factory=list)
    lead: Grid | None = None
    lead_kind: BaselineKind = "chosen"
    lead_name: str | None = None
    lead_means: frozenset[str] = frozenset()
    wide: Mapping[str, bool] = field(default_factory=dict)
    of_namespaces: frozenset[str] = frozenset()
    lineage: Lineage = field(default_factory=Lineage)
    _rows: dict[str, dict[Unit, Trace | None]] = field(default_factory=dict)
    _index: dict[str, dict[tuple[Key, str], int | None]] = field(default_factory=dict)
    _gpus: dict[str, dict[Key, dict[str, np.ndarray]]] = field(default_factory=dict)
    _stacks: dict[str, tuple[list[Unit], np.ndarray]] = field(default_factory=dict)
    _groups: dict[tuple[Family, str], list[Unit]] = field(default_factory=dict)
    _above: dict[tuple[str, str, str, str], Trace | None] = field(default_factory=dict)
    _near: dict[str, dict[tuple[str, str], list[int]]] = field(default_factory=dict)
    there: dict[tuple[int, int | None], list[int]] = field(default_factory=dict)

    @property
    def steps(self) -> int:
        """Steps of all series: those of the grid and those of a baseline before it."""
        return self.frame.grid.count + self.lead_steps

    @property
    def lead_steps(self) -> int:
        """Steps of the chosen baseline."""
        return 0 if self.lead is None else self.lead.count

    @property
    def begin(self) -> int:
        """The step at which the window begins: what lies before it is history, or a chosen baseline."""
        return self.lead_steps + self.frame.begin

    @property
    def step_seconds(self) -> float:
        """Seconds between two steps."""
        return self.frame.grid.step_ms / 1000

    @property
    def window_steps(self) -> int:
        """Grid steps per rate window: neighbours closer than this share samples."""
        return max(1, round(self.frame.grid.rate_ms / self.frame.grid.step_ms))

    def time_at(self, index: int) -> float:
        """Seconds since the epoch of a step."""
        grid, step = self.frame.grid, index - self.lead_steps
        if step < 0 and self.lead is not None:
            return float(self.lead.start_ms + self.lead.step_ms * index) / 1000
        return float(grid.start_ms + grid.step_ms * step) / 1000

    @cached_property
    def newest(self) -> int:
        """The last step at which a scrape of any target shows: what comes after it was not seen."""
        matrix = self.frame.signals.get(UP)
        if matrix is None or not np.isfinite(matrix.values).any():
            return self.steps - 1
        return int(np.flatnonzero(np.isfinite(matrix.values).any(axis=0))[-1])

    def get(self, unit: Unit, signal: str) -> Trace | None:
        """The series of a signal of a unit, or None."""
        rows = self._rows.get(signal)
        if rows is None:
            rows = self._rows[signal] = {}
        try:
            return rows[unit]
        except KeyError:
            found = rows[unit] = self._find(unit, signal)
            return found

    def add(self, signals: Mapping[str, SignalMatrix]) -> None:
        """Put signals into the frame that were not there."""
        self.frame.signals |= signals
        for kept in (self._rows, self._index, self._stacks, self._gpus):
            for name in signals:
                kept.pop(name, None)
        self._above.clear()
        self._near.clear()

    def stack(self, signal: str) -> tuple[list[Unit], np.ndarray]:
        """The units that have a signal, and its values: float64[units, T], not to be changed."""
        if signal not in self._stacks:
            units, rows = self._plain_rows(signal)
            if rows is not None:
                values = self.frame[signal].values
                if rows != list(range(len(values))):
                    values = values[rows]
            else:
                traces = {unit: trace.values for unit in self.units if (trace := self.get(unit, signal)) is not None}
                units, values = list(traces), np.vstack(list(traces.values()) or [np.empty((0, self.steps))])
            self._stacks[signal] = units, values
        return self._stacks[signal]

    def _plain_rows(self, signal: str) -> tuple[list[Unit], list[int] | None]:
        """The units that have a signal and the row of each in its matrix; None where some series is made of several
        rows. A matrix that has those rows alone, in this order, need not be copied."""
        if signal not in self.frame or signal == UP or signal in self.wide or self.lineage.predecessor:
            return [], None
        index = self._by_member(signal)
        rows = {unit: row for unit in self.units if (row := _row(index, unit.member.key, unit.engine)) is not None}
        return list(rows), list(rows.values())

    def _find(self, unit: Unit, signal: str) -> Trace | None:
        series = self._series(unit, signal)
        if signal not in (UP, HEALTH) or series is None:
            return series
        values = series.values.copy()
        for steps in self.lineage.first_loads(unit.member.key):
            values[self.lead_steps :][steps] = np.nan
        return Trace(values) if np.isfinite(values).any() else None

    def newborn(self, unit: Unit) -> np.ndarray:
        """The steps at which a unit has not its share of the work yet: bool[T]."""
        steps = np.zeros(self.steps, dtype=bool)
        life = self.lineage.lives.get(unit.member.key)
        if life is not None and life.came:
            born = self.lead_steps + life.born
            steps[born : born + SETTLING_WINDOWS * self.window_steps] = True
        return steps

    def _series(self, unit: Unit, signal: str) -> Trace | None:
        if unit.gpu:
            row_of_gpu = self.gpus(unit, signal).get(unit.gpu)
            return None if row_of_gpu is None or not np.isfinite(row_of_gpu).any() else Trace(row_of_gpu)
        matrix = self.frame.signals.get(signal)
        if matrix is None:
            return None
        if signal in self.wide:
            place = (signal, *unit.member.key[:2], unit.member.pool.model)
            if place not in self._above:
                self._above[place] = _worst(matrix, self._serving(matrix, unit.member, signal), self.wide[signal])
            return self._above[place]
        index = self._by_member(signal)
        own = self._own(matrix, index, unit.member.key, unit.engine)
        key = unit.member.key
        while key in self.lineage.predecessor:
            born, key = self.lead_steps + self.lineage.lives[key].born, self.lineage.predecessor[key].key
            own = _continued(self._own(matrix, index, key, unit.engine), own, born)
        return own

    def _own(
        self, matrix: SignalMatrix, index: Mapping[tuple[Key, str], int | None], key: Key, engine: str
    ) -> Trace | None:
        row = _row(index, key, engine)
        if row is None:
            return None
        return Trace(matrix.values[row], None if matrix.counts is None else matrix.counts[row], matrix.bounds)

    def _by_member(self, signal: str) -> dict[tuple[Key, str], int | None]:
        if signal not in self._index:
            self._index[signal] = _by_member(self.frame[signal])
        return self._index[signal]

    def gpus(self, unit: Unit, signal: str) -> dict[str, np.ndarray]:
        """The GPUs of a unit's pod: name -> values. Joined by the workload labels of the GPU exporter."""
        if signal not in self._gpus:
            self._gpus[signal] = _by_owner(self.frame.signals.get(signal))
        return self._gpus[signal].get(unit.member.key, {})

    def tenants(self, unit: Unit, signal: str) -> dict[str, np.ndarray]:
        """The classes of requests at the routers of a unit: name -> values; two routers are two rows of one class."""
        matrix = self.frame.signals.get(signal)
        found: dict[str, np.ndarray] = {}
        for row in [] if matrix is None else self._serving(matrix, unit.member, signal):
            assert matrix is not None
            entity = matrix.entities[row]
            name = f"tenant {entity.get('fairness_id') or 'default'} priority {entity.get('priority') or '0'}"
            known = found.get(name)
            found[name] = matrix.values[row] if known is None else np.fmax(known, matrix.values[row])
        return found

    @cached_property
    def _routed(self) -> dict[Key, set[str]]:
        """The models that each router names on any of its rows."""
        routed: dict[Key, set[str]] = {}
        for signal in self.wide:
            for entity in self.frame.signals[signal].entities if signal in self.frame else ():
                routed.setdefault(entity.member, set()).update(_models(entity))
        return routed

    def _serving(self, matrix: SignalMatrix, member: Member, signal: str) -> list[int]:
        """Rows of what stands above a pod: of its namespace and, where the row or its router names models, of its own.
        A router may know the model by an alias: a row counts where none of its models is another pool's."""
        near = self._rows_near(matrix, member, signal)
        models = {row: _models(matrix.entities[row]) or self._routed.get(matrix.entities[row].member) for row in near}
        own = [row for row in near if member.pool.model in (models[row] or {member.pool.model})]
        if own:
            return own
        others = self._models_near[member.key[:2]]
        return [row for row in near if not others & (models[row] or set())]

    def _rows_near(self, matrix: SignalMatrix, member: Member, signal: str) -> list[int]:
        """Rows of routers of a namespace and of all in its cluster. A gateway in a namespace without engines counts for
        all if the cluster serves one model in one namespace: which of several it serves, no label shows. An autoscaler
        of another namespace counts for none."""
        rows = self._near.get(signal)
        if rows is None:
            rows, shared = self._near.setdefault(signal, {}), signal not in self.of_namespaces
            for row, entity in enumerate(matrix.entities):
                cluster, namespace = place = entity.get("cluster"), entity.get("namespace")
                alone = self._namespaces.get(cluster) if shared and place not in self._models_near else None
                where = namespace if alone is None or len(self._models_near[cluster, alone]) > 1 else alone
                rows.setdefault((cluster, where), []).append(row)
        cluster, namespace = member.key[:2]
        return sorted(row for where in {"", namespace} for row in rows.get((cluster, where), ()))

    @cached_property
    def _namespaces(self) -> dict[str, str]:
        """The namespace of the engines of each cluster that has one alone."""
        found: dict[str, set[str]] = {}
        for cluster, namespace in self._models_near:
            found.setdefault(cluster, set()).add(namespace)
        return {cluster: next(iter(names)) for cluster, names in found.items() if len(names) == 1}

    @cached_property
    def _models_near(self) -> dict[tuple[str, str], set[str]]:
        """The models that are served in each cluster and namespace."""
        models: dict[tuple[str, str], set[str]] = {}
        for member in self.fleet.everyone:
            models.setdefault(member.key[:2], set()).add(member.pool.model)
        return models

    def like(self, unit: Unit) -> list[Unit]:
        """All units of its pool, the unit among them: same model, role, tier."""
        return self._by_pool[unit.member.pool]

    @cached_property
    def _by_pool(self) -> dict[Pool, list[Unit]]:
        pools: dict[Pool, list[Unit]] = {}
        for unit in self.units:
            pools.setdefault(unit.member.pool, []).append(unit)
        return pools

    @cached_property
    def _places(self) -> dict[Unit, int]:
        return {unit: place for pool in self._by_pool.values() for place, unit in enumerate(pool)}

    def place(self, unit: Unit) -> int:
        """Where a unit stands among its like."""
        return self._places[unit]

    def peers(self, unit: Unit) -> list[Unit]:
        """The other units of the same pool: same model, role, tier."""
        return [other for other in self.like(unit) if other is not unit]

    def siblings(self, unit: Unit, role: str) -> list[Unit]:
        """Units of another role that serve the same model in the same namespace."""
        needed = unit.member.pool.family
        if (needed, role) not in self._groups:
            self._groups[needed, role] = [u for u in self._by_family[needed] if u.member.role == role]
        return self._groups[needed, role]

    @cached_property
    def _by_family(self) -> dict[Family, list[Unit]]:
        return by_family(self.units)


def by_family(units: Iterable[Unit]) -> dict[Family, list[Unit]]:
    """The units of each model."""
    found: dict[Family, list[Unit]] = {}
    for unit in units:
        found.setdefault(unit.member.pool.family, []).append(unit)
    return found


def _continued(before: Trace | None, own: Trace | None, born: int) -> Trace | None:
    """The series of a pod, with that of its predecessor up to the step at which its engine was born. A pod that is
    loading its model answers no scrape and is not down."""
    if before is None or own is None:
        return before if own is None else own
    earlier = np.isfinite(before.values)
    earlier[born:] = False
    counts = own.counts
    if counts is not None and before.counts is not None:
        counts = np.where(earlier, before.counts, counts)
    return Trace(np.where(earlier, before.values, own.values), counts, own.bounds)


def _by_owner(matrix: SignalMatrix | None) -> dict[Key, dict[str, np.ndarray]]:
    """GPUs by the pod that uses them: pod -> {name: values}."""
    found: dict[Key, dict[str, np.ndarray]] = {}
    if matrix is not None:
        for entity, row in zip(matrix.entities, matrix.values, strict=True):
            found.setdefault(entity.member, {})[f"gpu {entity.device}"] = row
    return found


def _by_member(matrix: SignalMatrix) -> dict[tuple[Key, str], int | None]:
    """The fullest row of each engine; None if it has no finite value."""
    found: dict[tuple[Key, str], int | None] = {}
    finite = np.isfinite(matrix.values).sum(axis=1).tolist()
    best: dict[tuple[Key, str], int] = {}
    for row, entity in enumerate(matrix.entities):
        key = (entity.member, entity.engine)
        if key not in best or finite[row] > best[key]:
            best[key], found[key] = finite[row], row if finite[row] else None
    return found


def _row(index: Mapping[tuple[Key, str], int | None], key: Key, engine: str) -> int | None:
    """The row of an engine, or of its pod where no row is one of the engine."""
    return index.get((key, engine if (key, engine) in index else ""))


def _models(entity: Entity) -> set[str]:
    """The models that a row of a router names."""
    return {entity.get(label) for label in ("model_name", "target_model_name")} - {""}


def _worst(matrix: SignalMatrix, rows: list[int], more_is_better: bool) -> Trace | None:
    """One series of several rows (two routers, several tenants): the worst of each step."""
    if not rows or not np.isfinite(matrix.values[rows]).any():
        return None
    choose = np.fmin if more_is_better else np.fmax
    counts = None if matrix.counts is None else np.fmax.reduce(matrix.counts[rows], axis=0)
    return Trace(choose.reduce(matrix.values[rows], axis=0), counts, matrix.bounds)


def make_view(
    frame: SignalFrame,
    fleet: Fleet,
    lead: Grid | None = None,
    signals: Mapping[str, Signal] | None = None,
    lineage: Lineage | None = None,
) -> View:
    """A view with one unit per engine seen on a pod (pods without an engine label have one unit)."""
    engines: dict[tuple[str, str, str], set[str]] = {m.key: set() for m in fleet.members}
    unnamed: dict[tuple[str, str, str], set[str]] = {m.key: set() for m in fleet.members}
    for matrix in frame.signals.values():
        for entity in matrix.entities:
            if entity.engine and entity.member in engines:
                (engines if entity.get("model_name") else unnamed)[entity.member].add(entity.engine)
    wide = {name: s.harm == "down" for name, s in (signals or {}).items() if s.level in WIDE}
    of_namespaces = frozenset(name for name, s in (signals or {}).items() if s.level == "namespace")
    view = View(frame, fleet, lead=lead, wide=wide, of_namespaces=of_namespaces, lineage=lineage or Lineage())
    for member in fleet.members:
        for engine in sorted(engines[member.key] or unnamed[member.key]) or [""]:
            view.units.append(Unit(member, engine))
    return view
