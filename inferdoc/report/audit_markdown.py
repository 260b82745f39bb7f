"""An audit for a ticket or a chat."""

from __future__ import annotations

from collections.abc import Iterator

from inferdoc.audit.describe import cost_words
from inferdoc.audit.model import Audit, StandingState
from inferdoc.audit.observe import percent
from inferdoc.escaping import code, link
from inferdoc.escaping import markdown as words
from inferdoc.report.markdown import step_words


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
        numbers = (
            str(pool.pods),
            "not known" if pool.gpus is None else str(pool.gpus),
            "not known" if pool.requests is None else f"{pool.requests:,.0f}",
            percent(pool.busy),
            "not known" if pool.peak_use is None else percent(pool.peak_use),
        )
        lines.append(f"| {words(pool.name)} | {' | '.join(numbers)} |")
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
