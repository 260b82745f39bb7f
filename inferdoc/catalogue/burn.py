"""How fast an error budget burns, and over which windows that is watched."""

from __future__ import annotations

from dataclasses import dataclass

from inferdoc.times import length_of


@dataclass(frozen=True)
class Burn:
    """spent: share of the period's budget that is gone when this rate lasted for the long window."""

    spent: float
    long: str
    short: str

    def factor(self, period: str) -> float:
        """How many times faster than sustainable the budget burns."""
        return self.spent * length_of(period) / length_of(self.long)


FAST = (Burn(0.02, "1h", "5m"), Burn(0.05, "6h", "30m"))
SLOW = (Burn(0.10, "1d", "2h"), Burn(0.10, "3d", "6h"))
"""The pairs of the SRE workbook, chapter "Alerting on SLOs"."""


def windows() -> list[str]:
    """Every window that a pair looks at, the shortest first."""
    return sorted({window for burn in (*FAST, *SLOW) for window in (burn.short, burn.long)}, key=length_of)
