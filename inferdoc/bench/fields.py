"""Values of a result file, each checked where it is read: one line says which key of which file is wrong."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from inferdoc.errors import InferdocError

PER_SECOND = {"s": 1.0, "sec": 1.0, "seconds": 1.0, "ms": 1e3, "us": 1e6, "µs": 1e6, "ns": 1e9}
"""How many of a unit a second has."""


@dataclass(frozen=True)
class Fields:
    """A part of a document. file: its name; path: where the part stands in it."""

    file: str
    values: Mapping[str, Any]
    path: str = ""

    def fault(self, key: str, what: str) -> InferdocError:
        """The error of one key."""
        return InferdocError(f"{self.file}: {self.path}{key}: {what}")

    def has(self, key: str) -> bool:
        """Whether the key holds anything."""
        return self.values.get(key) is not None

    def part(self, key: str) -> Fields:
        """The object under a key. Raises InferdocError."""
        value = self.values.get(key)
        if not isinstance(value, Mapping):
            raise self.fault(key, "missing; it holds the results" if value is None else "an object is expected")
        return Fields(self.file, value, f"{self.path}{key}.")

    def parts(self, key: str) -> list[Fields]:
        """The objects in the list under a key. Raises InferdocError."""
        value = self.values.get(key)
        if not isinstance(value, Sequence) or isinstance(value, str):
            raise self.fault(key, "missing" if value is None else "a list is expected")
        found = []
        for place, each in enumerate(value):
            if not isinstance(each, Mapping):
                raise self.fault(f"{key}[{place}]", "an object is expected")
            found.append(Fields(self.file, each, f"{self.path}{key}[{place}]."))
        return found

    def number(self, key: str, *, above: float | None = None, least: float | None = 0.0) -> float:
        """A finite number. above, least: what it must be more than, or at least. Raises InferdocError."""
        value = self.values.get(key)
        if value is None:
            raise self.fault(key, "missing; is the file of another version?")
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self.fault(key, f"a number is expected, not {value!r:.40}")
        if not math.isfinite(value):
            raise self.fault(key, f"{value} is no result; did any request end?")
        if above is not None and value <= above:
            raise self.fault(key, f"{value:g} must be above {above:g}")
        if above is None and least is not None and value < least:
            raise self.fault(key, f"{value:g} must be at least {least:g}")
        return float(value)

    def known(self, key: str) -> float | None:
        """The same where the key holds anything, else None."""
        return self.number(key) if self.has(key) else None

    def count(self, key: str) -> int:
        """A whole number, at least 0. Raises InferdocError."""
        value = self.number(key)
        if value != int(value):
            raise self.fault(key, f"a whole number is expected, not {value:g}")
        return int(value)

    def text(self, key: str) -> str:
        """A text with something in it. Raises InferdocError."""
        value = self.values.get(key)
        if not isinstance(value, str) or not value.strip():
            raise self.fault(key, "missing" if value is None else "a name is expected")
        return value


def rate_agrees(fields: Fields, key: str, stated: float, completed: int, seconds: float) -> None:
    """Raises InferdocError where the rate that a file states is not what was completed over its time."""
    true = completed / seconds
    if abs(stated - true) > RATE_SLACK * true:
        raise fields.fault(key, f"{stated:.4g}/s, but {completed:,} requests in {seconds:.4g} s are {true:.4g}/s")


RATE_SLACK = 0.1
"""Tools end the time at the last request or at the last token (own choice)."""
