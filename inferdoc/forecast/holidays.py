"""A user's list of holidays: local dates."""

from __future__ import annotations

from datetime import date
from pathlib import Path

from inferdoc.errors import InferdocError


def dates_of(path: str | None) -> tuple[date, ...]:
    """The dates of a holiday file: YYYY-MM-DD at the start of a line; the rest of the line, blank lines and # are left
    out."""
    if path is None:
        return ()
    try:
        lines = Path(path).read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as fault:
        raise InferdocError(f"{path}: cannot be read as text: {fault}") from fault
    found = []
    for number, line in enumerate(lines, start=1):
        word = line.split("#")[0].replace(",", " ").split()
        if not word:
            continue
        try:
            found.append(date.fromisoformat(word[0]))
        except ValueError as fault:
            raise InferdocError(f"{path}: line {number}: `{word[0][:30]}` is not a date; write YYYY-MM-DD") from fault
    return tuple(found)
