"""Reads and changes objects of a cluster with the user's own kubectl. Every failure is one line."""

from __future__ import annotations

import json
import subprocess
from typing import Any

from inferdoc.errors import NOT_JSON, SourceError
from inferdoc.prewarm.emit.base import MANAGER

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
