"""An audit for a ticket or a chat."""

from __future__ import annotations

from collections.abc import Iterator

from inferdoc.audit.describe import cost_words
from inferdoc.audit.model import Audit, StandingState
from inferdoc.audit.observe import percent


def audit_markdown(answer: Audit) -> str:
    """GitHub-flavoured Markdown; times in UTC."""
    lines = ["# Standing states", "", answer.summary, ""]
    lines += [f"Window {answer.window.from_} to {answer.window.until}, source `{answer.source.location}`.", ""]
    if answer.states:
        lines += ["| | state | pods | costs |", "| --- | --- | --- | --- |"]
        for number, state in enumerate(answer.states, start=1):
            pods = f"{len(state.place.pods)} of {state.place.of_pods}"
            lines.append(f"| {number} | {cell(state.title)} | {pods} | {cost_words(state)} |")
        lines.append("")
    for state in answer.states:
        lines += _state(state)
    if answer.accepted:
        lines += ["## Accepted by the configuration", ""]
        lines += [f"- `{state.id}` on {_pods(state)}: {state.accepted}" for state in answer.accepted]
        lines.append("")
    if answer.cannot_tell:
        lines += ["## Cannot tell", ""]
        lines += [f"- `{d.id}` on {'; '.join(d.pools)}: {d.what}. {d.enable}" for d in answer.cannot_tell]
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
        lines.append(f"| {cell(pool.name)} | {' | '.join(numbers)} |")
    return "\n".join(lines).rstrip()


def _state(state: StandingState) -> Iterator[str]:
    place = state.place
    yield f"## {state.title}"
    yield ""
    link = f"[{state.runbook}]({state.runbook_url})" if state.runbook_url else f"`inferdoc runbook {state.runbook}`"
    page = f" Runbook: {link}." if state.runbook else ""
    yield f"`{state.id}`, **{state.severity}**, {state.certainty}. Costs {cost_words(state)}: {state.costs}.{page}"
    tier = f", tier {place.tier}" if place.tier != "unknown" else ""
    yield f"{len(place.pods)} of {place.of_pods} pods of {place.model or 'the pool'}{tier}: {_pods(state)}."
    yield ""
    yield "| observation | because |"
    yield "| --- | --- |"
    for item in state.observed:
        yield f"| {cell(item.statement)} | {cell(item.because)} |"
    yield ""
    yield f"Meant if {state.intended_when}."
    yield ""
    for number, step in enumerate(state.next_steps, start=1):
        yield f"{number}. {step.do}. {step.why.capitalize()}. Cost: {step.cost}. Undo: {step.undo}."
    yield ""


def _pods(state: StandingState) -> str:
    return ", ".join(f"`{pod}`" for pod in state.place.pods)


def cell(words: str) -> str:
    """Words that may stand in a table."""
    return words.replace("|", "\\|")
