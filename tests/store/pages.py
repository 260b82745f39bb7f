"""Pages for the tests, and what a store holds, sample by sample."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np

from inferdoc.collect.samples import Layout, Page, Series
from inferdoc.store import Block, Store, absent

POD = {"job": "vllm", "instance": "10.0.0.1:8000", "pod": "vllm-0"}

Sample = tuple[str, tuple[tuple[str, str], ...], int]
Samples = dict[Sample, int]
"""Series with all its labels and the time -> bits of the value."""


def layout_of(*series: str | tuple[str, dict[str, str]], types: dict[str, str] | None = None) -> Layout:
    """A layout; a plain string is a series without labels of its own."""
    pairs = [(each, {}) if isinstance(each, str) else each for each in series]
    return Layout([Series(name, tuple(sorted(labels.items()))) for name, labels in pairs], types)


def page_of(layout: Layout, values: Iterable[float], timestamps: list[int] | None = None) -> Page:
    stamps = None if timestamps is None else np.array(timestamps, np.int64)
    return Page(layout, np.array(list(values), np.float64), stamps)


def samples_of(blocks: list[Block]) -> Samples:
    held: Samples = {}
    for block in blocks:
        assert (np.diff(block.times_ms) > 0).all()
        missing, bits = absent(block.values), block.values.view(np.uint64)
        for column, (name, labels) in enumerate(zip(block.names, block.labels, strict=True)):
            every = tuple(sorted({**block.target, **labels}.items()))
            for row, ts_ms in enumerate(block.times_ms.tolist()):
                if not missing[row, column]:
                    held[name, every, ts_ms] = int(bits[row, column])
    return held


def held_by(path: Path) -> Samples:
    with Store.open(path) as store:
        first, latest = store.first_ms(), store.latest_ms()
        return {} if first is None or latest is None else samples_of(store.blocks(first, latest))


def bits_of(value: float) -> int:
    return int(np.float64(value).view(np.uint64))
