"""The first screen of a finding: what a person who was just woken up needs, in twelve lines."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterator, Sequence
from datetime import datetime

from inferdoc.judging.model import Diagnosis, EvidenceItem, Finding, Rival, seconds
from inferdoc.report.phrases import HARM, role_word
from inferdoc.report.wrapping import width, wrap
from inferdoc.words import how_many, lasting, some, within_sentence

LEAD = "{:<10}"
MOST_LINES = 11
"""Below the verdict."""
MOST_NAMED = 3
LONGEST_COMMAND = 200
"""Characters; a script of several commands is not read at a glance."""
NEAR_SECONDS = 120.0
"""Around an onset, what changes may belong to it."""


def brief(answer: Diagnosis) -> list[str]:
    """The lines below the verdict: title, cause, pods, since when, impact, what shows it, what to do, where to read on.
    Each is cut to the width of the terminal, but for commands to paste."""
    finding = answer.findings[0]
    must = [_one_line(finding.title), *(_one_line(words, LEAD.format(word)) for word, words in _head(answer, finding))]
    tail = []
    if finding.next_steps:
        step = finding.next_steps[0]
        tail += wrap(step.do, LEAD.format("do"))[:2]
        if step.command:
            short = len(step.command) <= LONGEST_COMMAND
            tail.append(LEAD.format("") + (f"$ {step.command}" if short else "(-vv prints the command)"))
    others = [
        *(_other(finding) for finding in answer.findings[1:]),
        *(f"{one.id} (persistent)" for one in answer.persistent),
    ]
    if others:
        tail.append(_one_line(some(others, MOST_NAMED), LEAD.format("also")))
    page = finding.runbook_url or f"inferdoc runbook {finding.runbook}"
    tail.append(_one_line(f"{page}; -v shows all evidence, changes and findings", LEAD.format("read on")))
    room = MOST_LINES - len(must) - len(tail)
    return [*must, *(_one_line(words, LEAD.format(word)) for word, words in _facts(finding, room)), *tail]


def _other(finding: Finding) -> str:
    place = ", ".join([*finding.scope.pods[:1], *(f"{word} {value}" for word, value in finding.scope.place)])
    return f"{finding.id} ({place})" if place else finding.id


def _head(answer: Diagnosis, finding: Finding) -> Iterator[tuple[str, str]]:
    yield "cause", f"{finding.id}, {certainty(finding)}, {finding.severity}"
    if finding.members:
        yield members_line(finding.members)
    scope = finding.scope
    share = finding.request_share
    where = [f"{len(scope.pods)} of {how_many(scope.of_pods, 'pod')}"]
    where += [f"{share:.0%} of the requests"] if share is not None and share < 1 else []
    tier = "" if scope.tier == "unknown" else scope.tier
    where += [f"{word} {value}" for word, value in (*scope.place, ("tier", tier), ("model", scope.model)) if value]
    yield "where", f"{', '.join(where)}: {some(scope.pods, MOST_NAMED)}"
    yield "since", _when(answer, finding)
    changed = _changed(answer, finding)
    if changed:
        yield "changed", changed
    if answer.source.incomplete:
        yield "data", f"incomplete: {answer.source.incomplete[0]}"


def members_line(members: Sequence[Rival]) -> tuple[str, str]:
    """The causes of a family that nothing contradicts; else the closest one, with what contradicts it."""
    possible = [one for one in members if not one.speaks_against]
    if possible:
        return "one of", ", ".join(f"{one.id} {one.probability:.0%}" for one in possible)
    return "closest", f"{members[0].id}, but {within_sentence(members[0].speaks_against[0])}"


def _changed(answer: Diagnosis, finding: Finding) -> str:
    """What changed on its pods around the onset: a restart, a setting, an Xid, other traffic."""
    onset = seconds(finding.onset)
    near = [one for one in answer.changes if abs(seconds(one.at) - onset) <= NEAR_SECONDS]
    near = [one for one in near if any(pod in one.entity for pod in finding.scope.pods)]
    if finding.change is not None and finding.change.detail not in [one.detail for one in near]:
        near.insert(0, finding.change)
    return "; ".join(dict.fromkeys(f"{one.detail} ({clock(one.at)[11:19]})" for one in near))


def _facts(finding: Finding, room: int) -> Iterator[tuple[str, str]]:
    """The impact on users, the worst first, and what shows the cause: in turn, as far as there is room."""
    harm = sorted((item for item in finding.evidence if item.role == HARM), key=_moved, reverse=True)
    shown = [item for item in finding.evidence if item.role == "symptom"]
    impact, facts = (list({item.signal: item.statement for item in items}.values()) for items in (harm, shown))
    facts = [fact for fact in facts if fact not in impact]
    facts = facts[: max(1, min(2, room - 1))]
    impact = impact[: max(1, min(2, room - len(facts)))]
    for word, statements in (("near" if finding.imminent else role_word(HARM), impact), (role_word("symptom"), facts)):
        yield from ((("" if number else word), statement) for number, statement in enumerate(statements))


def _moved(item: EvidenceItem) -> float:
    """By which factor a quantity left its baseline or is beyond its limit; stopped or missing signals come first."""
    reference = item.threshold if item.baseline is None else item.baseline
    if not reference or not item.observed:
        return math.inf
    return max(item.observed / reference, reference / item.observed)


def _when(answer: Diagnosis, finding: Finding) -> str:
    """Since when, how long, and whether it lasts to the newest sample."""
    newest = answer.window.newest or answer.window.until
    if len(finding.episodes) > 1:
        first, *later = (clock(episode.from_) for episode in finding.episodes)
        end = f"ended {clock(finding.ended)[11:]}" if finding.ended else "ongoing at the newest sample"
        return f"{first}, again {', '.join(begin[11:19] for begin in later)}; {end}"
    long = lasting(max(0.0, seconds(finding.ended or newest) - seconds(finding.onset)))
    if finding.ended:
        return f"{clock(finding.onset)} to {clock(finding.ended)} ({long}), ended"
    at_first_look = answer.window.baseline.kind == "lifetime" and finding.onset <= answer.window.from_
    begin = f"before {clock(finding.onset)}" if at_first_look else f"{clock(finding.onset)} ({long})"
    return f"{begin}, ongoing at the newest sample ({clock(newest)[11:]})"


def certainty(finding: Finding) -> str:
    """The certainty, and how often findings like it were right."""
    return finding.certainty if finding.probability is None else f"{finding.certainty} ({finding.probability:.0%})"


def clock(stamp: str) -> str:
    """A moment of the document in local time with its offset."""
    return datetime.fromisoformat(stamp).astimezone().strftime("%Y-%m-%d %H:%M:%S%z")


def _one_line(words: str, lead: str = "") -> str:
    return lead + textwrap.shorten(words, width() - len(lead), placeholder=" ...")
