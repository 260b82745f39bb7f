"""Persistent issues for a terminal and as an HTML page."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import click

from inferdoc.audit.describe import cost_words
from inferdoc.audit.model import Audit, AuditedPool, StandingState, UndeterminedState
from inferdoc.escaping import html as escape
from inferdoc.report.brief import clock
from inferdoc.report.html_finding import MOST_PODS, badge, badges, link, pairs, table, titled
from inferdoc.report.html_page import document
from inferdoc.report.html_timeline import day_and_clock
from inferdoc.report.text import COLOURS
from inferdoc.report.wrapping import fitted, painted, wrap
from inferdoc.words import figure, percent, some

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


def audit_html(answer: Audit) -> str:
    """A whole HTML document. Times are in UTC."""
    facts = pairs(
        (
            ("window", f"{day_and_clock(answer.window.from_)} to {day_and_clock(answer.window.until)} UTC"),
            ("source", f"<code>{escape(answer.source.location)}</code>"),
            *([("incomplete", "<br>".join(map(escape, answer.source.incomplete)))] if answer.source.incomplete else []),
            ("warnings", "<br>".join(escape(w) for w in answer.source.warnings)),
        )
    )
    foot = (
        f"<footer>inferdoc {escape(answer.inferdoc_version)}, {escape(answer.schema_)}; "
        f"read in {answer.timing.read_seconds:.2f} s with {answer.timing.queries} queries, "
        f"judged in {answer.timing.judge_seconds:.2f} s. All times UTC.</footer>"
    )
    verdict = badge(answer.verdict, VERDICTS[answer.verdict])
    body = f"<header><p>{verdict}</p><h1>{escape(answer.summary)}</h1>{facts}</header>{parts(answer)}{foot}"
    return document(answer.summary, body, answer.inferdoc_version)


def audit_section(answer: Audit) -> str:
    """The section of the report of a diagnosis: the table of states, each opened on demand."""
    opened = "".join(
        f"<details><summary>{number}. {escape(state.title)}</summary>{_body(state)}</details>"
        for number, state in enumerate(answer.states, start=1)
    )
    words = f"<p>{escape(answer.summary)}</p>" if not answer.states else ""
    intro = (
        "<p class='soft'>Absolute limits that are exceeded in most of this window. "
        "<code>inferdoc audit --since 24h</code> covers a whole day.</p>"
    )
    return titled("standing", "Persistent issues", f"{intro}{words}{_ranking(answer, linked=False)}{opened}")


def parts(answer: Audit) -> str:
    """The sections of the document."""
    sections = [_ranking(answer, linked=True) if len(answer.states) > 1 else ""]
    for number, state in enumerate(answer.states, start=1):
        sections.append(titled(f"s{number}", f"{number}. {state.title}", _body(state)))
    if answer.accepted:
        rows = [(f"<code>{escape(s.id)}</code>", _html_pods(s), escape(s.accepted or "")) for s in answer.accepted]
        sections.append(titled("accepted", "Accepted by the configuration", table(("state", "pods", "reason"), rows)))
    if answer.cannot_tell:
        doubts = map(_doubt, answer.cannot_tell)
        sections.append(titled("doubts", "Undetermined", table(("state", "pools", "why", "what to do"), doubts)))
    pools = (map(escape, pool_cells(pool)) for pool in answer.pools)
    sections.append(titled("looked", "Coverage", table(POOL_HEADS, pools)))
    return "\n".join(part for part in sections if part)


def _ranking(answer: Audit, *, linked: bool) -> str:
    if not answer.states:
        return ""
    rows = []
    for number, state in enumerate(answer.states, start=1):
        title = escape(state.title)
        name = f'<a href="#s{number}">{title}</a>' if linked else title
        pods = f"{len(state.place.pods)} of {state.place.of_pods}"
        rows.append((name, badge(state.severity, state.severity), pods, escape(cost_words(state))))
    return table(("issue, highest cost first", "severity", "pods", "costs"), rows)


def _body(state: StandingState) -> str:
    place = state.place
    words = (("model ", place.model), ("tier ", place.tier if place.tier != "unknown" else ""))
    where = "".join(f", {word}{escape(value)}" for word, value in words if value)
    facts = pairs(
        (
            ("costs", f"<strong>{escape(cost_words(state))}</strong>: {escape(state.costs)}"),
            ("worked out as", "" if state.wasted is None else escape(state.wasted.formula)),
            ("where", f"{len(place.pods)} of {place.of_pods}: {_html_pods(state)}{where}"),
            ("meant if", escape(state.intended_when)),
            (
                "runbook",
                ""
                if state.runbook is None
                else link(state.runbook_url, f"<code>inferdoc runbook {escape(state.runbook)}</code>"),
            ),
            ("source", escape("; ".join(state.sources))),
        )
    )
    steps = "".join(
        f"<li><strong>{escape(step.do)}</strong>"
        + pairs((("why", escape(step.why)), ("cost", escape(step.cost)), ("undo", escape(step.undo))))
        + "</li>"
        for step in state.next_steps
    )
    shown = table(("observation", "because"), (map(escape, (one.statement, one.because)) for one in state.observed))
    head = badges(state.severity, state.certainty, state.id)
    return f'{head}{facts}<h3>What shows it</h3>{shown}<h3>Next steps</h3><ol class="steps">{steps}</ol>'


def _doubt(doubt: UndeterminedState) -> tuple[str, ...]:
    return f"<code>{escape(doubt.id)}</code>", *map(escape, ("; ".join(doubt.pools), doubt.what, doubt.enable))


POOL_HEADS = ("pool", "pods", "GPUs", "requests", "busy", "use at the peak")


def pool_cells(pool: AuditedPool) -> tuple[str, ...]:
    """A pool under `POOL_HEADS`."""
    return (
        pool.name,
        str(pool.pods),
        "not known" if pool.gpus is None else str(pool.gpus),
        "not known" if pool.requests is None else f"{pool.requests:,.0f}",
        percent(pool.busy),
        "not known" if pool.peak_use is None else percent(pool.peak_use),
    )


def _html_pods(state: StandingState) -> str:
    return some([f"<strong>{escape(pod)}</strong>" for pod in state.place.pods], MOST_PODS)
