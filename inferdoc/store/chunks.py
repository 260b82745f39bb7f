"""Bytes of a column chunk: some series of one target over a segment of at most an hour.

A chunk is, deflated: one byte per column that says how the column is kept; the first value of every column; then,
kind after kind, what the columns of that kind change from row to row. A column that does not change has no more than
its first value. One of whole numbers whose steps are small (nearly every counter and bucket) is kept as those steps, in
one, two or four bytes each. Any other is XORed with the row before. Numbers stand byte by byte: the lowest byte of all,
then the next. (Measured on an hour of a real vLLM recording, repeated with growing counters: 0.10 bytes per sample so,
0.19 with XOR for all that changes.)

Reads ask for whole metrics, so the series of one name share a chunk (`chunks_of`): gauges, counters, sums and counts
apart from buckets of histograms (many, and read by few); creation times, which hardly anything reads, come last.
"""

from __future__ import annotations

import zlib
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from inferdoc.store.codec import Bits, DamagedError, Key

CONSTANT, XOR, STEP_8, STEP_16, STEP_32 = range(5)
_STEPS: dict[int, np.dtype[Any]] = {STEP_8: np.dtype("<i1"), STEP_16: np.dtype("<i2"), STEP_32: np.dtype("<i4")}
_STEP_BYTES = np.array([0, 8, 1, 2, 4])
_BITS = np.dtype("<u8")
_LEVEL = 6
_EXACT = 2.0**52
"""Below it sums of whole numbers and of their differences are exact in float64."""


def pack_chunk(values: Bits) -> bytes:
    """The body of a chunk: values uint64[columns, rows], at least one row."""
    kinds, steps = _kinds(values)
    xored = values[kinds == XOR]
    parts = [kinds.tobytes(), to_planes(values[:, 0], _BITS), to_planes(xored[:, 1:] ^ xored[:, :-1], _BITS)]
    parts += [to_planes(steps[kinds == kind], dtype) for kind, dtype in _STEPS.items()]
    return zlib.compress(b"".join(parts), _LEVEL)


def unpack_chunk(body: bytes, columns: int, rows: int, take: NDArray[np.intp]) -> Bits:
    """Decode a chunk of that many columns and rows. Returns uint64[take, rows], the columns taken."""
    data = inflate(body, "a chunk")
    kinds = np.frombuffer(data, np.uint8, min(columns, len(data)))
    if len(kinds) != columns or kinds.max() > STEP_32:
        raise DamagedError("a chunk does not fit its series")
    counts = np.bincount(kinds, minlength=len(_STEP_BYTES))
    if len(data) != columns * 9 + (rows - 1) * int(counts @ _STEP_BYTES):
        raise DamagedError("a chunk does not fit its series and times")
    first = from_planes(data, columns, columns, _BITS).astype(np.uint64, copy=False)[take]
    taken = kinds[take]
    values = np.empty((len(take), rows), np.uint64)
    values[:] = first[:, np.newaxis]
    offset = columns * 9
    for kind in range(XOR, STEP_32 + 1):
        count = int(counts[kind])
        chosen = np.flatnonzero(taken == kind) if count else taken[:0]
        if len(chosen):
            places = np.cumsum(kinds == kind)[take[chosen]] - 1
            if kind == XOR:
                xored = _rows_of(data, offset, (count, rows - 1), places, _BITS)
                values[chosen, 1:] = np.bitwise_xor.accumulate(xored, axis=1) ^ first[chosen, np.newaxis]
            else:
                sums = _rows_of(data, offset, (count, rows - 1), places, _STEPS[kind]).cumsum(1, np.int64)
                values[chosen, 1:] = (sums + first[chosen, np.newaxis].view(np.float64)).view(np.uint64)
        offset += count * (rows - 1) * int(_STEP_BYTES[kind])
    return values


