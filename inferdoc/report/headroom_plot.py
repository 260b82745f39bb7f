"""The load of a pool against what it carries, seen and to come, as inline SVG."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import numpy as np

from inferdoc.escaping import html as escape
from inferdoc.headroom.model import ForecastMoment, HeadroomClock, LoadPoint, PoolHeadroom
from inferdoc.report.html_chart import Frame
from inferdoc.report.html_scale import Scale, area, number, path
from inferdoc.words import figure

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
    ('<path class="calm" d="M0 6H26"/>', "knee, in the middle of its band"),
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
        parts.append(f'<path class="calm" d="M{number(FRAME.left)} {number(y(pool.knee))}H{right}"/>')
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
