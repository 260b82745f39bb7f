"""KV economics as text and as HTML with its plot."""

from __future__ import annotations

import math

import numpy as np

from inferdoc.escaping import html as escape
from inferdoc.kv.sizes import KvAnswer
from inferdoc.report.estimates import number_lines
from inferdoc.report.html_finding import listed, numbers_table, pairs, titled
from inferdoc.report.html_page import document
from inferdoc.report.html_scale import Frame, Scale, area, number, path
from inferdoc.report.wrapping import bullets, emphasis, fitted, headline, wrap
from inferdoc.words import figure, how_many

FRAME = Frame(520.0, 230.0)
POINTS = 200
SIZES = (0.25, 0.5, 1.0, 2.0, 5.0, 10.0)


def curve_plot(answer: KvAnswer) -> str:
    """The curve with its range; "" without data. Beyond the current size it is extrapolated and dashed."""
    if not answer.curve:
        return ""
    memory = np.array([point.memory for point in answer.curve])
    rows = {name: np.array([getattr(point, name) for point in answer.curve]) for name in ("hits", "low", "high")}
    x = FRAME.across(math.log(SIZES[0]), math.log(SIZES[-1]))
    y = _upright(float(rows["high"].max()))
    across = x.many(np.log(memory))
    here, beyond = memory <= 1.0, memory >= 1.0
    hits = y.many(rows["hits"])
    marks = [(math.log(size), f"{size:g}x") for size in SIZES]
    parts = [
        *FRAME.axes(x, y, marks, "KV cache, times that of now", "ratio"),
        f'<path class="band" d="{area(across, y.many(rows["high"]), y.many(rows["low"]), POINTS)}"/>',
        f'<path class="cause" d="{path(across[here], hits[here], POINTS)}"/>',
        f'<path class="cause" stroke-dasharray="6 5" d="{path(across[beyond], hits[beyond], POINTS)}"/>',
        f'<path class="onset" d="M{number(x(0.0))} {number(FRAME.top)}V{number(FRAME.height - FRAME.bottom)}"/>',
        f'<text class="at-onset" x="{number(x(0.0) + 4)}" y="15">now</text>',
    ]
    words = ", ".join(f"{p.memory:.2g}x {figure(p.hits, 'ratio')}" for p in answer.curve[::8])
    return FRAME.drawn("curve", "Prompt tokens that hit, by size of the KV cache", words, parts)


def pairs_plot(answer: KvAnswer) -> str:
    """Hits of each pod and piece of time over the life of its blocks; "" without any."""
    if len(answer.measured) < 2:
        return ""
    lives = np.array([max(point.life, 1e-3) for point in answer.measured])
    hits = np.array([point.hits for point in answer.measured])
    low, high = float(np.log(lives.min())), float(np.log(lives.max()))
    x = FRAME.across(low, high if high > low else low + 1.0)
    y = _upright(float(hits.max()))
    at = [x.low, (x.low + x.high) / 2, x.high]
    parts = FRAME.axes(x, y, [(each, figure(math.exp(each), "s")) for each in at], "life of an unused block", "ratio")
    parts += [
        f'<circle class="mark-stage" cx="{number(x(math.log(life)))}" cy="{number(y(hit))}" r="2.5"/>'
        for life, hit in zip(lives, hits, strict=True)
    ]
    words = f"{len(hits)} points, hits {figure(float(hits.min()), 'ratio')} to {figure(float(hits.max()), 'ratio')}"
    return FRAME.drawn("pairs", "Prompt tokens that hit, by pod and time", words, parts)


def _upright(most: float) -> Scale:
    return FRAME.upright(min(1.0, max(0.05, 1.08 * most)))


def kv_html(answer: KvAnswer) -> str:
    """A whole HTML document."""
    facts = pairs(
        (
            ("pool", f"<code>{escape(answer.pool)}</code>, {how_many(answer.pods, 'pod')}"),
            ("model", escape(answer.model)),
            ("tier", escape(answer.tier)),
            ("traffic", escape(f"{answer.hours:g} h")),
        )
    )
    drawn = [each for each in (curve_plot(answer), pairs_plot(answer)) if each]
    plots = "".join(f"<figure>{each}</figure>" for each in drawn)
    body = [
        f"<header><h1>{escape(answer.summary)}</h1>{facts}</header>",
        f'<div class="plots">{plots}</div>' if plots else "",
        *(titled(f"p{at}", part.title, numbers_table(part.numbers)) for at, part in enumerate(answer.parts)),
        listed("notes", "Notes", answer.notes),
        listed("doubts", "Undetermined", answer.undetermined),
        f"<footer>inferdoc {escape(answer.inferdoc_version)}, {escape(answer.schema)}</footer>",
    ]
    return document(f"KV cache: {answer.pool}", "\n".join(each for each in body if each), answer.inferdoc_version)


COLUMNS = 100
"""The widest line."""


def kv_text(answer: KvAnswer, *, verbose: bool = False, colour: bool = False) -> str:
    """Lines for a terminal; colour only if set. verbose: formula, inputs and source of each number."""

    what = f"{answer.pool}, {how_many(answer.pods, 'pod')}, {answer.hours:g} h of traffic"
    lines, bold = [*headline("KV", what, colour, COLUMNS), *wrap(answer.summary, "", COLUMNS)], emphasis(colour)
    for part in answer.parts:
        lines += ["", bold(part.title)]
        for each in part.numbers:
            lines += number_lines(each, verbose, COLUMNS)
    lines += bullets(bold("notes"), answer.notes, COLUMNS) + bullets(bold("undetermined"), answer.undetermined, COLUMNS)
    if not verbose:
        lines += ["", "formula, inputs and source of each number: -v; the curve: -o html"]
    return "\n".join(fitted(lines, COLUMNS))
