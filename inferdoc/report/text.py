"""The diagnosis on a terminal: a first screen, then everything that it rests on."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import click

from inferdoc.judging.model import (
    Diagnosis,
    Finding,
    Persistent,
    PhaseSplit,
    Rival,
    StageReached,
    StepPrediction,
    seconds,
)
from inferdoc.judging.visibility import ONE_SCRAPE
from inferdoc.report.brief import brief, certainty, clock
from inferdoc.report.phrases import HARM, by_reason, compared_with, counted, elsewhere, in_focus, role_word, why
from inferdoc.report.wrapping import fitted, painted, width, wrap
from inferdoc.words import figure, how_many, lasting, some

COLOURS = {
    "critical": "red",
    "warning": "yellow",
    "info": "cyan",
    "healthy": "green",
    "degraded": "yellow",
    "unknown": "magenta",
}
SHORT_LIST = 4
LEAST_PLACE = 24
"""Characters of the source that are kept on the first screen: the end of its name."""
SIMULATED = ("ttft_p99", "itl_p99", "goodput")
"""Predicted signals of a simulated step."""
WORTH_NAMING = 0.05
"""A less probable candidate is shown with -v only."""
WORTH_SAYING = 0.005
"""Less rounds to 0%."""
BASIC = ("running", "generation_tokens_rate", "ttft_mean", "itl_mean", "e2e_mean")
"""Signals of every engine, without which next to nothing can be judged."""


def text(answer: Diagnosis, *, detail: int = 0, colour: bool = False) -> str:
    """Lines for the width of the terminal; colour only if set. detail: 0 the first screen, 1 every finding with
    its evidence, 2 all evidence, reasons and commands, and what could not be judged."""

    def paint(words: str, key: str, bold: bool = True) -> str:
        return click.style(words, fg=COLOURS.get(key), bold=bold) if colour else words

    verdict, verbose = answer.verdict.upper(), detail > 1
    first_screen = detail == 0 and bool(answer.findings)
    place, span = answer.source.location, _span(answer)
    if first_screen and len(f"{verdict}  {place}  {span}") > width():
        span = f"{span[:19]} to {clock(answer.window.until)[11:]}"
        place = place[-max(LEAST_PLACE, width() - len(f"{verdict}    {span}")) :]
    lines = painted(wrap(f"{place}  {span}", f"{verdict}  "), verdict, paint(verdict, answer.verdict))
    if answer.focus:
        lines += wrap(in_focus(answer.focus), "about     ")
    if first_screen:
        title, *rest = brief(answer)
        return "\n".join([*lines, paint(title, answer.findings[0].severity), *rest])
    for number, finding in enumerate(answer.findings, start=1):
        unseen = answer.window.baseline.kind == "lifetime" and finding.onset <= answer.window.from_
        lines += ["", *_finding(number, finding, answer.window.until, verbose, paint, unseen)]
    if not answer.findings:
        lines += wrap(answer.summary, "")
        if answer.unknown and answer.unknown.command:
            lines.append(f"$ {answer.unknown.command}")
    for line in answer.source.incomplete:
        lines += wrap(line, "incomplete  ")
    if answer.persistent:
        lines += ["", "persistent (inferdoc audit)"]
        lines += [line for one in answer.persistent for line in wrap(_persistent(one), "  ")]
    if answer.focus and answer.focus.elsewhere:
        lines += ["", *wrap(elsewhere(answer.focus), "elsewhere  ")]
    if detail or answer.verdict == "unknown":
        lines += _details(answer, verbose)
    coverage = answer.coverage
    seen = f"{how_many(coverage.pods, 'pod')}, {how_many(coverage.targets, 'target')}"
    signals = f"{len(coverage.signals_present)} signals ({len(coverage.signals_absent)} not visible)"
    newest = f", newest sample {clock(answer.window.newest)[11:]}" if answer.window.newest else ""
    lines += ["", *wrap(f"compared with {compared_with(answer.window.baseline, clock)}", "")]
    lines += wrap(f"coverage: {seen}, {signals}, {how_many(len(coverage.gaps), 'gap')} in the scrapes{newest}", "")
    if coverage.depth:
        lines += wrap(f"{coverage.depth} (--deep reads all)", "")
    if verbose:
        timing = answer.timing
        took = f"read {timing.read_seconds:.2f} s, judged {timing.judge_seconds:.2f} s"
        split = f", {timing.split} of them in halves, too large for the server" if timing.split else ""
        lines += wrap(f"{took}, {timing.queries} queries{split}, {timing.samples:,} samples", "")
        if timing.slowest_query is not None and timing.slowest_seconds is not None:
            lines += wrap(f"slowest query: {timing.slowest_seconds:.2f} s, {timing.slowest_query}", "")
    return "\n".join(fitted(lines))


def _details(answer: Diagnosis, verbose: bool) -> Iterator[str]:
    """Where the time of a request goes, what changed, and what could not be judged."""
    split = _phases(answer.phases)
    if split:
        yield from ["", *wrap(split, "time per request  ")]
    if answer.changes:
        yield from ["", "changes"]
        shown = answer.changes if verbose else answer.changes[-SHORT_LIST:]
        yield from (line for c in shown for line in wrap(f"{c.entity}: {c.detail}", f"  {clock(c.at)}  {c.kind:<9} "))
    yield from _not_judged(answer, verbose)


def _persistent(one: Persistent) -> str:
    return f"{one.id}: {one.statement} ({len(one.pods)} of {how_many(one.of_pods, 'pod')})"


def _finding(
    number: int, finding: Finding, until: str, verbose: bool, paint: Callable[..., str], unseen: bool = False
) -> Iterator[str]:
    """until: the end of the window; unseen: no samples at the onset."""
    for line in wrap(finding.title, f"{number}. "):
        yield paint(line, finding.severity)
    long = lasting(max(0.0, seconds(finding.ended or until) - seconds(finding.onset)))
    when = f"since {clock(finding.onset)} (± {figure(finding.onset_uncertainty_seconds, 's')}), for {long}"
    if unseen:
        when = f"started before {clock(finding.onset)}"
    if finding.ended:
        when = f"from {clock(finding.onset)} to {clock(finding.ended)} ({long})"
    sure = wrap(f"{finding.severity}, {certainty(finding)}, {when}", f"   {finding.id}  ")
    yield from painted(sure, finding.severity, paint(finding.severity, finding.severity, False))
    scope = finding.scope
    pods = some(scope.pods, SHORT_LIST)
    where = [
        f"{len(scope.pods)} of {how_many(scope.of_pods, 'pod')}: {pods}",
        f"model {scope.model}" if scope.model else "",
    ]
    where += [
        f"role {scope.role}" if scope.role != "both" else "",
        f"tier {scope.tier}" if scope.tier != "unknown" else "",
    ]
    where += [f"{word} {value}" for word, value in scope.place]
    where += [f"all with {name} {value}, which no peer has" for name, value in scope.shared.items()]
    yield from wrap(", ".join(part for part in where if part), "   ")
    if finding.stage:
        yield from _stage(finding.stage)
    for role in (HARM, "symptom", "support"):
        items = [e for e in finding.evidence if e.role == role]
        if not items or (role == "support" and not verbose):
            continue
        shown = items if verbose else items[:SHORT_LIST]
        for i, item in enumerate(shown):
            since = f"  since {clock(item.since)}" if item.since and verbose else ""
            who = f" [{item.entity}]" if len(scope.pods) > 1 or item.entity not in scope.pods else ""
            word = "near" if role == HARM and finding.imminent else role_word(role)
            yield from wrap(f"{item.statement}{who}{since}", f"   {word if i == 0 else '':<8} ")
    facts = finding.cluster if verbose else [fact for fact in finding.cluster if fact.sign][:SHORT_LIST]
    for i, fact in enumerate(facts):
        when = f" ({clock(fact.at)})" if fact.at else ""
        says = f"{fact.says}: " if fact.says else ""
        word = "probe" if fact.kind == "probe" else "cluster" if i == 0 else ""
        yield from wrap(f"{says}{fact.detail}{when} [{fact.pod}]", f"   {word:<8} ")
    for i, trace in enumerate(finding.traces):
        yield from wrap(
            f"{figure(trace.value, 's')} at {clock(trace.at)} [{trace.pod}] {trace.url}",
            f"   {'traces' if i == 0 else '':<8} ",
        )
    if finding.change:
        yield from wrap(f"{finding.change.detail} ({finding.change.kind}, {clock(finding.change.at)})", "   changed  ")
    if finding.cost_per_hour is not None:
        yield f"   costs    {finding.cost_per_hour:,.2f} an hour, at [prices]"
    if finding.effects:
        yield from wrap(", ".join(finding.effects), "   effects  ")
    least = WORTH_SAYING if verbose else WORTH_NAMING
    for i, member in enumerate(finding.members):
        yield from _rival(member, "one of" if i == 0 else "")
    rivals = [rival for rival in finding.differential if rival.probability >= least]
    for i, rival in enumerate(rivals if verbose else rivals[:1]):
        yield from _rival(rival, "or" if i == 0 else "")
    for i, excluded in enumerate(finding.ruled_out if verbose else finding.ruled_out[:2]):
        yield from wrap(f"{excluded.id}: {excluded.because}", f"   {'not' if i == 0 else '':<8} ")
    for i, step in enumerate(finding.next_steps if verbose else finding.next_steps[:3]):
        yield from wrap(f"{i + 1}) {step.do}", f"   {'do' if i == 0 else '':<8} ")
        if step.predicted is not None:
            yield from wrap(_predictions(step.predicted), "               ")
        if verbose:
            yield from wrap(f"why: {step.why}. Cost: {step.cost}. Undo: {step.undo}.", "               ")
            if step.command:
                yield f"               $ {step.command}"
    yield f"   runbook  {finding.runbook_url or f'inferdoc runbook {finding.runbook}'}"


def _predictions(step: StepPrediction) -> str:
    """What a step would bring, the quantities that say most of it."""
    moves = [
        f"{move.title} {figure(move.now, move.unit)} to {figure(move.then, move.unit)} "
        f"({figure(move.low, move.unit)} to {figure(move.high, move.unit)})"
        for move in step.moves
        if move.name in SIMULATED
    ]
    words = ", ".join(f"{key} {value}" for key, value in step.changes.items())
    return f"would bring ({words}): {'; '.join(moves)}{'; the bands are guesses' if step.guesses else ''}"


def _rival(rival: Rival, word: str) -> Iterator[str]:
    """Another cause that the observations might speak for, and what would decide."""
    words = f"{rival.id} (probability {rival.probability:.0%})"
    if rival.speaks_for:
        words += f"; for it: {rival.speaks_for[0]}"
    if rival.speaks_against:
        words += f"; against it: {rival.speaks_against[0]}"
    yield from wrap(words, f"   {word:<8} ")
    if rival.decided_by:
        yield from wrap(f"would decide: {rival.decided_by.observation}", "            ")
        yield f"            $ {rival.decided_by.command}"


def _stage(stage: StageReached) -> Iterator[str]:
    """The current stage, and the start of each visible stage."""
    yield from wrap(f"{stage.index} of {stage.of}: {stage.name}", "   stage    ")
    if len(stage.reached) > 1:
        starts = [f"{s.index} at {clock(s.began)[11:19]}" for s in stage.reached if s.began]
        yield from wrap(f"stage starts: {', '.join(starts)}", "            ")


def _phases(phases: list[PhaseSplit]) -> str:
    parts = []
    for phase in phases:
        if phase.observed_seconds is None:
            continue
        before = f"{figure(phase.baseline_seconds, 's')} -> " if phase.baseline_seconds is not None else ""
        parts.append(f"{phase.phase} {before}{figure(phase.observed_seconds, 's')}")
    return ", ".join(parts)


def _not_judged(answer: Diagnosis, verbose: bool) -> Iterator[str]:
    if not answer.not_judged:
        return
    yield ""
    if answer.verdict == "unknown" and answer.rising is None and answer.stopped is None and answer.unknown is None:
        empty = not (answer.coverage.pods or answer.coverage.targets)
        missing = [name for name in BASIC if name in answer.coverage.signals_absent]
        if missing and not empty:
            yield from wrap(f"missing: {', '.join(missing)}", "")
        if missing:
            once = any(ONE_SCRAPE in entry.enable for entry in answer.not_judged)
            fix = "scrape the /metrics endpoint of each engine; `inferdoc doctor` shows what this source has"
            yield from wrap(ONE_SCRAPE if once else fix, "" if once else "enable: ")
        if empty and not verbose:
            return
    if not verbose:
        number = how_many(len(answer.not_judged), "cause")
        kinds = counted(answer.not_judged)
        yield from wrap(f"{number}: {kinds} (inferdoc doctor shows how; -vv lists them)", "not evaluated  ")
        return
    yield "not evaluated"
    kind = None
    for reason in by_reason(answer.not_judged):
        if reason.kind != kind:
            kind = reason.kind
            yield f"  {why(kind, sum(entry.kind == kind for entry in answer.not_judged))}"
        yield from wrap(f"{reason.remedy}: {', '.join(reason.causes)}", "    ")


def _span(answer: Diagnosis) -> str:
    return f"{clock(answer.window.from_)} to {clock(answer.window.until)}"
