"""Which series of a page share a column chunk.

Reads ask for whole metrics: every label set of some names. So the series of one name stand together, gauges, counters,
sums and counts apart from the buckets of histograms (many, and read by few), and creation times, which hardly anyone
reads, last. What is read together most often thus lies in two or three chunks of a page of 500 series.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from inferdoc.store.codec import Key

CHUNK_SERIES = 50
"""At most so many series in a chunk: large enough to compress well, small enough to be read for one of them."""

_PLAIN, _BUCKET, _CREATED = range(3)


def chunks_of(keys: Sequence[Key]) -> NDArray[np.uint32]:
    """uint32[keys]: number of the chunk of each series, counted from 0 without gaps."""
    names: defaultdict[tuple[int, str], list[int]] = defaultdict(list)
    for place, key in enumerate(keys):
        names[_kind(key), key[0]].append(place)
    numbers = np.zeros(len(keys), np.uint32)
    number, held, before = 0, 0, _PLAIN
    for kind, name in sorted(names):
        places = names[kind, name]
        if held and (kind != before or held + min(len(places), CHUNK_SERIES) > CHUNK_SERIES):
            number, held = number + 1, 0
        before = kind
        for start in range(0, len(places), CHUNK_SERIES):
            if start:
                number += 1
            part = places[start : start + CHUNK_SERIES]
            numbers[part] = number
            held = len(part) if start else held + len(part)
    return numbers


def _kind(key: Key) -> int:
    if key[0].endswith("_created"):
        return _CREATED
    return _BUCKET if "le" in key[1::2] else _PLAIN
