"""Brings one object's floor to what the plan says now: level-based, idempotent, dry unless told otherwise."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass, replace
from typing import Any

from inferdoc.errors import SourceError
from inferdoc.escaping import one_line
from inferdoc.prewarm.emit.aim import Aim, aim_of, look
from inferdoc.prewarm.emit.base import EmitOptions, chosen, fresh
from inferdoc.prewarm.emit.cronjob import patch_command
from inferdoc.prewarm.emit.patches import refuse_hpa
from inferdoc.prewarm.plan import PlanRow

TIMEOUT_SECONDS = 60
SHORT = {
    "hpa": "HorizontalPodAutoscaler",
    "deployment": "Deployment",
    "kserve": "InferenceService",
    "wva": "VariantAutoscaling",
    "lws": "LeaderWorkerSet",
}


@dataclass(frozen=True)
class Applied:
    """before: what the cluster had (None in a dry run that did not look); after: what the plan wants; changed: whether
    something was sent; command: the words that change it."""

    before: int | None
    after: int
    changed: bool
    command: list[str]


def apply(plan: PlanRow, kind: str, options: EmitOptions, really: bool, look_first: bool) -> Applied:
    """The floor of `options.now` on the object. Refuses stale plans, and objects that would undo or ignore the patch.
    With `really` the object is read, and patched where it differs; else nothing is sent."""
    fresh(plan, options.now)
    pool = chosen(plan, options)
    aim = aim_of(SHORT.get(kind, kind))
    options = replace(options, name=options.name or pool.row.name)
    wanted = pool.at(options.now)
    command = patch_command(plan, pool, options, aim, wanted)
    if not really and not look_first:
        return Applied(None, wanted, False, command)
    found = _get(aim, options)
    if aim.kind == "HorizontalPodAutoscaler":
        refuse_hpa(found, pool)
    before = look(found, *aim.field)
    before = int(before) if isinstance(before, int) else None
    if before == wanted or not really:
        return Applied(before, wanted, False, command)
    _run(command)
    return Applied(before, wanted, True, command)


def _get(aim: Aim, options: EmitOptions) -> dict[str, Any]:
    words = [
        "kubectl",
        "get",
        aim.kubectl_resource,
        str(options.name),
        f"--namespace={options.namespace}",
        "-o",
        "json",
    ]
    try:
        found = json.loads(_run(words))
    except (json.JSONDecodeError, RecursionError) as fault:
        raise SourceError(f"`{' '.join(words)}` did not answer with JSON") from fault
    if not isinstance(found, dict):
        raise SourceError(f"`{' '.join(words)}` did not answer with an object")
    return found


def _run(words: list[str]) -> str:
    shown = " ".join(words[:4])
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=TIMEOUT_SECONDS, check=False)
    except FileNotFoundError as fault:
        raise SourceError(
            f"{words[0]} is not installed; run where it is, or take the command from the dry run"
        ) from fault
    except subprocess.TimeoutExpired as fault:
        raise SourceError(f"`{shown}` took more than {TIMEOUT_SECONDS} s; is the cluster reachable?") from fault
    if done.returncode != 0:
        said = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise SourceError(f"`{shown}` failed: {said[:200]}")
    return done.stdout


def sentence(result: Applied, name: str) -> str:
    """One line for people."""
    if result.changed:
        return f"{name}: floor {result.before} -> {result.after}"
    if result.before == result.after:
        return f"{name}: floor is {result.after} already"
    return f"{name}: floor should be {result.after} now (dry run; --yes applies it)"


def lines(result: Applied, name: str) -> str:
    import shlex

    shown = "" if result.before == result.after or result.changed else shlex.join(result.command) + "\n"
    return one_line(sentence(result, name)) + "\n" + shown
