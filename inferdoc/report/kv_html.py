"""KV economics as one HTML file with the curve of hits over the size of the cache: no network, no script."""

from __future__ import annotations

from inferdoc.escaping import html as escape
from inferdoc.judging.words import figure, how_many
from inferdoc.kv.model import KvAnswer
from inferdoc.report.html_finding import pairs, table
from inferdoc.report.html_page import document
from inferdoc.report.kv_plot import curve_plot, pairs_plot
from inferdoc.sizing.model import Predicted, SizedPart


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
        *(_part(number, part) for number, part in enumerate(answer.parts)),
        _listed("mind", "Mind", answer.notes),
        _listed("doubts", "What cannot be told", answer.cannot_tell),
        f"<footer>inferdoc {escape(answer.inferdoc_version)}, {escape(answer.schema)}</footer>",
    ]
    return document(f"KV cache: {answer.pool}", "\n".join(each for each in body if each), answer.inferdoc_version)


def _part(at: int, part: SizedPart) -> str:
    rows = "".join(map(_row, part.numbers))
    heads = ("number", "value", "from", "to", "worked out as")
    name = f"p{at}"
    return f'<section aria-labelledby="{name}"><h2 id="{name}">{escape(part.title)}</h2>{table(heads, rows)}</section>'


def _row(each: Predicted) -> str:
    low, high = (figure(end, each.unit) if each.low != each.high else "" for end in (each.low, each.high))
    values = "".join(f'<td class="num">{escape(v)}</td>' for v in (figure(each.value, each.unit), low, high))
    inputs = "; ".join(f"{name} {value}" for name, value in each.inputs.items())
    more = f"<details><summary>{escape(each.formula)}</summary>{escape(inputs)}<br>{escape(each.source)}</details>"
    return f"<tr><td>{escape(each.title)}</td>{values}<td>{more}</td></tr>"


def _listed(name: str, title: str, sentences: list[str]) -> str:
    if not sentences:
        return ""
    items = "".join(f"<li>{escape(each)}</li>" for each in sentences)
    return f'<section aria-labelledby="{name}"><h2 id="{name}">{title}</h2><ul>{items}</ul></section>'
