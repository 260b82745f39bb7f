"""Suggested objectives as text to paste into inferdoc.toml or alerts/slo.yaml."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from inferdoc.escaping import page
from inferdoc.report.wrapping import wrap
from inferdoc.slo.suggest import NoSuggestion, Suggestion
from inferdoc.words import figure

FIELDS = ("model", "tier", "role")


def as_toml(found: Sequence[Suggestion | NoSuggestion]) -> str:
    """Entries of inferdoc.toml."""
    lines: list[str] = []
    for one in found:
        lines += [*([""] if lines else []), *_remarks(one)]
        if isinstance(one, Suggestion):
            lines += ["[[slo]]", *(f"{key} = {json.dumps(value)}" for key, value in _entry(one))]
    return page(lines)


def as_yaml(found: Sequence[Suggestion | NoSuggestion]) -> str:
    """An alerts/slo.yaml of an overlay folder."""
    lines = ["slos:" if any(isinstance(one, Suggestion) for one in found) else "slos: []"]
    for one in found:
        lines += [f"  {line}" for line in _remarks(one)]
        if isinstance(one, Suggestion):
            inside = ", ".join(f"{key}: {json.dumps(value)}" for key, value in _entry(one))
            lines.append(f"  - {{{inside}}}")
    return page(lines)


def _entry(one: Suggestion) -> Iterator[tuple[str, object]]:
    yield "signal", one.signal
    yield "percentile", _plain(one.percentile)
    yield "target", _plain(one.target)
    for key in FIELDS:
        if getattr(one, key):
            yield key, getattr(one, key)


def _plain(value: float) -> float | int:
    return int(value) if float(value).is_integer() else float(f"{value:.9g}")


def _remarks(one: Suggestion | NoSuggestion) -> Iterator[str]:
    """Comment lines: what was seen, or why there is nothing to promise."""
    where = ", ".join(getattr(one, key) for key in FIELDS if getattr(one, key)) or "all"
    if isinstance(one, NoSuggestion):
        yield from _comment(f"{where}, {one.signal}: nothing to suggest: {one.because}")
        return
    target = figure(one.target, one.unit)
    text = (
        f"{where}, {one.signal}: at most {target} for {one.percentile:g} % of the requests in {one.met} of "
        f"{one.hours} calm hours; {100 * one.attained:.2f} % of {one.requests:,.0f} requests in all."
    )
    if one.tighter is not None:
        bound, met, attained = one.tighter
        text += (
            f" The next tighter bound, {figure(bound, one.unit)}: {met} of {one.hours} hours, {100 * attained:.2f} %."
        )
    if one.left_out:
        text += (
            " Left out: "
            + ", ".join(f"{n} hour{'s' * (n > 1)} with {reason}" for reason, n in one.left_out.items())
            + "."
        )
    yield from _comment(text)


def _comment(text: str) -> Iterator[str]:
    for line in wrap(text, "# "):
        yield line if line.startswith("#") else f"# {line.strip()}"
