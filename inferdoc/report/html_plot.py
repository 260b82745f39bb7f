"""One piece of evidence as a drawing: inline SVG made by hand, coloured by the style sheet of the page."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

import numpy as np

from inferdoc.escaping import html as escape
from inferdoc.judging.model import EvidenceItem, Finding, seconds
from inferdoc.judging.view import Unit, View
from inferdoc.report.html_scale import Scale, area, number, path, time_ticks, value_ticks
from inferdoc.words import figure

MIN_BASELINE = 5
"""Minimum baseline values for a band."""
BAND = (5.0, 95.0)
"""Percentiles of the baseline values at the edges of the band."""


@dataclass(frozen=True)
class Lines:
    """times: float64[T] seconds since the epoch; own: float64[T] of the evidence's entity; others: rows of the other
    pods of the cause; peers: rows of similar pods (or GPUs) without the cause; baseline_range: (low, high) or None."""

    times: np.ndarray
    own: np.ndarray
    others: list[np.ndarray] = field(default_factory=list)
    peers: list[np.ndarray] = field(default_factory=list)
    baseline_range: tuple[float, float] | None = None


def lines_of(view: View | None, item: EvidenceItem, finding: Finding) -> Lines | None:
    """The rows to plot for an evidence item, or None where the view does not hold its series."""
    if view is None:
        return None
    unit, gpu = _unit_of(view, item.entity)
    if unit is None:
        return None
    if gpu:
        rows = view.gpus(unit, item.signal)
        own = rows.pop(gpu, None)
        others: list[np.ndarray] = []
        peers = list(rows.values())
    else:
        series = view.get(unit, item.signal)
        own = None if series is None else series.values
        others, peers = _like(view, unit, item.signal, finding.scope.pods)
    if own is None or len(own) != view.steps or not np.isfinite(own).any():
        return None
    lead = view.lead_steps
    times = view.frame.times
    return Lines(
        times,
        own[lead:],
        [r[lead:] for r in others],
        [r[lead:] for r in peers],
        _baseline_range(own, view, item, finding),
    )


def _unit_of(view: View, entity: str) -> tuple[Unit | None, str]:
    """The unit an entity names, and the GPU of it (`vllm-0 gpu 2`), or an empty text."""
    best: Unit | None = None
    for unit in view.units:
        if unit.name == entity:
            return unit, ""
        if entity.startswith(f"{unit.name} gpu ") and (best is None or len(unit.name) > len(best.name)):
            best = unit
    return best, "" if best is None else entity[len(best.name) + 1 :]


def _like(view: View, unit: Unit, signal: str, pods: Collection[str]) -> tuple[list[np.ndarray], list[np.ndarray]]:
    named = set(pods)
    others: list[np.ndarray] = []
    peers: list[np.ndarray] = []
    for peer in view.peers(unit):
        series = view.get(peer, signal)
        if series is not None and len(series.values) == view.steps:
            (others if peer.member.pod in named else peers).append(series.values)
    return others, peers


def _baseline_range(own: np.ndarray, view: View, item: EvidenceItem, finding: Finding) -> tuple[float, float] | None:
    """Range of nine in ten baseline values: of a chosen baseline, else before the onset."""
    if view.lead_steps:
        values = own[: view.lead_steps]
    else:
        begins = min(seconds(finding.onset), seconds(item.since) if item.since else float("inf"))
        values = own[: int(np.searchsorted(view.frame.times, begins - 1e-3))]
    values = values[np.isfinite(values)]
    if len(values) < MIN_BASELINE:
        return None
    low, high = np.percentile(values, BAND)
    return float(low), float(high)


def threshold_of(item: EvidenceItem) -> float | None:
    """The threshold on the scale of the signal, or None if it is on another scale (a slope, a correlation) or
    is not known. Against like members the threshold may be a factor on their value."""
    if item.threshold is None or item.observed is None or not item.unit:
        return None
    for limit in (item.threshold, item.threshold * (item.baseline if item.baseline is not None else 1.0)):
        if item.baseline is None or min(item.baseline, item.observed) <= limit <= max(item.baseline, item.observed):
            return limit
    return None


WIDTH, HEIGHT = 520.0, 196.0
LEFT, RIGHT, TOP, BOTTOM = 66.0, 12.0, 22.0, 24.0
MOST_LINES = 6
"""More other pods, or more like pods, than this become a grey band."""
FAR_LIMIT = 3.0
"""A threshold this many times beyond the data is not drawn: it would flatten them. The caption still says it."""
LABEL_ROOM = 92.0
SHORT_UNITS = ("s", "ratio", "1/s", "bool", "bytes", "bytes/s", "W", "MHz")


@dataclass(frozen=True)
class Detail:
    """How finely a page can afford to draw: points per line, lines per group."""

    points: int = 160
    lines: int = MOST_LINES

    @classmethod
    def for_plots(cls, plots: int) -> Detail:
        """Enough for so many plots to stay a small file."""
        return cls() if plots <= 16 else cls(max(48, 2400 // plots), max(1, 72 // plots))


def plot(item: EvidenceItem, finding: Finding, lines: Lines | None, key: str, detail: Detail) -> str:
    """An `<svg>` for an evidence item. key: unique on the page, names the title and the description."""
    body, height = (_course(item, finding, lines, detail), HEIGHT) if lines is not None else _bars(item)
    head = f'<svg viewBox="0 0 {number(WIDTH)} {number(height)}" role="img" aria-labelledby="{key}-t {key}-d">'
    title = f'<title id="{key}-t">{escape(f"{item.statement}, on {item.entity}")}</title>'
    return f'{head}{title}<desc id="{key}-d">{escape(describe(item, finding, lines))}</desc>{body}</svg>'


def describe(item: EvidenceItem, finding: Finding, lines: Lines | None) -> str:
    """The drawing in words, for who cannot see it."""
    if lines is None:
        return "Bars of the baseline and the observed value; the series itself is not in this report."
    own = lines.own[np.isfinite(lines.own)]
    lowest, highest, last = (figure(float(v), item.unit) for v in (own.min(), own.max(), own[-1]))
    parts = [f"Course of {item.signal} on {item.entity}: lowest {lowest}, highest {highest}, last {last}."]
    if lines.baseline_range is not None:
        low, high = (figure(v, item.unit) for v in lines.baseline_range)
        parts.append(f"Baseline band before the onset {low} to {high}.")
    limit = threshold_of(item)
    if limit is not None:
        parts.append(f"Threshold {figure(limit, item.unit)}.")
    parts.append(f"Onset of the finding at {finding.onset}.")
    if lines.others or lines.peers:
        parts.append(f"Beside it {len(lines.others)} more of the cause and {len(lines.peers)} peers.")
    return " ".join(parts)


def _course(item: EvidenceItem, finding: Finding, lines: Lines, detail: Detail) -> str:
    limit = threshold_of(item)
    low, high = _reach(item, lines, limit)
    begin, end = float(lines.times[0]), float(lines.times[-1])
    x = Scale(begin, end, LEFT, WIDTH - RIGHT)
    y = Scale(low, high, HEIGHT - BOTTOM, TOP)
    parts = [*_grid(x, y, item.unit)]
    if lines.baseline_range is not None:
        upper, lower = y(lines.baseline_range[1]), y(lines.baseline_range[0])
        middle, tall = (upper + lower) / 2, max(3.0, lower - upper)
        parts.append(_rect("band", LEFT, middle - tall / 2, WIDTH - LEFT - RIGHT, tall))
    if limit is not None and low <= limit <= high:
        up = item.observed is not None and item.observed >= limit
        edge = y(limit)
        top, tall = (TOP, edge - TOP) if up else (edge, HEIGHT - BOTTOM - edge)
        parts.append(_rect("beyond", LEFT, top, WIDTH - LEFT - RIGHT, tall))
    across = x.many(lines.times)
    parts += _rows(lines.peers, "peer", across, y, detail)
    parts += _rows(lines.others, "other", across, y, detail)
    if item.baseline is not None and item.unit and low <= item.baseline <= high:
        parts.append(_level("baseline", y(item.baseline)))
    if limit is not None and low <= limit <= high:
        parts.append(_level("limit", y(limit)))
    parts.append(f'<path class="cause" d="{path(across, y.many(lines.own), 2 * detail.points)}"/>')
    parts += _moments(item, finding, x)
    return "".join(parts)


def _reach(item: EvidenceItem, lines: Lines, limit: float | None) -> tuple[float, float]:
    """The lowest and the highest value of the drawing; from zero unless that would hide the course."""
    if item.unit == "bool":
        return 0.0, 1.0
    rows = [row[np.isfinite(row)] for row in (lines.own, *lines.others, *lines.peers)]
    seen = [float(v) for row in rows if len(row) for v in (row.min(), row.max())]
    low, high = min(seen), max(seen)
    if item.baseline is not None and item.unit and abs(item.baseline) <= FAR_LIMIT * max(abs(high), abs(low)):
        low, high = min(low, item.baseline), max(high, item.baseline)
    if limit is not None and abs(limit) <= FAR_LIMIT * max(abs(high), abs(low), 1e-12):
        low, high = min(low, limit), max(high, limit)
    if 0 <= low <= 0.6 * high:
        low = 0.0
    if high <= low:
        high = low + (abs(low) * 0.1 or 1.0)
    if item.unit == "ratio" and low == 0 and 0.8 <= high <= 1:
        return 0.0, 1.0
    margin = 0.06 * (high - low)
    return (low if low == 0 else low - margin), high + margin


def _grid(x: Scale, y: Scale, unit: str) -> list[str]:
    measure, note = _axis_unit(unit)
    parts = [f'<text x="2" y="15">{escape(note)}</text>'] if note else []
    for value in (0.0, 1.0) if unit == "bool" else value_ticks(y.low, y.high):
        level = y(value)
        label = "0" if value == 0 and unit != "bool" else figure(value, measure)
        parts.append(f'<path class="grid" d="M{number(LEFT)} {number(level)}H{number(WIDTH - RIGHT)}"/>')
        parts.append(f'<text x="{number(LEFT - 6)}" y="{number(level + 4)}" text-anchor="end">{escape(label)}</text>')
    for moment, label in time_ticks(x.low, x.high):
        at = x(moment)
        anchor = "start" if at < LEFT + 20 else "end" if at > WIDTH - RIGHT - 20 else "middle"
        parts.append(f'<path class="grid" d="M{number(at)} {number(HEIGHT - BOTTOM)}v4"/>')
        parts.append(f'<text x="{number(at)}" y="{number(HEIGHT - 6)}" text-anchor="{anchor}">{label}</text>')
    return parts


def _axis_unit(unit: str) -> tuple[str, str]:
    """The unit that the ticks carry, and the one above the axis if it does not fit beside it."""
    if unit in SHORT_UNITS:
        return unit, ""
    return ("s", "per token") if unit == "s/token" else ("", unit)


def _rows(rows: list[np.ndarray], kind: str, across: np.ndarray, y: Scale, detail: Detail) -> list[str]:
    """Lines; too many to distinguish become a band from the 10th to the 90th percentile and a median."""
    if len(rows) <= detail.lines:
        return [f'<path class="{kind}" d="{path(across, y.many(row), detail.points)}"/>' for row in rows]
    stack = np.vstack(rows)
    seen = np.isfinite(stack).any(axis=0)
    levels = np.full((3, stack.shape[1]), np.nan)
    levels[:, seen] = np.nanpercentile(stack[:, seen], (10, 50, 90), axis=0)
    band = area(across, y.many(levels[2]), y.many(levels[0]), detail.points)
    middle = path(across, y.many(levels[1]), detail.points)
    crowd = f'<path class="crowd" d="{band}"/>' if kind == "peer" else ""
    return [crowd, f'<path class="{kind}" d="{middle}"/>']


def _moments(item: EvidenceItem, finding: Finding, x: Scale) -> list[str]:
    """The onset and the end of the finding, and where this observation begins."""
    parts = []
    for stamp, word in ((finding.onset, "onset"), (finding.ended, "ended")):
        if stamp is None or not x.low <= seconds(stamp) <= x.high:
            continue
        at = x(seconds(stamp))
        anchor, shift = ("end", -4) if at > WIDTH - RIGHT - LABEL_ROOM else ("start", 4)
        parts.append(f'<path class="onset" d="M{number(at)} 6V{number(HEIGHT - BOTTOM)}"/>')
        label = f"{word} {clock(stamp)}"
        parts.append(f'<text class="at-onset" x="{number(at + shift)}" y="15" text-anchor="{anchor}">{label}</text>')
    if item.since is not None and x.low <= seconds(item.since) <= x.high:
        at, foot = x(seconds(item.since)), HEIGHT - BOTTOM
        parts.append(f'<path class="mark-harm" d="M{number(at)} {number(foot - 1)}l-5 9h10z"/>')
    return parts


def _bars(item: EvidenceItem) -> tuple[str, float]:
    """The numbers of an observation without a series, as bars; the height of the drawing."""
    rows = [
        (word, value) for word, value in (("before", item.baseline), ("observed", item.observed)) if value is not None
    ]
    if not rows:
        text = f'<text x="{number(LEFT)}" y="26">{escape(item.signal)}: no number belongs to this observation</text>'
        return text, 44.0
    most = max(abs(value) for _, value in rows) or 1.0
    parts = []
    for index, (word, value) in enumerate(rows):
        top = 12.0 + 30 * index
        wide = max(1.5, 300 * abs(value) / most)
        kind = "bar info" if word == "observed" else "gap"
        parts.append(f'<text x="{number(LEFT - 6)}" y="{number(top + 14)}" text-anchor="end">{word}</text>')
        parts.append(_rect(kind, LEFT, top, wide, 18))
        label = escape(figure(value, item.unit))
        parts.append(f'<text class="strong" x="{number(LEFT + wide + 6)}" y="{number(top + 14)}">{label}</text>')
    return "".join(parts), 18.0 + 30 * len(rows)


def _rect(kind: str, left: float, top: float, wide: float, tall: float) -> str:
    box = f'x="{number(left)}" y="{number(top)}" width="{number(max(0.0, wide))}" height="{number(max(0.0, tall))}"'
    return f'<rect class="{kind}" {box}/>'


def _level(kind: str, at: float) -> str:
    return f'<path class="{kind}" d="M{number(LEFT)} {number(at)}H{number(WIDTH - RIGHT)}"/>'


def clock(stamp: str) -> str:
    """The time of day of a moment of the document, UTC."""
    return stamp[11:19]
