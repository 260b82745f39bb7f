"""The content of a notification, independent of the output."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from inferdoc.escaping import is_web, one_line
from inferdoc.incidents.model import DiagnosisRun, Incident
from inferdoc.incidents.record import alert_names
from inferdoc.judging.model import Diagnosis, Finding, seconds
from inferdoc.times import rfc3339
from inferdoc.words import some

Colour = Literal["critical", "warning", "info", "good", "unknown"]
MOST_PODS, MOST_EVIDENCE, MOST_STEPS = 6, 3, 3


@dataclass(frozen=True)
class Note:
    """title: one line; colour: how bad; facts: name and words; evidence, steps: lines; commands: to paste; links: words
    and address; onset, ended: Unix seconds or None; text of others is in it, each output escapes it."""

    incident: str
    title: str
    colour: Colour
    state: Literal["firing", "resolved"]
    opened: float
    cause: str | None = None
    facts: tuple[tuple[str, str], ...] = ()
    evidence: tuple[str, ...] = ()
    steps: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()
    links: tuple[tuple[str, str], ...] = ()
    ended: float | None = None
    severity: str = "warning"
    pods: tuple[str, ...] = field(default_factory=tuple)
    onset: str | None = None


def note(
    incident: Incident,
    run: DiagnosisRun,
    answer: Diagnosis | None,
    like: Incident | None = None,
    public_url: str | None = None,
) -> Note:
    """The content for one run. answer: its document, None if it failed; like: the last incident with the same cause;
    public_url: where readers reach us."""
    finding = answer.findings[0] if answer is not None and answer.findings else None
    over = incident.resolved is not None
    links = _links(incident, finding, public_url)
    facts = [("alerts", ", ".join(alert_names(incident.alerts)[:MOST_PODS]))]
    where = incident.place.words()
    if where:
        facts.append(("where", where))
    if answer is not None and answer.source.incomplete:
        facts.append(("incomplete", "; ".join(answer.source.incomplete[:MOST_EVIDENCE])))
    facts += _finding_facts(finding, answer) if finding is not None else []
    if over and incident.resolved is not None:
        facts.append(("lasted", _length(incident.resolved - incident.opened)))
        if incident.ended_by:
            facts.append(("before it ended", incident.ended_by))
    if incident.reopened:
        facts.append(("came back", f"{incident.reopened} times" if incident.reopened > 1 else "once"))
    if like is not None:
        facts.append(("seen before", _seen_before(like)))
    return Note(
        incident.id,
        _title(incident, run, answer, finding),
        _colour(incident, answer, finding),
        "resolved" if over else "firing",
        incident.opened,
        finding.id if finding is not None else None,
        tuple((name, one_line(words)) for name, words in facts if words),
        _evidence(finding),
        tuple(one_line(step.do) for step in finding.next_steps[:MOST_STEPS]) if finding is not None else (),
        tuple(s.command for s in finding.next_steps[:MOST_STEPS] if s.command) if finding is not None else (),
        links,
        incident.resolved,
        finding.severity if finding is not None else "warning",
        tuple(finding.scope.pods) if finding is not None else (),
        finding.onset if finding is not None else None,
    )


def _title(incident: Incident, run: DiagnosisRun, answer: Diagnosis | None, finding: Finding | None) -> str:
    if incident.resolved is not None:
        was = incident.story.title if incident.story is not None and incident.story.title else None
        return one_line(f"Resolved: {was or ', '.join(alert_names(incident.alerts)[:2])}")
    if answer is None:
        return one_line(f"Diagnosis failed: {run.failure}")
    words = answer.summary if finding is None else f"{finding.title} ({finding.certainty})"
    return one_line({"reopened": "Again: ", "repeat": "Still: "}.get(run.why, "") + words)


def _colour(incident: Incident, answer: Diagnosis | None, finding: Finding | None) -> Colour:
    if incident.resolved is not None:
        return "good"
    if answer is None or answer.verdict == "unknown":
        return "unknown"
    return finding.severity if finding is not None else "info"


def _finding_facts(finding: Finding, answer: Diagnosis | None) -> list[tuple[str, str]]:
    pods = finding.scope.pods
    sure = finding.certainty if finding.probability is None else f"{finding.certainty} ({finding.probability:.0%})"
    facts = [
        ("cause", finding.id),
        ("pods", f"{some(pods, MOST_PODS)} (of {finding.scope.of_pods})" if pods else ""),
        ("since", f"{_second(finding.onset)} (give or take {finding.onset_uncertainty_seconds:.0f} s)"),
        ("sure", sure),
        ("brings with it", ", ".join(finding.effects[:MOST_PODS])),
    ]
    if finding.change is not None:
        facts.append(("changed", f"{finding.change.kind} {finding.change.entity} {finding.change.detail}"))
    if answer is not None and len(answer.findings) > 1:
        facts.append(("also", ", ".join(other.title for other in answer.findings[1:4])))
    return facts


def _evidence(finding: Finding | None) -> tuple[str, ...]:
    if finding is None:
        return ()
    harm = [piece for piece in finding.evidence if piece.role == "harm"]
    rest = [piece for role in ("symptom", "support") for piece in finding.evidence if piece.role == role]
    pieces = [*harm[:1], *rest, *harm[1:]]
    return tuple(dict.fromkeys(one_line(f"{piece.statement} ({piece.entity})") for piece in pieces))[:MOST_EVIDENCE]


def _links(incident: Incident, finding: Finding | None, public_url: str | None) -> tuple[tuple[str, str], ...]:
    links = []
    if public_url:
        links.append(("Incident", f"{public_url.rstrip('/')}/incidents/{incident.id}"))
    runbooks = [alert.annotations.get("runbook_url", "") for alert in incident.alerts]
    runbook = finding.runbook_url if finding is not None and finding.runbook_url else next(filter(is_web, runbooks), "")
    if is_web(runbook or ""):
        links.append(("Runbook", runbook))
    elif finding is not None and public_url:
        links.append(("Runbook", f"{public_url.rstrip('/')}/runbooks/{finding.runbook}"))
    if finding is not None and finding.dashboard_url and is_web(finding.dashboard_url):
        links.append(("Dashboard", finding.dashboard_url))
    if finding is not None and finding.traces:
        links.append(("Slowest trace", finding.traces[0].url))
    return tuple(links)


def _second(moment: str) -> str:
    return rfc3339(seconds(moment), "seconds")


def _seen_before(like: Incident) -> str:
    words = rfc3339(like.opened, "minutes")
    if like.resolved is not None:
        words += f", lasted {_length(like.resolved - like.opened)}"
    return f"{words}, before it ended: {like.ended_by}" if like.ended_by else words


def _length(lasted: float) -> str:
    minutes = max(0, round(lasted / 60))
    if minutes < 1:
        return f"{max(0, round(lasted))} s"
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h {minutes % 60} min"
