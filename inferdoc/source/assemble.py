"""Signals from reads: aliases, ratios, means, quantiles, formulas. Both sources share it: they cannot differ here."""

from __future__ import annotations

import ast
import itertools
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np

from inferdoc.catalogue.aliases import Aliases
from inferdoc.catalogue.signal import Reading, Signal, Term
from inferdoc.catalogue.span import names_in
from inferdoc.source import formula
from inferdoc.source.base import InfoSeries, Source
from inferdoc.source.frame import Entity, SignalFrame, SignalMatrix
from inferdoc.source.histograms import QuantileRequest, Quantiles
from inferdoc.source.plan import (
    BY,
    WIDTHS,
    Operand,
    buckets,
    closure,
    observations,
    operand,
    operands,
    plan,
    sum_over_count,
)
from inferdoc.source.reads import Grid, Matcher, Read, ReadResult

Key = tuple[str, ...]
MIN_OBSERVATIONS = 20
"""A quantile or share of fewer says nothing; the window is doubled twice before giving up."""


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
    """Rows by entity, in columns: values float64[entities, times], merged over aliases (the first that has a value
    wins, step by step). What one read brought is taken over as it is."""

    def __init__(self, count: int) -> None:
        self.entities: list[Entity] = []
        self.values = np.empty((0, count))

    def add(self, entities: list[Entity], values: np.ndarray) -> None:
        """Put in rows, float64[entities, times]; where an entity has one already, they fill its gaps."""
        if not self.entities:
            self.entities, self.values = entities, values
            return
        rows = np.array([self.row_of.get(entity, -1) for entity in entities], np.int64)
        known, merged = rows >= 0, self.values.copy()
        merged[rows[known]] = np.where(np.isnan(merged[rows[known]]), values[known], merged[rows[known]])
        self.entities = self.entities + list(itertools.compress(entities, ~known))
        self.values = np.vstack([merged, values[~known]])
        self.__dict__.pop("row_of", None)
        self.__dict__.pop("by_engine", None)

    def stack(self, entities: list[Entity]) -> np.ndarray:
        """The rows of several entities, or of their engines: float64[entities, times], NaN where nothing is known. Not
        to be changed."""
        if entities == self.entities:
            return self.values
        rows = np.array([self._row(entity) for entity in entities], np.int64)
        stacked = self.values[rows] if len(self.values) else np.empty((len(rows), self.values.shape[1]))
        stacked[rows < 0] = np.nan
        return stacked

    def knows(self, entity: Entity) -> bool:
        """Whether `stack` has a row for it."""
        return self._row(entity) >= 0

    def _row(self, entity: Entity) -> int:
        row = self.row_of.get(entity)
        if row is None:
            models, model = self.by_engine.get((entity.member, entity.engine), {}), entity.get("model_name")
            row = models.get(model, models.get("", -1)) if model else next(reversed(models.values()), -1)
        return row

    @cached_property
    def row_of(self) -> dict[Entity, int]:
        """The row of each entity."""
        return {entity: row for row, entity in enumerate(self.entities)}

    @cached_property
    def by_engine(self) -> dict[tuple[tuple[str, str, str], str], dict[str, int]]:
        """Rows by pod and engine, by model: info metrics carry no model name, their users do."""
        found: dict[tuple[tuple[str, str, str], str], dict[str, int]] = {}
        for row, entity in enumerate(self.entities):
            if not entity.get("gpu"):
                found.setdefault((entity.member, entity.engine), {})[entity.get("model_name")] = row
        return found


