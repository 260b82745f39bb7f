"""The bytes of chunks and segments, and which series share a chunk."""

from __future__ import annotations

import zlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inferdoc.store.block import STALE_BITS
from inferdoc.store.chunks import CHUNK_SERIES, chunks_of, pack_chunk, unpack_chunk
from inferdoc.store.codec import DamagedError

ODD = np.array([0.0, -0.0, np.nan, np.inf, -np.inf, 5e-324, 2.0**52, -(2.0**63), 1e300, 0.1], np.float64)
NANS = np.array([STALE_BITS, 0x7FF8_0000_DEAD_BEEF, 0xFFF8_0000_0000_0000], np.uint64)


def column(kind: int, rows: int, chance: np.random.Generator) -> np.ndarray:
    """A column of some kind, uint64[rows]."""
    if kind == 0:
        return np.full(rows, chance.choice(np.concatenate([ODD.view(np.uint64), NANS])))
    if kind <= 4:
        most = [0, 2, 200, 40_000, 2**40][kind]
        return chance.integers(-most, most + 1, rows).cumsum().astype(np.float64).view(np.uint64)
    if kind == 5:
        return chance.choice(np.concatenate([ODD.view(np.uint64), NANS]), rows)
    return chance.random(rows).view(np.uint64)


@settings(max_examples=80, deadline=None)
@given(st.lists(st.integers(0, 6), min_size=1, max_size=12), st.integers(1, 40), st.integers(0, 2**32), st.data())
def test_any_columns_survive(kinds, rows, seed, data):
    chance = np.random.default_rng(seed)
    values = np.stack([column(kind, rows, chance) for kind in kinds])
    body = pack_chunk(values)
    take = np.array(sorted(data.draw(st.sets(st.integers(0, len(kinds) - 1)))), np.intp)
    assert (unpack_chunk(body, len(kinds), rows, take) == values[take]).all()


def test_what_does_not_change_is_nearly_free():
    constant = np.random.default_rng(1).random((50, 1)).repeat(240, axis=1).view(np.uint64)
    assert len(pack_chunk(constant)) < 50 * 9 + 20, "0.04 bytes per sample"
    counters = np.arange(240.0)[np.newaxis].repeat(50, axis=0).view(np.uint64)
    assert len(pack_chunk(counters)) < 150


def test_damage_is_told():
    body = pack_chunk(np.random.default_rng(1).random((3, 20)).view(np.uint64))
    every = np.arange(3)
    with pytest.raises(DamagedError, match="decompress"):
        unpack_chunk(body[:-3], 3, 20, every)
    for columns, rows in ((3, 21), (2, 20), (400, 20)):
        with pytest.raises(DamagedError, match="fit"):
            unpack_chunk(body, columns, rows, np.arange(columns))
    with pytest.raises(DamagedError, match="fit"):
        unpack_chunk(zlib.compress(b"\x09" * 27), 3, 1, every)


def test_series_read_together_share_chunks():
    keys = [(f"vllm:metric_{number}", "engine", engine) for engine in "01" for number in range(60)]
    keys += [("vllm:ttft_bucket", "engine", "0", "le", str(bound)) for bound in range(20)]
    keys += [("vllm:requests_total", "adapter", str(number)) for number in range(2 * CHUNK_SERIES + 20)]
    keys += [("vllm:requests_created", "adapter", str(number)) for number in range(3)]
    keys += [("vllm:itl_bucket", "engine", "0", "le", str(bound)) for bound in range(20)]
    numbers = chunks_of(keys)
    chunks = {}
    for key, number in zip(keys, numbers.tolist(), strict=True):
        chunks.setdefault(number, []).append(key[0])
    assert sorted(chunks) == list(range(len(chunks))) and len(keys) == len(numbers)
    assert max(map(len, chunks.values())) <= CHUNK_SERIES
    touched = {name: {number for number, names in chunks.items() if name in names} for key in keys for name in key[:1]}
    assert all(len(found) == 1 for name, found in touched.items() if name != "vllm:requests_total")
    assert len(touched["vllm:requests_total"]) == 3
    assert touched["vllm:ttft_bucket"] == touched["vllm:itl_bucket"]
    assert not touched["vllm:ttft_bucket"] & touched["vllm:metric_1"]
    assert len(chunks_of([])) == 0
