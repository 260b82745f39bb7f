"""Reads the balance of expert load from a vLLM log: vLLM exports no such metric.

The line appears on EP rank 0 with `--enable-eplb` and `log_balancedness` in the EPLB configuration:

    EPLB step: 300 for model Qwen/Qwen3-30B-A3B: avg_tokens=512.25, max_tokens=980, balancedness=0.5227

Balancedness is mean over maximum of the tokens per EP rank, summed over layers; 1.0 is perfect. Up to vLLM 0.27
the reduction ran over layers instead of ranks, so values of those versions do not measure balance between ranks.
Source: vllm/distributed/eplb/eplb_state.py at 0.12, 0.24, 0.27, 0.28 and 0.33.
"""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import BinaryIO, NamedTuple

import numpy as np

from inferdoc.collect.samples import Layout, Page, Series

_LINE = re.compile(
    r"EPLB step: (\d+) for model (\S+): avg_tokens=([\d.]+), max_tokens=([\d.]+), balancedness=(\d+(?:\.\d+)?)"
)
_MARK = b"EPLB step:"
_BLOCK_BYTES = 1 << 20
_MAX_LINE_BYTES = 1 << 20

SERIES_NAMES = (
    "inferdoc_eplb_step",
    "inferdoc_eplb_avg_tokens",
    "inferdoc_eplb_max_tokens",
    "inferdoc_eplb_balancedness",
)
"""All carry the label `model_name`."""


class EplbSample(NamedTuple):
    """One line of the log: step of the balancer, mean and maximum of the tokens per rank, and their ratio."""

    model_name: str
    step: float
    avg_tokens: float
    max_tokens: float
    balancedness: float


def read_eplb_line(line: str) -> EplbSample | None:
    """The numbers of an EPLB line, whatever the logger put around them; None for any other line."""
    match = _LINE.search(line)
    if match is None:
        return None
    try:
        step, average, maximum, balance = (float(match[group]) for group in (1, 3, 4, 5))
    except ValueError:
        return None
    return EplbSample(match[2], step, average, maximum, balance)


def eplb_page(samples: Sequence[EplbSample]) -> Page | None:
    """The samples of one interval as a page: per model the last step and the means of the rest; None for none.

    A single step is noisy and lines may come many times per scrape, so the mean describes the interval.
    """
    by_model: defaultdict[str, list[EplbSample]] = defaultdict(list)
    for sample in samples:
        by_model[sample.model_name].append(sample)
    if not by_model:
        return None
    series = [Series(name, (("model_name", model),)) for model in sorted(by_model) for name in SERIES_NAMES]
    values = []
    for model in sorted(by_model):
        rows = by_model[model]
        values += [
            rows[-1].step,
            fmean(row.avg_tokens for row in rows),
            fmean(row.max_tokens for row in rows),
            fmean(row.balancedness for row in rows),
        ]
    return Page(Layout(series, dict.fromkeys(SERIES_NAMES, "gauge")), np.array(values, np.float64))


class EplbLog:
    """Follows a log file through rotation, truncation and absence.

    Args:
        path: the log. It need not exist yet.
        from_start: also read what stands in the file now. By default that is skipped: old lines
            carry no date that could be trusted, and would be taken for present ones.
    """

    def __init__(self, path: str | Path, *, from_start: bool = False) -> None:
        self.path = Path(path)
        self.problem: str | None = None
        """Why the file cannot be read at the moment, one line; None where it can."""
        self.newest: Page | None = None
        """Balance in the newest lines, by model; None before the first."""
        self._file: BinaryIO | None = None
        self._rest = b""
        try:
            if self._open() and not from_start:
                self._to_end()
        except OSError as error:
            self.problem = f"{self.path}: {error.strerror}"

    def __enter__(self) -> EplbLog:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def read(self) -> list[EplbSample]:
        """The samples written since the last call. Lines not finished yet wait for the next one. Never raises."""
        samples: list[EplbSample] = []
        try:
            if self._file is None and not self._open():
                return samples
            samples += self._read_new()
            if self._was_replaced():
                samples += self._finish_line()
                self.close()
                if self._open():
                    samples += self._read_new()
            self.problem = None
        except OSError as error:
            self.problem = f"{self.path}: {error.strerror}"
            self.close()
        return samples

    def _open(self) -> bool:
        self._rest = b""
        try:
            self._file = self.path.open("rb")
        except FileNotFoundError:
            self.problem = f"{self.path}: no such file yet"
            return False
        return True

    def _to_end(self) -> None:
        assert self._file is not None
        self._file.seek(0, os.SEEK_END)

    def _read_new(self) -> list[EplbSample]:
        assert self._file is not None
        if os.fstat(self._file.fileno()).st_size < self._file.tell():
            self._file.seek(0)
            self._rest = b""
        samples: list[EplbSample] = []
        while block := self._file.read(_BLOCK_BYTES):
            *lines, self._rest = (self._rest + block).split(b"\n")
            samples += _samples_of(lines)
            if len(self._rest) > _MAX_LINE_BYTES:
                self._rest = b""
        return samples

    def _was_replaced(self) -> bool:
        assert self._file is not None
        try:
            there = self.path.stat()
        except FileNotFoundError:
            return False
        here = os.fstat(self._file.fileno())
        return (there.st_dev, there.st_ino) != (here.st_dev, here.st_ino)

    def _finish_line(self) -> list[EplbSample]:
        rest, self._rest = self._rest, b""
        return _samples_of([rest])


def _samples_of(lines: Sequence[bytes]) -> list[EplbSample]:
    found = (read_eplb_line(line.decode("utf-8", "replace")) for line in lines if _MARK in line)
    return [sample for sample in found if sample is not None]
