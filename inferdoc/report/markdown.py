"""A diagnosis and an audit as Markdown."""

from __future__ import annotations

from collections.abc import Iterator

from inferdoc.audit.describe import cost_words
from inferdoc.audit.model import Advice, Audit, StandingState
from inferdoc.escaping import cell_code, code, link
from inferdoc.escaping import markdown as words
from inferdoc.judging.model import Diagnosis, Finding, NextStep
from inferdoc.report.audit import pool_cells
from inferdoc.report.phrases import by_reason, compared_with, elsewhere, in_focus, role_word, why
from inferdoc.words import figure


def markdown(answer: Diagnosis) -> str:
    """GitHub-flavoured Markdown; times in UTC."""
    lines = [f"# {answer.verdict.capitalize()}", "", words(answer.summary), ""]
    for line in answer.source.incomplete:
        lines += [f"Incomplete: {words(line)}.", ""]
    lines += [f"Window {answer.window.from_} to {answer.window.until}, source {code(answer.source.location)}.", ""]
    lines += [f"Compared with {words(compared_with(answer.window.baseline, str))}.", ""]
    if answer.focus:
        others = elsewhere(answer.focus)
        lines += [f"About {words(in_focus(answer.focus))}.{f' Elsewhere: {words(others)}.' if others else ''}", ""]
    for finding in answer.findings:
        lines += _finding(finding)
    if answer.persistent:
        lines += ["## Persistent", ""]
        lines += [
            f"- {code(one.id)}, {', '.join(map(code, one.pods))}: {words(one.statement)}" for one in answer.persistent
        ]
        lines.append("")
    if answer.phases:
        lines += ["## Time per request", "", "| phase | before | now |", "| --- | --- | --- |"]
        lines += [
            f"| {p.phase} | {figure(p.baseline_seconds, 's')} | {figure(p.observed_seconds, 's')} |"
            for p in answer.phases
        ]
        lines.append("")
    if answer.changes:
        lines += ["## Changes", ""]
        lines += [f"- {c.at} {words(c.kind)}, {code(c.entity)}: {words(c.detail)}" for c in answer.changes]
        lines.append("")
    if answer.not_judged:
        lines += ["## Not judged", ""]
        for reason in by_reason(answer.not_judged):
            causes = ", ".join(code(cause) for cause in reason.causes)
            lines.append(f"- {causes} {why(reason.kind, len(reason.causes))}: {words(reason.remedy)}")
        lines.append("")
    return "\n".join(lines).rstrip()


def _finding(finding: Finding) -> Iterator[str]:
    scope = finding.scope
    yield f"## {words(finding.title)}"
    yield ""
    end = "ongoing" if finding.ongoing else f"ended {finding.ended}"
    since = f"since {finding.onset} (± {finding.onset_uncertainty_seconds:.0f} s)"
    page = link(finding.id, finding.runbook_url)
    yield f"{page}, **{finding.severity}**, {finding.certainty}; {since}, {end}."
    common = "".join(f", {word} {code(value)}" for word, value in scope.place)
    common += "".join(f", all with {words(name)} {code(value)}" for name, value in scope.shared.items())
    yield f"{len(scope.pods)} of {scope.of_pods} pods: {', '.join(map(code, scope.pods))}{common}."
    yield ""
    yield "| evidence | entity | observation |"
    yield "| --- | --- | --- |"
    for item in finding.evidence:
        yield f"| {role_word(item.role)} | {cell_code(item.entity)} | {words(item.statement)} |"
    yield ""
    for fact in finding.cluster:
        says = f"{words(fact.says)}: " if fact.says else ""
        yield f"- {'Probe' if fact.kind == 'probe' else 'Kubernetes'}, {code(fact.pod)}: {says}{words(fact.detail)}"
    for trace in finding.traces:
        took = f"{figure(trace.value, 's')} at {trace.at}"
        yield f"- Traced, {code(trace.pod)}: {link(took, trace.url)}, trace {code(trace.trace_id)}"
    if finding.cluster or finding.traces:
        yield ""
    if finding.change:
        yield f"Changed: {words(finding.change.detail)} ({words(finding.change.kind)}, {finding.change.at})."
        yield ""
    if finding.effects:
        yield f"Effects: {', '.join(map(code, finding.effects))}."
        yield ""
    if finding.members:
        yield "One of:"
        yield ""
        for member in finding.members:
            reason = f": {words(member.speaks_for[0])}" if member.speaks_for else ""
            yield f"- {code(member.id)}, {member.probability:.0%}{reason}"
        yield ""
    if finding.ruled_out:
        yield "Ruled out:"
        yield ""
        for rival in finding.ruled_out:
            yield f"- {code(rival.id)}: {words(rival.because)}"
        yield ""
    yield "Next steps:"
    yield ""
    for number, step in enumerate(finding.next_steps, start=1):
        yield f"{number}. {step_words(step)}"
        if step.command:
            yield f"   {code(step.command)}"
    yield ""


