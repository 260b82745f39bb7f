"""Headroom for a terminal, as metrics and as an HTML page."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import numpy as np

from inferdoc.catalogue.load import load_catalogue
from inferdoc.catalogue.own_metrics import Families, Row
from inferdoc.escaping import html as escape
from inferdoc.headroom.reading import (
    ForecastMoment,
    HeadroomAnswer,
    HeadroomClock,
    LoadPoint,
    Lost,
    PhasesApart,
    PoolHeadroom,
)
from inferdoc.headroom.room import ROOM
from inferdoc.report.brief import clock as shown_at
from inferdoc.report.estimates import TITLES, VALUES, number_lines
from inferdoc.report.html_finding import badge, listed, numbers_table, pairs, table, titled
from inferdoc.report.html_page import document
from inferdoc.report.html_scale import Frame, Scale, area, number, path
from inferdoc.report.html_timeline import day_and_clock, key
from inferdoc.report.wrapping import bullets, emphasis, fitted, headline, painted, wrap
from inferdoc.words import figure, how_many, lasting

SHARES = {"now": "load_now", "peak": "load_peak"}
"""Value of the label `load` -> name of a number."""


def headroom_metrics(answer: HeadroomAnswer) -> str:
    """The pools of the answer in the classic text format. Undetermined values are left out."""
    return Families(load_catalogue().exporters["inferdoc"]).text(
        {
            "inferdoc_headroom_used": [cell for pool in answer.pools for cell in _used(pool)],
            "inferdoc_headroom_replicas": [
                (_labels(pool) | {"what": what}, value) for pool in answer.pools for what, value in _replicas(pool)
            ],
            "inferdoc_headroom_after_loss": [
                (_labels(pool) | {"lost": one.what}, one.share.value)
                for pool in answer.pools
                for one in pool.lost
                if one.share is not None and one.share.value is not None
            ],
            "inferdoc_headroom_crossing_timestamp_seconds": [
                (_labels(pool) | {"path": path}, datetime.fromisoformat(moment.at).timestamp())
                for pool in answer.pools
                for path, moment in (("expected", pool.clock.expected), ("earliest", pool.clock.earliest))
                if moment is not None
            ],
            "inferdoc_headroom_timestamp_seconds": [({}, datetime.fromisoformat(answer.until).timestamp())],
        }
    )


def _labels(pool: PoolHeadroom) -> dict[str, str]:
    return {"pool": pool.pool, "model_name": pool.model, "role": pool.role, "tier": pool.tier}


def _numbers(pool: PoolHeadroom) -> dict[str, float]:
    (room,) = [part for part in pool.parts if part.title == ROOM]
    return {each.name: each.value for each in room.numbers if each.value is not None}


def _used(pool: PoolHeadroom) -> Iterator[Row]:
    known = _numbers(pool)
    for load, name in SHARES.items():
        if name in known:
            yield _labels(pool) | {"load": load}, known[name] / pool.usable


def _replicas(pool: PoolHeadroom) -> Iterator[tuple[str, float]]:
    yield "counted", float(pool.replicas)
    yield "to_spare", _numbers(pool)["headroom_replicas"]
    missing = [each.value for each in pool.clock.numbers if each.name == "replicas" and each.value is not None]
    yield "to_add", missing[0] if missing else 0.0


COLUMNS = 100
"""The widest line."""
MET = {True: "met", False: "not met", None: "open"}
ANSWER = {"yes": "holds", "no": "does not hold", "unsure": "unsure"}


def headroom_text(answer: HeadroomAnswer, *, verbose: bool = False, colour: bool = False) -> str:
    """Lines for a terminal; colour only if set. verbose: formula, inputs and source of each number."""

    span = f"{shown_at(answer.from_)} to {shown_at(answer.until)}"
    ahead = f"forecast horizon {lasting(3600 * answer.horizon_hours)}, times in {answer.zone}"
    lines = [*headline("HEADROOM", f"{answer.source}  {span}", colour, COLUMNS), f"  {ahead}"]
    bold = emphasis(colour)
    for pool in answer.pools:
        kind = f"{pool.role}, tier {pool.tier}, {how_many(pool.replicas, 'replica')}"
        lines += ["", *painted(wrap(f"{pool.pool} ({kind})", "", COLUMNS), pool.pool, bold(pool.pool))]
        lines += wrap(pool.summary, "  ", COLUMNS)
        for part in pool.parts:
            lines += ["", f"  {bold(part.title)}"]
            for each in part.numbers:
                lines += number_lines(each, verbose, COLUMNS)
        lines += ["", f"  {bold('after a loss')}"]
        for one in pool.lost:
            lines += _lost(one, verbose)
        lines += ["", f"  {bold('headroom clock')}", *_clock(pool.clock, verbose)]
        lines += bullets(f"  {bold('notes')}", pool.notes, COLUMNS)
        lines += bullets(f"  {bold('undetermined')}", pool.undetermined, COLUMNS)
    for apart in answer.apart:
        lines += ["", bold(f"{apart.part.title}: {' and '.join(apart.pools)}"), *wrap(apart.summary, "  ", COLUMNS)]
        for each in apart.part.numbers:
            lines += number_lines(each, verbose, COLUMNS)
        for condition in apart.conditions:
            value = "not known" if condition.value is None else figure(condition.value, condition.unit)
            lines += wrap(f"{condition.what}: {value}, {MET[condition.met]}", "  - ", COLUMNS)
        lines += bullets(f"  {bold('assumed')}", apart.notes, COLUMNS)
    lines += bullets(f"  {bold('undetermined for every pool')}", answer.undetermined, COLUMNS)
    lines += bullets(f"  {bold('note')}", answer.notes, COLUMNS)
    lines += bullets(f"  {bold('left out')}", [f"{one.pool}: {one.because}" for one in answer.left_out], COLUMNS)
    if not verbose:
        lines += ["", "formula, inputs and source of each number: -v; the plots: -o html"]
    return "\n".join(fitted(lines, COLUMNS))


def _lost(one: Lost, verbose: bool) -> Iterator[str]:
    name = f" {one.name}" if one.name else ""
    lost = f"{one.what}{name}, {how_many(one.replicas, 'replica')}: {ANSWER[one.holds]}; {one.because}"
    yield from wrap(lost, "  - ", COLUMNS)
    if one.share is not None:
        yield from number_lines(one.share, verbose, COLUMNS)
    if verbose:
        yield from number_lines(one.more, verbose, COLUMNS)


def _clock(clock: HeadroomClock, verbose: bool) -> Iterator[str]:
    yield from wrap(f"{clock.status}: {clock.reason}" if clock.reason else clock.status, "  ", COLUMNS)
    for title, moment in (
        ("may cross from", clock.earliest),
        ("expected to cross", clock.expected),
        ("ask for replicas by", clock.ask_by),
    ):
        if moment is not None:
            yield f"  {title:<{TITLES}} {moment.local:>{VALUES}}"
    for each in clock.numbers:
        yield from number_lines(each, verbose, COLUMNS)


FRAME = Frame(1080.0, 300.0, left=70.0)
POINTS, DAY = 700, 86_400.0
ABOVE_TOP = 1.08
"""Of the highest value, up to which the drawing goes."""
LEGEND = (
    ('<path class="cause" d="M1 6H25"/>', "load"),
    ('<path class="cause" stroke-dasharray="6 5" d="M1 6H25"/>', "its forecast, in the middle"),
    ('<rect class="crowd" width="26" height="12"/>', "up to the 95 % path"),
    ('<path class="limit" d="M0 6H26"/>', "usable rate"),
    ('<rect class="beyond" width="26" height="12"/>', "beyond it"),
    ('<path class="baseline" d="M0 6H26"/>', "knee, with its interval"),
    ('<path class="onset" d="M13 0V12"/>', "the load may cross from here"),
)


def room_plot(pool: PoolHeadroom, zone: str, key: str) -> str:
    """Load and forecast over time with usable rate and knee; "" without a point. key: unique in the page."""
    if not pool.drawn:
        return ""
    at, load, q50, q95 = (_column(pool.drawn, name) for name in ("at", "load", "q50", "q95"))
    top = float(np.nanmax([*load, *q95, pool.usable, pool.knee or 0.0]))
    x, y = FRAME.across(float(at[0]), float(at[-1])), FRAME.upright(ABOVE_TOP * top)
    across, right = x.many(at), number(FRAME.width - FRAME.right)
    usable = number(y(pool.usable))
    parts = [
        f'<path class="beyond" d="M{number(FRAME.left)} {usable}H{right}V{number(FRAME.top)}H{number(FRAME.left)}Z"/>',
        *FRAME.axes(x, y, list(_days(x, zone)), f"days of {zone}", "count"),
        f'<path class="crowd" d="{area(across, y.many(q95), y.many(q50), POINTS)}"/>',
        f'<path class="cause" d="{path(across, y.many(load), POINTS)}"/>',
        f'<path class="cause" stroke-dasharray="6 5" d="{path(across, y.many(q50), POINTS)}"/>',
        f'<path class="limit" d="M{number(FRAME.left)} {usable}H{right}"/>',
    ]
    if pool.knee is not None:
        parts.append(f'<path class="baseline" d="M{number(FRAME.left)} {number(y(pool.knee))}H{right}"/>')
    parts += _marked(pool.clock, x)
    words = f"usable {figure(pool.usable, pool.unit)}, highest load {figure(float(np.nanmax(load)), pool.unit)}"
    return FRAME.drawn(key, f"Load against what the pool carries, {pool.unit}", words, parts)


def _marked(clock: HeadroomClock, x: Scale) -> list[str]:
    if clock.earliest is None:
        return []
    at = x(_seconds(clock.earliest))
    after = at < (FRAME.left + FRAME.width) / 2
    side = f'x="{number(at + 4)}"' if after else f'x="{number(at - 4)}" text-anchor="end"'
    return [
        f'<path class="onset" d="M{number(at)} {number(FRAME.top)}V{number(FRAME.height - FRAME.bottom)}"/>',
        f'<text class="at-onset" {side} y="15">{escape(clock.earliest.local)}</text>',
    ]


def _seconds(moment: ForecastMoment) -> float:
    return datetime.fromisoformat(moment.at).timestamp()


def _column(points: list[LoadPoint], name: str) -> np.ndarray:
    values = [getattr(point, name) for point in points]
    return np.array([np.nan if value is None else value for value in values], dtype=np.float64)


def _days(x: Scale, zone: str) -> list[tuple[float, str]]:
    """Midnights of a zone, at most some ten of them, by their date."""
    clock = ZoneInfo(zone)
    every = max(1, round((x.high - x.low) / DAY / 12))
    first = datetime.fromtimestamp(x.low, UTC).astimezone(clock).toordinal() + 1
    found = []
    for ordinal in range(first, first + int((x.high - x.low) / DAY) + 1, every):
        day = datetime.fromordinal(ordinal).replace(tzinfo=clock)
        if day.timestamp() <= x.high:
            found.append((day.timestamp(), f"{day:%a %d}"))
    return found


BADGES = {"yes": "healthy", "no": "critical", "unsure": "unknown"}


def headroom_html(answer: HeadroomAnswer) -> str:
    """A whole HTML document. Times of the clock are those of the answer's zone, of the window UTC."""
    facts = pairs(
        (
            ("window", f"{day_and_clock(answer.from_)} to {day_and_clock(answer.until)} UTC"),
            ("source", f"<code>{escape(answer.source)}</code>"),
            ("clock", escape(f"{lasting(3600 * answer.horizon_hours)} ahead, in times of {answer.zone}")),
        )
    )
    title = f"Headroom of {how_many(len(answer.pools), 'pool')}"
    body = [
        f"<header><p class='soft'>Room at the service level</p><h1>{escape(title)}</h1>{facts}</header>",
        key(LEGEND, "".join(drawn for drawn, _ in LEGEND)) if answer.pools else "",
        *(_pool(at, pool, answer.zone) for at, pool in enumerate(answer.pools)),
        *(_apart(at, apart) for at, apart in enumerate(answer.apart)),
        listed("doubts", "Undetermined for every pool", answer.undetermined),
        listed("notes", "Notes", answer.notes),
        listed("left", "Left out", [f"{one.pool}: {one.because}" for one in answer.left_out]),
        f"<footer>inferdoc {escape(answer.inferdoc_version)}, {escape(answer.schema_)}</footer>",
    ]
    return document(title, "\n".join(each for each in body if each), answer.inferdoc_version)


