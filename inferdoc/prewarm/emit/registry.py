"""The targets of `inferdoc prewarm emit`: each is a `PrewarmTarget` in TARGETS of its module."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Literal

from inferdoc.errors import InferdocError

if TYPE_CHECKING:
    import numpy as np

    from inferdoc.prewarm.emit.base import EmitOptions
    from inferdoc.prewarm.emit.kinds import PatchTarget
    from inferdoc.prewarm.plan import PlanRow
    from inferdoc.prewarm.reference_check import MinuteSpan


@dataclass(frozen=True)
class PrewarmTarget:
    """All that emit, check and the proof before each write know of a target.

    emit: the plan as text.
    states: what the text contains: the floor of each minute of the week, that of one moment, or no floor.
    manifests: the text is Kubernetes objects.
    patched: the kind of object whose floor its CronJobs patch.
    grouped: the replicas of the object are groups (`--per-group`).
    over_existing: the kind of existing object whose floor is a minimum of the text; other targets leave that to the
        object.
    read_week: int64[minutes], the floor that the text gives, by the rules of what runs it and not by code of `emit`.
        The last argument is int64[minutes]: what `prewarm apply` sets at each minute. None: read as Kubernetes objects.
    read_moment: text and pool -> the floor that the text states, None for a text that points to the plan.
    """

    emit: Callable[[PlanRow, EmitOptions], str]
    states: Literal["week", "moment", "nothing"] = "week"
    manifests: bool = True
    patched: PatchTarget | None = None
    grouped: bool = False
    over_existing: PatchTarget | None = None
    read_week: Callable[[MinuteSpan, str, EmitOptions, np.ndarray], np.ndarray] | None = None
    read_moment: Callable[[str, str], int | None] = lambda _text, _pool: None


MODULES = {
    "keda-cron": "keda",
    "keda-prometheus": "metric",
    "hpa": "patches",
    "cronjob": "patches",
    "kserve": "patches",
    "wva": "patches",
    "lws": "patches",
    "crontab": "timers",
    "systemd": "timers",
    "textfile": "metric",
    "daily": "timers",
    "json": "metric",
}
"""Module of `inferdoc.prewarm.emit` by target; loaded when the target is used."""


def target_of(word: str) -> PrewarmTarget:
    """A target by its name. Raises InferdocError for an unknown one."""
    if word not in MODULES:
        raise InferdocError(f"target `{word}` is not known; choose one of {', '.join(sorted(MODULES))}")
    found: PrewarmTarget = import_module(f"inferdoc.prewarm.emit.{MODULES[word]}").TARGETS[word]
    return found


def emit(plan: PlanRow, target: str, options: EmitOptions) -> str:
    """The plan as text for `target`. Raises InferdocError for a plan that the target cannot follow."""
    return target_of(target).emit(plan, options)
