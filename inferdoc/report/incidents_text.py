"""The incident record in the terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from inferdoc.escaping import page
from inferdoc.incidents.model import DiagnosisRun, Difference, Incident
from inferdoc.incidents.record import alert_names
from inferdoc.report.wrapping import fitted
from inferdoc.times import rfc3339

NOTHING = "nothing"


def listing_text(incidents: Sequence[Incident]) -> str:
    """The newest first, two lines each."""
    if not incidents:
        return "No incident in the record yet. Point a receiver of Alertmanager at /alertmanager of `inferdoc serve`."
    return page(fitted(line for incident in incidents for line in _brief(incident)))


def _brief(incident: Incident) -> Iterator[str]:
    story = incident.story
    state = "open" if incident.resolved is None else f"over {_time(incident.resolved)}"
    yield f"{incident.id}  {_time(incident.opened)}  {state}  {', '.join(alert_names(incident.alerts))}"
    if story is not None:
        pods = f" on {', '.join(story.pods)}" if story.pods else ""
        words = f"{story.title}{pods} ({story.certainty})" if story.title else story.summary
        yield f"    {words}{_ended(incident)}"


def _ended(incident: Incident) -> str:
    return f"; before it ended: {incident.ended_by}" if incident.ended_by else ""


def incident_text(incident: Incident, runs: Sequence[DiagnosisRun], like: Incident | None) -> str:
    """One incident: its alerts and its diagnosis runs."""
    lines = list(_brief(incident))
    where = incident.place.words()
    lines += [f"    where: {where}"] if where else []
    if incident.reopened:
        lines.append(f"    came back: {incident.reopened} times" if incident.reopened > 1 else "    came back: once")
    if like is not None:
        lines.append(f"    seen before: {like.id}, {_time(like.opened)}{_ended(like)}")
    lines += ["", "alerts"]
    for alert in incident.alerts:
        end = "fires" if alert.ends is None else f"until {_time(alert.ends)}"
        lines.append(f"  {_time(alert.starts)}  {end}  {alert.name}  {alert.annotations.get('summary', '')}".rstrip())
    lines += ["", "diagnosis runs"]
    for run in runs:
        result = run.story.summary if run.story is not None else run.failure or run.state
        lines.append(f"  {_time(run.started or run.due)}  {run.why}: {result}")
    return page(fitted(lines))


def differences_text(found: Sequence[Difference]) -> str:
    """What differs, weighty things first."""
    if not found:
        return "No difference."
    differences = (
        f"{each.what}: {each.before or NOTHING} -> {each.after or NOTHING}"
        for each in sorted(found, key=lambda each: not each.weighty)
    )
    return page(fitted(differences))


def _time(seconds: float) -> str:
    return rfc3339(seconds, "seconds")
