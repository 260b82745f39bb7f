"""Parts of an HTML report: a finding, tables of numbers, lists of sentences."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence

from inferdoc.escaping import html as escape
from inferdoc.escaping import is_web
from inferdoc.judging.model import ClusterFact, EvidenceItem, Finding, Scope, TraceLink
from inferdoc.judging.view import View
from inferdoc.report.html_plot import Detail, clock, lines_of, plot, threshold_of
from inferdoc.report.html_timeline import day_and_clock, key
from inferdoc.sizing.model import Predicted
from inferdoc.words import figure, some

MOST_PODS = 60
ROLES = ("harm", "symptom", "support")
ROLE_WORDS = {"harm": "impact", "symptom": "symptom of the cause", "support": "supports it"}
LEGEND = (
    ('<path class="cause" d="M1 6H25"/>', "the pod, rank or GPU of this observation"),
    ('<path class="other" d="M1 6H25"/>', "other pods of this cause"),
    ('<path class="peer" d="M1 6H25"/>', "peers: pods or GPUs (many: their middle and 10th to 90th percentile)"),
    ('<path class="baseline" d="M0 6H26"/>', "baseline"),
    ('<rect class="band" width="26" height="12"/>', "baseline band: 5th to 95th percentile before the onset"),
    ('<path class="limit" d="M0 6H26"/>', "threshold, shaded beyond it"),
    ('<path class="mark-harm" d="M13 0l-6 11h12z"/>', "this observation begins"),
)


def merged(evidence: Iterable[EvidenceItem]) -> list[tuple[EvidenceItem, list[str]]]:
    """Every observation once, with all it counts as: what is a symptom and a harm at once is drawn once."""
    found: dict[tuple[str, str, str], tuple[EvidenceItem, list[str]]] = {}
    for item in evidence:
        _, roles = found.setdefault((item.signal, item.entity, item.statement), (item, []))
        if item.role not in roles:
            roles.append(item.role)
    return sorted(found.values(), key=lambda entry: ROLES.index(entry[1][0]))


def section(number: int, finding: Finding, view: View | None, detail: Detail) -> str:
    """The section of a finding: scope, plots, what changed, look-alikes, next steps."""
    parts = [
        badges(finding.severity, finding.certainty, finding.id),
        _facts(finding),
    ]
    plots = [
        _figure(item, roles, finding, view, f"f{number}e{position}", detail)
        for position, (item, roles) in enumerate(merged(finding.evidence), start=1)
    ]
    if plots:
        drawn = "".join(plots)
        parts.append(f'<h3>Evidence</h3>{key(LEGEND, drawn)}<div class="plots">{drawn}</div>')
    if finding.ruled_out:
        rows = [(f"<code>{escape(r.id)}</code>", escape(r.because)) for r in finding.ruled_out]
        parts.append(f"<h3>Look-alikes ruled out</h3>{table(('cause', 'what speaks against it'), rows, cards=True)}")
    parts.append(_steps(finding))
    return titled(f"f{number}", f"{number}. {finding.title}", "".join(parts))


def table(
    heads: Sequence[str], rows: Iterable[Iterable[str]], *, cards: bool = False, numbers: Container[int] = ()
) -> str:
    """A table with column heads; cells are HTML already. cards: on a phone the cells of a row are below each other
    without their heads, for cells that explain themselves; numbers: columns of numbers."""
    kinds = [' class="num"' if column in numbers else "" for column in range(len(heads))]
    head = "".join(f'<th scope="col"{kind}>{escape(h)}</th>' for h, kind in zip(heads, kinds, strict=True))
    body = "".join(
        f"<tr>{''.join(f'<td{kind}>{cell}</td>' for cell, kind in zip(row, kinds, strict=True))}</tr>" for row in rows
    )
    form = ' class="cards"' if cards else ""
    return f'<div class="scroll"><table{form}><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def titled(name: str, title: str, body: str) -> str:
    """A section. name: unique in the page; body: HTML."""
    return f'<section aria-labelledby="{name}"><h2 id="{name}">{escape(title)}</h2>{body}</section>'


def badges(severity: str, certainty: str, name: str) -> str:
    """How severe, how certain, and the id of a cause or an issue."""
    return f"<p>{badge(severity, severity)} {badge(certainty)} <code>{escape(name)}</code></p>"


def badge(word: str, kind: str = "") -> str:
    """A word in a coloured box."""
    return f'<span class="badge{f" {kind}" if kind else ""}">{escape(word)}</span>'


def link(url: str | None, words: str) -> str:
    """A link where the address is one of the web, else the words alone."""
    if url is None or not is_web(url):
        return words
    return f'<a href="{escape(url)}">{words}</a>'


def pairs(entries: Iterable[tuple[str, str]]) -> str:
    """A list of terms and their HTML; empty ones are left out."""
    return f'<dl class="pairs">{"".join(f"<dt>{t}</dt><dd>{d}</dd>" for t, d in entries if d)}</dl>'


def _facts(finding: Finding) -> str:
    since = f"{day_and_clock(finding.onset)} UTC ± {figure(finding.onset_uncertainty_seconds, 's')}"
    ended = "ongoing" if finding.ended is None else f"ended {day_and_clock(finding.ended)} UTC"
    change, stage = finding.change, finding.stage
    page = link(finding.runbook_url, f"<code>inferdoc runbook {escape(finding.runbook)}</code>")
    return pairs(
        (
            ("since", f"{since}, {ended}"),
            ("where", _where(finding.scope)),
            ("stage", "" if stage is None else escape(f"{stage.index} of {stage.of}: {stage.name}")),
            (
                "changed",
                "" if change is None else escape(f"{change.detail} ({change.kind}, {day_and_clock(change.at)} UTC)"),
            ),
            ("cluster, probe", "<br>".join(_cluster_fact(fact) for fact in finding.cluster)),
            ("traces", "<br>".join(_trace(trace) for trace in finding.traces)),
            ("costs", "" if finding.cost_per_hour is None else f"{finding.cost_per_hour:,.2f} an hour, at [prices]"),
            ("one of", "<br>".join(f"<code>{escape(m.id)}</code> {m.probability:.0%}" for m in finding.members)),
            ("effects", ", ".join(f"<code>{escape(e)}</code>" for e in finding.effects)),
            ("runbook", page),
            ("dashboard", "" if finding.dashboard_url is None else link(finding.dashboard_url, "open the board")),
        )
    )


def _cluster_fact(fact: ClusterFact) -> str:
    says = f"{escape(fact.says)}: " if fact.says else ""
    return f"<strong>{escape(fact.pod)}</strong> {says}{escape(fact.detail)}"


def _trace(trace: TraceLink) -> str:
    words = f"{figure(trace.value, 's')} at {day_and_clock(trace.at)} UTC"
    return f"<strong>{escape(trace.pod)}</strong> {link(trace.url, escape(words))}"


def _where(scope: Scope) -> str:
    shown = some([f"<strong>{escape(p)}</strong>" for p in scope.pods], MOST_PODS)
    words = [
        ("model ", scope.model),
        ("role ", "" if scope.role == "both" else scope.role),
        ("tier ", "" if scope.tier == "unknown" else scope.tier),
        *((f"{word} ", value) for word, value in scope.place),
        *((f"all with {escape(name)} ", value) for name, value in scope.shared.items()),
    ]
    rest = "".join(f", {word}{escape(value)}" for word, value in words if value)
    plural = "" if scope.of_pods == 1 else "s"
    return f"{len(scope.pods)} of {scope.of_pods} pod{plural}: {shown}{rest}"


def _figure(
    item: EvidenceItem, roles: list[str], finding: Finding, view: View | None, name: str, detail: Detail
) -> str:
    lines = lines_of(view, item, finding)
    facts = [
        ("peers" if item.reference == "peers" else "before", item.baseline),
        ("now", item.observed),
        ("threshold", threshold_of(item)),
    ]
    words = [f"{word} {escape(figure(value, item.unit))}" for word, value in facts if value is not None and item.unit]
    if item.since is not None:
        words.append(f"since {clock(item.since)}")
    query = f"<details><summary>query</summary><pre>{escape(item.query)}</pre></details>" if item.query else ""
    return (
        f'<figure><figcaption><span class="roles">{escape(", ".join(ROLE_WORDS[r] for r in roles))}</span><br>'
        f"<strong>{escape(item.statement)}</strong> "
        f'<span class="soft">{escape(item.entity)}</span></figcaption>'
        f'<div class="draw">{plot(item, finding, lines, name, detail)}</div>'
        f'<p class="facts soft">{" · ".join(words)}</p>{query}</figure>'
    )


def _steps(finding: Finding) -> str:
    if not finding.next_steps:
        return ""
    items = []
    for step in finding.next_steps:
        command = f"<pre>{escape(step.command)}</pre>" if step.command else ""
        words = pairs((("why", escape(step.why)), ("cost", escape(step.cost)), ("undo", escape(step.undo))))
        items.append(f"<li><strong>{escape(step.do)}</strong>{command}{words}</li>")
    return f'<h3>Next steps, one at a time</h3><ol class="steps">{"".join(items)}</ol>'


def numbers_table(numbers: Sequence[Predicted]) -> str:
    """A row for each number; what it is worked out from unfolds."""
    return table(("number", "value", "from", "to", "worked out as"), map(_row, numbers), numbers=(1, 2, 3))


def _row(each: Predicted) -> tuple[str, ...]:
    low, high = (figure(end, each.unit) if each.low != each.high else "" for end in (each.low, each.high))
    if each.high is None and each.low is not None:
        high = "or more"
    inputs = "; ".join(f"{name} {value}" for name, value in each.inputs.items())
    more = f"<details><summary>{escape(each.formula)}</summary>{escape(inputs)}<br>{escape(each.source)}</details>"
    return (*map(escape, (each.title, figure(each.value, each.unit), low, high)), more)


def listed(name: str, title: str, sentences: Sequence[str]) -> str:
    """Sentences as a section with a list; "" without any. name: unique in the page."""
    if not sentences:
        return ""
    return titled(name, title, f"<ul>{''.join(f'<li>{escape(each)}</li>' for each in sentences)}</ul>")
