"""KV economics as one HTML file with the curve of hits over the size of the cache: no network, no script."""

from __future__ import annotations

from inferdoc.escaping import html as escape
from inferdoc.kv.model import KvAnswer
from inferdoc.report.html_finding import pairs
from inferdoc.report.html_numbers import listed, part_section
from inferdoc.report.html_page import document
from inferdoc.report.kv_plot import curve_plot, pairs_plot
from inferdoc.words import how_many


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
        *(part_section(f"p{at}", part) for at, part in enumerate(answer.parts)),
        listed("mind", "Mind", answer.notes),
        listed("doubts", "What cannot be told", answer.cannot_tell),
        f"<footer>inferdoc {escape(answer.inferdoc_version)}, {escape(answer.schema)}</footer>",
    ]
    return document(f"KV cache: {answer.pool}", "\n".join(each for each in body if each), answer.inferdoc_version)
