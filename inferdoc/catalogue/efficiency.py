"""`collectors/efficiency.yaml`: the shares of their published figures that tiers reach in whole steps."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Literal

import msgspec

from inferdoc.catalogue.document import Steps, nearest
from inferdoc.catalogue.validate import Problem

Phase = Literal["prefill", "decode"]
Arithmetic = Literal["bf16", "fp8"]


class ReachedShare(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """share of the published figure (dense FLOP/s of the arithmetic, or bytes/s) that whole steps reach, 0..1, on so
    many GPUs of a tensor-parallel group, their collectives included; load: of which model and batch."""

    arithmetic: Arithmetic
    gpus: int
    share: float
    load: str


class TierEfficiency(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """prefill: of FLOP/s; decode: of bytes/s; all_reduce: GPUs -> values of 16 bits in the message -> microseconds."""

    source: str
    prefill: tuple[ReachedShare, ...] = ()
    decode: tuple[ReachedShare, ...] = ()
    all_reduce: dict[int, dict[int, float]] = {}


class Efficiency(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """tiers: by the names of tiers.yaml; one that is not there was not measured."""

    tiers: dict[str, TierEfficiency] = {}

    def problems(self, known: Collection[str]) -> Iterator[Problem]:
        """Tiers that do not exist, shares outside 0..1, times that are none."""
        for name, tier in self.tiers.items():
            at: Steps = ("tiers", name)
            if name not in known:
                yield Problem(at, f'no tier "{name}" in tiers.yaml{nearest(name, known)}')
            for phase in ("prefill", "decode"):
                rows: tuple[ReachedShare, ...] = getattr(tier, phase)
                for index, row in enumerate(rows):
                    if not 0 < row.share <= 1:
                        yield Problem((*at, phase, index, "share"), f"expected a share of 0 to 1, got {row.share:g}")
                    if row.gpus < 1:
                        yield Problem((*at, phase, index, "gpus"), f"expected 1 or more, got {row.gpus}")
            for gpus, times in tier.all_reduce.items():
                if gpus < 2 or not times or min(times) < 1 or min(times.values()) <= 0:
                    yield Problem((*at, "all_reduce", gpus), "expected 2 GPUs or more, and times above 0 by values")
