"""Hits over the size of the cache, and over the life of a block, as inline SVG."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from inferdoc.escaping import html as escape
from inferdoc.judging.words import figure
from inferdoc.kv.model import KvAnswer
from inferdoc.report.html_scale import Scale, area, number, path, value_ticks

WIDTH, HEIGHT = 520.0, 230.0
LEFT, RIGHT, TOP, BOTTOM = 56.0, 26.0, 24.0, 40.0
POINTS = 200
SIZES = (0.25, 0.5, 1.0, 2.0, 5.0, 10.0)


def curve_plot(answer: KvAnswer) -> str:
    """The curve with its range; "" where nothing tells it. Beyond the size of now it is extrapolated, and dashed."""
    if not answer.curve:
        return ""
    memory = np.array([point.memory for point in answer.curve])
    rows = {name: np.array([getattr(point, name) for point in answer.curve]) for name in ("hits", "low", "high")}
    x = Scale(math.log(SIZES[0]), math.log(SIZES[-1]), LEFT, WIDTH - RIGHT)
    y = _upright(float(rows["high"].max()))
    across = x.many(np.log(memory))
    here, beyond = memory <= 1.0, memory >= 1.0
    hits = y.many(rows["hits"])
    marks = [(math.log(size), f"{size:g}x") for size in SIZES]
    parts = [
        *_axes(x, y, marks, "KV cache, times that of now"),
        f'<path class="band" d="{area(across, y.many(rows["high"]), y.many(rows["low"]), POINTS)}"/>',
        f'<path class="cause" d="{path(across[here], hits[here], POINTS)}"/>',
        f'<path class="cause" stroke-dasharray="6 5" d="{path(across[beyond], hits[beyond], POINTS)}"/>',
        f'<path class="onset" d="M{number(x(0.0))} {number(TOP)}V{number(HEIGHT - BOTTOM)}"/>',
        f'<text class="at-onset" x="{number(x(0.0) + 4)}" y="15">now</text>',
    ]
    words = ", ".join(f"{p.memory:.2g}x {figure(p.hits, 'ratio')}" for p in answer.curve[::8])
    return _svg("curve", "Prompt tokens that hit, by size of the KV cache", words, parts)


def pairs_plot(answer: KvAnswer) -> str:
    """Hits of each pod and piece of time over the life of its blocks; "" without any."""
    if len(answer.measured) < 2:
        return ""
    lives = np.array([max(point.life, 1e-3) for point in answer.measured])
    hits = np.array([point.hits for point in answer.measured])
    low, high = float(np.log(lives.min())), float(np.log(lives.max()))
    x = Scale(low, high if high > low else low + 1.0, LEFT, WIDTH - RIGHT)
    y = _upright(float(hits.max()))
    at = [x.low, (x.low + x.high) / 2, x.high]
    parts = _axes(x, y, [(each, figure(math.exp(each), "s")) for each in at], "life of an unused block")
    parts += [
        f'<circle class="mark-stage" cx="{number(x(math.log(life)))}" cy="{number(y(hit))}" r="2.5"/>'
        for life, hit in zip(lives, hits, strict=True)
    ]
    words = f"{len(hits)} points, hits {figure(float(hits.min()), 'ratio')} to {figure(float(hits.max()), 'ratio')}"
    return _svg("pairs", "Prompt tokens that hit, by pod and time", words, parts)


def _upright(most: float) -> Scale:
    return Scale(0.0, min(1.0, max(0.05, 1.08 * most)), HEIGHT - BOTTOM, TOP)


def _axes(x: Scale, y: Scale, marks: Sequence[tuple[float, str]], below: str) -> list[str]:
    parts = []
    for value in value_ticks(y.low, y.high):
        level = number(y(value))
        parts.append(f'<path class="grid" d="M{number(LEFT)} {level}H{number(WIDTH - RIGHT)}"/>')
        label = escape(figure(value, "ratio"))
        parts.append(f'<text x="{number(LEFT - 6)}" y="{level}" dy="4" text-anchor="end">{label}</text>')
    for value, label in marks:
        at, foot = number(x(value)), HEIGHT - BOTTOM
        parts.append(f'<path class="grid" d="M{at} {number(foot)}v4"/>')
        parts.append(f'<text x="{at}" y="{number(foot + 17)}" text-anchor="middle">{escape(label)}</text>')
    middle = number((LEFT + WIDTH - RIGHT) / 2)
    parts.append(f'<text x="{middle}" y="{number(HEIGHT - 6)}" text-anchor="middle">{escape(below)}</text>')
    return parts


def _svg(key: str, title: str, words: str, parts: list[str]) -> str:
    head = f'<svg viewBox="0 0 {number(WIDTH)} {number(HEIGHT)}" role="img" aria-labelledby="{key}-t {key}-d">'
    named = f'<title id="{key}-t">{escape(title)}</title><desc id="{key}-d">{escape(words)}</desc>'
    caption = f"<figcaption><strong>{escape(title)}</strong></figcaption>"
    return f'{caption}<div class="draw">{head}{named}{"".join(parts)}</svg></div>'
