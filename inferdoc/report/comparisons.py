"""Comparisons for a terminal: rollouts, steps, incidents."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import click

from inferdoc.canary.request import ArmSeen, CanaryAnswer, CheckAnswer
from inferdoc.escaping import page
from inferdoc.incidents.model import DiagnosisRun, Difference, Incident
from inferdoc.incidents.record import alert_names
from inferdoc.report.printable import printable
from inferdoc.report.wrapping import WIDEST, Columns, bullets, emphasis, fitted, headline, marked, wrap
from inferdoc.times import rfc3339
from inferdoc.verify.model import MeasuredMove, Verification
from inferdoc.words import figure, how_many, some

COLOURS = {"pass": "green", "fail": "red", "unknown": "yellow"}
TITLE, SHARES = 27, 10
"""Columns of a question and of a share."""
FIRST_PODS = 4


def canary_text(answer: CanaryAnswer, *, verbose: bool = False, colour: bool = False) -> str:
    """Lines for a terminal; colour only if set. verbose: how each difference comes about, and its series."""
    verdict = answer.decision.upper()
    head = click.style(verdict, fg=COLOURS[answer.decision], bold=True) if colour else verdict
    lines = [head, *wrap(answer.summary, "  ")]
    lines += ["", *_arm("candidate", answer.candidate), *_arm("stable", answer.stable)]
    lines += wrap(
        f"{how_many(answer.windows, 'window')} of {answer.window_seconds:g} s, {answer.from_} to {answer.until}", "  "
    )
    if answer.checks:
        interval = f"{figure(answer.interval, 'ratio')} interval"
        heads = ("candidate", "stable", "worse by")
        lines += ["", " " * (TITLE + 2) + "".join(f"{head:>{SHARES}}" for head in heads) + f"  {interval:<23}margin"]
        lines += [line for check in answer.checks for line in _check(check, verbose)]
    for title, texts in (
        ("not known because", answer.reasons[1:]),
        ("notes", answer.notes),
        ("assumed", answer.assumed),
    ):
        lines += bullets(title, texts)
    return "\n".join(lines)


def _arm(name: str, arm: ArmSeen) -> Iterator[str]:
    good = (
        ""
        if arm.goodput is None
        else f", goodput {figure(arm.goodput[0], '1/s')} to {figure(arm.goodput[1], '1/s')} a pod"
    )
    rate = f"{how_many(arm.requests, 'request')}, {figure(arm.requests_per_second, '1/s')}{good}"
    yield from wrap(f"{some(arm.pods, FIRST_PODS)}: {rate}", f"  {name:<10} ")


def _check(check: CheckAnswer, verbose: bool) -> Iterator[str]:
    title = check.title if check.limit is None else f"{check.title} {figure(check.limit, 's')}"
    shares = "".join(f"{figure(share, 'ratio'):>{SHARES}}" for share in (check.candidate, check.stable))
    between = f"{100 * check.low:+.3g} to {_points(check.high)}"
    worse, margin = _points(check.difference), _points(check.margin)
    yield f"  {title:<{TITLE}}{shares}{worse:>{SHARES}}  {between:<22}{margin:>7}  {check.decision}"
    if verbose:
        yield from wrap(check.formula, "      = ")
        events = f"{check.events[0]:,} and {check.events[1]:,} events, design effect {check.design:.3g}"
        yield from wrap(f"{events}; {check.needed:,} events of the candidate decide", "        with ")
        if check.times is not None:
            low, value, high = check.times
            yield from wrap(f"mean {value:.3g} times that of the stable pods, {low:.3g} to {high:.3g}", "        with ")
        yield from wrap(check.source, "        from ")


def _points(share: float) -> str:
    """A difference of shares in percentage points: +1.02."""
    return f"{100 * share:+.3g} pt" if abs(share) < 0.995 else f"{100 * share:+.0f} pt"


def verify_text(answer: Verification, *, colour: bool = False) -> str:
    """Lines for a terminal; colour only if set."""

    what = f"{answer.finding} on {answer.pool}, step at {answer.step_at}, until {answer.until}"
    head = answer.outcome.upper()
    lines, bold = headline(head, what, colour), emphasis(colour)
    lines += [line for each in answer.why for line in wrap(each, "  - ")]
    heads = marked(" ", ""), "before", "after", "change, with 90 %"
    moves = [_move(move) for move in answer.moves]
    predicted = [
        (
            marked(" ", each.title),
            figure(each.predicted, each.unit),
            figure(each.measured, each.unit),
            f"{'inside' if each.inside else 'outside'} {figure(each.low, each.unit)} to {figure(each.high, each.unit)}",
        )
        for each in answer.predicted
    ]
    columns = Columns([heads, *moves, *predicted], WIDEST)
    lines += ["", *map(bold, columns.lines(heads)), *(line for row in moves for line in columns.lines(row))]
    if predicted:
        change = ", ".join(f"{key} {value}" for key, value in answer.changes.items())
        lines += ["", *map(bold, wrap(f"predicted of {change}", ""))]
        lines += [line for row in predicted for line in columns.lines(row)]
    return "\n".join(lines)


def _move(move: MeasuredMove) -> tuple[str, str, str, str]:
    points = move.unit == "ratio" and move.of_users
    change = [f"{100 * each:+.1f}" if points else f"{each:+.0%}" for each in (move.change, move.low, move.high)]
    title = move.title if move.of_users else f"evidence: {move.title}"
    moved = f"{change[0]} ({change[1]} to {change[2]}): {move.outcome}"
    return marked(" ", title), figure(move.before, move.unit), figure(move.after, move.unit), moved


def ledger_text(lines: Sequence[Verification]) -> str:
    """One line each, the oldest first."""
    rows = []
    for line in (printable(each, Verification) for each in lines):
        inside = sum(each.inside for each in line.predicted)
        predicted = f", {inside} of {len(line.predicted)} as predicted" if line.predicted else ""
        rows.append(f"{line.step_at}  {line.outcome:<13}  {line.finding}  {line.pool}{predicted}")
    return "\n".join(rows) if rows else "the ledger is empty"


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
