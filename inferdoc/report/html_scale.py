"""Axes, scales, ticks and paths of inline SVG plots."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np

from inferdoc.escaping import html as escape
from inferdoc.words import figure


@dataclass(frozen=True)
class Frame:
    """Sizes in units of the picture: all of it, and the margins around the drawing."""

    width: float
    height: float
    left: float = 56.0
    right: float = 26.0
    top: float = 24.0
    bottom: float = 40.0

    def across(self, low: float, high: float) -> Scale:
        """From left to right."""
        return Scale(low, high, self.left, self.width - self.right)

    def upright(self, most: float) -> Scale:
        """From the foot up."""
        return Scale(0.0, most, self.height - self.bottom, self.top)

    def axes(self, x: Scale, y: Scale, marks: Sequence[tuple[float, str]], below: str, unit: str) -> list[str]:
        """Lines and labels. marks: values of x with their labels; below: what x is; unit: of y."""
        parts = []
        for value in value_ticks(y.low, y.high):
            level = number(y(value))
            parts.append(f'<path class="grid" d="M{number(self.left)} {level}H{number(self.width - self.right)}"/>')
            label = escape(figure(value, unit))
            parts.append(f'<text x="{number(self.left - 6)}" y="{level}" dy="4" text-anchor="end">{label}</text>')
        for value, label in marks:
            at, foot = number(x(value)), self.height - self.bottom
            parts.append(f'<path class="grid" d="M{at} {number(foot)}v4"/>')
            parts.append(f'<text x="{at}" y="{number(foot + 17)}" text-anchor="middle">{escape(label)}</text>')
        middle = number((self.left + self.width - self.right) / 2)
        parts.append(f'<text x="{middle}" y="{number(self.height - 6)}" text-anchor="middle">{escape(below)}</text>')
        return parts

    def drawn(self, key: str, title: str, words: str, parts: Sequence[str]) -> str:
        """The whole drawing. key: unique in the page; words: for who cannot see it."""
        head = f'<svg viewBox="0 0 {number(self.width)} {number(self.height)}" role="img"'
        head += f' aria-labelledby="{key}-t {key}-d">'
        named = f'<title id="{key}-t">{escape(title)}</title><desc id="{key}-d">{escape(words)}</desc>'
        caption = f"<figcaption><strong>{escape(title)}</strong></figcaption>"
        return f'{caption}<div class="draw">{head}{named}{"".join(parts)}</svg></div>'


TIME_STEPS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400)


@dataclass(frozen=True)
class Scale:
    """A straight line from data (low, high) to a coordinate (begin, end)."""

    low: float
    high: float
    begin: float
    end: float

    def __call__(self, value: float) -> float:
        """The coordinate of a value; values outside are put on the edge."""
        span = self.high - self.low
        share = 0.0 if span <= 0 else (value - self.low) / span
        return self.begin + min(1.0, max(0.0, share)) * (self.end - self.begin)

    def many(self, values: np.ndarray) -> np.ndarray:
        """Coordinates of many values, float64, NaN where the value is NaN."""
        span = self.high - self.low
        share = (values - self.low) / span if span > 0 else np.zeros_like(values)
        return self.begin + np.clip(share, 0.0, 1.0) * (self.end - self.begin)


def number(value: float) -> str:
    """A coordinate with at most one decimal."""
    text = f"{value:.1f}"
    return text[:-2] if text.endswith(".0") else text


def value_ticks(low: float, high: float, count: int = 4) -> list[float]:
    """Round numbers from low to high, about `count` of them."""
    span = high - low
    if span <= 0 or not math.isfinite(span):
        return [low]
    rough = span / count
    size = 10.0 ** math.floor(math.log10(rough))
    step = next(size * m for m in (1, 2, 2.5, 5, 10) if size * m >= rough * 0.999)
    first = math.ceil(low / step - 1e-9)
    ticks = []
    while first * step <= high + span * 1e-9:
        ticks.append(first * step)
        first += 1
    return ticks


def time_ticks(begin: float, end: float, count: int = 5) -> Iterator[tuple[float, str]]:
    """Round moments (seconds since the epoch) between two moments, each with its label in UTC."""
    span = max(end - begin, 1e-3)
    step = next((s for s in TIME_STEPS if span / s <= count), math.ceil(span / count / 86400) * 86400)
    form = "%H:%M:%S" if step < 60 else "%H:%M" if step < 43200 else "%d %b"
    for number_of_step in range(math.ceil(begin / step), math.floor(end / step) + 1):
        moment = float(number_of_step * step)
        yield moment, datetime.fromtimestamp(moment, UTC).strftime(form)


def thin(x: np.ndarray, y: np.ndarray, points: int) -> tuple[np.ndarray, np.ndarray]:
    """Downsample to the minimum and the maximum of each part, in order of time.

    A part without a value stays as one NaN, so that gaps stay visible.
    """
    if len(y) <= points:
        return x, y
    keep: list[int] = []
    for part in np.array_split(np.arange(len(y)), max(1, points // 2)):
        inside = y[part]
        if not np.isfinite(inside).any():
            keep.append(int(part[0]))
            continue
        keep += sorted({int(part[np.nanargmin(inside)]), int(part[np.nanargmax(inside)])})
    return x[keep], y[keep]


def path(x: np.ndarray, y: np.ndarray, points: int) -> str:
    """The `d` of an SVG path through the finite points, in relative steps of a tenth; broken at gaps."""
    x, y = thin(x, y, points)
    parts: list[str] = []
    at: tuple[int, int] | None = None
    drawn = True
    for right, down in zip(x, y, strict=True):
        if not math.isfinite(down):
            parts += [] if drawn else ["h0"]
            at, drawn = None, True
            continue
        here = round(right * 10), round(down * 10)
        if at is None:
            parts.append(f"M{_tenth(here[0])} {_tenth(here[1])}")
            drawn = False
        else:
            parts.append(f"l{_tenth(here[0] - at[0])} {_tenth(here[1] - at[1])}")
            drawn = True
        at = here
    return "".join(parts if drawn else [*parts, "h0"])


def area(x: np.ndarray, upper: np.ndarray, lower: np.ndarray, points: int) -> str:
    """The `d` of closed areas between two rows, one per range in which both are finite."""
    step = max(1, math.ceil(len(x) / max(2, points // 2)))
    picked = slice(None, None, step)
    x, upper, lower = x[picked], upper[picked], lower[picked]
    whole = np.isfinite(upper) & np.isfinite(lower)
    edges = np.flatnonzero(np.diff(np.concatenate(([False], whole, [False])).astype(np.int8)))
    parts = []
    for begin, end in edges.reshape(-1, 2):
        there = [f"{number(a)} {number(b)}" for a, b in zip(x[begin:end], upper[begin:end], strict=True)]
        back = [f"{number(a)} {number(b)}" for a, b in zip(x[begin:end][::-1], lower[begin:end][::-1], strict=True)]
        parts.append("M" + "L".join([*there, *back]) + "Z")
    return "".join(parts)


def _tenth(value: int) -> str:
    return str(value // 10) if value % 10 == 0 else f"{value / 10:.1f}"
