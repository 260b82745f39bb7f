"""A canary beside what runs: sizes of the two arms, and an interval for the difference of their bad shares."""

from __future__ import annotations

import math

Z_ONE_SIDED_95, Z_POWER_80 = 1.645, 0.842


def arm_size(stable: float, canary: float, alpha: float = Z_ONE_SIDED_95, power: float = Z_POWER_80) -> int:
    """Requests per arm that tell two bad shares (0..1) apart: (z_alpha + z_power)^2 (p1 q1 + p2 q2) / (p2 - p1)^2.
    Times a design effect of 2 to 5, as requests of one minute go together."""
    spread = stable * (1.0 - stable) + canary * (1.0 - canary)
    return math.ceil((alpha + power) ** 2 * spread / (canary - stable) ** 2)


def wilson(bad: float, of: float, z: float) -> tuple[float, float]:
    """Wilson's interval of a share. (low, high), 0..1."""
    share, square = bad / of, z * z
    middle = share + square / (2 * of)
    half = z * math.sqrt(share * (1 - share) / of + square / (4 * of * of))
    return (middle - half) / (1 + square / of), (middle + half) / (1 + square / of)


def difference(
    canary: tuple[float, float], stable: tuple[float, float], z: float = Z_ONE_SIDED_95
) -> tuple[float, float, float]:
    """Bad share of the canary less that of the stable arm, each (bad, of): value, low and high end of Newcombe's
    interval (his method 10), 90 % at the default z."""
    (bad_c, of_c), (bad_s, of_s) = canary, stable
    at_c, at_s = bad_c / of_c, bad_s / of_s
    (low_c, high_c), (low_s, high_s) = wilson(bad_c, of_c, z), wilson(bad_s, of_s, z)
    value = at_c - at_s
    low = value - math.hypot(at_c - low_c, high_s - at_s)
    return value, low, value + math.hypot(high_c - at_c, at_s - low_s)
