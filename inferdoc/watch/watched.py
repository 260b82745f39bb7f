"""What is watched, and one look at it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from inferdoc.judging.model import Diagnosis


@dataclass(frozen=True)
class Glance:
    """One run: what was found, and how it is written."""

    answer: Diagnosis
    shown: str


@dataclass(frozen=True)
class Watch:
    """What is watched. run: looks once; seconds: between the end of a look and the next; fault: what a look that
    failed says, and its exit code; now: the time."""

    run: Callable[[], Glance]
    seconds: float
    fault: Callable[[Exception], tuple[str, int]]
    now: Callable[[], datetime] = lambda: datetime.now(UTC)
