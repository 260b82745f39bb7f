"""Headroom as one HTML file: load and capacity of each pool."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import numpy as np

from inferdoc.escaping import html as escape
from inferdoc.headroom.model import (
    ForecastMoment,
    HeadroomAnswer,
    HeadroomClock,
    LoadPoint,
    Lost,
    PhasesApart,
    PoolHeadroom,
)
from inferdoc.report.headroom_text import ANSWER, MET
from inferdoc.report.html_finding import listed, numbers_table, pairs, table
from inferdoc.report.html_page import document
from inferdoc.report.html_scale import Frame, Scale, area, number, path
from inferdoc.report.html_timeline import day_and_clock, key
from inferdoc.words import figure, how_many, lasting

FRAME = Frame(1080.0, 300.0, left=70.0)
POINTS, DAY = 700, 86_400.0
ROOM = 1.08
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
    x, y = FRAME.across(float(at[0]), float(at[-1])), FRAME.upright(ROOM * top)
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
        f'<section aria-labelledby="{name}"><h2 id="{name}">{escape(pool.pool)}</h2>',
        f"<p class='soft'>{escape(kind)}</p><p>{escape(pool.summary)}</p>",
        f"<figure>{drawn}</figure>" if drawn else "",
        "<h3>After a loss</h3>",
        table(("lost", "the peak on the others", "", "why"), "".join(map(_lost, pool.lost))),
        *(f"<h3>{escape(part.title.capitalize())}</h3>{numbers_table(part.numbers)}" for part in pool.parts),
    ]
    if pool.clock.numbers:
        parts.append(f"<h3>Headroom clock</h3>{numbers_table(pool.clock.numbers)}")
    for title, sentences in (("Notes", pool.notes), ("Undetermined", pool.undetermined)):
        if sentences:
            parts.append(f"<h3>{title}</h3><ul>{''.join(f'<li>{escape(each)}</li>' for each in sentences)}</ul>")
    return "".join([*parts, "</section>"])


def _lost(one: Lost) -> str:
    what = f"{one.what} {one.name}".strip()
    share = "none is left" if one.share is None else figure(one.share.value, one.share.unit)
    badge = f'<span class="badge {BADGES[one.holds]}">{ANSWER[one.holds]}</span>'
    cells = (escape(f"{what}, {how_many(one.replicas, 'replica')}"), escape(share), badge, escape(one.because))
    return f"<tr>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>"


def _apart(at: int, apart: PhasesApart) -> str:
    name = f"apart{at}"
    rows = "".join(
        f"<tr><td>{escape(each.what)}</td>"
        f'<td class="num">{escape("not known" if each.value is None else figure(each.value, each.unit))}</td>'
        f"<td>{MET[each.met]}</td></tr>"
        for each in apart.conditions
    )
    title = f"{apart.part.title}: {' and '.join(apart.pools)}"
    return (
        f'<section aria-labelledby="{name}"><h2 id="{name}">{escape(title)}</h2><p>{escape(apart.summary)}</p>'
        f"{table(('what must hold', 'measured', ''), rows)}{numbers_table(apart.part.numbers)}</section>"
    )
