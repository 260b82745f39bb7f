"""The GPUs of one pod as their driver sees them: heat and clocks, memory errors, links, and a device that is gone.

Heat: a GPU warms towards inlet + (power over its limit) x RISE / cooling with a time constant of some 40 s. At the
slowdown temperature the driver lowers the clock step by step until the heat can be carried off (software thermal
slowdown); a few degrees above, the hardware halves it at once. A power brake (a limit of the chassis supply)
halves the clock as long as it lasts; a lowered power limit lets the driver choose the clock that keeps to it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from inferdoc.catalogue.signal import Card
from inferdoc.simulate.hardware import BANDWIDTH_SHARE, FLOP_SHARE

INLET = 30.0
RISE = 42.0
"""Celsius by which a healthy GPU at its power limit is warmer than its inlet (own choice: 72 C under full load)."""
WARM_UP = 40.0
"""Seconds in which two thirds of a change of temperature happen (own choice, of an air-cooled heat sink)."""
SLOWDOWN = 85.0
"""Celsius at which the driver lowers clocks; nvidia-smi shows slowdown limits of 85 to 90 C for these parts."""
HARDWARE_SLOWDOWN = 92.0
"""Celsius at which the hardware halves the clock at once (nvidia-smi: some 5 C below shutdown)."""
BRAKE_CLOCK = 0.5
"""NVML: a hardware slowdown or power brake reduces the core clocks by a factor of 2 or more."""
LEAST_CLOCK = 0.3
POWER_CAP, HW_SLOWDOWN, SW_THERMAL, HW_THERMAL, POWER_BRAKE = 0x4, 0x8, 0x20, 0x40, 0x80
"""Bits of NVML's clocks event reasons."""


def workload(busy: float, tensor: float, dram: float) -> float:
    """Share of the power above idle that a GPU draws: being busy at all, tensor cores and memory each take a part (own
    choice); tensor, dram: activity as DCGM reads it."""
    return 0.2 * busy + 0.45 * min(1.0, tensor / FLOP_SHARE) + 0.35 * min(1.0, dram / BANDWIDTH_SHARE)


@dataclass
class Gpu:
    """One GPU. cooling: share of its cooling that is left; limit: share of its power limit; brake: the power supply
    sets less; codes: (second, Xid) of every event; remapped: rows after uncorrectable errors; lost: gone from the bus;
    link_errors: packets/s that its links have to send again, link_replays: so many in all."""

    cooling: float = 1.0
    limit: float = 1.0
    brake: bool = False
    temperature: float | None = None
    reasons: int = 0
    codes: list[tuple[float, int]] = field(default_factory=list)
    remapped: int = 0
    remap_failure: bool = False
    lost: bool = False
    link_errors: float = 0.0
    link_replays: float = 0.0

    @property
    def troubled(self) -> bool:
        """Whether its clock is throttled."""
        return self.cooling < 1.0 or self.limit < 1.0 or self.brake or self.reasons != 0

    @property
    def xid(self) -> int:
        """The newest code; it stays until the next one."""
        return self.codes[-1][1] if self.codes else 0

    def clock(self, now: float, card: Card, watts: float, passed: float) -> float:
        """The clock, as a share of the highest, after `passed` seconds at a power of `watts` and the clock `now`."""
        steady = INLET + RISE * watts / card.watts / self.cooling
        heat = steady if self.temperature is None else self.temperature
        self.temperature = heat + (steady - heat) * min(1.0, passed / WARM_UP)
        self.reasons = 0
        clock = min(1.0, now + 0.02 * passed)
        if self.temperature >= HARDWARE_SLOWDOWN:
            self.reasons |= HW_SLOWDOWN | HW_THERMAL
            clock = min(clock, BRAKE_CLOCK)
        elif self.temperature >= SLOWDOWN:
            self.reasons |= SW_THERMAL
            clock = now - 0.03 * passed
        elif self.temperature >= SLOWDOWN - 4.0 and now < 1.0:
            self.reasons |= SW_THERMAL
            clock = now
        if watts > card.watts * self.limit:
            self.reasons |= POWER_CAP
            clock = min(clock, now - 0.05 * passed)
        elif self.limit < 1.0 and watts > card.watts * self.limit * 0.93 and now < 1.0:
            self.reasons |= POWER_CAP
            clock = min(clock, now)
        if self.brake:
            self.reasons |= HW_SLOWDOWN | POWER_BRAKE
            clock = min(clock, BRAKE_CLOCK)
        return max(LEAST_CLOCK, min(1.0, clock))
