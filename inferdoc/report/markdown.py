"""The diagnosis for a ticket or a chat."""

from __future__ import annotations

from collections.abc import Iterator

from inferdoc.judging.model import Diagnosis, Finding
from inferdoc.judging.words import figure
from inferdoc.report.references import compared_with
from inferdoc.report.roles import role_word


def markdown(answer: Diagnosis) -> str:
    """GitHub-flavoured Markdown; times in UTC."""
    lines = [f"# {answer.verdict.capitalize()}", "", answer.summary, ""]
    lines += [f"Window {answer.window.from_} to {answer.window.until}, source `{answer.source.location}`.", ""]
    lines += [f"Compared with {compared_with(answer.window.baseline, str)}.", ""]
    for finding in answer.findings:
        lines += _finding(finding)
    if answer.phases:
        lines += ["## Time per request", "", "| phase | before | now |", "| --- | --- | --- |"]
        lines += [
            f"| {p.phase} | {figure(p.baseline_seconds, 's')} | {figure(p.observed_seconds, 's')} |"
            for p in answer.phases
        ]
        lines.append("")
    if answer.changes:
        lines += ["## Changes", "", *(f"- {c.at} {c.kind}, {c.entity}: {c.detail}" for c in answer.changes), ""]
    if answer.not_judged:
        lines += [
            "## Not judged",
            "",
            *(f"- `{n.id}`: no {', '.join(n.missing)}. {n.enable}" for n in answer.not_judged),
            "",
        ]
    return "\n".join(lines).rstrip()


def _finding(finding: Finding) -> Iterator[str]:
    scope = finding.scope
    yield f"## {finding.title}"
    yield ""
    link = f"[{finding.id}]({finding.runbook_url})" if finding.runbook_url else f"`{finding.id}`"
    end = "ongoing" if finding.ongoing else f"ended {finding.ended}"
    since = f"since {finding.onset} (± {finding.onset_uncertainty_seconds:.0f} s)"
    yield f"{link}, **{finding.severity}**, {finding.certainty}; {since}, {end}."
    common = "".join(f", all with {name} `{value}`" for name, value in scope.shared.items())
    yield f"{len(scope.pods)} of {scope.of_pods} pods: {', '.join(f'`{p}`' for p in scope.pods)}{common}."
    yield ""
    yield "| evidence | entity | observation |"
    yield "| --- | --- | --- |"
    for item in finding.evidence:
        yield f"| {role_word(item.role)} | {item.entity} | {_cell(item.statement)} |"
    yield ""
    if finding.change:
        yield f"Changed: {finding.change.detail} ({finding.change.kind}, {finding.change.at})."
        yield ""
    if finding.effects:
        yield f"Effects: {', '.join(f'`{e}`' for e in finding.effects)}."
        yield ""
    if finding.ruled_out:
        yield "Ruled out:"
        yield ""
        for rival in finding.ruled_out:
            yield f"- `{rival.id}`: {rival.because}"
        yield ""
    yield "Next steps:"
    yield ""
    for number, step in enumerate(finding.next_steps, start=1):
        yield f"{number}. {step.do}. {step.why.capitalize()}. Cost: {step.cost}. Undo: {step.undo}."
        if step.command:
            yield f"   `{step.command}`"
    yield ""


def _cell(words: str) -> str:
    return words.replace("|", "\\|")