def to_planes(numbers: NDArray[Any], dtype: np.dtype[Any]) -> bytes:
    """The numbers as `dtype`, in C order, the lowest bytes of all first, then the next ones."""
    raw = np.ascontiguousarray(numbers, dtype).reshape(-1).view(np.uint8)
    return raw.reshape(-1, dtype.itemsize).T.tobytes()


def from_planes(data: bytes, offset: int, count: int, dtype: np.dtype[Any]) -> NDArray[Any]:
    """`count` numbers that `to_planes` wrote, from `offset` of `data` on."""
    planes = np.frombuffer(data, np.uint8, count * dtype.itemsize, offset).reshape(dtype.itemsize, count)
    numbers: NDArray[Any] = np.ascontiguousarray(planes.T).view(dtype).reshape(count)
    return numbers


def inflate(body: bytes, what: str) -> bytes:
    """Decompressed bytes. what: "a chunk", for the error."""
    try:
        return zlib.decompress(body)
    except zlib.error as error:
        raise DamagedError(f"{what} does not decompress ({error})") from error


def _rows_of(
    data: bytes, offset: int, shape: tuple[int, int], places: NDArray[np.intp], dtype: np.dtype[Any]
) -> NDArray[Any]:
    """Rows of a matrix that `to_planes` wrote: [places, shape[1]]."""
    size = dtype.itemsize
    planes = np.frombuffer(data, np.uint8, shape[0] * shape[1] * size, offset).reshape(size, *shape)
    if size == 1:
        single: NDArray[Any] = planes[0, places].view(dtype)
        return single
    chosen = np.ascontiguousarray(planes[:, places].transpose(1, 2, 0))
    found: NDArray[Any] = chosen.view(dtype).reshape(len(places), shape[1])
    return found


def _kinds(values: Bits) -> tuple[NDArray[np.uint8], NDArray[np.float64]]:
    """How each column is kept, uint8[columns], and the steps from row to row of those of whole numbers,
    float64[columns, rows - 1]."""
    kinds = np.full(len(values), XOR, np.uint8)
    numbers = values.view(np.float64)
    with np.errstate(all="ignore"):
        small = np.abs(numbers) < _EXACT
        whole = (np.where(small, numbers, 0.5).astype(np.int64).astype(np.float64).view(np.uint64) == values).all(
            axis=1
        )
        steps = np.diff(numbers, axis=1)
        for kind in (STEP_32, STEP_16, STEP_8):
            limits = np.iinfo(_STEPS[kind])
            fits = whole & (steps >= limits.min).all(axis=1) & (steps <= limits.max).all(axis=1)
            kinds[fits] = kind
    kinds[(values == values[:, :1]).all(axis=1)] = CONSTANT
    return kinds, steps


CHUNK_SERIES = 200
"""At most so many series in a chunk: large enough to compress well, small enough to be read for one of them."""

_PLAIN, _BUCKET, _CREATED = range(3)


def chunks_of(keys: Sequence[Key]) -> NDArray[np.uint32]:
    """uint32[keys]: number of the chunk of each series, counted from 0 without gaps."""
    names: defaultdict[tuple[int, str], list[int]] = defaultdict(list)
    for place, key in enumerate(keys):
        names[_kind(key), key[0]].append(place)
    numbers = np.zeros(len(keys), np.uint32)
    number, filled, before = 0, 0, _PLAIN
    for kind, name in sorted(names):
        places = names[kind, name]
        if filled and (kind != before or filled + min(len(places), CHUNK_SERIES) > CHUNK_SERIES):
            number, filled = number + 1, 0
        before = kind
        for start in range(0, len(places), CHUNK_SERIES):
            if start:
                number += 1
            part = places[start : start + CHUNK_SERIES]
            numbers[part] = number
            filled = len(part) if start else filled + len(part)
    return numbers


def _kind(key: Key) -> int:
    if key[0].endswith("_created"):
        return _CREATED
    return _BUCKET if "le" in key[1::2] else _PLAIN
