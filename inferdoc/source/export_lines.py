"""Raw samples as VictoriaMetrics hands them out: one series a line.

`{"metric":{"__name__":"up","job":"vllm"},"values":[1,0],"timestamps":[1795254591380,1795254593380]}`
(https://docs.victoriametrics.com/#how-to-export-data-in-json-line-format). A staleness marker is `null`, and an
infinity is `"Infinity"`, before release 1.86 a bare `+Inf`, which is no JSON: so a line is taken apart before it is
decoded. Series of one scrape share their times, which are decoded once.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import msgspec
import numpy as np

from inferdoc.errors import NOT_JSON
from inferdoc.source.prometheus_answers import AnswerError
from inferdoc.store.block import STALE

LONGEST_LINE = 64 << 20
"""Bytes; a day of one series scraped every second has 2 MB."""
_METRIC, _VALUES, _TIMES = b'{"metric":', b',"values":[', b'],"timestamps":['

_LABELS = msgspec.json.Decoder(dict[str, str])
_FLOATS = msgspec.json.Decoder(list[float])
_WHOLE = msgspec.json.Decoder(list[int])
_WORDS = {b"null": STALE, b"+Inf": np.inf, b"-Inf": -np.inf, b'"Infinity"': np.inf, b'"-Infinity"': -np.inf}


@dataclass(frozen=True)
class RawSeries:
    """name: of the metric; labels: without it; times_ms: int64[n], ascending; values: float64[n], STALE where a series
    ended."""

    name: str
    labels: dict[str, str]
    times_ms: np.ndarray
    values: np.ndarray


@dataclass
class SampleBudget:
    """How many samples one operation may hold at once. Used by many threads."""

    most: int
    taken: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def take(self, count: int) -> bool:
        """Whether so many more fit."""
        with self._lock:
            self.taken += count
            return self.taken <= self.most


class BudgetError(Exception):
    """More samples than fit at once."""


def read_lines(chunks: Iterable[bytes], budget: SampleBudget, times: dict[bytes, np.ndarray]) -> list[RawSeries]:
    """The series of an export that arrives in chunks. times: those met so far as they were written, added to. Raises
    AnswerError where a line is none, BudgetError where there are more than fit. What an answer took from the budget
    that broke off is given back: the server is queried again."""
    found: list[RawSeries] = []
    count = 0
    try:
        for line in _lines(chunks):
            one = _series(line, times)
            count += len(one.values)
            if not budget.take(len(one.values)):
                raise BudgetError
            found.append(one)
    except BudgetError:
        raise  # whoever shares the budget is to stop as well
    except BaseException:
        budget.take(-count)
        raise
    return found


def _lines(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """The lines, empty ones left out."""
    loaded: list[bytes] = []
    size = 0
    for chunk in chunks:
        first, *others = chunk.split(b"\n")
        loaded.append(first)
        size += len(first)
        if size > LONGEST_LINE:
            raise AnswerError(f"a line of more than {LONGEST_LINE >> 20} MiB")
        for other in others:
            if size:
                yield b"".join(loaded)
            loaded, size = [other], len(other)
    if size:
        yield b"".join(loaded)


def _series(line: bytes, times: dict[bytes, np.ndarray]) -> RawSeries:
    begin, end = line.rfind(_VALUES), line.rfind(_TIMES)
    if not line.startswith(_METRIC) or not 0 < begin < end or not line.endswith(b"]}"):
        raise AnswerError(f"a line that is no series: {line[:120].decode('utf-8', 'replace')}")
    written = line[end + len(_TIMES) : -2]
    try:
        labels = _LABELS.decode(line[len(_METRIC) : begin])
        times_ms = times.get(written)
        if times_ms is None:
            times_ms = times[written] = np.array(_WHOLE.decode(b"[" + written + b"]"), np.int64)
        values = _numbers(line[begin + len(_VALUES) : end])
    except NOT_JSON as error:
        raise AnswerError(f"a line that is no series ({error})") from None
    if len(values) != len(times_ms):
        raise AnswerError(f"{len(values)} values at {len(times_ms)} times")
    return RawSeries(labels.pop("__name__", ""), labels, times_ms, values)


def _numbers(text: bytes) -> np.ndarray:
    try:
        return np.array(_FLOATS.decode(b"[" + text + b"]"), np.float64)
    except msgspec.DecodeError:
        return np.array([_WORDS[each] if each in _WORDS else float(each) for each in text.split(b",")], np.float64)
