"""A diagnosis for people and for machines: text, JSON, Markdown, HTML.

Each form has one way of writing words of others (`inferdoc.escaping`): printable on a terminal, inactive in Markdown
and HTML, exact in JSON.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from inferdoc.escaping import lines
from inferdoc.report.printable import printable

if TYPE_CHECKING:
    from inferdoc.audit.model import Audit
    from inferdoc.judging.model import Diagnosis


def render(
    answer: Diagnosis, form: str, *, detail: int = 0, colour: bool = False, standing: Audit | None = None
) -> str:
    """The diagnosis in one of the forms text, json, markdown, html. detail: of the text,
    0 to 2. standing: an audit of the same window, which the HTML shows as a section."""
    if form == "json":
        return lines(answer.to_json())
    if form == "markdown":
        from inferdoc.report.markdown import markdown

        return markdown(answer)
    if form == "html":
        from inferdoc.report.html import html

        return html(answer, standing)
    from inferdoc.judging.model import Diagnosis
    from inferdoc.report.text import text

    return text(printable(answer, Diagnosis), detail=detail, colour=colour)
