"""Signals from reads: aliases, ratios, means, quantiles, formulas. Both sources share it: they cannot differ here."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cached_property

import numpy as np

from inferdoc.catalogue.aliases import Aliases
from inferdoc.catalogue.signal import Reading, Signal, Term
from inferdoc.source import formula
from inferdoc.source.base import InfoSeries, Source
from inferdoc.source.frame import Entity, SignalFrame, SignalMatrix
from inferdoc.source.histograms import QuantileAsked, Quantiles
from inferdoc.source.plan import BY, WIDTHS, Operand, buckets, closure, observations, operand, plan, sum_over_count
from inferdoc.source.reads import Grid, Matcher, Read, ReadResult
from inferdoc.source.shares import MIN_OBSERVATIONS, enough_events

Key = tuple[str, ...]


class Entities:
    """Entities by the labels of a read; the signals of one pod share them."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, ...], dict[Key, Entity]] = {}

    def of(self, by: tuple[str, ...], keys: Iterable[Key]) -> list[Entity]:
        """One entity per key."""
        known = self._known.setdefault(by, {})
        found = []
        for key in keys:
            entity = known.get(key)
            if entity is None:
                entity = known[key] = Entity.of(by, key)
            found.append(entity)
        return found


class EntityTable:
    """Rows by entity: float64[times] each, merged over aliases (the first that has a value wins, step by step)."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.rows: dict[Entity, np.ndarray] = {}

    def add(self, entity: Entity, values: np.ndarray) -> None:
        """Put in a row, float64[times]; where the entity has one already, it fills the gaps."""
        known = self.rows.get(entity)
        self.rows[entity] = values if known is None else np.where(np.isnan(known), values, known)

    def get(self, entity: Entity) -> np.ndarray:
        """The row of an entity, or of its engine: float64[times], NaN where nothing is known."""
        row = self.rows.get(entity)
        if row is None:
            row = self.by_engine.get((entity.member, entity.engine))
        return np.full(self.count, np.nan) if row is None else row

    def stack(self, entities: Iterable[Entity]) -> np.ndarray:
        """The rows of several entities: float64[entities, times]."""
        return np.vstack([self.get(entity) for entity in entities])

    def knows(self, entity: Entity) -> bool:
        """Whether `get` has a row to answer with."""
        return entity in self.rows or (entity.member, entity.engine) in self.by_engine

    @cached_property
    def by_engine(self) -> dict[tuple[tuple[str, str, str], str], np.ndarray]:
        """Rows by pod and engine: info metrics carry no model name, their users do."""
        return {(e.member, e.engine): row for e, row in self.rows.items() if not e.get("gpu")}


class Assembler:
    """Turns one evaluation of a source into signals. grid: the shared grid; results: what was read so far."""

    def __init__(
        self, source: Source, signals: Mapping[str, Signal], aliases: Aliases, grid: Grid, match: tuple[Matcher, ...]
    ) -> None:
        self.source, self.signals, self.aliases, self.grid, self.match = source, signals, aliases, grid, match
        widest = max(WIDTHS) * grid.rate_ms
        self.present = source.names(grid.start_ms - widest, grid.end_ms)
        self.results: dict[Read, ReadResult] = {}
        self.quantiles: dict[QuantileAsked, Quantiles | None] = {}
        self.infos: dict[str, list[InfoSeries]] = {}
        self.frame = SignalFrame(grid)
        self._entities = Entities()

    def run(self, wanted: Iterable[str]) -> SignalFrame:
        """Read everything, assemble the signals wanted and those they are made of."""
        order = closure(wanted, self.signals)
        first = plan(order, self.signals, self.aliases, self.present)
        self.results.update(self.source.evaluate(first.reads + first.counts, self.grid, self.match))
        for name in first.infos:
            self.infos[name] = self.source.info(name, self.grid, self.match)
        widths = self._choose_widths(order)
        asked = [
            QuantileAsked(read, float(reading.q or 0))
            for name, width in widths.items()
            for reading in self.signals[name].readings
            if reading.quantile
            for read in buckets(reading, self.signals[name].level).reads(self.aliases, self.present, width)
        ]
        self.quantiles = self.source.quantiles(list(dict.fromkeys(asked)), self.grid, self.match)
        self.frame.widths = widths
        for name in order:
            matrix = self._signal(name, self.signals[name])
            if matrix is not None and self.signals[name].least:
                matrix = replace(matrix, values=_plausible(matrix.values, self.signals[name].least))
            if matrix is not None and matrix.present:
                self.frame.signals[name] = matrix
        return self.frame

    # ---- widths ---------------------------------------------------------------------------------------------

    def _choose_widths(self, order: Iterable[str]) -> dict[str, int]:
        """One width per quantile signal: the smallest whose median window, where there is traffic, holds enough."""
        chosen: dict[str, int] = {}
        for name in order:
            for reading in self.signals[name].readings:
                if not reading.quantile:
                    continue
                count = observations(reading.quantile, reading, self.signals[name].level)
                chosen[name] = WIDTHS[-1]
                for width in WIDTHS:
                    rows = [
                        r for read in count.reads(self.aliases, self.present, width) for r in self.results[read].values
                    ]
                    seen = np.concatenate(rows) if rows else np.empty(0)
                    seen = seen[seen > 0]
                    if seen.size and float(np.median(seen)) >= MIN_OBSERVATIONS:
                        chosen[name] = width
                        break
        return chosen

    # ---- one signal -----------------------------------------------------------------------------------------

    def _signal(self, name: str, signal: Signal) -> SignalMatrix | None:
        merged: SignalMatrix | None = None
        for reading in signal.readings:
            found = self._reading(name, signal, reading)
            if found is None or not found.present:
                continue
            if reading.codes:
                shown = np.isin(found.values, reading.codes).astype(np.float64)
                found.values = np.where(np.isnan(found.values), np.nan, shown)
            if reading.scale != 1.0:
                found.values = found.values * reading.scale
                found.bounds = None if found.bounds is None else found.bounds * reading.scale
            merged = found if merged is None else _fill(merged, found)
        return merged

    def _reading(self, name: str, signal: Signal, reading: Reading) -> SignalMatrix | None:
        if reading.quantile:
            return self._quantile(name, signal, reading)
        if reading.mean:
            return self._mean(signal, reading)
        if reading.formula:
            return self._formula(signal, reading)
        if reading.info:
            return self._info(signal, reading)
        single = operand(reading, signal.level)
        return None if single is None else _matrix(self._table(single))

    def _table(self, part: Operand, width: int = 1) -> EntityTable:
        table = EntityTable(self.grid.count)
        for read in part.reads(self.aliases, self.present, width):
            result = self.results[read]
            for entity, row in zip(self._entities.of(part.by, result.keys), result.values, strict=True):
                table.add(entity, row)
        return table

    def _mean(self, signal: Signal, reading: Reading) -> SignalMatrix | None:
        total, count = (self._table(part) for part in sum_over_count(reading, signal.level))
        seen = self._table(observations(str(reading.mean), reading, signal.level))
        entities = [e for e in count.rows if e in total.rows]
        if not entities:
            return None
        values = formula.evaluate("a / b", {"a": total.stack(entities), "b": count.stack(entities)})
        return SignalMatrix(entities, values, counts=seen.stack(entities))

    def _quantile(self, name: str, signal: Signal, reading: Reading) -> SignalMatrix | None:
        width = self.frame.widths[name]
        merged: SignalMatrix | None = None
        part = buckets(reading, signal.level)
        for read in part.reads(self.aliases, self.present, width):
            told = self.quantiles[QuantileAsked(read, float(reading.q or 0))]
            if told is not None:
                own = SignalMatrix(self._entities.of(part.by[:-1], told.keys), told.values, bounds=told.bounds)
                merged = own if merged is None else _fill(merged, own)
        if merged is None:
            return None
        seen = self._table(observations(str(reading.quantile), reading, signal.level), width)
        merged.counts = seen.stack(merged.entities)
        merged.values = np.where(merged.counts >= MIN_OBSERVATIONS, merged.values, np.nan)
        return merged

    def _formula(self, signal: Signal, reading: Reading) -> SignalMatrix | None:
        tables = {term: self._term(part, signal) for term, part in reading.terms.items()}
        required = [tables[name] for name, part in reading.terms.items() if part.default is None]
        fullest = max(required, key=lambda t: max((len(e.labels) for e in t.rows), default=0), default=None)
        entities = list(fullest.rows) if fullest is not None else []
        entities = [e for e in entities if all(t.knows(e) for t in required)]
        if not entities:
            return None
        values = {}
        for term, table in tables.items():
            rows, default = table.stack(entities), reading.terms[term].default
            values[term] = rows if default is None else np.where(np.isnan(rows), default, rows)
        if signal.unit == "ratio":
            values = enough_events(reading, values, self.grid)
        return SignalMatrix(entities, formula.evaluate(str(reading.formula), values))

    def _term(self, part: Term, signal: Signal) -> EntityTable:
        single = operand(part, signal.level)
        if single is not None:
            return self._table(single)
        table = EntityTable(self.grid.count)
        matrix = self.frame.signals.get(str(part.signal))
        if matrix is not None:
            for entity, row in zip(matrix.entities, matrix.values, strict=True):
                table.add(entity, row)
        return table

    def _info(self, signal: Signal, reading: Reading) -> SignalMatrix | None:
        by = BY[signal.level]
        groups: dict[Entity, list[InfoSeries]] = {}
        for name in self.aliases.of(str(reading.info)):
            called = [self.aliases.label(name, label) for label in by]
            for one in self.infos.get(name, []):
                groups.setdefault(Entity.of(by, tuple(one.labels.get(n, "") for n in called)), []).append(one)
        table = EntityTable(self.grid.count)
        for entity, members in groups.items():
            table.add(entity, _newest(members, _label_values(reading, members)))
        return _matrix(table)


def _newest(members: list[InfoSeries], numbers: list[float]) -> np.ndarray:
    """At every step the number of the series with the largest value (the newest, where the value is a time)."""
    values = np.vstack([m.values for m in members])
    best = np.argmax(np.where(np.isnan(values), -np.inf, values), axis=0)
    picked = np.asarray(numbers)[best]
    return np.where(np.isnan(values).all(axis=0), np.nan, picked)


def _label_values(reading: Reading, members: list[InfoSeries]) -> list[float]:
    """The number of each label set of one entity."""
    if not reading.moved:
        return [_label_value(reading, one.labels) for one in members]
    first = min(members, key=lambda one: int(np.argmax(np.isfinite(one.values)))).labels
    return [
        float(sum(bool(first.get(n)) and bool(one.labels.get(n)) and first[n] != one.labels[n] for n in reading.moved))
        for one in members
    ]


def _label_value(reading: Reading, labels: Mapping[str, str]) -> float:
    if reading.identity:
        told = "\0".join(f"{name}={labels.get(name, '')}" for name in reading.identity)
        return float(zlib.crc32(told.encode()))
    if reading.count_distinct:
        return float(
            len({name for label in reading.count_distinct for name in labels.get(label, "").split(",") if name.strip()})
        )
    try:
        return float(labels.get(str(reading.label), "nan"))
    except ValueError:
        return float("nan")


def _matrix(table: EntityTable) -> SignalMatrix | None:
    return SignalMatrix(list(table.rows), np.vstack(list(table.rows.values()))) if table.rows else None


def _fill(first: SignalMatrix, second: SignalMatrix) -> SignalMatrix:
    """The rows of both; where both know an entity, the second fills the gaps of the first."""
    index = {entity: i for i, entity in enumerate(first.entities)}
    values = [*first.values]
    counts = None if first.counts is None else [*first.counts]
    entities = [*first.entities]
    for j, entity in enumerate(second.entities):
        row = second.values[j]
        seen = np.full_like(row, np.nan) if second.counts is None else second.counts[j]
        if entity in index:
            i = index[entity]
            gaps = np.isnan(values[i])
            values[i] = np.where(gaps, row, values[i])
            if counts is not None:
                counts[i] = np.where(gaps, seen, counts[i])
        else:
            entities.append(entity)
            values.append(row)
            if counts is not None:
                counts.append(seen)
    merged_counts = None if counts is None else np.vstack(counts)
    fewest = min((each.bounds for each in (first, second) if each.bounds is not None), key=len, default=None)
    return SignalMatrix(entities, np.vstack(values), merged_counts, fewest)


def _plausible(values: np.ndarray, least: float) -> np.ndarray:
    """The values without those that nothing can be as small as: what is counted for requests that were not served."""
    with np.errstate(invalid="ignore"):
        return np.where(values < least, np.nan, values)


def read_signals(
    source: Source,
    wanted: Iterable[str],
    grid: Grid,
    signals: Mapping[str, Signal],
    aliases: Aliases,
    match: tuple[Matcher, ...] = (),
) -> SignalFrame:
    """Read signals on a grid. Shapes: one float64[entities, grid.count] per signal; absent signals are left out."""
    return Assembler(source, signals, aliases, grid, match).run(wanted)
