"""The layouts of a store: which series stands at which place of a page."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections import Counter, OrderedDict
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from inferdoc.store.codec import DamagedError, Key, pack_layout, unpack_layout
from inferdoc.store.rows import NOTHING, fetch
from inferdoc.store.seal import seal, unseal

Numbers = NDArray[np.int64]

_BASES_TRIED = 8
_MOST_SPELLED = 0.1
_SPELLED_KEPT = 64
_NUMBERS_KEPT = 8_000_000
"""Series of layouts remembered, all together (64 MB)."""
_KEPT_BETWEEN = 200_000
"""More distinct series than this are not remembered between two pieces of work."""
_SHRUNK_TO = 0.8
_HASH_BITS = 48
_HASH_MASK = (1 << _HASH_BITS) - 1
_MOST_NAMES = (1 << 62 - _HASH_BITS) - 1
OTHER_NAMES = "(other names)"
"""Stands for the names beyond so many that are left out."""
_BASE_KEYS_KEPT = 1_000_000


class LayoutTable:
    """Reads layouts and numbers every distinct series, so that layouts compare as integer arrays.

    keys: the series by number; grows as layouts are read. Where one metric has more label sets than fit (`shrink`),
    its series are not kept: their numbers are negative, a hash with the place of the name in `left_out`. Nor are those
    of names that nobody reads (`keep_only`), as far as places reach.
    """

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._layouts: OrderedDict[int, Numbers] = OrderedDict()
        self._kept = 0
        self._only: frozenset[str] | None = None
        self.reset()

    def reset(self) -> None:
        """Forget all: series get other numbers."""
        self.forget()
        self._numbers: dict[Key, int] = {}
        self._labels: list[dict[str, str] | None] = []
        self._spelled: dict[bytes, tuple[list[str], list[dict[str, str]]]] = {}
        self._by_name: Counter[str] = Counter()
        self._places: dict[str, int] = {}
        self.keys: list[Key] = []
        self.left_out: list[str] = []

    def keep_only(self, names: frozenset[str] | None) -> None:
        """From now on keep the series of these names, of all where None; others may be kept too. Of thousands of GPUs
        each has layouts of its own, with 162 series for eight of them, of which a read needs a few. Not to be called
        while numbers are in use."""
        if names is None:
            if self._only is None:
                return
            self._only = None
        elif self._only is None:
            self._only = names
        elif names <= self._only:
            return
        else:
            self._only |= names
        self.reset()

    def forget(self) -> None:
        """Read layouts anew, since those read may have been rolled back. Numbers stay."""
        self._layouts.clear()
        self._kept = 0

    def is_large(self) -> bool:
        """Whether it is time to `reset` it, where numbers need not stay."""
        return len(self.keys) > _KEPT_BETWEEN

    def shrink(self, most: int) -> None:
        """Where more than `most` series are kept, give up the metrics with the most label sets. Series of these, and
        those whose metric stays, may have other numbers afterwards: not to be called while numbers are in use."""
        if len(self._numbers) <= most:
            return
        kept = len(self._numbers)
        for name, count in self._by_name.most_common():
            if kept <= _SHRUNK_TO * most:
                break
            if name not in self._places:
                self._places[name] = min(len(self.left_out), _MOST_NAMES)
                if len(self.left_out) <= _MOST_NAMES:
                    self.left_out.append(name if len(self.left_out) < _MOST_NAMES else OTHER_NAMES)
            kept -= count
        names, places = self.left_out, self._places
        series = [key for key in self.keys if key[0] not in places]
        self.reset()
        self.left_out, self._places = names, places
        for key in series:
            self._number(key)

    def series(self, layout: int) -> Numbers:
        """int64[width]: number of the series at each place of a page with this layout."""
        known = self._layouts.get(layout)
        if known is None:
            known = self._layouts[layout] = self._read(layout)
            self._kept += len(known)
            while self._kept > _NUMBERS_KEPT and len(self._layouts) > 1:
                self._kept -= len(self._layouts.popitem(last=False)[1])
        else:
            self._layouts.move_to_end(layout)
        return known

    def count_names(self, series: Numbers, times: Numbers) -> Counter[str]:
        """How many samples each name has, where each of the series has so many."""
        counts: Counter[str] = Counter()
        gone = series < 0
        for place, number in zip(*_summed(-1 - series[gone] >> _HASH_BITS, times[gone]), strict=True):
            counts[self.left_out[place]] += number
        for place, number in zip(series[~gone].tolist(), times[~gone].tolist(), strict=True):
            counts[self.keys[place][0]] += number
        return counts

    def spelled(self, series: Numbers) -> tuple[list[str], list[dict[str, str]]]:
        """Names and labels of series by their numbers; targets of one kind share the very same lists."""
        which = series.tobytes()
        known = self._spelled.get(which)
        if known is None:
            if len(self._spelled) >= _SPELLED_KEPT:
                self._spelled.clear()
            numbers = series.tolist()
            known = self._spelled[which] = ([self.keys[each][0] for each in numbers], [*map(self._own_labels, numbers)])
        return known

    def _own_labels(self, number: int) -> dict[str, str]:
        """Labels of a series; the same object every time."""
        labels = self._labels[number]
        if labels is None:
            key = self.keys[number]
            labels = self._labels[number] = dict(zip(key[1::2], key[2::2], strict=True))
        return labels

    def _read(self, layout: int) -> Numbers:
        query = "SELECT base, series FROM layout WHERE id = ?"
        rows = fetch(self._connection, query, (layout,), (int, NOTHING), bytes)
        if not rows:
            raise DamagedError(f"layout {layout} is missing")
        base_layout, blob = rows[0]
        if base_layout is not None and base_layout >= layout:
            raise DamagedError(f"layout {layout} differs from one that is no older")
        base = np.empty(0, np.int64) if base_layout is None else self.series(base_layout)
        parts: list[Numbers] = []
        spelled: list[int] = []
        for item in unpack_layout(unseal(_context(layout, base_layout), blob, f"layout {layout}"), self._only):
            if isinstance(item, tuple):
                spelled.append(self._number(item))
                continue
            parts += [np.array(spelled, np.int64), base[item]]
            spelled = []
        parts.append(np.array(spelled, np.int64))
        return np.concatenate(parts)

    def _number(self, key: Key) -> int:
        place = self._places.get(key[0])
        if place is None and self._only is not None and key[0] not in self._only and len(self.left_out) < _MOST_NAMES:
            place = self._places[key[0]] = len(self.left_out)
            self.left_out.append(key[0])
        if place is not None:
            return -1 - (place << _HASH_BITS | hash(key) & _HASH_MASK)
        number = self._numbers.setdefault(key, len(self.keys))
        if number == len(self.keys):
            self.keys.append(key)
            self._labels.append(None)
            self._by_name[key[0]] += 1
        return number


def _summed(places: Numbers, times: Numbers) -> tuple[list[int], list[int]]:
    """Each place once, and the sum of its times."""
    distinct, which = np.unique(places, return_inverse=True)
    return distinct.tolist(), np.bincount(which, times, len(distinct)).astype(np.int64).tolist()


class LayoutWriter:
    """Finds or adds layouts. A new one is kept as a difference from a recent one where they are alike, so that series
    that come and go with every scrape (LoRA adapters) cost some hundred bytes each time, not the whole list."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._bases: OrderedDict[int, dict[Key, int]] = OrderedDict()
        table = LayoutTable(connection)
        newest = "SELECT id FROM layout WHERE base IS NULL ORDER BY id DESC LIMIT ?"
        for (layout,) in reversed(fetch(connection, newest, (_BASES_TRIED,), int)):
            self._remember(layout, [table.keys[number] for number in table.series(layout)])

    def identify(self, keys: Sequence[Key]) -> int:
        """The id of the layout with these series (all different), in this order."""
        digest = _digest(keys)
        row = self._connection.execute("SELECT id FROM layout WHERE digest = ?", (digest,)).fetchone()
        return int(row[0]) if row else self._add(keys, digest)

    def _add(self, keys: Sequence[Key], digest: bytes) -> int:
        base = self._likest(keys)
        blob, spelled = pack_layout(keys, self._bases[base] if base is not None else None)
        if base is not None and spelled > _MOST_SPELLED * len(keys):
            base = None
            blob, _ = pack_layout(keys, None)
        add = "INSERT INTO layout (digest, base, series) VALUES (?, ?, ?)"
        layout = int(self._connection.execute(add, (digest, base, b"")).lastrowid or 0)
        body = seal(_context(layout, base), blob)
        self._connection.execute("UPDATE layout SET series = ? WHERE id = ?", (body, layout))
        if base is None:
            self._remember(layout, keys)
        else:
            self._bases.move_to_end(base)
        return layout

    def _likest(self, keys: Sequence[Key]) -> int | None:
        """The recent layout that shares the most series."""
        shared = {layout: sum(key in places for key in keys) for layout, places in self._bases.items()}
        return max(shared, key=lambda layout: shared[layout], default=None)

    def _remember(self, layout: int, keys: Sequence[Key]) -> None:
        self._bases[layout] = {key: place for place, key in enumerate(keys)}
        while len(self._bases) > _BASES_TRIED or (
            len(self._bases) > 1 and sum(map(len, self._bases.values())) > _BASE_KEYS_KEPT
        ):
            self._bases.popitem(last=False)


def _context(layout: int, base: int | None) -> bytes:
    return f"{layout} {base}".encode("ascii")


def _digest(keys: Sequence[Key]) -> bytes:
    text = json.dumps(keys, ensure_ascii=False, separators=(",", ":"))
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
