"""The layouts of a store: which series stands at which place of a page."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections import OrderedDict
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from inferdoc.store.codec import DamagedError, Key, pack_layout, unpack_layout
from inferdoc.store.rows import NOTHING, fetch
from inferdoc.store.seal import seal, unseal

Numbers = NDArray[np.int32]

_BASES_TRIED = 8
_MOST_SPELLED = 0.1
_SPELLED_KEPT = 64


class LayoutTable:
    """Reads layouts once and numbers every distinct series, so that layouts compare as integer arrays.

    keys: the series by number; grows as layouts are read.
    """

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._numbers: dict[Key, int] = {}
        self._layouts: dict[int, Numbers] = {}
        self._spelled: dict[bytes, tuple[list[str], list[dict[str, str]]]] = {}
        self.keys: list[Key] = []

    def forget(self) -> None:
        """Read layouts anew, since those read may have been rolled back. Numbers stay."""
        self._layouts.clear()

    def series(self, layout: int) -> Numbers:
        """int32[width]: number of the series at each place of a page with this layout."""
        known = self._layouts.get(layout)
        if known is None:
            known = self._layouts[layout] = self._read(layout)
        return known

    def spelled(self, series: Numbers) -> tuple[list[str], list[dict[str, str]]]:
        """Names and labels of series by their numbers; targets of one kind share the very same lists."""
        which = series.tobytes()
        known = self._spelled.get(which)
        if known is None:
            if len(self._spelled) >= _SPELLED_KEPT:
                self._spelled.clear()
            keys = [self.keys[number] for number in series.tolist()]
            labels = [dict(zip(key[1::2], key[2::2], strict=True)) for key in keys]
            known = self._spelled[which] = ([key[0] for key in keys], labels)
        return known

    def _read(self, layout: int) -> Numbers:
        query = "SELECT base, series FROM layout WHERE id = ?"
        rows = fetch(self._connection, query, (layout,), (int, NOTHING), bytes)
        if not rows:
            raise DamagedError(f"layout {layout} is missing")
        base_layout, blob = rows[0]
        if base_layout is not None and base_layout >= layout:
            raise DamagedError(f"layout {layout} differs from one that is no older")
        base = np.empty(0, np.int32) if base_layout is None else self.series(base_layout)
        parts: list[Numbers] = []
        spelled: list[int] = []
        for item in unpack_layout(unseal(_context(layout, base_layout), blob, f"layout {layout}")):
            if isinstance(item, tuple):
                spelled.append(self._number(item))
                continue
            parts += [np.array(spelled, np.int32), base[item]]
            spelled = []
        parts.append(np.array(spelled, np.int32))
        return np.concatenate(parts)

    def _number(self, key: Key) -> int:
        number = self._numbers.setdefault(key, len(self.keys))
        if number == len(self.keys):
            self.keys.append(key)
        return number


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
        if len(self._bases) > _BASES_TRIED:
            self._bases.popitem(last=False)


def _context(layout: int, base: int | None) -> bytes:
    return f"{layout} {base}".encode("ascii")


def _digest(keys: Sequence[Key]) -> bytes:
    text = json.dumps(keys, ensure_ascii=False, separators=(",", ":"))
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
