"""Answer a command from its source, and print the answer in the form of --output."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeVar

from inferdoc.cli import messages, options
from inferdoc.cli.streams import show

if TYPE_CHECKING:
    from inferdoc.catalogue.load import Catalogue
    from inferdoc.config import Config
    from inferdoc.json_document import JsonDocument
    from inferdoc.source.identified import Identified

D = TypeVar("D", bound="JsonDocument")


def answer_from_source(
    params: dict[str, Any], answer: Callable[[Identified, Config, Catalogue, dict[str, Any]], D]
) -> tuple[D, list[str]]:
    """The answer of a command that reads a source, and the warnings of the source."""
    config = options.configuration()
    source, catalogue = options.source(config, params), options.catalogue(config)
    with options.working(f"reading {source.location}"):
        found = answer(source, config, catalogue, params)
    return found, source.warnings


def print_answer(
    answer: D,
    params: dict[str, Any],
    text: Callable[..., str],
    *,
    warnings: Iterable[str] = (),
    **forms: Callable[[D], str],
) -> None:
    """Print an answer, then warnings. text: lines for a terminal; forms: what else --output may name."""
    from inferdoc.escaping import lines
    from inferdoc.report.printable import printable

    form = params["output"]
    if form == "text":
        verbose = {"verbose": params["verbose"]} if "verbose" in params else {}
        colour = options.coloured()
        show(text(printable(answer, type(answer)), **verbose, colour=colour), coloured=colour)
    else:
        show(lines(answer.to_json()) if form == "json" else forms[form](answer))
    messages.warn(warnings)
