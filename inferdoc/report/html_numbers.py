"""Numbers with their range, formula, inputs and source as tables of an HTML report, and lists of sentences."""

from __future__ import annotations

from collections.abc import Sequence

from inferdoc.escaping import html as escape
from inferdoc.report.html_finding import table
from inferdoc.sizing.model import Predicted, SizedPart
from inferdoc.words import figure


def part_section(name: str, part: SizedPart) -> str:
    """A part as a section of its own. name: unique in the page."""
    return (
        f'<section aria-labelledby="{name}"><h2 id="{name}">{escape(part.title)}</h2>'
        f"{numbers_table(part.numbers)}</section>"
    )


def numbers_table(numbers: Sequence[Predicted]) -> str:
    """A row for each number; what it is worked out from unfolds."""
    return table(("number", "value", "from", "to", "worked out as"), "".join(map(_row, numbers)))


def _row(each: Predicted) -> str:
    low, high = (figure(end, each.unit) if each.low != each.high else "" for end in (each.low, each.high))
    if each.high is None and each.low is not None:
        high = "or more"
    values = "".join(f'<td class="num">{escape(v)}</td>' for v in (figure(each.value, each.unit), low, high))
    inputs = "; ".join(f"{name} {value}" for name, value in each.inputs.items())
    more = f"<details><summary>{escape(each.formula)}</summary>{escape(inputs)}<br>{escape(each.source)}</details>"
    return f"<tr><td>{escape(each.title)}</td>{values}<td>{more}</td></tr>"


def listed(name: str, title: str, sentences: Sequence[str]) -> str:
    """Sentences as a section with a list; "" without any. name: unique in the page."""
    if not sentences:
        return ""
    items = "".join(f"<li>{escape(each)}</li>" for each in sentences)
    return f'<section aria-labelledby="{name}"><h2 id="{name}">{title}</h2><ul>{items}</ul></section>'
