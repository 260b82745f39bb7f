"""An audit on a terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import click

from inferdoc.audit.describe import cost_words
from inferdoc.audit.model import Audit, AuditedPool, StandingState, UndeterminedState
from inferdoc.audit.observe import percent
from inferdoc.report.brief import clock
from inferdoc.report.text import COLOURS
from inferdoc.report.wrapping import fitted, painted, wrap
from inferdoc.words import figure, some

SHORT_LIST = 4
VERDICTS = {"nothing": "healthy", "standing": "warning", "unknown": "unknown"}
HEADS = {"nothing": "NO PERSISTENT ISSUES", "standing": "PERSISTENT ISSUES", "unknown": "UNKNOWN"}


def audit_text(answer: Audit, *, verbose: bool = False, colour: bool = False) -> str:
    """Lines for the width of the terminal; colour only if set."""

    def paint(words: str, key: str, bold: bool = True) -> str:
        return click.style(words, fg=COLOURS.get(key), bold=bold) if colour else words

    span = f"{clock(answer.window.from_)} to {clock(answer.window.until)}"
    head = HEADS[answer.verdict]
    lines = painted(wrap(f"{answer.source.location}  {span}", f"{head}  "), head, paint(head, VERDICTS[answer.verdict]))
    for number, state in enumerate(answer.states, start=1):
        lines += ["", *_state(number, state, verbose, paint)]
    for line in answer.source.incomplete:
        lines += wrap(line, "incomplete  ")
    if not answer.states:
        lines += wrap(answer.summary, "")
    if answer.accepted:
        lines += ["", "accepted by the configuration"]
        for state in answer.accepted:
            lines += wrap(f"{state.id} on {_pods(state)}: {state.accepted}", "  ")
    lines += _undetermined(answer.cannot_tell, verbose)
    if answer.not_applicable and verbose:
        lines += ["", *wrap(f"not in use: {', '.join(answer.not_applicable)}", "")]
    lines += ["", "coverage"]
    for pool in answer.pools:
        lines += wrap(_pool(pool), "  ")
    if not answer.pools:
        lines.append("  no engine in the source")
    if verbose:
        took = f"read {answer.timing.read_seconds:.2f} s, evaluated {answer.timing.judge_seconds:.2f} s"
        lines.append(f"{took}, {answer.timing.queries} queries, {answer.timing.samples:,} samples")
    return "\n".join(fitted(lines))


def _state(number: int, state: StandingState, verbose: bool, paint: Callable[..., str]) -> Iterator[str]:
    yield from wrap(paint(f"{number}. {state.title}", state.severity), "")
    yield f"   {state.id}  {paint(state.severity, state.severity, False)}, {state.certainty}"
    place = state.place
    where = [f"{len(place.pods)} of {place.of_pods} pod{'' if place.of_pods == 1 else 's'}: {_pods(state)}"]
    where += [f"model {place.model}"] if place.model else []
    where += [f"role {place.role}"] if place.role != "both" else []
    where += [f"tier {place.tier}"] if place.tier != "unknown" else []
    yield from wrap(", ".join(where), "   ")
    yield from wrap(f"{cost_words(state)}: {state.costs}", "   costs    ")
    if verbose and state.wasted is not None:
        yield from wrap(f"worked out as {state.wasted.formula}", "            ")
    for i, item in enumerate(state.observed):
        statement = f"{item.statement} ({item.because})" if verbose else item.statement
        who = f" [{item.entity}]" if len(place.pods) > 1 and item.entity in place.pods else ""
        yield from wrap(f"{statement}{who}", f"   {'shows' if i == 0 else '':<8} ")
    yield from wrap(state.intended_when, "   meant if ")
    for i, step in enumerate(state.next_steps if verbose else state.next_steps[:2]):
        yield from wrap(f"{i + 1}) {step.do}", f"   {'do' if i == 0 else '':<8} ")
        if verbose:
            yield from wrap(f"why: {step.why}. Cost: {step.cost}. Undo: {step.undo}.", "               ")
    if state.runbook:
        yield f"   runbook  {state.runbook_url or f'inferdoc runbook {state.runbook}'}"
    if verbose:
        yield from wrap("; ".join(state.sources), "   source   ")


def _undetermined(doubts: list[UndeterminedState], verbose: bool) -> Iterator[str]:
    if not doubts:
        return
    yield ""
    short = [doubt for doubt in doubts if doubt.reason == "window"]
    for doubt in short if verbose else ():
        yield from wrap(f"undetermined: {doubt.id} on {'; '.join(doubt.pools)}: {doubt.what}", "")
    if short and not verbose:
        early = ", ".join(doubt.id for doubt in short)
        yield from wrap(f"undetermined: {early} (seen here, but the window is too short; -v)", "")
    for way in dict.fromkeys(doubt.enable for doubt in short):
        yield f"  {way}"
    rest = [doubt for doubt in doubts if doubt.reason != "window"]
    if not rest:
        return
    if not verbose:
        names = dict.fromkeys(doubt.id for doubt in rest)
        yield from wrap(f"undetermined: {', '.join(names)} (-v lists what is missing)", "")
        return
    yield "undetermined"
    for doubt in rest:
        yield from wrap(f"{doubt.id} on {'; '.join(doubt.pools)}: {doubt.what}. {doubt.enable}", "  ")


def _pool(pool: AuditedPool) -> str:
    parts = [f"{pool.pods} pod{'' if pool.pods == 1 else 's'}"]
    parts += [f"{pool.gpus} GPU{'' if pool.gpus == 1 else 's'}" if pool.gpus is not None else "GPUs not known"]
    parts += [f"{pool.requests:,.0f} requests"] if pool.requests is not None else []
    parts += [f"busy {percent(pool.busy)} of the window"]
    parts += [f"use at the peak {figure(pool.peak_use, 'ratio')}"] if pool.peak_use is not None else []
    parts += [f"{pool.quiet_pods} with too little traffic to judge"] if pool.quiet_pods else []
    return f"{pool.name}: {', '.join(parts)}"


def _pods(state: StandingState) -> str:
    pods = state.place.pods
    return some(pods, SHORT_LIST)