class Assembler:
    """Turns one evaluation of a source into signals. grid: the shared grid; results: what was read so far."""

    def __init__(
        self, source: Source, signals: Mapping[str, Signal], aliases: Aliases, grid: Grid, match: tuple[Matcher, ...]
    ) -> None:
        self.source, self.signals, self.aliases, self.grid, self.match = source, signals, aliases, grid, match
        widest = max(WIDTHS) * grid.rate_ms
        self.present = source.names(grid.start_ms - widest, grid.end_ms)
        self.results: dict[Read, ReadResult] = {}
        self.quantiles: dict[QuantileRequest, Quantiles | None] = {}
        self.infos: dict[str, list[InfoSeries]] = {}
        self.frame = SignalFrame(grid)
        self._entities = Entities()
        self._taken: set[Read] = set()
        self._counts: dict[tuple[Read, ...], list[tuple[list[Entity], np.ndarray]]] = {}

    def run(self, selected: Iterable[str]) -> SignalFrame:
        """Read everything, assemble the signals requested and those they are made of."""
        order = closure(selected, self.signals)
        first = plan(order, self.signals, self.aliases, self.present)
        self.results.update(self.source.evaluate(first.reads + first.counts, self.grid, self.match))
        for name in first.infos:
            self.infos[name] = self.source.info(name, self.grid, self.match)
        widths = self._choose_widths(order)
        requested = [
            QuantileRequest(read, float(reading.q or 0))
            for name, width in widths.items()
            for reading in self.signals[name].readings
            if reading.quantile
            for read in buckets(reading, self.signals[name].level).reads(self.aliases, self.present, width)
        ]
        self.quantiles = self.source.quantiles(list(dict.fromkeys(requested)), self.grid, self.match)
        self.frame.widths = widths
        last_use = {read: name for name in order for read in self._reads_of(name)}
        for name in order:
            matrix = self._signal(name, self.signals[name])
            for read in [read for read in self._reads_of(name) if last_use[read] == name]:
                self.results.pop(read, None)  # its memory is needed for the next
            if matrix is not None and self.signals[name].least:
                matrix = replace(matrix, values=_plausible(matrix.values, self.signals[name].least))
            if matrix is not None and matrix.present:
                self.frame.signals[name] = matrix
        return self.frame

    def _reads_of(self, name: str) -> list[Read]:
        """The results that a signal is made of."""
        signal, width = self.signals[name], self.frame.widths.get(name, 1)
        found = [read for part in operands(signal) for read in part.reads(self.aliases, self.present)]
        for reading in signal.readings:
            if reading.quantile:
                part = observations(reading.quantile, reading, signal.level)
                found += part.reads(self.aliases, self.present, width)
        return found

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
        return None if single is None else self._own(single)

    def _own(self, part: Operand) -> SignalMatrix | None:
        """A signal of its own: what a second signal takes from one read is copied, since signals may be changed."""
        table, reads = self._table(part), set(part.reads(self.aliases, self.present))
        if not table.entities:
            return None
        is_taken = not reads.isdisjoint(self._taken)
        self._taken |= reads
        return SignalMatrix(table.entities, table.values.copy() if is_taken else table.values)

    def _table(self, part: Operand, width: int = 1) -> EntityTable:
        table = EntityTable(self.grid.count)
        for read in part.reads(self.aliases, self.present, width):
            result = self.results[read]
            if result.keys:
                table.add(self._entities.of(part.by, result.keys), result.values)
        return table

    def _mean(self, signal: Signal, reading: Reading) -> SignalMatrix | None:
        total, count = (self._table(part) for part in sum_over_count(reading, signal.level))
        entities = [e for e in count.entities if e in total.row_of]
        if not entities:
            return None
        values = formula.evaluate("a / b", {"a": total.stack(entities), "b": count.stack(entities)})
        return SignalMatrix(entities, values, counts=self._seen(str(reading.mean), reading, signal, entities))

    def _quantile(self, name: str, signal: Signal, reading: Reading) -> SignalMatrix | None:
        width = self.frame.widths[name]
        merged: SignalMatrix | None = None
        part = buckets(reading, signal.level)
        for read in part.reads(self.aliases, self.present, width):
            outcome = self.quantiles[QuantileRequest(read, float(reading.q or 0))]
            if outcome is not None:
                own = SignalMatrix(self._entities.of(part.by[:-1], outcome.keys), outcome.values, bounds=outcome.bounds)
                merged = own if merged is None else _fill(merged, own)
        if merged is None:
            return None
        merged.counts = self._seen(str(reading.quantile), reading, signal, merged.entities, width)
        merged.values = np.where(merged.counts >= MIN_OBSERVATIONS, merged.values, np.nan)
        return merged

    def _seen(
        self, histogram: str, reading: Reading, signal: Signal, entities: list[Entity], width: int = 1
    ) -> np.ndarray:
        """How many observations each window holds, float64[entities, times]: one array for all quantiles and means of
        a histogram, not to be changed."""
        part = observations(histogram, reading, signal.level)
        known = self._counts.setdefault(tuple(part.reads(self.aliases, self.present, width)), [])
        counts = next((counts for own, counts in known if own == entities), None)
        if counts is None:
            counts = self._table(part, width).stack(entities).copy()
            known.append((entities, counts))
        return counts

    def _formula(self, signal: Signal, reading: Reading) -> SignalMatrix | None:
        tables = {term: self._term(part, signal) for term, part in reading.terms.items()}
        required = [tables[name] for name, part in reading.terms.items() if part.default is None]
        fullest = max(required, key=lambda t: max((len(e.labels) for e in t.entities), default=0), default=None)
        entities = fullest.entities if fullest is not None else []
        entities = [e for e in entities if all(t.knows(e) for t in required)]
        if not entities:
            return None
        values = {}
        for term, table in tables.items():
            rows, default = table.stack(entities), reading.terms[term].default
            values[term] = rows if default is None else np.where(np.isnan(rows), default, rows)
        if signal.unit == "ratio":
            values = enough_events(reading, values, self.grid)
        events = _events(reading, values)
        counts = None if events is None else events * self.grid.rate_ms / 1000.0
        return SignalMatrix(entities, formula.evaluate(str(reading.formula), values), counts=counts)

    def _term(self, part: Term, signal: Signal) -> EntityTable:
        single = operand(part, signal.level)
        if single is not None:
            return self._table(single)
        table = EntityTable(self.grid.count)
        matrix = self.frame.signals.get(str(part.signal))
        if matrix is not None:
            table.add(matrix.entities, matrix.values)
        return table

    def _info(self, signal: Signal, reading: Reading) -> SignalMatrix | None:
        by = BY[signal.level]
        groups: dict[Entity, list[InfoSeries]] = {}
        for name in self.aliases.of(str(reading.info)):
            called = [self.aliases.label(name, label) for label in by]
            for one in self.infos.get(name, []):
                groups.setdefault(Entity.of(by, tuple(one.labels.get(n, "") for n in called)), []).append(one)
        table = EntityTable(self.grid.count)
        if groups:
            rows = [
                _moved(reading, members) if reading.moved else _newest(reading, members) for members in groups.values()
            ]
            table.add(list(groups), np.vstack(rows))
        return SignalMatrix(table.entities, table.values) if table.entities else None


