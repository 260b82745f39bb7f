"""Samples that do not fit in memory, sorted by time on the disk, so that an import of any size takes bounded memory."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from inferdoc.store.faults import StoreError, reason_of

Columns = tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float64]]
"""Times in milliseconds, series by number, values; of one length."""

_KINDS: tuple[np.dtype[Any], ...] = (np.dtype("<i8"), np.dtype("<i4"), np.dtype("<f8"))
_LEAST_FREE_BYTES = 256 << 20
"""Stays free on the disk, for the store itself."""
_MARKS = 64
"""So many times of each run are remembered, to know where to cut."""


class SampleRuns:
    """Runs of samples, each sorted by time, in a file without a name in the given folder. Use it as a context."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._file = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115  (closed with the context)
        self._runs: list[tuple[int, int]] = []
        self._marks: list[NDArray[np.int64]] = []
        self._weights: list[float] = []

    def __enter__(self) -> SampleRuns:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def __len__(self) -> int:
        return len(self._runs)

    def add(self, columns: Columns) -> None:
        """Write one run. Raises StoreError where the disk has no room for it."""
        order = np.argsort(columns[0], kind="stable")
        needed = sum(kind.itemsize for kind in _KINDS) * len(order)
        try:
            if shutil.disk_usage(self._folder).free < needed + _LEAST_FREE_BYTES:
                raise StoreError(f"no space in {self._folder} to sort the import: free some, or import smaller files")
            self._runs.append((self._file.seek(0, 2), len(order)))
            arrays: tuple[NDArray[Any], ...] = columns
            for column, kind in zip(arrays, _KINDS, strict=True):
                self._file.write(np.ascontiguousarray(column[order], kind).data)
            self._file.flush()
        except OSError as error:
            raise StoreError(f"cannot sort the import in {self._folder}: {reason_of(error)}") from error
        places = np.linspace(0, len(order) - 1, _MARKS).astype(np.int64)
        self._marks.append(columns[0][order[places]])
        self._weights.append(len(order) / _MARKS)

    def ranges(self, most: int) -> Iterator[Columns]:
        """All samples, some `most` at a time, cut between two times: earlier ones first, those of one time together,
        and of one time in the order in which they were added."""
        marks = np.concatenate(self._marks)
        weights = np.repeat(self._weights, _MARKS)
        order = np.argsort(marks, kind="stable")
        filled = np.floor(np.cumsum(weights[order]) / most)
        cuts = np.unique(marks[order][np.flatnonzero(np.diff(filled)) + 1])
        begins = [0] * len(self._runs)
        for cut in [*cuts.tolist(), None]:
            ends = [count if cut is None else self._find(run, cut) for run, (_, count) in enumerate(self._runs)]
            parts = [self._read(run, begins[run], ends[run]) for run in range(len(self._runs))]
            begins = ends
            times, series, values = [np.concatenate(column) for column in zip(*parts, strict=True)]
            if len(times):
                yield times, series, values

    def _find(self, run: int, time_ms: int) -> int:
        """How many samples of a run lie before a time."""
        low, high = 0, self._runs[run][1]
        while low < high:
            middle = (low + high) // 2
            if self._column(run, 0, middle, middle + 1)[0] < time_ms:
                low = middle + 1
            else:
                high = middle
        return low

    def _read(self, run: int, start: int, stop: int) -> list[NDArray[Any]]:
        return [self._column(run, number, start, stop) for number in range(len(_KINDS))]

    def _column(self, run: int, number: int, start: int, stop: int) -> NDArray[Any]:
        offset, count = self._runs[run]
        before = sum(kind.itemsize for kind in _KINDS[:number])
        kind = _KINDS[number]
        self._file.seek(offset + before * count + start * kind.itemsize)
        found: NDArray[Any] = np.frombuffer(self._file.read((stop - start) * kind.itemsize), kind)
        return found
