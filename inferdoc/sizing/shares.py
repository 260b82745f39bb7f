"""The share of its published figures that a tier reaches: as measured where it was, else of the others, with a range.

The measured sums of kernels know no queue and no host: nine tenths of them are expected, between eight tenths and all
(own choice, until a live pool says better). Collectives are no part of these shares: build.py adds those of the
layout."""

from __future__ import annotations

import statistics
from dataclasses import dataclass

from inferdoc.catalogue.efficiency import (
    Arithmetic,
    Efficiency,
    Family,
    Phase,
    ReachedShare,
    StepShares,
    StepSpread,
    TierEfficiency,
)

EXPECTED, LEAST, MOST = 0.9, 0.8, 1.0


NEAR = 2
"""Measured results of a kind of hardware, a family and an arithmetic from which on a prediction has points near it."""


@dataclass(frozen=True)
class ShareRange:
    """low, middle, high: 0..1, without collectives; source: what it rests on; assumed: not measured on this tier and
    layout."""

    low: float
    middle: float
    high: float
    source: str
    assumed: bool


def share_of(efficiency: Efficiency, tier: str, phase: Phase, arithmetic: Arithmetic, gpus: int) -> ShareRange:
    """The share that steps of a phase reach on so many GPUs of a tier while these do not talk to each other."""
    known = efficiency.tiers.get(tier)
    rows = _rows(known, phase, arithmetic)
    if known is None or not rows:
        return _of_others(efficiency, phase, arithmetic, tier)
    row = min(rows, key=lambda each: (abs(each.gpus.bit_length() - gpus.bit_length()), each.gpus))
    share = known.without_collectives(row)
    taken_out = f", without collectives {share:.2f}," if row.step_ms else ""
    source = f"{known.source}: {row.load}, {row.gpus} GPU{'' if row.gpus == 1 else 's'}, "
    source += f"share {row.share:g}{taken_out} x {EXPECTED:g}"
    return ShareRange(share * LEAST, share * EXPECTED, share * MOST, source, row.gpus != gpus)


def share_of_matrices(kind: StepShares, arithmetic: Arithmetic) -> float:
    """The share of the FLOP/s that matrices reach in an arithmetic; where none is known, that in BF16."""
    return {"bf16": kind.bf16, "fp8": kind.fp8, "fp4": kind.fp4}[arithmetic] or kind.bf16


def points_near(efficiency: Efficiency, tier: str, family: Family, arithmetic: Arithmetic) -> int:
    """How many measured results the shares of such a step rest on."""
    return efficiency.kind_of(tier)[1].points.get(f"{family}-{arithmetic}", 0)


def spread_of(
    efficiency: Efficiency, tier: str, family: Family, arithmetic: Arithmetic, engine: str, *, first: bool = False
) -> StepSpread:
    """How far a measured time may lie from the predicted one, of a step or to the first token: that of the narrowest
    cell with enough results, or wide without a point near."""
    cells = efficiency.first_spread if first else efficiency.spread
    if points_near(efficiency, tier, family, arithmetic) < NEAR:
        return cells["unmeasured"]
    kind = efficiency.kind_of(tier)[0]
    names = (f"{family}-{arithmetic} {kind} {engine}", f"{family}-{arithmetic} {kind}", family)
    return next(cells[name] for name in names if name in cells)


def part_shares(
    efficiency: Efficiency, tier: str, family: Family, arithmetic: Arithmetic, engine: str
) -> tuple[ShareRange, ShareRange]:
    """Shares of prefill and of decode that the parts of a step come from, at the ends of their spread."""
    name, kind = efficiency.kind_of(tier)
    points = points_near(efficiency, tier, family, arithmetic)
    spread = spread_of(efficiency, tier, family, arithmetic, engine)
    if points >= NEAR:
        source = f"{points} measured results of {family} in {arithmetic.upper()} on {name}"
    else:
        source = (
            f"no measured point near this ({family} in {arithmetic.upper()} on {tier}): x{spread.high:g} either way"
        )
    shares = (share_of_matrices(kind, arithmetic), kind.read)
    prefill, decode = (
        ShareRange(share / spread.high, share, min(1.0, share / spread.low), source, points < NEAR) for share in shares
    )
    return prefill, decode


def _rows(known: TierEfficiency | None, phase: Phase, arithmetic: Arithmetic) -> list[ReachedShare]:
    rows = () if known is None else known.prefill if phase == "prefill" else known.decode
    return [row for row in rows if row.arithmetic == arithmetic]


def _of_others(efficiency: Efficiency, phase: Phase, arithmetic: Arithmetic, tier: str) -> ShareRange:
    shares = [
        known.without_collectives(row) for known in efficiency.tiers.values() for row in _rows(known, phase, arithmetic)
    ] or [0.5]
    middle = statistics.median(shares) * EXPECTED
    rest = f"the middle of {len(shares)} rows of other tiers x {EXPECTED:g}"
    what = f"not measured on {tier} with {arithmetic.upper()}: {rest}"
    return ShareRange(min(shares) * LEAST, middle, max(shares) * MOST, what, True)
