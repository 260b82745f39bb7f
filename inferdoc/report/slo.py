"""SLO status and suggested objectives as text and as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import groupby

from inferdoc.escaping import page
from inferdoc.report.printable import indented_json
from inferdoc.report.wrapping import fitted, wrap
from inferdoc.slo.attainment import place_text
from inferdoc.slo.model import Bounds, Kept, SloReport
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
        f"{one.hours} healthy hours; {100 * one.attained:.2f} % of {one.requests:,.0f} requests in all."
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


BURNS = ("1h", "1d")
"""Windows of a line: a short one for current user impact, a long one for slow burns."""
MARKS = {"met": " ", "missed": "!", "between": "?", "too few": "-"}
NAME = 30
"""Columns for the name of a pool."""
HEAD = f"  {'':<{NAME}} {'attained':>16} {'budget left':>13} {'burn 1h':>8} {'1d':>5}"


def as_text(report: SloReport) -> str:
    """The report for people."""
    seen, requested = _span(report.seen_seconds), _span(report.requested_seconds)
    less = "" if report.seen_seconds >= 0.95 * report.requested_seconds else f" of the requested {requested}"
    short = any(report.seen_seconds < 0.95 * one.window_seconds for one in report.objectives)
    budget = "; budgets are those of the time seen" if short else ""
    lines = [f"{report.source}: {report.from_} to {report.until}", f"{seen} of data{less}{budget}"]
    for _, group in groupby(report.objectives, key=lambda one: one.objective):
        lines += ["", *_objective(list(group))]
    if report.goodput:
        lines += ["", *_goodput(report)]
    if report.not_judged:
        lines += ["", "Not judged:"]
        for one in report.not_judged:
            lines += wrap(f"{one.objective} ({one.place}): {one.because}", "  ")
    lines += ["", _sentence(report)]
    if not any(one.is_slo for one in report.objectives):
        lines += wrap("These are defaults; `inferdoc slo suggest` prints objectives from your history.", "")
    return page(fitted(lines))


def _objective(group: Sequence[Kept]) -> Iterator[str]:
    first = group[0]
    what = f"{first.title}: {100 * first.target_share:.4g} % over {_span(first.window_seconds)}"
    start = "" if first.is_slo else " (default)"
    tenant = "".join(f", {label} {value}" for label, value in first.tenant.items())
    yield from wrap(f"{first.objective}  {what}{tenant}{start}", "")
    yield HEAD
    for one in group:
        yield from _line(one)


def _line(one: Kept) -> Iterator[str]:
    rates = {burning.window: burning.rate for burning in one.burn}
    burns = [_burn(rates.get(window)) for window in BURNS]
    name = place_text(one.place)
    budget = _range(one.budget_left, _whole)
    columns = f"{_range(one.attained, _percent):>16} {budget:>13} {burns[0]:>8} {burns[1]:>5}"
    mark = MARKS[one.status]
    if len(name) > NAME:
        yield from wrap(name, f"{mark} ")
        name, mark = "", " "
    yield f"{mark} {name:<{NAME}} {columns}".rstrip()
    if one.status == "between":
        low, high = (None if bound is None else figure(bound, one.unit) for bound in one.bounds)
        text = (
            f"the buckets end at {low or 0} and {high or 'infinity'}, and {figure(one.target, one.unit)} lies between"
        )
        yield from wrap(f"{text}: `inferdoc slo suggest` prints targets that buckets can prove", "    ")
    if one.status == "too few":
        yield f"    {one.events:.0f} events: too few to judge"
    if one.alerting is not None:
        yield f"    burns fast enough for the {one.alerting} alert"


def _goodput(report: SloReport) -> Iterator[str]:
    objectives = ", ".join(dict.fromkeys(name for one in report.goodput for name in one.objectives))
    yield from wrap(f"goodput  requests within {objectives}, at least to at most", "")
    yield f"  {'':<{NAME}} {'good per second':>16} {'of all requests':>16} {'all':>8}"
    for one in report.goodput:
        name, mark = place_text(one.place), "  "
        if len(name) > NAME:
            yield from wrap(name, mark)
            name = ""
        good = _range(one.good, lambda value: f"{value:.3g}")
        yield f"  {name:<{NAME}} {good:>16} {_range(one.share, _percent):>16} {one.requested:>6.3g}/s"
        if one.note:
            yield from wrap(one.note, "    ")


def _sentence(report: SloReport) -> str:
    missed = [one for one in report.objectives if one.status == "missed"]
    if missed:
        named = ", ".join(dict.fromkeys(one.objective for one in missed))
        return f"Not met: {named}."
    return (
        "All evaluated objectives are met."
        if report.verdict == "met"
        else "Not enough data to evaluate the objectives."
    )


def _percent(share: float) -> str:
    """Never 100 % of what is less."""
    text = f"{100 * share:.2f}"
    return f"{'99.99' if text == '100.00' and share < 1 else text.rstrip('0').rstrip('.')} %"


def _whole(share: float) -> str:
    return f"{100 * share:.0f} %" if share > -10 else f"{share:.3g} x"


def _range(both: Bounds, words: object) -> str:
    assert callable(words)
    low, high = words(both.low), words(both.high)
    if low == high:
        return str(low)
    return f"{str(low).removesuffix(' %') if str(high).endswith(' %') else low}..{high}"


def _burn(rate: Bounds | None) -> str:
    return "-" if rate is None else f"{rate.high:.2g}x"


def _span(seconds: float) -> str:
    for unit, length in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= 2 * length or (seconds >= length and seconds % length == 0):
            return f"{seconds / length:.3g} {unit}"
    return f"{seconds:.0f} s"


def as_json(report: object) -> str:
    """Any of the answers as JSON."""
    return indented_json(report)
