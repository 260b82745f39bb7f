"""Read containers, events and masked log lines of a pod with kubectl."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal

from inferdoc.catalogue.cluster import Sign
from inferdoc.errors import NOT_JSON, SourceError
from inferdoc.judging.model import ClusterFact

MASK = "***"
AFTER_A_NAME = re.compile(
    r"(?i)((?:[\w-]*(?:password|passwd|secret|token|api[_-]?key|access[_-]?key|credential|authorization|cookie)[\w-]*)"
    r"""["']?\s*[:=]\s*["']?(?:bearer\s+|basic\s+)?)[^\s"',;&}]+"""
)
"""`name=value`, `"name": "value"`, `Authorization: Bearer value`."""
BY_THEIR_LOOK = re.compile(
    r"(?i:\bbearer\s+)[\w.~+/=-]{8,}"
    r"|\b(?:hf_|sk-|ghp_|gho_|glpat-|xox[abpr]-|nvapi-|AKIA|ASIA)[\w-]{8,}"
    r"|\beyJ[\w-]+\.[\w-]+\.[\w-]*"
    r"|(?<=://)[^/\s:@]+:[^/\s@]+(?=@)"
)
"""Tokens of Hugging Face, OpenAI, GitHub, GitLab, Slack, NVIDIA and AWS, JSON web tokens, passwords in addresses."""


def masked(line: str) -> str:
    """The line with likely secrets masked."""
    return BY_THEIR_LOOK.sub(MASK, AFTER_A_NAME.sub(rf"\g<1>{MASK}", line))


SECONDS = 10
"""For one call, which reads a few objects."""
LOG_LINES = 20
MOST_EVENTS = 5
LONGEST = 300
"""Letters of a line or of a message."""
NAME = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?")
"""Of an object in Kubernetes: nothing else is put on a command line."""

SignName = tuple[str, Sign] | None
"""A sign with its name, or none."""
Kubectl = Callable[[Sequence[str]], str]
"""Runs kubectl with these words and gives its standard output. Raises SourceError."""


def facts_of(namespace: str, pod: str, signs: Mapping[str, Sign], kubectl: Kubectl) -> list[ClusterFact]:
    """All of it. Raises SourceError if the cluster cannot be queried."""
    where = [f"--namespace={namespace}", f"--request-timeout={SECONDS}s"]
    found = _json(kubectl(["get", "pod", pod, "--ignore-not-found", "-o", "json", *where]))
    events = _json(kubectl(["get", "events", f"--field-selector=involvedObject.name={pod}", "-o", "json", *where]))
    facts = [*_of_containers(pod, found, signs), *_of_events(pod, events, signs)]
    for container in _ended(found):
        words = ["logs", pod, f"--container={container}", "--previous", f"--tail={LOG_LINES}", *where]
        facts += _of_log(pod, kubectl(words), signs)
    return facts


def _json(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text or "{}")
    except NOT_JSON as fault:
        raise SourceError("kubectl did not answer with JSON") from fault
    return found if isinstance(found, dict) else {}


def _statuses(found: Mapping[str, Any]) -> list[dict[str, Any]]:
    status = found.get("status") or {}
    return [*(status.get("containerStatuses") or ()), *(status.get("initContainerStatuses") or ())]


def _ended(found: Mapping[str, Any]) -> list[str]:
    """The containers that ended before and were started again."""
    ended = (one for one in _statuses(found) if (one.get("lastState") or {}).get("terminated"))
    return [str(one["name"]) for one in ended if NAME.fullmatch(str(one.get("name")))]


def _of_containers(pod: str, found: Mapping[str, Any], signs: Mapping[str, Sign]) -> Iterator[ClusterFact]:
    for one in _statuses(found):
        for state in (one.get("lastState") or {}, one.get("state") or {}):
            if end := state.get("terminated"):
                reason, code = str(end.get("reason") or "ended"), end.get("exitCode")
                text = f"{one.get('name')} ended: {reason}, exit code {code}"
                yield _fact(pod, "terminated", text, end.get("finishedAt"), _by_reason(signs, "terminated", reason))
            if wait := state.get("waiting"):
                reason = str(wait.get("reason") or "waits")
                text = f"{one.get('name')} waits: {reason} {wait.get('message') or ''}"
                yield _fact(pod, "waiting", text, None, _by_reason(signs, "waiting", reason))


def _of_events(pod: str, found: Mapping[str, Any], signs: Mapping[str, Sign]) -> Iterator[ClusterFact]:
    shown = [one for one in found.get("items") or () if one.get("type") == "Warning" or _sign_of(one, signs)]
    for one in sorted(shown, key=_time_of)[-MOST_EVENTS:]:
        text = f"{one.get('reason')}: {one.get('message')}"
        yield _fact(pod, "event", text, _time_of(one) or None, _sign_of(one, signs))


def _time_of(event: Mapping[str, Any]) -> str:
    return str(event.get("lastTimestamp") or event.get("eventTime") or event.get("firstTimestamp") or "")


def _sign_of(event: Mapping[str, Any], signs: Mapping[str, Sign]) -> SignName:
    reason, message = str(event.get("reason")), str(event.get("message"))
    fitting = (each for each in signs.items() if reason in each[1].events and re.search(each[1].message, message))
    return next(fitting, None)


def _of_log(pod: str, text: str, signs: Mapping[str, Sign]) -> Iterator[ClusterFact]:
    """Of each sign the last line that is one; without any the last line of all."""
    lines = [line for line in text.splitlines() if line.strip()]
    shown: dict[str, str] = {}
    for line in lines:
        shown.update((name, line) for name, sign in signs.items() if sign.log and re.search(sign.log, line))
    for name, line in shown.items():
        yield _fact(pod, "log", line, None, (name, signs[name]))
    if lines and not shown:
        yield _fact(pod, "log", lines[-1], None, None)


def _by_reason(signs: Mapping[str, Sign], part: Literal["terminated", "waiting"], reason: str) -> SignName:
    for name, sign in signs.items():
        if reason in (sign.terminated if part == "terminated" else sign.waiting):
            return name, sign
    return None


def _fact(pod: str, kind: Any, text: str, at: Any, sign: SignName) -> ClusterFact:
    text = masked(" ".join(text.split()))[:LONGEST]
    name, says = (None, None) if sign is None else (sign[0], sign[1].says)
    return ClusterFact(pod, kind, text, str(at) if at else None, name, says)