def _newest(reading: Reading, members: list[InfoSeries]) -> np.ndarray:
    """At every step the number of the series with the largest value (the newest, where the value is a time)."""
    values = np.vstack([m.values for m in members])
    best = np.argmax(np.where(np.isnan(values), -np.inf, values), axis=0)
    picked = np.asarray([_label_value(reading, one.labels) for one in members])[best]
    return np.where(np.isnan(values).all(axis=0), np.nan, picked)


CONTAINER = "container"


def moved_labels(names: Sequence[str], before: Mapping[str, str], now: Mapping[str, str]) -> int:
    """How many labels have another value than before, of those that both sides have."""
    return sum(bool(before.get(name)) and bool(now.get(name)) and before[name] != now[name] for name in names)


def _moved(reading: Reading, members: list[InfoSeries]) -> np.ndarray:
    """At every step how many labels have another value than what the same container showed first; of several
    containers the most."""
    first: dict[str, Mapping[str, str]] = {}
    rows = []
    for one in sorted(members, key=lambda one: int(np.argmax(np.isfinite(one.values)))):
        before = first.setdefault(one.labels.get(CONTAINER, ""), one.labels)
        count = moved_labels(reading.moved, before, one.labels)
        rows.append(np.where(np.isfinite(one.values), float(count), np.nan))
    return np.asarray(np.fmax.reduce(rows))


