"""Runbook pages for the terminal."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from inferdoc.catalogue.content import content_file, content_files
from inferdoc.catalogue.document import nearest
from inferdoc.errors import InferdocError
from inferdoc.escaping import lines


def pages(overlays: Sequence[str] = ()) -> Iterator[tuple[str, str]]:
    """Id and title of every page."""
    for name, path in content_files("runbooks", "*.md", overlays).items():
        first = path.read_text("utf-8", errors="backslashreplace").partition("\n")[0]
        yield name.removesuffix(".md"), first.lstrip("# ").strip()


def page(cause: str, overlays: Sequence[str] = ()) -> str:
    """The Markdown of one page. Raises InferdocError for an unknown id, naming the nearest."""
    path = content_file("runbooks", f"{cause}.md", overlays)
    if path is None:
        known = [name.removesuffix(".md") for name in content_files("runbooks", "*.md", overlays)]
        raise InferdocError(f'no runbook page is called "{cause}"{nearest(cause, known)}; inferdoc runbook lists them')
    return lines(path.read_text("utf-8", errors="backslashreplace")).rstrip()


def pretty(markdown: str) -> str:
    """The page for a terminal: headings are bold, comments are left out."""
    shown = _COMMENT.sub("", lines(markdown))
    return _HEADING.sub("\x1b[1m\\g<0>\x1b[0m", shown).rstrip()


_COMMENT = re.compile(r"<!--.*?-->\n?", re.DOTALL)
_HEADING = re.compile(r"(?m)^#+ .*$")