def step_words(step: NextStep | Advice) -> str:
    """What to do, why, what it costs, how it is undone."""
    return f"{words(step.do)}. {words(step.why.capitalize())}. Cost: {words(step.cost)}. Undo: {words(step.undo)}."


def audit_markdown(answer: Audit) -> str:
    """GitHub-flavoured Markdown; times in UTC."""
    lines = ["# Persistent issues", "", words(answer.summary), ""]
    for line in answer.source.incomplete:
        lines += [f"Incomplete: {words(line)}.", ""]
    lines += [f"Window {answer.window.from_} to {answer.window.until}, source {code(answer.source.location)}.", ""]
    if answer.states:
        lines += ["| | state | pods | costs |", "| --- | --- | --- | --- |"]
        for number, state in enumerate(answer.states, start=1):
            pods = f"{len(state.place.pods)} of {state.place.of_pods}"
            lines.append(f"| {number} | {words(state.title)} | {pods} | {words(cost_words(state))} |")
        lines.append("")
    for state in answer.states:
        lines += _state(state)
    if answer.accepted:
        lines += ["## Accepted by the configuration", ""]
        lines += [f"- {code(state.id)} on {_pods(state)}: {words(state.accepted or '')}" for state in answer.accepted]
        lines.append("")
    if answer.cannot_tell:
        lines += ["## Undetermined", ""]
        for doubt in answer.cannot_tell:
            pools = words("; ".join(doubt.pools))
            lines.append(f"- {code(doubt.id)} on {pools}: {words(doubt.what)}. {words(doubt.enable)}")
        lines.append("")
    lines += ["## Looked at", "", "| pool | pods | GPUs | requests | busy | use at the peak |"]
    lines.append("| --- | --- | --- | --- | --- | --- |")
    for pool in answer.pools:
        lines.append(f"| {' | '.join(map(words, pool_cells(pool)))} |")
    return "\n".join(lines).rstrip()


def _state(state: StandingState) -> Iterator[str]:
    place = state.place
    yield f"## {words(state.title)}"
    yield ""
    page = f" Runbook: {link(state.runbook, state.runbook_url)}." if state.runbook else ""
    costs = f"Costs {words(cost_words(state))}: {words(state.costs)}."
    yield f"{code(state.id)}, **{state.severity}**, {state.certainty}. {costs}{page}"
    tier = f", tier {words(place.tier)}" if place.tier != "unknown" else ""
    yield f"{len(place.pods)} of {place.of_pods} pods of {words(place.model or 'the pool')}{tier}: {_pods(state)}."
    yield ""
    yield "| observation | because |"
    yield "| --- | --- |"
    for item in state.observed:
        yield f"| {words(item.statement)} | {words(item.because)} |"
    yield ""
    yield f"Meant if {words(state.intended_when)}."
    yield ""
    for number, step in enumerate(state.next_steps, start=1):
        yield f"{number}. {step_words(step)}"
    yield ""


def _pods(state: StandingState) -> str:
    return ", ".join(map(code, state.place.pods))
