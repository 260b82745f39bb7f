"""A document of which every text can be printed: what a terminal would obey is written out."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from inferdoc.escaping import lines, one_line


def indented_json(document: Any) -> str:
    """A document as indented JSON that a terminal does not obey."""
    return lines(msgspec.json.format(msgspec.json.encode(document), indent=2).decode())


Document = TypeVar("Document", bound=msgspec.Struct)


def printable(document: Document, into: type[Document]) -> Document:
    """A copy of the document with each of its texts as one printable line. Before anything is coloured: afterwards a
    terminal could not distinguish the colours of the report from those of a label."""
    return msgspec.convert(_printable(msgspec.to_builtins(document)), into)


def _printable(value: Any) -> Any:
    if isinstance(value, str):
        return one_line(value)
    if isinstance(value, dict):
        return {_printable(key): _printable(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_printable(each) for each in value]
    return value
