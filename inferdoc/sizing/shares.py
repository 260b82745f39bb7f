"""The share of its published figures that a tier reaches: as measured where it was, else of the others, with a range.

The measured sums of kernels know no queue and no host: nine tenths of them are expected, between eight tenths and all
(own choice, until a live pool says better)."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from dataclasses import dataclass

from inferdoc.catalogue.efficiency import Arithmetic, Efficiency, Phase, ReachedShare, TierEfficiency

EXPECTED, LEAST, MOST = 0.9, 0.8, 1.0
ALONE_GAIN = 1.4
"""An 8B model on one H100 reaches 1.2 to 1.4 times the shares of a 70B on four, whose collectives count."""


@dataclass(frozen=True)
class ShareRange:
    """low, middle, high: 0..1; source: what it rests on; assumed: not measured on this tier and layout; gpus: of the
    group whose collectives are in it."""

    low: float
    middle: float
    high: float
    source: str
    assumed: bool
    gpus: int


def share_of(efficiency: Efficiency, tier: str, phase: Phase, arithmetic: Arithmetic, gpus: int) -> ShareRange:
    """The share that whole steps of a phase reach on so many GPUs of a tier."""
    known = efficiency.tiers.get(tier)
    rows = _rows(known, phase, arithmetic)
    if known is None or not rows:
        return _of_others(efficiency, phase, arithmetic, tier, gpus)
    row = min(rows, key=lambda each: (abs(each.gpus.bit_length() - gpus.bit_length()), each.gpus))
    alone = row.gpus == 1
    gain = ALONE_GAIN if gpus == 1 and not alone else 1.0
    source = f"{known.source}: {row.load}, {row.gpus} GPU{'' if alone else 's'}, {row.share:g} x {EXPECTED:g}"
    high = min(1.0, row.share * MOST * gain)
    return ShareRange(row.share * LEAST, row.share * EXPECTED, high, source, row.gpus != gpus, row.gpus)


def _rows(known: TierEfficiency | None, phase: Phase, arithmetic: Arithmetic) -> list[ReachedShare]:
    rows = () if known is None else known.prefill if phase == "prefill" else known.decode
    return [row for row in rows if row.arithmetic == arithmetic]


def _of_others(efficiency: Efficiency, phase: Phase, arithmetic: Arithmetic, tier: str, gpus: int) -> ShareRange:
    rows = [row for known in efficiency.tiers.values() for row in _rows(known, phase, arithmetic)]
    shares = [row.share for row in rows] or [0.5]
    middle = statistics.median(shares) * EXPECTED
    rest = f"the middle of {len(rows)} rows of other tiers x {EXPECTED:g}"
    what = f"not measured on {tier} with {arithmetic.upper()}: {rest}"
    return ShareRange(min(shares) * LEAST, middle, max(shares) * MOST, what, True, gpus)


def all_reduce_measured(times: Mapping[int, float], values: float) -> float:
    """Seconds of one all-reduce of so many 16-bit values: between two measured sizes on the line through them, beyond
    the last as the last two go on, below the first as long as the first. times: values -> microseconds."""
    sizes = sorted(times)
    if len(sizes) == 1 or values <= sizes[0]:
        return times[sizes[0]] * 1e-6
    above = next((index for index, size in enumerate(sizes) if size >= values and index), len(sizes) - 1)
    left, right = sizes[above - 1], sizes[above]
    slope = (times[right] - times[left]) / (right - left)
    return (times[left] + slope * (values - left)) * 1e-6
