"""The boards in docs/boards.md: what each answers, and its picture."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from inferdoc.catalogue.load import Catalogue
from inferdoc.generate.board_spec import BoardSpec, board_titles, load_boards
from inferdoc.generate.document import FileChange, section_changes

BEGIN = "<!-- boards: generated from dashboards/*.yaml -->\n"
END = "<!-- /boards -->"
FIRST = "fleet-overview"


def board_page_changes(page: Path, catalogue: Catalogue) -> list[FileChange]:
    """The page, if it differs. Nothing where there is no page, as in an installation.
    Raises InferdocError for a page without its markers."""
    return section_changes(page, BEGIN, END, lambda: sections(catalogue))


def sections(catalogue: Catalogue) -> Iterator[str]:
    """Markdown: a table of questions, then a section for each board."""
    boards = {name: board for name, (board, _) in load_boards(catalogue.overlays).items()}
    order = sorted(boards, key=lambda name: (name != FIRST, boards[name].title))
    yield "| question | dashboard |"
    yield "| --- | --- |"
    yield from (f"| {boards[name].question} | [{_title(boards[name])}](#{_anchor(boards[name])}) |" for name in order)
    for name in order:
        board = boards[name]
        yield from (
            "",
            f"## {_title(board)}",
            "",
            f"{board.question} UID `{board.uid}`, from `dashboards/{name}.yaml`.",
        )
        yield from ("", f"![{_title(board)}](boards/{name}.png)")


def _title(board: BoardSpec) -> str:
    return board_titles({"": board})[board.uid]


def _anchor(board: BoardSpec) -> str:
    """As GitHub makes it of the heading."""
    kept = "".join(letter for letter in _title(board).lower() if letter.isalnum() or letter in " -")
    return kept.replace(" ", "-")
