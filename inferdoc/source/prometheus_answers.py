"""Answers of the query API as arrays (prometheus.io/docs/prometheus/latest/querying/api/)."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec
import numpy as np


class AnswerError(ValueError):
    """An answer that is not what the API promises."""


class _Row(msgspec.Struct):
    metric: dict[str, str]
    values: msgspec.Raw = msgspec.Raw(b"[]")
    value: tuple[float, str] | None = None


class _Result(msgspec.Struct):
    resultType: str  # noqa: N815
    result: msgspec.Raw


_RESULT = msgspec.json.Decoder(_Result)
_ROWS = msgspec.json.Decoder(list[_Row])
_STRINGS = msgspec.json.Decoder(list[str])


@dataclass
class Series:
    """One series of an answer. labels: without `__name__`; times_ms: int64[n]; values: float64[n]."""

    labels: dict[str, str]
    times_ms: np.ndarray
    values: np.ndarray


def series(data: msgspec.Raw) -> list[Series]:
    """The series of a matrix or vector. Native histograms, which have no float values, come without points."""
    try:
        answer = _RESULT.decode(data)
        rows = _ROWS.decode(answer.result) if answer.resultType in ("matrix", "vector") else None
    except msgspec.DecodeError as error:
        raise AnswerError(str(error)) from None
    if rows is None:
        raise AnswerError(f"a {answer.resultType} where a vector or matrix was asked for")
    found = []
    for row in rows:
        row.metric.pop("__name__", None)
        found.append(Series(row.metric, *_points(row)))
    return found


def _points(row: _Row) -> tuple[np.ndarray, np.ndarray]:
    if row.value is not None:
        return np.array([round(row.value[0] * 1000)], dtype=np.int64), np.array([float(row.value[1])])
    pairs = _numbers(bytes(row.values))
    return np.rint(pairs[:, 0] * 1000).astype(np.int64), pairs[:, 1]


def _numbers(text: bytes) -> np.ndarray:
    """`[[1.5,"2"],[3,"NaN"]]` -> float64[n, 2], in one pass without a Python object per point."""
    count = text.count(b"[") - 1
    if count < 1:
        return np.empty((0, 2))
    try:
        flat = np.fromstring(text.translate(None, b'[]"'), sep=",")
    except ValueError:
        flat = np.empty(0)
    if flat.size != 2 * count:
        raise AnswerError("a sample value that is not a number")
    return flat.reshape(count, 2)


def strings(data: msgspec.Raw) -> list[str]:
    """A list of label values."""
    try:
        return _STRINGS.decode(data)
    except msgspec.DecodeError as error:
        raise AnswerError(str(error)) from None


def metric_names(data: msgspec.Raw) -> set[str]:
    """The `__name__` of every series of a vector."""
    try:
        rows = _ROWS.decode(_RESULT.decode(data).result)
    except msgspec.DecodeError as error:
        raise AnswerError(str(error)) from None
    return {row.metric["__name__"] for row in rows if "__name__" in row.metric}
