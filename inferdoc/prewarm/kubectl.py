"""Reads and changes objects of a cluster with the user's own kubectl. Every failure is one line."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass, field
from typing import Any

from inferdoc.errors import NOT_JSON, InferdocError, SourceError
from inferdoc.prewarm.emit.base import BASE, CLUSTER, MANAGER, OVERRIDDEN, PLACED, PLAN_BASE, PLAN_ID, POOL, EmitOptions
from inferdoc.prewarm.plan import PoolRow

TIMEOUT_SECONDS = 60
UNCERTAIN = "whether it took effect is not known, and the next run settles it"


class ObjectChangedError(SourceError):
    """The object was changed between our read and our patch (409 Conflict)."""


class ObjectMissingError(SourceError):
    """The object is not there (404 NotFound)."""


def run(words: list[str], text: str | None = None) -> str:
    """Standard output of a kubectl command; text: its standard input."""
    shown = " ".join(words[:4])
    try:
        done = subprocess.run(
            words,
            input=text,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=TIMEOUT_SECONDS,
            check=False,
        )
    except FileNotFoundError as fault:
        raise SourceError(
            f"{words[0]} is not installed; run where it is, or take the command from the dry run"
        ) from fault
    except subprocess.TimeoutExpired as fault:
        raise SourceError(
            f"`{shown}` took more than {TIMEOUT_SECONDS} s: is the cluster reachable? {UNCERTAIN}"
        ) from fault
    if done.returncode != 0:
        raise _fault(shown, (done.stderr.strip().splitlines() or ["no message"])[-1][:200])
    return done.stdout


def _fault(shown: str, answer: str) -> SourceError:
    line = f"`{shown}` failed: {answer}"
    if "(Conflict)" in answer or "the object has been modified" in answer:
        return ObjectChangedError(line)
    if "(NotFound)" in answer:
        return ObjectMissingError(line)
    if "(Forbidden)" in answer:
        return SourceError(f"{line}; `prewarm emit --target cronjob` writes the Role that is needed")
    return SourceError(line)


def get(resource: str, name: str, namespace: str, scale: bool = False) -> dict[str, Any]:
    """One object as the API server has it; scale: its scale subresource alone."""
    part = ["--subresource=scale"] if scale else []
    words = ["kubectl", "get", resource, name, *part, f"--namespace={namespace}", "-o", "json"]
    try:
        found = json.loads(run(words))
    except NOT_JSON as fault:
        raise SourceError(f"`{' '.join(words)}` did not answer with JSON") from fault
    if not isinstance(found, dict):
        raise SourceError(f"`{' '.join(words)}` did not answer with an object")
    return found


def unchanged(found: dict[str, Any]) -> dict[str, str]:
    """Metadata that make a patch fail with a Conflict if the object has changed since it was read."""
    version = (found.get("metadata") or {}).get("resourceVersion")
    return {} if version is None else {"resourceVersion": version}


def delete_jobs_words(namespace: str, names: list[str]) -> list[str]:
    """The command by which a job deletes CronJobs, its own among them: what runs is left to end by itself."""
    return [
        "kubectl", "delete", "cronjobs", "--ignore-not-found", "--cascade=orphan", "--wait=false",
        f"--namespace={namespace}", *names,
    ]  # fmt: skip


def patch_words(resource: str, name: str, namespace: str, patch: dict[str, Any], scale: bool = False) -> list[str]:
    """The command of a merge patch under our field manager; scale: on the scale subresource alone."""
    return [
        "kubectl",
        "patch",
        resource,
        name,
        *(["--subresource=scale"] if scale else []),
        f"--namespace={namespace}",
        "--type=merge",
        f"--field-manager={MANAGER}",
        f"--patch={json.dumps(patch, separators=(',', ':'))}",
    ]


UNSET = "unset"


@dataclass(frozen=True)
class FloorRecord:
    """base: the user's own floor (None = the field was missing); placed: what we set last; overridden: the floor of the
    plan that the user lowered by hand, which stays lowered until the plan has another floor."""

    base: int | None
    placed: int
    overridden: int | None = None

    def annotations(self) -> dict[str, str | None]:
        """As written; None takes a key away."""
        return {
            BASE: UNSET if self.base is None else str(self.base),
            PLACED: str(self.placed),
            OVERRIDDEN: None if self.overridden is None else str(self.overridden),
        }


@dataclass(frozen=True)
class Settled:
    """floor: what the field should hold (None = it should not be there); record: what to remember (None = nothing, the
    object is the user's again); notes: what people should know, one line each."""

    floor: int | None
    record: FloorRecord | None
    notes: list[str] = field(default_factory=list)


def settle(current: int | None, record: FloorRecord | None, planned: int | None, absent: int = 1) -> Settled:
    """The desired floor. current: the floor of the object (None = not set, which means `absent`); planned: the floor of
    the plan, None without a usable plan: the user's base floor is then restored.

    A change by hand wins: the value becomes the user's base floor, and the floor never goes below it. A value below the
    plan's stays until the plan has another floor than at the time of the edit: than the one we set last, if that was
    the plan's."""
    notes: list[str] = []
    base, overridden = (current, None) if record is None else (record.base, record.overridden)
    if record is not None and _number(current, absent) != record.placed:
        followed = record.placed != _number(record.base, absent)
        base, overridden = current, None if followed and record.placed != planned else planned
        notes.append(f"set by hand from {record.placed} to {_number(current, absent)}, which is the user's base now")
    if planned is None:
        return Settled(base, None, notes)
    own = _number(base, absent)
    if overridden != planned or own >= planned:
        overridden = None
    if overridden is not None:
        notes.append(f"the plan wants {planned}; {own}, set by hand, is kept until the floor of the plan changes")
    elif own > planned:
        notes.append(f"the plan wants {planned}; the user's own floor of {own} is kept")
    floor = own if overridden is not None else max(planned, own)
    return Settled(floor, FloorRecord(base, floor, overridden), notes)


def _number(value: int | None, absent: int) -> int:
    return absent if value is None else value


def record_of(found: dict[str, Any], current: int | None, absent: int = 1) -> FloorRecord | None:
    """The record on an object. One that carries a plan but no record was set by a scheduled patch: its base is the
    plan's."""
    marks = (found.get("metadata") or {}).get("annotations") or {}
    if PLACED in marks:
        base = None if marks.get(BASE) == UNSET else _parsed(marks, BASE)
        overridden = _parsed(marks, OVERRIDDEN) if OVERRIDDEN in marks else None
        return FloorRecord(base, _parsed(marks, PLACED), overridden)
    if PLAN_ID in marks and PLAN_BASE in marks:
        return FloorRecord(_parsed(marks, PLAN_BASE), _number(current, absent))
    return None


def own_floor(found: dict[str, Any], current: int | None, absent: int = 1) -> int:
    """The user's own floor of an object that may carry ours."""
    settled = settle(current, record_of(found, current, absent), None, absent)
    return _number(settled.floor, absent)


def refuse_other_pool(found: dict[str, Any], pool: str) -> None:
    """InferdocError where the object holds the floor of another pool."""
    meta = found.get("metadata") or {}
    other = (meta.get("annotations") or {}).get(POOL)
    if other is not None and other != pool:
        raise InferdocError(
            f"{found.get('kind')} {meta.get('name')} holds the floor of pool {other}, not of {pool}: "
            f"release it first with --pool {other}"
        )


def refuse_other_place(row: PoolRow, options: EmitOptions, found: dict[str, Any] | None = None) -> None:
    """InferdocError where the pool was planned from pods of another namespace or cluster than those of the object."""
    if row.namespace and row.namespace != options.namespace:
        raise InferdocError(
            f"pool {row.name} was planned for namespace {row.namespace}, not {options.namespace}; correct --namespace"
        )
    known = ((found or {}).get("metadata") or {}).get("annotations") or {}
    cluster = options.cluster or known.get(CLUSTER)
    if row.cluster and cluster and row.cluster != cluster:
        raise InferdocError(
            f"pool {row.name} was planned for cluster {row.cluster}, not for {cluster}; use the plan of that cluster"
        )


def _parsed(marks: dict[str, str], key: str) -> int:
    try:
        return int(marks.get(key, ""))
    except ValueError as fault:
        raise InferdocError(
            f"annotation {key} is `{marks.get(key)}`, no number: set the floor as it should be and take the "
            "inferdoc.io annotations off"
        ) from fault
