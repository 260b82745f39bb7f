"""What a cause looks like in YAML."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal

import msgspec

from inferdoc.catalogue.conditions import Condition
from inferdoc.catalogue.document import Steps as Path
from inferdoc.catalogue.document import nearest

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
Kind = Literal["local", "load", "hardware", "process", "telemetry", "unexplained"]
Role = Literal["prefill", "decode", "both"]


class Step(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """One thing to do: what, why, what it costs, how to undo it, and a command that exists. flags: vLLM flags named;
    peers: it moves work to other pods of the pool or compares with them, so a pool of one pod has no use for it."""

    do: str
    why: str
    cost: str
    undo: str
    command: str | None = None
    flags: tuple[str, ...] = ()
    peers: bool = False


class Stage(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """A stage of a cause that gets worse: reached when its condition holds."""

    name: str
    when: Condition


class Alert(msgspec.Struct, forbid_unknown_fields=True, frozen=True, rename={"for_": "for"}):
    """How the cause becomes a Prometheus rule. symptom: it is what users feel, or what serves nobody, so it may page;
    any other cause is a ticket at most. `severity` overrides the recipe's. value: the signal of the symptom whose
    value the alert carries, if not the first; says: the observation in words, for an alert without one value;
    waits_while: PromQL of series that hold the alert back, matched by cluster, namespace and pod."""

    for_: str = "5m"
    keep_firing_for: str | None = "5m"
    severity: Severity | None = None
    symptom: bool = False
    expr: str | None = None
    none_because: str | None = None
    value: str | None = None
    says: str | None = None
    waits_while: str | None = None


class Recipe(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """A cause as data. symptoms: all must hold on one entity, overlapping in time; harm: at least one; support
    raises certainty; pool_share: the cause holds only where at least this share of a pool shows it; recovers: an
    episode that ended within the tier's cold start is a change, not a finding; catch_all: what it rests on (slower,
    with more running) is true of any slowdown, so it never leads a specific cause; limit: a capacity that more load
    reaches, so that load which grew from outside is its cause; proof: what makes it proven (where given, without it
    at most `likely`); unless: rules it out and says why; effects: causes folded under this root; look_alikes: causes
    that must be distinguished and reported as ruled out; more_specific_than: causes that this one is a kind of, put
    under it where both hold; family: the mechanism that it is a case of; rank: what metrics can show of it
    (RANK_AT_MOST)."""

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
    family: str | None = None
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
    def is_family(self) -> bool:
        """Whether it stands for a family whose causes cannot be distinguished."""
        return self.id == self.family

    @property
    def most_certain(self) -> Certainty:
        """How sure a finding of this cause may be: the lower of its rank and `at_most`."""
        return min(self.at_most, RANK_AT_MOST[self.rank], key=CERTAINTIES.index)


NO_COST, NO_UNDO = "none", "nothing to undo"


class Action(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """One action. why: what it does about the cause, where that is the same for every cause that names it; flags: those
    of vLLM that it sets; peers: it needs other pods in the pool."""

    do: str
    why: str | None = None
    cost: str = NO_COST
    undo: str = NO_UNDO
    command: str | None = None
    flags: tuple[str, ...] = ()
    peers: bool = False


class StepUse(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """A step of a cause: an action by name (`step`) with a reason of its own, or an action of this cause alone."""

    step: str | None = None
    do: str | None = None
    why: str | None = None
    cost: str | None = None
    undo: str | None = None
    command: str | None = None
    flags: tuple[str, ...] = ()
    peers: bool = False


class ActionFile(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """`steps.yaml`: actions by name."""

    steps: dict[str, Action]


def step_of(use: str | StepUse, actions: Mapping[str, Action]) -> Step:
    """The step that a cause means. Its names are checked before (`step_problems`)."""
    if isinstance(use, str):
        use = StepUse(step=use)
    if use.step is None:
        cost, undo = use.cost or NO_COST, use.undo or NO_UNDO
        return Step(str(use.do), str(use.why), cost, undo, use.command, use.flags, use.peers)
    action = actions[use.step]
    why = str(use.why or action.why)
    return Step(action.do, why, action.cost, action.undo, action.command, action.flags, action.peers)


def step_problems(use: str | StepUse, at: Path, actions: Mapping[str, Action]) -> Iterator[tuple[Path, str]]:
    """What keeps a step from being one: an unknown action, no reason, an action that is changed where it is named."""
    if isinstance(use, str):
        use = StepUse(step=use)
    if use.step is None:
        missing = [key for key in ("do", "why") if getattr(use, key) is None]
        if missing:
            yield at, f"expected the name of a step of steps.yaml, or do and why; missing: {', '.join(missing)}"
        return
    own = [key for key in ("do", "cost", "undo", "command", "flags", "peers") if getattr(use, key)]
    if own:
        yield at, f"a step that is named has its {', '.join(own)} in steps.yaml; only `why` may be given here"
    if use.step not in actions:
        yield at, f'no such step "{use.step}" in steps.yaml{nearest(use.step, actions)}'
    elif use.why is None and actions[use.step].why is None:
        yield at, f'"{use.step}" has no reason that holds everywhere; expected `why`'