def _pool(at: int, pool: PoolHeadroom, zone: str) -> str:
    name = f"pool{at}"
    kind = f"{pool.role}, tier {pool.tier}, {how_many(pool.replicas, 'replica')}"
    drawn = room_plot(pool, zone, f"{name}-load")
    parts = [
        f"<p class='soft'>{escape(kind)}</p><p>{escape(pool.summary)}</p>",
        f"<figure>{drawn}</figure>" if drawn else "",
        "<h3>After a loss</h3>",
        table(("lost", "the peak on the others", "", "why"), map(_lost_row, pool.lost)),
        *(f"<h3>{escape(part.title.capitalize())}</h3>{numbers_table(part.numbers)}" for part in pool.parts),
    ]
    if pool.clock.numbers:
        parts.append(f"<h3>Headroom clock</h3>{numbers_table(pool.clock.numbers)}")
    for title, sentences in (("Notes", pool.notes), ("Undetermined", pool.undetermined)):
        if sentences:
            parts.append(f"<h3>{title}</h3><ul>{''.join(f'<li>{escape(each)}</li>' for each in sentences)}</ul>")
    return titled(name, pool.pool, "".join(parts))


def _lost_row(one: Lost) -> tuple[str, ...]:
    what = f"{one.what} {one.name}".strip()
    share = "none is left" if one.share is None else figure(one.share.value, one.share.unit)
    holds = badge(ANSWER[one.holds], BADGES[one.holds])
    return escape(f"{what}, {how_many(one.replicas, 'replica')}"), escape(share), holds, escape(one.because)


def _apart(at: int, apart: PhasesApart) -> str:
    rows = [
        map(escape, (each.what, "not known" if each.value is None else figure(each.value, each.unit), MET[each.met]))
        for each in apart.conditions
    ]
    shown = table(("what must hold", "measured", ""), rows, numbers=(1,))
    title = f"{apart.part.title}: {' and '.join(apart.pools)}"
    body = f"<p>{escape(apart.summary)}</p>{shown}{numbers_table(apart.part.numbers)}"
    return titled(f"apart{at}", title, body)
