"""Cutting a grid into pieces that are read one by one, and putting the results together again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np

from inferdoc.source.reads import Grid, Read, ReadResult


def cut(grid: Grid, most: int) -> list[Grid]:
    """The grid in pieces of at most `most` steps, as even as possible, in the order of time."""
    number = -(-grid.count // max(most, 1))
    edges = [round(grid.count * i / number) for i in range(number + 1)]
    return [
        replace(grid, start_ms=grid.start_ms + grid.step_ms * begin, count=end - begin)
        for begin, end in pairwise(edges)
    ]


def put_together(read: Read, parts: Sequence[ReadResult]) -> ReadResult:
    """One result from those of consecutive pieces; a row that a piece lacks is NaN there."""
    if len(parts) == 1:
        return parts[0]
    keys = sorted({key for part in parts for key in part.keys})
    row_of = {key: row for row, key in enumerate(keys)}
    values = np.full((len(keys), sum(part.values.shape[1] for part in parts)), np.nan)
    begin = 0
    for part in parts:
        end = begin + part.values.shape[1]
        values[[row_of[key] for key in part.keys], begin:end] = part.values
        begin = end
    return ReadResult(read.by, keys, values)
