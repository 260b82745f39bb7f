"""The frame of a drawing of one quantity over another, as inline SVG: axes, title and what screen readers are told."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from inferdoc.escaping import html as escape
from inferdoc.report.html_scale import Scale, number, value_ticks
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
