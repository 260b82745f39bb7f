"""What `export -o parquet` wrote, read back: the same samples, targets and types, to the bit."""

from __future__ import annotations

import contextlib
import json
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from inferdoc.collect.openmetrics_file import LATEST_MS, SampleColumns
from inferdoc.collect.samples import Series
from inferdoc.store.faults import StoreError, reason_of
from inferdoc.store.parquet_schema import (
    COLUMNS,
    TARGETS_KEY,
    TYPES_KEY,
    VERSION,
    VERSION_KEY,
    arrow,
    filesystem,
    is_path,
    labels_of,
    schema,
)

MAGIC = b"PAR1"
TargetLabels = tuple[tuple[str, str], ...]
_KEYS = ("target", "name", "labels")


def is_parquet(source: str | Path) -> bool:
    """Whether it is for this module: a URL, or a file that begins as Parquet does."""
    if not is_path(str(source)):
        return True
    with contextlib.suppress(OSError), Path(source).open("rb") as file:
        return file.read(len(MAGIC)) == MAGIC
    return False


@contextlib.contextmanager
def opened(source: str | Path) -> Iterator[BinaryIO]:
    """A local file or a URL to read. Raises StoreError."""
    with contextlib.ExitStack() as opened:
        try:
            if is_path(str(source)):
                file: BinaryIO = opened.enter_context(Path(source).open("rb"))
            else:
                files, path = filesystem(str(source))
                file = opened.enter_context(files.open(path, "rb"))
        except OSError as error:
            raise StoreError(
                f"cannot read {source}: {reason_of(error)}; check where it lies, and your rights"
            ) from error
        yield file


class ParquetReader:
    """Reads a file of samples row group by row group.

    `series`, `target_of` (the place in `targets` of each series), `problems` and `place` (how far it has read) grow
    while `blocks()` is consumed. targets: the labels of each, oldest first; types: as declared.
    """

    def __init__(
        self, stream: BinaryIO, name: str, progress: Callable[[float], None], max_series: int, *, strict: bool
    ) -> None:
        """name: for messages; progress: called with the share of the row groups read; max_series: where there are more,
        the metrics with the most are given up whole and stand in `left_out`; strict: a damaged row group is an error,
        else it is left out. Raises StoreError."""
        self._name, self._progress, self._most, self._strict = name, progress, max_series, strict
        self._faults = (ValueError, OSError, KeyError, arrow().lib.ArrowException)
        try:
            self._file = arrow("pyarrow.parquet").ParquetFile(stream, page_checksum_verification=True)
            reported = dict(self._file.schema_arrow.metadata or {}) | dict(self._file.metadata.metadata or {})
        except self._faults as error:
            raise self._damaged(error) from error
        version = reported.get(VERSION_KEY, b"none").decode("ascii", "replace")
        if version != VERSION:
            raise StoreError(
                f"cannot import {name}: its rows are of version {version}, this inferdoc reads {VERSION};"
                " write it with `inferdoc export -o parquet` of this release"
            )
        try:
            _check_columns(self._file.schema_arrow)
            self.types = labels_of(reported[TYPES_KEY].decode())
            self.targets = [_sorted(labels_of(json.dumps(each))) for each in json.loads(reported[TARGETS_KEY])]
        except self._faults as error:
            raise self._damaged(error) from error
        self._places = {labels: place for place, labels in enumerate(self.targets)}
        self._known: dict[tuple[str, str, str], int] = {}
        self._gone: dict[str, int] = {}
        self.series: list[Series] = []
        self.target_of: list[int] = []
        self.left_out: Counter[str] = Counter()
        self._damages: list[str] = []
        self.place = "its beginning"

    @property
    def problems(self) -> list[str]:
        """What was dropped so far, one line each."""
        names = ", ".join(name for name, _ in self.left_out.most_common(3))
        many = [f"more than {self._most:,} series: {names} left out whole"] if self.left_out else []
        return self._damages + many

    def blocks(self) -> Iterator[SampleColumns]:
        """Samples of one row group after the other. Raises StoreError."""
        count = self._file.num_row_groups
        for number in range(count):
            self.place = f"row group {number + 1} of {count}"
            try:
                columns = self._columns(self._file.read_row_group(number, columns=list(COLUMNS)))
            except self._faults as error:
                what = f"{self.place} is damaged ({_one_line(error)})"
                if self._strict:
                    hint = "nothing of it was imported; --lenient keeps the others"
                    raise StoreError(f"cannot import {self._name}: {what}; {hint}") from error
                self._damages.append(f"{what} and left out")
                continue
            self._progress((number + 1) / count)
            yield columns

    def _columns(self, table: Any) -> SampleColumns:
        pc = arrow("pyarrow.compute")
        if any(column.null_count for column in table.columns):
            raise ValueError("a value is missing")
        table = table.unify_dictionaries().combine_chunks()
        times = pc.cast(table["time"], arrow().int64()).to_numpy()
        if len(times) and not 0 <= times.min() <= times.max() <= LATEST_MS:
            raise ValueError("times are not within 1970 to 2200")
        chunks = [table[key].chunk(0) for key in _KEYS] if len(times) else []
        indices = [chunk.indices.to_numpy() for chunk in chunks]
        texts = [chunk.dictionary.to_pylist() for chunk in chunks]
        changed = np.ones(len(times), bool)
        changed[1:] = False
        for index in indices:
            changed[1:] |= index[1:] != index[:-1]
        begins = np.flatnonzero(changed)
        numbers = [
            self._number((texts[0][target], texts[1][name], texts[2][labels]))
            for target, name, labels in zip(*(index[begins].tolist() for index in indices), strict=True)
        ]
        series = np.repeat(np.array(numbers, np.int32), np.diff(np.append(begins, len(times))))
        values: NDArray[np.float64] = table["value"].to_numpy()
        return SampleColumns(self.series, series, times, values, self.types)

    def _number(self, key: tuple[str, str, str]) -> int:
        number = self._known.get(key, self._gone.get(key[1]))
        if number is None:
            target, name, labels = _sorted(labels_of(key[0])), key[1], labels_of(key[2])
            if target not in self._places:
                raise ValueError("a target is not among those of its metadata")
            number = self._known[key] = len(self.series)
            self.series.append(Series(name, _sorted({**labels, **dict(target)})))
            self.target_of.append(self._places[target])
            if len(self._known) > self._most:
                self._give_up()
        return number

    def _give_up(self) -> None:
        """Forget the metric with the most series: one of them stands for all."""
        counts = Counter(name for _, name, _ in self._known)
        ((name, count),) = counts.most_common(1)
        self.left_out[name] = count
        self._gone[name] = next(number for key, number in self._known.items() if key[1] == name)
        self._known = {key: number for key, number in self._known.items() if key[1] != name}

    def _damaged(self, error: Exception) -> StoreError:
        return StoreError(f"cannot import {self._name}: the file is damaged ({_one_line(error)}); take another copy")


def _check_columns(columns: Any) -> None:
    """Raises ValueError where the columns are not those of this version."""
    for field in schema():
        if field.name not in columns.names or not columns.field(field.name).type.equals(field.type):
            raise ValueError(f"column {field.name} is not a {field.type}")


def _sorted(labels: dict[str, str]) -> TargetLabels:
    return tuple(sorted(labels.items()))


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:200]
