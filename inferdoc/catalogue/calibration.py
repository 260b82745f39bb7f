"""How often findings were right: what `probability` says.

The counts stand in `calibration.yaml`, as measured by `benchmarks/calibration.py` on recordings of fleets that other
people simulated and of real engines. A finding's probability is the share that was right among those of the same
certainty with which the second opinion agreed, or did not; few counts pull it towards one half (Laplace's rule).
"""

from __future__ import annotations

import msgspec

from inferdoc.catalogue.recipe import Certainty


class Bin(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """certainty, agrees: which findings; right, of: how many of them named an accepted cause."""

    certainty: Certainty
    agrees: bool
    right: int
    of: int


class Calibration(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """`diagnostics/calibration.yaml`: bins, and the sources they were counted on."""

    bins: tuple[Bin, ...] = ()
    sources: tuple[str, ...] = ()

    def probability(self, certainty: Certainty, agrees: bool) -> float:
        """0..1: how often a finding like this one is right."""
        right = sum(b.right for b in self.bins if (b.certainty, b.agrees) == (certainty, agrees))
        of = sum(b.of for b in self.bins if (b.certainty, b.agrees) == (certainty, agrees))
        return round((right + 1) / (of + 2), 2)
