"""Blocks of the store, joined to one table of samples per target."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from inferdoc.source.reads import Matcher, matches
from inferdoc.source.window import Samples
from inferdoc.store.block import STALE, Block, absent

Key = tuple[str, ...]
Labels = frozenset[tuple[str, str]]

LAYOUTS_COMPARED = 4
"""How many layouts a block is compared with; fleets hold few kinds of targets."""


@dataclass(frozen=True)
class _Partial:
    """A key as far as a series knows it: None where the target's label counts. begin: where the series' own labels
    begin, if they are the last ones of the key (labels of targets stand first in most reads), else -1."""

    values: tuple[str | None, ...]
    tail: Key
    begin: int

    @classmethod
    def of(cls, values: tuple[str | None, ...]) -> _Partial:
        own = [i for i, value in enumerate(values) if value is not None]
        begin = len(values) - len(own)
        is_tail = not own or own[0] == begin
        return cls(values, tuple(v for v in values if v is not None), begin if is_tail else -1)

    def completed(self, base: Key) -> Key:
        """The key of a target whose labels are `base`."""
        if self.begin >= 0:
            return base[: self.begin] + self.tail
        return tuple([b if own is None else own for own, b in zip(self.values, base, strict=True)])


@dataclass
class TableLayout:
    """The columns of a table. Targets of one kind share a layout, and with it what was worked out about it.

    names, labels: one per column, labels without the target's."""

    names: list[str]
    labels: list[dict[str, str]]
    _by_name: dict[str, list[int]] = field(default_factory=dict)
    _chosen: dict[object, np.ndarray] = field(default_factory=dict)
    _keyed: dict[object, tuple[list[_Partial], np.ndarray]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for column, name in enumerate(self.names):
            self._by_name.setdefault(name, []).append(column)

    def has(self, name: str) -> bool:
        """Whether it has series of this name."""
        return name in self._by_name

    def choose(self, name: str, match: tuple[Matcher, ...], target: Mapping[str, str]) -> tuple[object, np.ndarray]:
        """Columns of the series that pass the matchers: int64[n], and a key that stands for this choice."""
        token = (name, match, tuple(target.get(label, "") for label, _, _ in match))
        chosen = self._chosen.get(token)
        if chosen is None:
            columns = self._by_name.get(name, ())
            kept = [c for c in columns if matches({**target, **self.labels[c]}, match)]
            chosen = self._chosen[token] = np.array(kept, dtype=np.int64)
        return token, chosen

    def keys(self, token: object, columns: np.ndarray, by: tuple[str, ...], base: Key) -> tuple[list[Key], np.ndarray]:
        """Distinct `by` label values of the chosen columns, and the index of that of each. base: the target's."""
        known = self._keyed.get((token, by))
        if known is None:
            index: dict[tuple[str | None, ...], int] = {}
            each = [index.setdefault(tuple(map(self.labels[c].get, by)), len(index)) for c in columns]
            known = self._keyed[(token, by)] = ([_Partial.of(part) for part in index], np.array(each, dtype=np.int64))
        partial, key_of_column = known
        return [part.completed(base) for part in partial], key_of_column


@dataclass
class Table:
    """All samples of one target in a time range. target: its labels."""

    target: dict[str, str]
    layout: TableLayout
    samples: Samples
    _values: dict[tuple[str, ...], Key] = field(default_factory=dict)

    def values_of(self, names: tuple[str, ...]) -> Key:
        """The target's values of these labels, "" for a label that it does not have."""
        if names not in self._values:
            self._values[names] = tuple([self.target.get(name, "") for name in names])
        return self._values[names]

    def labels(self, column: int) -> dict[str, str]:
        """All labels of one series, empty ones left out."""
        return {n: v for n, v in {**self.target, **self.layout.labels[column]}.items() if v}


def join(blocks: Iterable[Block], layouts: list[TableLayout] | None = None) -> list[Table]:
    """One table per target. Blocks of one target (time ranges, or pages of another layout) are put together; a
    series that two blocks hold at the same time is taken from the later block. layouts: as in `shared_layout`, those of
    earlier calls."""
    groups: dict[Labels, list[Block]] = {}
    for block in blocks:
        if len(block.times_ms) and block.names:
            groups.setdefault(frozenset(block.target.items()), []).append(block)
    layouts = [] if layouts is None else layouts
    tables = []
    del blocks
    while groups:  # what was put together is let go at once: both would be twice the memory
        group = groups.pop(next(iter(groups)))
        block = group[0] if len(group) == 1 and _ascending(group[0].times_ms) else _merge(group)
        layout = shared_layout(block.names, block.labels, layouts)
        tables.append(Table(block.target, layout, Samples(block.times_ms, block.values)))
    return tables


def shared_layout(names: list[str], labels: list[dict[str, str]], known: list[TableLayout]) -> TableLayout:
    """The layout of these columns; targets scraped alike get the very same one. known: those met so far, added to."""
    for layout in known[-LAYOUTS_COMPARED:]:
        if layout.labels is labels or (layout.names == names and layout.labels == labels):
            return layout
    known.append(TableLayout(names, labels))
    return known[-1]


def _ascending(times_ms: np.ndarray) -> bool:
    return bool((np.diff(times_ms) > 0).all())


def _merge(blocks: list[Block]) -> Block:
    """Blocks of one target as one: the union of their series, rows in the order of time, no time twice."""
    first = blocks[0]
    if all(b.names == first.names and b.labels == first.labels for b in blocks):
        names, labels = first.names, first.labels
        values = np.concatenate([b.values for b in blocks])
    else:
        index: dict[tuple[str, Labels], int] = {}
        names, labels, places = [], [], []
        for block in blocks:
            place = np.empty(len(block.names), dtype=np.int64)
            for column, (name, own) in enumerate(zip(block.names, block.labels, strict=True)):
                series = (name, frozenset(own.items()))
                if series not in index:
                    index[series] = len(names)
                    names.append(name)
                    labels.append(own)
                place[column] = index[series]
            places.append(place)
        values = np.full((len(names), sum(len(b.times_ms) for b in blocks)), STALE).T
        row = 0
        for block, place in zip(blocks, places, strict=True):
            values[row : row + len(block.times_ms), place] = block.values
            row += len(block.times_ms)
    times = np.concatenate([b.times_ms for b in blocks])
    if _ascending(times):
        return Block(first.target, times, names, labels, values)
    order = np.argsort(times, kind="stable")
    times, values = times[order], values[order]
    same = np.flatnonzero(np.diff(times) == 0)
    for row in same.tolist():
        values[row + 1] = np.where(absent(values[row + 1]), values[row], values[row + 1])
    keep = np.ones(len(times), dtype=bool)
    keep[same] = False
    return Block(first.target, times[keep], names, labels, values[keep])
