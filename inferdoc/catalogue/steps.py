"""What can be done, each action once, by name, in `steps.yaml`: what it is, what it costs, how to undo it.

A cause names the actions that help; where its reason is not the usual one, it gives its own `why`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from inferdoc.catalogue.document import Steps as Path
from inferdoc.catalogue.document import nearest
from inferdoc.catalogue.recipe import Step

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
