"""Data-parallel ranks: several engines of one deployment behind one front end.

The front end gives each request to the rank with the lowest 4 x waiting + running, as vLLM's internal balancer does, or
to the rank that a header names. Where the model has experts, all ranks exchange tokens in every layer and so step
together: a step of one lasts at least as long as those of the slowest rank have lately.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

import numpy as np

WAITING_WEIGHT = 4
"""vLLM v1/engine/core_client.py, DPLBAsyncMPClient: the score of a rank is 4 x waiting + running."""
FORGET = 0.25
"""Weight of the newest step in a rank's mean (own choice)."""


@dataclass
class LockStep:
    """lately: mean seconds per step of each rank by itself; a rank without work counts as 0."""

    lately: dict[int, float] = field(default_factory=dict)

    def join(self, rank: int, seconds: float) -> float:
        """Seconds of a step that the rank would do in `seconds` alone."""
        known = self.lately.get(rank) or seconds
        self.lately[rank] = known + FORGET * (seconds - known)
        return max(seconds, max(self.lately.values()))

    def rest(self, rank: int) -> None:
        """A rank has nothing to do: it only follows."""
        self.lately[rank] = 0.0


class Queues(Protocol):
    """What the balancer counts of an engine."""

    @property
    def waiting(self) -> Collection[object]:
        """Requests that wait."""

    @property
    def running(self) -> Collection[object]:
        """Requests in the batch."""


class Rank(Protocol):
    """One engine behind the front end."""

    @property
    def engine(self) -> Queues:
        """Its queues."""


AnyRank = TypeVar("AnyRank", bound=Rank)


def rank_for(
    ranks: Sequence[AnyRank], turn: int, pinned: tuple[int, float] | None, rng: np.random.Generator
) -> AnyRank:
    """The rank that takes a request. turn: where the search begins; pinned: a rank, and the share of the requests whose
    header names it."""
    if pinned is not None and rng.random() < pinned[1]:
        return ranks[pinned[0] % len(ranks)]

    def score(place: int) -> tuple[int, int]:
        engine = ranks[place].engine
        return WAITING_WEIGHT * len(engine.waiting) + len(engine.running), (place - turn) % len(ranks)

    return ranks[min(range(len(ranks)), key=score)]
