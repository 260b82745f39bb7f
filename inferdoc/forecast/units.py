"""Kinds of load, and the one division that is allowed between them: a load by what a replica serves of the same kind.

Prefill works on prompt tokens that it computes (those found in a cache cost nothing), decode on tokens that it
generates. A number of one kind says nothing about the other, so each load and each rate carries its unit, and the units
are compared before anything is divided."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from inferdoc.errors import InferdocError


class LoadUnit(StrEnum):
    """What load is counted in, per second."""

    REQUESTS = "requests/s"
    PROMPT = "prompt tokens/s"
    GENERATED = "generated tokens/s"
    OF_FILE = "per second"
    """A file of loads does not say what it counts."""


BY_ROLE: dict[str, tuple[LoadUnit, ...]] = {
    "prefill": (LoadUnit.PROMPT,),
    "decode": (LoadUnit.GENERATED,),
    "both": (LoadUnit.PROMPT, LoadUnit.GENERATED),
}
"""What the replicas of a role work on; of several the one that needs most replicas binds."""

GIVEN = re.compile(r"(?P<number>[0-9][0-9.]*(?:e[+-]?[0-9]+)?)\s*(?P<unit>[a-z]+(?:\s+[a-z]+)*\s*/\s*s)", re.IGNORECASE)
GIVEN_UNITS = tuple(unit for unit in LoadUnit if unit is not LoadUnit.OF_FILE)


@dataclass(frozen=True)
class Rate:
    """So much per second, of one kind."""

    per_second: float
    unit: LoadUnit

    def __str__(self) -> str:
        return f"{self.per_second:.4g} {self.unit.value}"


@dataclass(frozen=True)
class Load:
    """A load over time. values: float64[n], per second, of one kind."""

    values: np.ndarray
    unit: LoadUnit

    def over(self, rate: Rate) -> np.ndarray:
        """float64[n]: how many times a replica's rate. Raises InferdocError where the two are of different kinds, or
        the rate is no positive number."""
        if rate.unit != self.unit:
            raise InferdocError(f"a load in {self.unit.value} cannot be divided by a capacity in {rate.unit.value}")
        if not (rate.per_second > 0 and math.isfinite(rate.per_second)):
            raise InferdocError(f"capacity per replica {rate.per_second:g} is not a positive number")
        return self.values / rate.per_second


def rate_of(text: str, where: str) -> Rate:
    """`4000 generated tokens/s` as a rate; InferdocError naming the option when it is none."""
    match = GIVEN.fullmatch(text.strip())
    named = None if match is None else re.sub(r"\s*/\s*", "/", " ".join(match["unit"].lower().split()))
    unit = next((unit for unit in GIVEN_UNITS if unit.value == named), None)
    try:
        number = float(match["number"]) if match is not None else 0.0
    except ValueError:
        number = 0.0
    if unit is None or not (number > 0 and math.isfinite(number)):
        known = ", ".join(unit.value for unit in GIVEN_UNITS)
        raise InferdocError(f"{where} `{text}`: write a number above 0 and its unit, one of {known}")
    return Rate(number, unit)
