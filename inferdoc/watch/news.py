"""What changed between two looks at a fleet: findings that are new, that ended, or of which something else is said."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime

from inferdoc.escaping import one_line
from inferdoc.incidents.compare import placed
from inferdoc.judging.model import Diagnosis, Finding
from inferdoc.times import rfc3339
from inferdoc.words import how_many

MOST_PODS = 4
"""So many are named; of more the number."""


def news(before: Diagnosis | None, after: Diagnosis) -> list[str]:
    """One line for each change, printable; before: the look before, None for the first, of which all is new."""
    return [one_line(line) for line in _news(before, after)]


def clock(moment: datetime) -> str:
    """The time of day of a look: 20:57:30Z."""
    return rfc3339(moment, "seconds")[11:]


def _news(before: Diagnosis | None, after: Diagnosis) -> Iterator[str]:
    if before is not None and before.verdict != after.verdict:
        yield f"verdict  {before.verdict} -> {after.verdict}"
    known, there = _going_on(before), _going_on(after)
    for place, finding in there.items():
        if place not in known:
            yield f"new      {finding.id}: {_words(finding)}, since {_at(finding.onset)}, on {_pods(_where(finding))}"
    for place, finding in there.items():
        if place in known:
            changes = "; ".join(_moves(known[place], finding))
            if changes:
                yield f"changed  {finding.id}: {changes}"
    over = {place: finding for place, finding in placed(after).items() if not finding.ongoing}
    for place, finding in known.items():
        if place not in there:
            ended = over[place].ended if place in over else None
            yield f"ended    {finding.id}{f' at {_at(ended)}' if ended else ''}, on {_pods(_where(finding))}"


def _going_on(answer: Diagnosis | None) -> dict[str, Finding]:
    return {} if answer is None else {place: one for place, one in placed(answer).items() if one.ongoing}


def _moves(before: Finding, after: Finding) -> Iterator[str]:
    """What is said otherwise than before."""
    for name in ("severity", "certainty"):
        was, is_now = getattr(before, name), getattr(after, name)
        if was != is_now:
            yield f"{was} -> {is_now}"
    came = [pod for pod in _where(after) if pod not in _where(before)]
    left = [pod for pod in _where(before) if pod not in _where(after)]
    if came:
        yield f"also on {_pods(came)}"
    if left:
        yield f"no longer on {_pods(left)}"


def _words(finding: Finding) -> str:
    return f"{finding.severity}, {finding.certainty}{', ahead' if finding.imminent else ''}"


def _where(finding: Finding) -> list[str]:
    return finding.scope.pods


def _pods(pods: Sequence[str]) -> str:
    if not pods:
        return "the whole fleet"
    more = len(pods) - MOST_PODS
    return ", ".join(pods[:MOST_PODS]) + (f" and {how_many(more, 'more pod')}" if more > 0 else "")


def _at(stamp: str) -> str:
    """The time of day of an RFC 3339 time."""
    return f"{stamp[11:19]}Z"
