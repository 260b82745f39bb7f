"""What happened when: one drawing for the whole window, and the same as a table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from inferdoc.escaping import html as escape
from inferdoc.judging.model import Diagnosis, Finding, seconds
from inferdoc.report.html_plot import clock
from inferdoc.report.html_scale import Scale, number, time_ticks

LANE, TOP, RIGHT, FOOT = 34.0, 8.0, 16.0, 26.0
MOST_LANES = 12
MOST_ROWS = 60
LABEL_LETTERS = 30
LEGEND = (
    ('<path class="onset" d="M13 0V12"/>', "onset of a finding"),
    ('<path class="mark-harm" d="M13 0l-6 11h12z"/>', "impact begins"),
    ('<path class="mark-stage" d="M13 0l-6 11h12z"/>', "stage reached"),
    ('<path class="mark-change" d="M13 0l6 6l-6 6l-6-6z"/>', "something changed"),
    ('<rect class="band" width="26" height="12"/>', "baseline"),
    ('<rect class="gap" width="26" height="12"/>', "no scrapes"),
)


@dataclass(frozen=True)
class Shape:
    """A form of the drawing. left: where the time begins; head: height of a line for the label over its lane, 0 where
    it is to the left of it; ticks: approximate number."""

    name: str
    width: float
    left: float
    head: float
    ticks: int

    @property
    def row(self) -> float:
        """Height of a lane with its label."""
        return LANE + self.head


WIDE = Shape("wide", 1100.0, 250.0, 0.0, 9)
NARROW = Shape("narrow", 390.0, 8.0, 16.0, 4)
"""For a phone: the style sheet shows one of the two."""


@dataclass(frozen=True)
class TimelineRow:
    """One row of the table: when (a stamp of the document), what kind, where, what was seen."""

    at: str
    kind: str
    where: str
    detail: str


def timeline(answer: Diagnosis) -> str:
    """The drawing and the table; an empty text where nothing happened."""
    entries = list(_rows(answer))
    if not entries and not answer.coverage.gaps:
        return ""
    drawings = "".join(f'<div class="draw {shape.name}">{_drawing(answer, shape)}</div>' for shape in (WIDE, NARROW))
    return f"{drawings}{key(LEGEND, drawings)}{_table(entries)}"


def _rows(answer: Diagnosis) -> Iterator[TimelineRow]:
    for finding in answer.findings:
        where = ", ".join(finding.scope.pods[:3]) + (" and others" if len(finding.scope.pods) > 3 else "")
        where += f" ({finding.scope.cluster})" if finding.scope.cluster else ""
        yield TimelineRow(finding.onset, "onset", where, f"{finding.id}: {finding.title}")
        for item in finding.evidence:
            if item.role == "harm" and item.since is not None:
                yield TimelineRow(item.since, "impact begins", item.entity, item.statement)
        for stage in finding.stage.reached if finding.stage is not None else []:
            if stage.began is not None:
                yield TimelineRow(stage.began, "stage", where, f"{finding.id}: stage {stage.index}, {stage.name}")
        if finding.ended is not None:
            yield TimelineRow(finding.ended, "ended", where, f"{finding.id}: {finding.title}")
    for change in answer.changes:
        yield TimelineRow(change.at, f"change: {change.kind}", change.entity, change.detail)


def _table(entries: list[TimelineRow]) -> str:
    own = [m for m in entries if not m.kind.startswith("change")]
    changes = [m for m in entries if m.kind.startswith("change")]
    room = max(0, MOST_ROWS - len(own))
    shown = sorted([*own, *(changes[-room:] if room else [])], key=lambda m: seconds(m.at))
    left_out = len(entries) - len(shown)
    rows = "".join(
        f'<tr><td class="when"><time datetime="{escape(m.at)}">{escape(day_and_clock(m.at))}</time></td>'
        f'<td class="kind">{escape(m.kind)}</td><td>{escape(m.where)}</td><td>{escape(m.detail)}</td></tr>'
        for m in shown
    )
    heads = "".join(f'<th scope="col">{word}</th>' for word in ("when (UTC)", "what", "where", "seen"))
    more = f'<p class="soft">and {left_out} earlier changes</p>' if left_out else ""
    table = f'<table class="cards"><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table>'
    return f'<div class="scroll">{table}</div>{more}'


def _drawing(answer: Diagnosis, shape: Shape) -> str:
    shown = answer.findings[:MOST_LANES]
    lanes = len(shown) + bool(answer.changes) + bool(answer.coverage.gaps)
    height = TOP + shape.row * lanes + FOOT
    x = Scale(seconds(answer.window.from_), seconds(answer.window.until), shape.left, shape.width - RIGHT)
    parts = [_axis(x, height, shape)]
    baseline = answer.window.baseline
    if baseline.from_ and baseline.until and seconds(baseline.until) > x.low:
        begin, end = x(seconds(baseline.from_)), x(seconds(baseline.until))
        parts.append(
            _box("band", begin, TOP, end - begin, shape.row * lanes, "baseline that the window is compared with")
        )
    top = TOP
    if answer.changes:
        parts.append(_label(top, "changes", shape))
        top += shape.head
        for change in answer.changes:
            at = number(x(seconds(change.at)))
            hint = escape(f"{clock(change.at)} {change.kind}, {change.entity}: {change.detail}")
            middle = number(top + LANE / 2 - 7)
            parts.append(f'<path class="mark-change" d="M{at} {middle}l6 7l-6 7l-6-7z"><title>{hint}</title></path>')
        top += LANE
    for position, finding in enumerate(shown, start=1):
        parts.append(_label(top, f"{position}. {finding.id}", shape))
        top += shape.head
        parts += _lane(finding, x, top)
        top += LANE
    if answer.coverage.gaps:
        parts.append(_label(top, "gaps in the scrapes", shape))
        top += shape.head
        for gap in answer.coverage.gaps[:200]:
            begin, end = x(seconds(gap.from_)), x(seconds(gap.until))
            parts.append(_box("gap", begin, top + 10, max(2.0, end - begin), LANE - 20, f"no scrape of {gap.entity}"))
    words = "Timeline of the window: " + "; ".join(
        f"{f.id} since {f.onset}{'' if f.ended is None else ' until ' + f.ended}" for f in shown
    )
    name = f"timeline-{shape.name}"
    title = f'<title id="{name}">{escape(words)}. The table below says the same.</title>'
    head = f'<svg viewBox="0 0 {number(shape.width)} {number(height)}" role="img" aria-labelledby="{name}">'
    return f"{head}{title}{''.join(parts)}</svg>"


def _lane(finding: Finding, x: Scale, top: float) -> Iterator[str]:
    onset = seconds(finding.onset)
    end = x.high if finding.ended is None else seconds(finding.ended)
    unsure = x(onset - finding.onset_uncertainty_seconds)
    begin, stop = x(onset), x(end)
    state = "ongoing" if finding.ended is None else f"ended {clock(finding.ended)}"
    yield _box(f"unsure {finding.severity}", unsure, top + 12, begin - unsure, LANE - 24, "uncertainty of the onset")
    yield _box(
        f"bar {finding.severity}", begin, top + 9, max(3.0, stop - begin), LANE - 18, f"{finding.title}, {state}"
    )
    yield f'<path class="onset" d="M{number(begin)} {number(top + 2)}V{number(top + LANE - 2)}"/>'
    label = f"onset {clock(finding.onset)}"
    room = unsure - x.begin > 110
    at, anchor = (unsure - 6, "end") if room else (begin + 6, "start")
    line = top + LANE / 2 + 4 if room else top + 7
    yield f'<text class="at-onset" x="{number(at)}" y="{number(line)}" text-anchor="{anchor}">{label}</text>'
    for since in dict.fromkeys(e.since for e in finding.evidence if e.role == "harm" and e.since is not None):
        yield _triangle("mark-harm", x(seconds(since)), top, f"impact begins {clock(since)}")
    for stage in finding.stage.reached if finding.stage is not None else []:
        if stage.began is not None:
            yield _triangle("mark-stage", x(seconds(stage.began)), top, f"stage: {stage.name}")


def _triangle(kind: str, at: float, top: float, hint: str) -> str:
    corner = f"M{number(at)} {number(top + LANE - 13)}l-6 11h12z"
    return f'<path class="{kind}" d="{corner}"><title>{escape(hint)}</title></path>'


def _axis(x: Scale, height: float, shape: Shape) -> str:
    parts = []
    for moment, label in time_ticks(x.low, x.high, shape.ticks):
        at = number(x(moment))
        parts.append(f'<path class="grid" d="M{at} {number(TOP)}V{number(height - FOOT + 4)}"/>')
        parts.append(f'<text x="{at}" y="{number(height - 7)}" text-anchor="middle">{label}</text>')
    if not shape.head:
        parts.append(f'<text x="{number(shape.left - 12)}" y="{number(height - 7)}" text-anchor="end">UTC</text>')
    return "".join(parts)


def _label(top: float, words: str, shape: Shape) -> str:
    short = words if len(words) <= LABEL_LETTERS else words[: LABEL_LETTERS - 1] + "…"
    left, line, anchor = (shape.left, 13.0, "start") if shape.head else (shape.left - 12, LANE / 2 + 4, "end")
    at = f'x="{number(left)}" y="{number(top + line)}"'
    return f'<text class="strong" {at} text-anchor="{anchor}">{escape(short)}</text>'


def _box(kind: str, left: float, top: float, wide: float, tall: float, hint: str) -> str:
    box = f'x="{number(left)}" y="{number(top)}" width="{number(max(0.0, wide))}" height="{number(tall)}"'
    return f'<rect class="{kind}" {box}><title>{escape(hint)}</title></rect>'


def key(entries: Iterable[tuple[str, str]], drawing: str) -> str:
    """A legend of the kinds of mark that a drawing really has: each shown in small, with its words."""
    shown = [(mark, words) for mark, words in entries if _kind(mark) in drawing]
    items = "".join(
        f'<li><svg viewBox="0 0 26 12" aria-hidden="true">{mark}</svg>{words}</li>' for mark, words in shown
    )
    return f'<ul class="key">{items}</ul>'


def _kind(mark: str) -> str:
    """`<path class="onset"`, of a mark."""
    return mark[: mark.index('"', mark.index("class=") + 7) + 1]


def day_and_clock(stamp: str) -> str:
    """Date and time of day of a moment of the document."""
    return f"{stamp[:10]} {stamp[11:19]}"
