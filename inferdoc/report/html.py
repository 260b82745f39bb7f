"""The diagnosis as one HTML file for a ticket: no network, no script, light and dark, on screen and on paper."""

from __future__ import annotations

from collections.abc import Iterable

from inferdoc.audit.model import Audit
from inferdoc.escaping import html as escape
from inferdoc.judging.document import DiagnosisWithSeries
from inferdoc.judging.model import Coverage, Diagnosis, Finding, PhaseSplit
from inferdoc.judging.view import View
from inferdoc.report.audit import audit_section
from inferdoc.report.html_finding import badge, merged, pairs, section, table, titled
from inferdoc.report.html_page import document
from inferdoc.report.html_plot import Detail
from inferdoc.report.html_timeline import day_and_clock, timeline
from inferdoc.report.phrases import by_reason, compared_with, elsewhere, in_focus, why
from inferdoc.words import figure

MOST_GAPS = 20


def html(answer: Diagnosis, standing: Audit | None = None) -> str:
    """A whole HTML document. The evidence is plotted where the answer comes straight from `diagnose`; one that was read
    back from JSON has its numbers as bars instead. standing: an audit of the same window. Times are in UTC."""
    view: View | None = answer.view if isinstance(answer, DiagnosisWithSeries) else None
    detail = Detail.for_plots(sum(len(merged(f.evidence)) for f in answer.findings))
    body = [_head(answer)]
    drawn = timeline(answer)
    if drawn:
        body.append(titled("timeline", "What happened when", drawn))
    body += [section(number, finding, view, detail) for number, finding in enumerate(answer.findings, start=1)]
    if standing is not None:
        body.append(audit_section(standing))
    body += [_phases(answer.phases), _not_judged(answer), _coverage(answer.coverage), _foot(answer)]
    title = f"{answer.verdict}: {answer.findings[0].title if answer.findings else answer.source.location}"
    return document(title, "".join(part + "\n" for part in body if part), answer.inferdoc_version)


def _head(answer: Diagnosis) -> str:
    window = answer.window
    baseline = compared_with(window.baseline, lambda moment: f"{day_and_clock(moment)} UTC")
    verdict = badge(answer.verdict, f"verdict {answer.verdict}")
    facts = pairs(
        (
            ("window", f"{day_and_clock(window.from_)} to {day_and_clock(window.until)} UTC"),
            ("compared with", escape(baseline)),
            ("source", f"<code>{escape(answer.source.location)}</code>"),
            ("persistent", "<br>".join(escape(f"{one.id}: {one.statement}") for one in answer.persistent)),
            ("about", escape(in_focus(answer.focus)) if answer.focus else ""),
            ("elsewhere", escape(elsewhere(answer.focus)) if answer.focus else ""),
            *([("incomplete", "<br>".join(map(escape, answer.source.incomplete)))] if answer.source.incomplete else []),
            ("warnings", "<br>".join(escape(w) for w in answer.source.warnings)),
        )
    )
    more = ""
    if len(answer.findings) > 1:
        items = "".join(
            f'<li><a href="#f{n}">{escape(f.title)}</a> '
            f'<span class="soft">{f.severity}, {f.certainty}, {escape(_where(f))}</span></li>'
            for n, f in enumerate(answer.findings, start=1)
        )
        more = f"<ol>{items}</ol>"
    return f"<header><p>{verdict}</p><h1>{escape(answer.summary)}</h1>{more}{facts}</header>"


def _where(finding: Finding) -> str:
    scope = finding.scope
    return ", ".join([*scope.pods[:3], *([f"cluster {scope.cluster}"] if scope.cluster else [])])


def _phases(phases: list[PhaseSplit]) -> str:
    if not phases:
        return ""
    rows = []
    for split in phases:
        before, now = split.baseline_seconds, split.observed_seconds
        gained = figure(now - before, "s") if now is not None and before is not None else "not known"
        cells = (figure(v, "s") if v is not None else "not known" for v in (before, now))
        rows.append(map(escape, (split.phase, *cells, gained)))
    shown = table(("phase", "before", "now", "gained"), rows, numbers=(1, 2, 3))
    return titled("phases", "Time per request", shown)


def _not_judged(answer: Diagnosis) -> str:
    if not answer.not_judged:
        return ""
    rows = [
        (_codes(r.causes), f"{why(r.kind, len(r.causes))}: {escape(r.remedy)}", _codes(r.missing))
        for r in by_reason(answer.not_judged)
    ]
    return titled("not-judged", "Not evaluated", table(("causes", "why", "signals missing"), rows, cards=True))


def _codes(names: Iterable[str]) -> str:
    return ", ".join(f"<code>{escape(name)}</code>" for name in names)


def _coverage(coverage: Coverage) -> str:
    gaps = [f"{escape(g.entity)} {g.from_[11:19]} to {g.until[11:19]}" for g in coverage.gaps[:MOST_GAPS]]
    if len(coverage.gaps) > MOST_GAPS:
        gaps.append(f"and {len(coverage.gaps) - MOST_GAPS} more")
    seen = pairs(
        (
            ("pods", str(coverage.pods)),
            ("targets", str(coverage.targets)),
            *([("depth", coverage.depth)] if coverage.depth else []),
            ("gaps", "<br>".join(gaps) or "none"),
            ("visible", f"{len(coverage.signals_present)} signals"),
            ("not visible", ", ".join(f"<code>{escape(s)}</code>" for s in coverage.signals_absent) or "none"),
        )
    )
    return titled("coverage", "Coverage", seen)


def _foot(answer: Diagnosis) -> str:
    timing = answer.timing
    took = f"read in {timing.read_seconds:.2f} s with {timing.queries} queries, judged in {timing.judge_seconds:.2f} s"
    return (
        f"<footer>inferdoc {escape(answer.inferdoc_version)}, {escape(answer.schema)}; {took}. All times UTC.</footer>"
    )
