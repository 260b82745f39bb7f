"""The targets of `inferdoc prewarm emit`."""

from __future__ import annotations

from collections.abc import Callable

from inferdoc.errors import InferdocError
from inferdoc.prewarm.emit.base import EmitOptions, fresh
from inferdoc.prewarm.emit.cronjob import cronjob
from inferdoc.prewarm.emit.daily import daily
from inferdoc.prewarm.emit.hosts import crontab, systemd
from inferdoc.prewarm.emit.keda import keda_cron
from inferdoc.prewarm.emit.metric import keda_prometheus, textfile
from inferdoc.prewarm.emit.patches import hpa, kserve, lws, wva
from inferdoc.prewarm.plan import PlanRow, to_json

Emitter = Callable[[PlanRow, EmitOptions], str]


def as_json(plan: PlanRow, options: EmitOptions) -> str:
    """The plan itself, after the check for staleness."""
    fresh(plan, options.now)
    return to_json(plan)


TARGETS: dict[str, Emitter] = {
    "keda-cron": keda_cron,
    "keda-prometheus": keda_prometheus,
    "hpa": hpa,
    "cronjob": cronjob,
    "kserve": kserve,
    "wva": wva,
    "lws": lws,
    "crontab": crontab,
    "systemd": systemd,
    "textfile": textfile,
    "daily": daily,
    "json": as_json,
}


def emit(plan: PlanRow, target: str, options: EmitOptions) -> str:
    """The plan as text for `target`."""
    if target not in TARGETS:
        raise InferdocError(f"target `{target}` is not known; choose one of {', '.join(sorted(TARGETS))}")
    return TARGETS[target](plan, options)
