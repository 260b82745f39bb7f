"""Headroom as one HTML file with the load of each pool against what it carries: no network, no script."""

from __future__ import annotations

from inferdoc.escaping import html as escape
from inferdoc.headroom.model import HeadroomAnswer, Lost, PhasesApart, PoolHeadroom
from inferdoc.report.headroom_plot import LEGEND, room_plot
from inferdoc.report.headroom_text import ANSWER, MET
from inferdoc.report.html_finding import pairs, table
from inferdoc.report.html_numbers import listed, numbers_table
from inferdoc.report.html_page import document
from inferdoc.report.html_timeline import day_and_clock, key
from inferdoc.words import figure, how_many, lasting

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
        listed("doubts", "What cannot be told of any pool", answer.cannot_tell),
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
    for title, sentences in (("Mind", pool.notes), ("What cannot be told", pool.cannot_tell)):
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
