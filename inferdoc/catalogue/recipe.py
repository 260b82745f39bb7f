"""What a cause looks like in YAML."""

from __future__ import annotations

from functools import cached_property
from typing import Literal

import msgspec

Phase = Literal["gateway", "frontend", "queue", "prefill", "transfer", "decode", "hardware", "process", "telemetry"]
Severity = Literal["critical", "warning", "info"]
Certainty = Literal["proven", "likely", "possible"]
ScopeLevel = Literal["gpu", "rank", "pod", "node", "target", "pool", "fleet", "tenant"]
CERTAINTIES: tuple[Certainty, ...] = ("possible", "likely", "proven")
"""From the least sure to the surest."""
Rank = Literal["P", "P+", "L", "X"]
RANK_AT_MOST: dict[str, Certainty] = {"P": "proven", "P+": "proven", "L": "likely", "X": "possible"}
"""What metrics can show of a cause: P all of it; P+ all of it with a named opt-in; L its likelihood; X no more than
that it is possible, since logs or other tools decide."""
Kind = Literal["local", "driver", "hardware", "process", "telemetry", "unexplained"]
Role = Literal["prefill", "decode", "both"]
When = Literal["any", "before"]
Scope = Literal["own", "pool", "peers", "most", "prefill", "decode"]


CONDITION_KINDS = (
    "above",
    "below",
    "rises",
    "falls",
    "slope",
    "reaches",
    "stalls",
    "differs",
    "follows",
    "turns",
    "present",
    "absent",
    "all",
    "any",
    "witnesses",
    "not_",
    "k_of",
)
"""The fields of which a condition sets exactly one."""
OF_EPISODES = ("slope", "reaches")
"""Kinds that look at the episode, and so come after the conditions that find its beginning."""


class Condition(
    msgspec.Struct, forbid_unknown_fields=True, frozen=True, dict=True, rename={"for_": "for", "not_": "not"}
):
    """One observation. Exactly one kind is set: above, below, rises, falls, slope, reaches, stalls, differs, follows,
    turns, present, absent, all, any, witnesses, not, k_of (so many of those in `of`).

    above, below: a number in the signal's unit or the name of a threshold of tiers.yaml.
    rises: r, at least r times the calm; falls: r, at most r times the calm; by: and moved by at least this much.
    slope: growth per second over the excursion, at least this. reaches: this limit within `within`, extrapolated.
    stalls: no progress of the signal while the named signal shows work. differs: at least this factor from like pods.
    follows: moves with another signal (rank correlation >= 0.6 at a lag of at most one window). turns: changes its
    direction at least so often within an hour.
    for: how long in one piece; share_of: instead, in this share of the windows; average: compare the means before and
    after instead (rates that arrive in ones and twos). scope: whose series, where not the entity's own
    (pool, peers, prefill, decode: on any of them; most: on at least half of the peers).
    witnesses: of those that are visible all hold, and one is. because: said when it rules out. when: of what rules
    out, `before` counts only what began before the mechanism did, so that a consequence does not rule out its cause.
    leads: of the symptoms, the one that brings the others about: the episode begins with it, whatever the others did
    before.
    """

    signal: str | None = None
    above: float | str | None = None
    below: float | str | None = None
    rises: float | None = None
    falls: float | None = None
    slope: float | None = None
    reaches: float | str | None = None
    within: str | None = None
    stalls: str | None = None
    differs: float | None = None
    follows: str | None = None
    turns: int | None = None
    present: bool | None = None
    absent: bool | None = None
    all: tuple[Condition, ...] | None = None
    any: tuple[Condition, ...] | None = None
    witnesses: tuple[Condition, ...] | None = None
    not_: Condition | None = None
    of: tuple[Condition, ...] | None = None
    k_of: int | None = None
    by: float | None = None
    for_: str | None = None
    share_of: float | None = None
    average: bool = False
    scope: Scope = "own"
    because: str | None = None
    when: When = "any"
    leads: bool = False

    @cached_property
    def kind(self) -> str:
        """The one kind it sets; `differs` beside `above`/`below` does not occur (the catalogue checks it)."""
        return next(kind for kind in CONDITION_KINDS if getattr(self, kind) is not None)

    @cached_property
    def parts(self) -> tuple[Condition, ...]:
        """The members of a group; empty for a simple condition."""
        negated = () if self.not_ is None else (self.not_,)
        return (*(self.all or ()), *(self.any or ()), *(self.witnesses or ()), *(self.of or ()), *negated)

    @cached_property
    def needs_split(self) -> bool:
        """Whether it looks at the episode, itself or in one of its parts."""
        return self.average or self.kind in OF_EPISODES or bool([part for part in self.parts if part.needs_split])


class Step(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """One thing to do: what, why, what it costs, how to undo it, and a command that exists. flags: vLLM flags named."""

    do: str
    why: str
    cost: str
    undo: str
    command: str | None = None
    flags: tuple[str, ...] = ()


class Stage(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """A stage of a cause that gets worse: reached when its condition holds."""

    name: str
    when: Condition


class Alert(msgspec.Struct, forbid_unknown_fields=True, frozen=True, rename={"for_": "for"}):
    """How the cause becomes a Prometheus rule. `severity` overrides the recipe's."""

    for_: str = "5m"
    keep_firing_for: str | None = "5m"
    severity: Severity | None = None
    expr: str | None = None
    none_because: str | None = None


class Recipe(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """A cause as data. symptoms: all must hold on one entity, overlapping in time; harm: at least one; support raises
    certainty; pool_share: the cause holds only where at least this share of a pool shows it; recovers: an episode that
    ended within the tier's cold start is a change, not a finding; catch_all: what it rests on (slower, with more
    running) is true of any slowdown, so it never leads a specific cause; limit: a capacity that more load reaches, so
    that load which grew from outside is its cause; proof: what makes it proven (where given,
    without it at most `likely`); unless: rules it out and says why; effects: causes folded under this root;
    look_alikes: causes that must be told apart and reported as ruled out; more_specific_than: causes that this one is
    a kind of, put under it where both hold; rank: what metrics can show of it (RANK_AT_MOST).
    """

    id: str
    title: str
    phase: Phase
    scope: ScopeLevel
    severity: Severity
    symptoms: tuple[Condition, ...]
    harm: tuple[Condition, ...]
    next_steps: tuple[Step, ...]
    sources: tuple[str, ...]
    kind: Kind = "local"
    rank: Rank = "P"
    at_most: Certainty = "proven"
    critical_when: Condition | None = None
    support: tuple[Condition, ...] = ()
    proof: tuple[Condition, ...] = ()
    unless: tuple[Condition, ...] = ()
    effects: tuple[str, ...] = ()
    look_alikes: tuple[str, ...] = ()
    more_specific_than: tuple[str, ...] = ()
    roles: tuple[Role, ...] = ()
    optional: tuple[str, ...] = ()
    stages: tuple[Stage, ...] = ()
    pool_share: float | None = None
    recovers: bool = False
    catch_all: bool = False
    limit: bool = False
    alert: Alert | None = None

    @property
    def most_certain(self) -> Certainty:
        """How sure a finding of this cause may be: the lower of its rank and `at_most`."""
        return min(self.at_most, RANK_AT_MOST[self.rank], key=CERTAINTIES.index)
