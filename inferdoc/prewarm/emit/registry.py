"""The targets of `inferdoc prewarm emit`: each is a `PrewarmTarget` in TARGETS of its module."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from inferdoc.errors import InferdocError

if TYPE_CHECKING:
    from inferdoc.prewarm.emit.base import EmitOptions
    from inferdoc.prewarm.emit.target import PrewarmTarget
    from inferdoc.prewarm.plan import PlanRow

MODULES = {
    "keda-cron": "keda",
    "keda-prometheus": "metric",
    "hpa": "patches",
    "cronjob": "patches",
    "kserve": "patches",
    "wva": "patches",
    "lws": "patches",
    "crontab": "hosts",
    "systemd": "hosts",
    "textfile": "metric",
    "daily": "daily",
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
