"""A diagnosis for people and for machines: text, JSON, Markdown, HTML."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from inferdoc.diagnose.model import Diagnosis


def render(answer: Diagnosis, form: str, *, verbose: bool = False, colour: bool = False) -> str:
    """The diagnosis in one of the forms text, json, markdown, html."""
    if form == "json":
        return answer.to_json()
    if form == "markdown":
        from inferdoc.report.markdown import markdown

        return markdown(answer)
    if form == "html":
        from inferdoc.report.html import html

        return html(answer)
    from inferdoc.report.text import text

    return text(answer, verbose=verbose, colour=colour)
