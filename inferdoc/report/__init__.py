"""A diagnosis for people and for machines: text, JSON, Markdown, HTML.

Each form has one way of writing words of others (`inferdoc.escaping`): printable on a terminal, inactive in Markdown
and HTML, exact in JSON.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from inferdoc.escaping import lines

if TYPE_CHECKING:
    from inferdoc.audit.model import Audit
    from inferdoc.incidents.compare import Difference
    from inferdoc.incidents.model import Incident
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
    from inferdoc.report.printable import printable
    from inferdoc.report.text import text

    return text(printable(answer, Diagnosis), detail=detail, colour=colour)


def render_incidents(incidents: Sequence[Incident], form: str) -> str:
    """The incidents of the record in one of the forms text, json."""
    if form == "json":
        import msgspec

        return lines(msgspec.json.format(msgspec.json.encode(list(incidents)), indent=2).decode())
    from inferdoc.report.comparisons import listing_text

    return listing_text(incidents)


def render_differences(found: Sequence[Difference], form: str) -> str:
    """What differs between two diagnoses in one of the forms text, json."""
    if form == "json":
        import msgspec

        return lines(msgspec.json.format(msgspec.json.encode(list(found)), indent=2).decode())
    from inferdoc.report.comparisons import differences_text

    return differences_text(found)
