"""What can be checked of a unit: one class per kind of condition, each with the fields that this kind reads.

A fact is about one signal; a group is made of other conditions. `Condition` is any of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import ClassVar, Literal

import msgspec

Scope = Literal["own", "pool", "peers", "most", "prefill", "decode"]
When = Literal["any", "before"]


class ConditionBase(msgspec.Struct, frozen=True, kw_only=True):
    """What belongs to the use of a condition and not to the fact, and what every kind answers.

    because: printed when it rules out. when: of what rules out, `before` counts only what started before the mechanism,
    so that a consequence does not rule out its cause. leads: of the symptoms, the one that brings the others about: the
    episode begins with it, whatever the others did before.
    """

    because: str | None = None
    when: When = "any"
    leads: bool = False

    @property
    def parts(self) -> tuple[Condition, ...]:
        """The members of a group; empty for a fact."""
        return ()

    @property
    def signals(self) -> tuple[str, ...]:
        """Every signal that it reads, in order, as often as it is read."""
        return ()

    @property
    def needs_split(self) -> bool:
        """Whether it looks at the episode, itself or in one of its parts, and so comes after the conditions that find
        the beginning."""
        return False


# ---- facts: of one signal ------------------------------------------------------------------------------------------


class OfSignal(ConditionBase, frozen=True, kw_only=True):
    """A fact about one signal. scope: whose series, where not the unit's own (pool, peers, prefill, decode: on any of
    them; most: on at least half of the peers)."""

    signal: str
    scope: Scope = "own"

    @property
    def signals(self) -> tuple[str, ...]:
        return (self.signal,)


class Lasting(OfSignal, frozen=True, kw_only=True):
    """A fact that must last. for: how long in one piece; share_of: instead, in this share of the windows."""

    for_: str | None = None
    share_of: float | None = None


class Level(Lasting, frozen=True, kw_only=True):
    """above (up), below: a limit in the signal's unit, or the name of a threshold of tiers.yaml."""

    limit: float | str
    up: bool


class Compared(Lasting, frozen=True, kw_only=True):
    """A fact against other values of the signal. by: it differs by at least this much, too; average: compare means
    (rates that arrive in ones and twos), of the episode with those before or with those of like units."""

    by: float | None = None
    average: bool = False

    @property
    def needs_split(self) -> bool:
        return self.average


class Move(Compared, frozen=True, kw_only=True):
    """rises (up): at least `ratio` times the baseline; falls: at most `ratio` times the baseline. busy: steps at which
    the signal is 0 are left out, so that traffic is compared as latencies are, which nobody has while idle."""

    ratio: float
    up: bool
    busy: bool = False


class Odd(Compared, frozen=True, kw_only=True):
    """differs: at least (below 1: at most) `factor` times what like units show. newly: the means parted, and the
    condition finds the moment itself."""

    factor: float
    newly: bool = False

    @property
    def needs_split(self) -> bool:
        return self.average and not self.newly


class Slope(OfSignal, frozen=True, kw_only=True):
    """slope: growth per second over the episode, at least this (a negative number: at most)."""

    per_second: float

    @property
    def needs_split(self) -> bool:
        return True


class Reaches(OfSignal, frozen=True, kw_only=True):
    """reaches: extrapolated, the signal meets the limit within a time."""

    limit: float | str
    within: str

    @property
    def needs_split(self) -> bool:
        return True


class Stall(OfSignal, frozen=True, kw_only=True):
    """stalls: no progress of the signal while the signal `work` shows that there is some. aborts: the signal for the
    share of the work that was aborted; where all of it was as progress stopped, and the gauge has not moved since, it
    is the gauge that is stale (stale: the condition is that it is) and no work that waits. for: how long at the
    least."""

    work: str
    aborts: str | None = None
    stale: bool = False
    for_: str | None = None

    @property
    def signals(self) -> tuple[str, ...]:
        return (self.signal, self.work, *([self.aborts] if self.aborts else []))


class Follow(OfSignal, frozen=True, kw_only=True):
    """follows: moves with the signal `leader` (rank correlation >= 0.6 at a lag of at most one window)."""

    leader: str

    @property
    def signals(self) -> tuple[str, ...]:
        return (self.signal, self.leader)


class Turns(OfSignal, frozen=True, kw_only=True):
    """turns: changes its direction at least so many times within an hour."""

    times: int


class Presence(OfSignal, frozen=True, kw_only=True):
    """present (there), absent: whether the signal exists for the unit at all."""

    there: bool


# ---- groups: of other conditions -----------------------------------------------------------------------------------


class OfParts(ConditionBase, frozen=True, dict=True):
    """Made of others. What follows from the parts is worked out once, not at every evaluation."""

    word: ClassVar[str]

    @cached_property
    def signals(self) -> tuple[str, ...]:
        return tuple(name for part in self.parts for name in part.signals)

    @cached_property
    def needs_split(self) -> bool:
        return any(part.needs_split for part in self.parts)

    @cached_property
    def only_denies(self) -> bool:
        """Whether it says of nothing that it holds: nothing of this, nothing of that."""
        return all(isinstance(part, Not) for part in self.parts)


class AllOf(OfParts, frozen=True):
    """All hold, overlapping in time."""

    word = "all"
    parts: tuple[Condition, ...]


class AnyOf(OfParts, frozen=True):
    """One holds: alternative observations of one thing."""

    word = "any"
    parts: tuple[Condition, ...]


class Witnesses(OfParts, frozen=True):
    """Of those that are visible all hold, and one is."""

    word = "witnesses"
    parts: tuple[Condition, ...]


class Not(OfParts, frozen=True):
    """It does not hold."""

    word = "not"
    part: Condition

    @cached_property
    def parts(self) -> tuple[Condition, ...]:
        return (self.part,)


class KOf(OfParts, frozen=True):
    """At least `k` of them hold."""

    word = "k_of"
    parts: tuple[Condition, ...]
    k: int


Fact = Level | Move | Odd | Slope | Reaches | Stall | Follow | Turns | Presence
Group = AllOf | AnyOf | Witnesses | Not | KOf
Condition = Fact | Group


def leaves(condition: Condition) -> Iterator[Fact]:
    """The facts that a condition is made of."""
    if not isinstance(condition, OfParts):
        yield condition
        return
    for part in condition.parts:
        yield from leaves(part)
