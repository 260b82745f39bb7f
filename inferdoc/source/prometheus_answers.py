"""Answers of the query API as arrays (prometheus.io/docs/prometheus/latest/querying/api/)."""

from __future__ import annotations

import re
from dataclasses import dataclass

import msgspec
import numpy as np

from inferdoc.errors import NOT_JSON


class AnswerError(ValueError):
    """An answer that is not what the API promises."""


class _Row(msgspec.Struct):
    metric: dict[str, str]
    values: msgspec.Raw = msgspec.Raw(b"[]")
    value: tuple[float, str] | None = None


class _Result(msgspec.Struct):
    resultType: str  # noqa: N815
    result: msgspec.Raw


class _Example(msgspec.Struct):
    labels: dict[str, str]
    value: str
    timestamp: float


class _Examples(msgspec.Struct):
    seriesLabels: dict[str, str]  # noqa: N815
    exemplars: list[_Example]


_EXAMPLES = msgspec.json.Decoder(list[_Examples])
_RESULT = msgspec.json.Decoder(_Result)
_ROWS = msgspec.json.Decoder(list[_Row])
_STRINGS = msgspec.json.Decoder(list[str])
_BLANK = re.compile(rb'"\s*"')
"""A value without a digit, which numpy reads as -1 behind a blank."""
_FLOATS = msgspec.json.Decoder(list[float])


@dataclass
class AnswerSeries:
    """One series of an answer. labels: without `__name__`; times_ms: int64[n]; values: float64[n]."""

    labels: dict[str, str]
    times_ms: np.ndarray
    values: np.ndarray


@dataclass(frozen=True)
class Exemplar:
    """One measurement that was counted. series: the labels of its bucket; labels: its own; value: in the unit of the
    histogram; at: seconds since the epoch."""

    series: dict[str, str]
    labels: dict[str, str]
    value: float
    at: float


LAST_SECONDS = 253_402_300_800.0
"""The year 10000, beyond which no time of a sample lies."""


def milliseconds(seconds: np.ndarray) -> np.ndarray:
    """Times as int64[n]. Raises AnswerError where one cannot be."""
    if not (np.abs(seconds) < LAST_SECONDS).all():  # NaN compares as not less
        raise AnswerError("a time that is none")
    rounded: np.ndarray = np.rint(seconds * 1000).astype(np.int64)
    return rounded


def _sample(value: str) -> float:
    try:
        if value.isascii() and "_" not in value:  # Python reads digits of any script, and 1_0
            return float(value)
    except ValueError:
        pass
    raise AnswerError("a sample value that is not a number")


def exemplars(data: msgspec.Raw) -> list[Exemplar]:
    """Exemplars of all series, as the server orders them."""
    try:
        return [
            Exemplar(row.seriesLabels, one.labels, float(one.value), one.timestamp)
            for row in _EXAMPLES.decode(data)
            for one in row.exemplars
        ]
    except NOT_JSON as error:
        raise AnswerError(str(error)) from None


def series(data: msgspec.Raw, steps_ms: np.ndarray | None = None) -> list[AnswerSeries]:
    """The series of a matrix or vector. Native histograms, which have no float values, come without points.

    steps_ms: int64[n], the steps of a range query: where they are known, times need not be read.
    """
    try:
        answer = _RESULT.decode(data)
        rows = _ROWS.decode(answer.result) if answer.resultType in ("matrix", "vector") else None
    except NOT_JSON as error:
        raise AnswerError(str(error)) from None
    if rows is None:
        raise AnswerError(f"a {answer.resultType} where a vector or matrix was expected")
    found = []
    known = (
        None if steps_ms is None or len(steps_ms) < 2 else (steps_ms, int(steps_ms[0]), int(np.diff(steps_ms[:2])[0]))
    )
    for row in rows:
        row.metric.pop("__name__", None)
        found.append(AnswerSeries(row.metric, *_points(row, known)))
    return found


def _points(row: _Row, steps: tuple[np.ndarray, int, int] | None) -> tuple[np.ndarray, np.ndarray]:
    if row.value is not None:
        return milliseconds(np.array([row.value[0]])), np.array([_sample(row.value[1])])
    text = bytes(row.values)
    times_ms = None if steps is None else _run_of_steps(text, *steps)
    if times_ms is not None:
        return times_ms, _values(text)
    pairs = _numbers(text)
    return milliseconds(pairs[:, 0]), pairs[:, 1]


def _run_of_steps(text: bytes, steps_ms: np.ndarray, start_ms: int, step_ms: int) -> np.ndarray | None:
    """The steps of the points where no step is left out between the first and the last, else None."""
    count = text.count(b'"') // 2
    if count < 2:
        return None
    try:
        first = round(float(text[2 : text.index(b",")]) * 1000)
        last = round(float(text[text.rindex(b"[") + 1 : text.rindex(b",")]) * 1000)
    except (ValueError, OverflowError):
        return None
    begin, beside = divmod(first - start_ms, step_ms)
    if beside or begin < 0 or begin + count > len(steps_ms) or last - first != (count - 1) * step_ms:
        return None
    return steps_ms[begin : begin + count]


def _values(text: bytes) -> np.ndarray:
    """`[[1.5,"2"],[3,"NaN"]]` -> [2, NaN]: the times are known, and reading them costs more than the values do."""
    found = text.split(b'"')[1::2]
    try:
        return np.array(_FLOATS.decode(b"[" + b",".join(found) + b"]"))
    except msgspec.DecodeError:  # NaN and infinities are no JSON numbers
        pass
    return np.array([_sample(value.decode("ascii", "replace")) for value in found])


def _numbers(text: bytes) -> np.ndarray:
    """`[[1.5,"2"],[3,"NaN"]]` -> float64[n, 2], in one pass without a Python object per point."""
    count = text.count(b"[") - 1
    if count < 1:
        return np.empty((0, 2))
    try:
        flat = np.empty(0) if _BLANK.search(text) else np.fromstring(text.translate(None, b'[]"'), sep=",")
    except ValueError:
        flat = np.empty(0)
    if flat.size != 2 * count:
        raise AnswerError("a sample value that is not a number")
    return flat.reshape(count, 2)


def strings(data: msgspec.Raw) -> list[str]:
    """A list of label values."""
    try:
        return _STRINGS.decode(data)
    except NOT_JSON as error:
        raise AnswerError(str(error)) from None


def metric_names(data: msgspec.Raw) -> set[str]:
    """The `__name__` of every series of a vector."""
    try:
        rows = _ROWS.decode(_RESULT.decode(data).result)
    except NOT_JSON as error:
        raise AnswerError(str(error)) from None
    return {row.metric["__name__"] for row in rows if "__name__" in row.metric}
