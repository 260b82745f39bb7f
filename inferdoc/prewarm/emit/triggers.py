"""Our triggers among the user's in one list, which KEDA takes and replaces as a whole."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from typing import Any

from inferdoc.errors import InferdocError

PREFIX = "inferdoc-prewarm-"


@dataclass(frozen=True)
class TriggerMerge:
    """triggers: the whole list, the user's first; record: what to remember of ours (name=digest, comma-separated; empty
    = nothing); notes: what people should know."""

    triggers: list[dict[str, Any]]
    record: str
    notes: list[str] = field(default_factory=list)


def merged_triggers(old: list[dict[str, Any]], planned: list[dict[str, Any]], record: str | None) -> TriggerMerge:
    """The user's triggers with those the plan wants. record: as a former merge left it; None: there was none, so that
    every trigger under our prefix is ours.

    A trigger of ours that was changed by hand is the user's from then on and stands in for the plan's of that name; one
    that was taken out by hand stays out until the plan wants another. InferdocError where nothing at all scales the
    object yet."""
    if not old:
        raise InferdocError("the object has no triggers at all; a floor needs an autoscaler to stand under")
    placed = None if record is None else _placed(record)
    kept, notes = [], []
    for trigger in old:
        name = str(trigger.get("name", ""))
        if not name.startswith(PREFIX):
            kept.append(trigger)
        elif placed is not None and placed.get(name) != _digest(trigger):
            kept.append(trigger)
            notes.append(f"trigger {name} was changed by hand and is kept as the user's; delete it to give it back")
    theirs = {str(trigger.get("name", "")) for trigger in kept}
    there = {str(trigger.get("name", "")) for trigger in old}
    ours = []
    for trigger in planned:
        name = trigger["name"]
        if placed is not None and name not in there and placed.get(name) == _digest(trigger):
            notes.append(f"trigger {name} was taken out by hand and stays out until the plan changes")
        elif name not in theirs:
            ours.append(trigger)
    return TriggerMerge([*kept, *ours], ",".join(f"{t['name']}={_digest(t)}" for t in planned), notes)


def untouched(triggers: list[dict[str, Any]], record: str) -> bool:
    """Whether the triggers under our prefix are as a former merge left them."""
    ours = [t for t in triggers if str(t.get("name", "")).startswith(PREFIX)]
    return {str(t["name"]): _digest(t) for t in ours} == _placed(record)


def _digest(trigger: dict[str, Any]) -> str:
    """Of what was written: defaults that the API server fills in do not count."""
    content = {key: trigger.get(key) for key in ("type", "name", "metadata")}
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:12]


def _placed(record: str) -> dict[str, str]:
    pairs = [part.partition("=") for part in record.split(",") if part]
    return {name: digest for name, _, digest in pairs}
