"""A diagnosis for people and for machines: text, JSON, Markdown."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from inferdoc.diagnose.model import Diagnosis


def render(answer: Diagnosis, form: str, *, verbose: bool = False, colour: bool = False) -> str:
    """The diagnosis in one of the forms text, json, markdown."""
    if form == "json":
        return answer.to_json()
    if form == "markdown":
        from inferdoc.report.markdown import markdown

        return markdown(answer)
    from inferdoc.report.text import text

    return text(answer, verbose=verbose, colour=colour)
