"""A store as one Parquet file, for DuckDB, ClickHouse, Spark and pandas, and for `import`."""

from __future__ import annotations

import contextlib
import json
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from inferdoc.replacing import replaced
from inferdoc.store.block import Block, absent
from inferdoc.store.exporter import batches, family_of, refuse_left_out
from inferdoc.store.faults import StoreError, reason_of
from inferdoc.store.origin import HOUR_MS
from inferdoc.store.parquet_schema import (
    STRINGS,
    TARGETS_KEY,
    TYPES_KEY,
    arrow,
    filesystem,
    is_path,
    labels_text,
    schema,
)
from inferdoc.store.reader import Reader
from inferdoc.store.schema import transaction

_DICTIONARY_BYTES = 64 << 20
"""Where the label sets of a family take more, they are written out row by row."""
Family = tuple[str, str]
"""Name and OpenMetrics type."""


def export_parquet(
    store: Reader,
    start_ms: int,
    end_ms: int,
    out: BinaryIO,
) -> int:
    """Write the samples in [start_ms, end_ms], milliseconds since 1970 UTC, to `out`. Returns how many.

    One row group per hour (UTC) and family, in this order; the store is read hour by hour, as many families at a time
    as fit in memory, in one consistent state. Raises StoreError, also where a metric has more label sets than fit: an
    export is whole or an error. Raises InferdocError without pyarrow.
    """
    pq = arrow("pyarrow.parquet")
    done = 0
    with (
        transaction(store.connection, "DEFERRED"),
        pq.ParquetWriter(
            out,
            schema(),
            compression="zstd",
            use_dictionary=list(STRINGS),
            dictionary_pagesize_limit=_DICTIONARY_BYTES,
            column_encoding={"time": "DELTA_BINARY_PACKED", "value": "PLAIN"},
            write_page_checksum=True,
        ) as writer,
    ):
        types = store.types()
        present: set[str] = set()
        for hour_ms in store.hours(start_ms, end_ms):
            span = max(hour_ms, start_ms), min(hour_ms + HOUR_MS - 1, end_ms)
            for family, blocks in _families(store, span, types):
                rows = _RowGroup(family)
                for block, columns in blocks:
                    rows.add(block, columns)
                if len(rows):
                    writer.write_table(rows.table(), row_group_size=len(rows))
                    done += len(rows)
                    present |= rows.targets()
        oldest_first = [text for text in map(labels_text, store.targets()) if text in present]
        reported = {TYPES_KEY: json.dumps(types, sort_keys=True), TARGETS_KEY: f"[{','.join(oldest_first)}]"}
        writer.add_key_value_metadata(reported)
    return done


@contextlib.contextmanager
def opened(url: str) -> Iterator[BinaryIO]:
    """A file to write: a local path, or any URL that fsspec has a filesystem for (`s3://bucket/key`, `memory://x`).

    It is there once all of it is written; after an error there is what was there before. Raises StoreError.
    """
    try:
        with replaced(Path(url)) if is_path(url) else _uploaded(url) as out:
            yield out
    except OSError as error:
        raise StoreError(f"cannot write {url}: {reason_of(error)}; check the path and your rights to it") from error


@contextlib.contextmanager
def _uploaded(url: str) -> Iterator[BinaryIO]:
    files, path = filesystem(url)
    with files.transaction, files.open(path, "wb") as out:
        yield out


def _families(
    store: Reader, span: tuple[int, int], types: dict[str, str]
) -> Iterator[tuple[Family, list[tuple[Block, list[int]]]]]:
    """The families of an hour in order, each with its blocks and its columns in them."""
    counts = store.sample_counts(*span)
    families: defaultdict[Family, set[str]] = defaultdict(set)
    for name in counts:
        families[family_of(name, types)].add(name)
    for batch in batches(sorted(families), families, counts):
        blocks = store.blocks(*span, set().union(*(families[family] for family in batch)))
        refuse_left_out(store)
        columns: dict[Family, list[tuple[Block, list[int]]]] = {family: [] for family in batch}
        family_by_name = {name: family for family in batch for name in families[family]}
        for block in blocks:
            own: defaultdict[Family, list[int]] = defaultdict(list)
            for column, name in enumerate(block.names):
                own[family_by_name[name]].append(column)
            for family, places in own.items():
                columns[family].append((block, places))
        yield from columns.items()


class _RowGroup:
    """The rows of one row group."""

    def __init__(self, family: Family) -> None:
        self._family = family
        self._texts: dict[str, dict[str, int]] = {"name": {}, "target": {}, "labels": {}}
        self._places: list[tuple[int, int, int]] = []
        self._samples: list[int] = []
        self._times: list[NDArray[np.int64]] = []
        self._values: list[NDArray[np.float64]] = []
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def targets(self) -> set[str]:
        """The targets of these rows, as JSON."""
        return set(self._texts["target"])

    def add(self, block: Block, columns: list[int]) -> None:
        """Samples of some columns, series by series."""
        values = block.values[:, columns]
        there = ~absent(values)
        samples = there.sum(axis=0).tolist()
        if not sum(samples):
            return
        target = self._place("target", labels_text(block.target))
        for column, number in zip(columns, samples, strict=True):
            if number:
                name, labels = block.names[column], block.labels[column]
                own = self._place("name", name), target, self._place("labels", labels_text(labels))
                self._places.append(own)
                self._samples.append(number)
        by_series = there.T
        self._times.append(np.broadcast_to(block.times_ms, by_series.shape)[by_series])
        self._values.append(values.T[by_series])
        self._count += sum(samples)

    def table(self) -> Any:
        """The rows as an Arrow table."""
        pa = arrow()
        places = np.array(self._places, np.int32)
        indices = {
            "name": np.repeat(places[:, 0], self._samples),
            "target": np.repeat(places[:, 1], self._samples),
            "labels": np.repeat(places[:, 2], self._samples),
        }
        texts = {"family": [self._family[0]], "type": [self._family[1]], **{k: list(v) for k, v in self._texts.items()}}
        zeros = np.zeros(self._count, np.int32)
        strings = {
            each: pa.DictionaryArray.from_arrays(indices.get(each, zeros), pa.array(texts[each], pa.string()))
            for each in STRINGS
        }
        times = pa.array(np.concatenate(self._times), pa.timestamp("ms", tz="UTC"))
        columns = {"time": times, **strings, "value": pa.array(np.concatenate(self._values))}
        form = schema()
        return pa.Table.from_arrays([columns[each] for each in form.names], schema=form)

    def _place(self, column: str, text: str) -> int:
        known = self._texts[column]
        return known.setdefault(text, len(known))
