"""How often findings were right: what `probability` says.

The counts stand in `diagnostics/calibration.yaml`, written by `benchmarks/calibration.py` from a scoreboard on seeds
that nobody looked at while rules were made. A finding's probability is the share that was right among first findings of
the same certainty; few counts pull it towards one half (Laplace's rule of succession).
"""

from __future__ import annotations

import msgspec

from inferdoc.catalogue.recipe import Certainty


class Bin(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """right, of: how many first findings of a certainty named an accepted cause."""

    certainty: Certainty
    right: int
    of: int


class Calibration(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """`diagnostics/calibration.yaml`: the counts, and what they were counted on."""

    bins: tuple[Bin, ...] = ()
    counted_on: str = ""

    def probability(self, certainty: Certainty) -> float:
        """0..1: how often a finding of this certainty is right."""
        right = sum(each.right for each in self.bins if each.certainty == certainty)
        of = sum(each.of for each in self.bins if each.certainty == certainty)
        return round((right + 1) / (of + 2), 2)