def _label_value(reading: Reading, labels: Mapping[str, str]) -> float:
    if reading.identity:
        outcome = "\0".join(f"{name}={labels.get(name, '')}" for name in reading.identity)
        return float(zlib.crc32(outcome.encode()))
    if reading.count_distinct:
        return float(
            len({name for label in reading.count_distinct for name in labels.get(label, "").split(",") if name.strip()})
        )
    try:
        return float(labels.get(str(reading.label), "nan"))
    except ValueError:
        return float("nan")


def _fill(first: SignalMatrix, second: SignalMatrix) -> SignalMatrix:
    """The rows of both; where both know an entity, the second fills the gaps of the first."""
    index = {entity: i for i, entity in enumerate(first.entities)}
    places = np.array([index.get(entity, -1) for entity in second.entities], np.int64)
    own, new = np.flatnonzero(places >= 0), np.flatnonzero(places < 0)
    gaps = np.isnan(first.values[places[own]])

    def both(one: np.ndarray, other: np.ndarray) -> np.ndarray:
        merged = np.vstack([one, other[new]])
        merged[places[own]] = np.where(gaps, other[own], one[places[own]])
        return merged

    seen = np.full_like(second.values, np.nan) if second.counts is None else second.counts
    return SignalMatrix(
        first.entities + [second.entities[row] for row in new.tolist()],
        both(first.values, second.values),
        None if first.counts is None else both(first.counts, seen),
        min((each.bounds for each in (first, second) if each.bounds is not None), key=len, default=None),
    )


def _plausible(values: np.ndarray, least: float) -> np.ndarray:
    """The values without those that nothing can be as small as: what is counted for requests that were not served."""
    with np.errstate(invalid="ignore"):
        return np.where(values < least, np.nan, values)


def read_signals(
    source: Source,
    selected: Iterable[str],
    grid: Grid,
    signals: Mapping[str, Signal],
    aliases: Aliases,
    match: tuple[Matcher, ...] = (),
) -> SignalFrame:
    """Read signals on a grid. Shapes: one float64[entities, grid.count] per signal; absent signals are left out."""
    return Assembler(source, signals, aliases, grid, match).run(selected)


def enough_events(reading: Reading, terms: Mapping[str, np.ndarray], grid: Grid) -> dict[str, np.ndarray]:
    """The terms of a share, float64[entities, times], each rate over the smallest window whose median, where there is
    traffic, holds enough of the events that the share is of; unchanged where they are no events."""
    events = _events(reading, terms)
    if events is None:
        return dict(terms)
    width = width_for(events * grid.rate_ms / 1000.0)
    apart = max(1, grid.rate_ms // grid.step_ms)
    return {
        name: _mean_of(rows, width, apart) if reading.terms[name].rate is not None else rows
        for name, rows in terms.items()
    }


def width_for(counts: np.ndarray) -> int:
    """By how much a window has to be wider so that the median one, where there is traffic, holds enough events.

    counts: events of one window each, of any shape."""
    seen = counts[counts > 0]
    if not seen.size:
        return WIDTHS[-1]
    median = float(np.median(seen))
    return next((width for width in WIDTHS if median * width >= MIN_OBSERVATIONS), WIDTHS[-1])


def _events(reading: Reading, terms: Mapping[str, np.ndarray]) -> np.ndarray | None:
    """Events a second that a share is of; None where it divides by something else."""
    below = formula.denominator(str(reading.formula))
    if below is None:
        return None
    names = names_in(ast.unparse(below))
    if not names or any(reading.terms[name].rate is None for name in names):
        return None
    return formula.evaluate(ast.unparse(below), terms)


def _mean_of(rows: np.ndarray, width: int, apart: int) -> np.ndarray:
    """Rates over a window as often as wide: the mean of those that end one window after the other, as far back as
    there are any; nothing where the newest is missing."""
    total, count = np.zeros_like(rows), np.zeros_like(rows)
    for back in range(0, min(width * apart, rows.shape[1]), apart):
        past = np.full_like(rows, np.nan)
        past[:, back:] = rows[:, : rows.shape[1] - back]
        known = ~np.isnan(past)
        total[known] += past[known]
        count += known
    with np.errstate(invalid="ignore"):
        return np.where(np.isnan(rows), np.nan, total / count)
