"""The ledger: one verification a line, in the order in which they were made."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from inferdoc.errors import NOT_JSON, InferdocError
from inferdoc.replacing import private
from inferdoc.verify.model import VERIFICATION_SCHEMA_ID, Verification

SUFFIX = ".ledger.jsonl"


def ledger_path(given: str | None, store: str | None) -> Path:
    """--ledger, else the file beside the store. Raises InferdocError where there is neither."""
    if given:
        return Path(given)
    if store is None:
        raise InferdocError("--ledger: of a server there is no place beside it; give --ledger FILE")
    return Path(store + SUFFIX)


def appended(path: Path, line: Verification) -> None:
    """Writes a line at the end, and the file where there is none. Raises InferdocError."""
    try:
        with open(path, "ab", opener=private) as ledger:
            ledger.write(msgspec.json.encode(line) + b"\n")
    except OSError as error:
        raise InferdocError(
            f"ledger {path}: cannot be written: {error.strerror or error}; give --ledger FILE"
        ) from None


def ledger_lines(path: Path) -> Sequence[Verification]:
    """All lines. Raises InferdocError where the file cannot be read, or a line is no verification."""
    try:
        texts = path.read_bytes().splitlines()
    except OSError as error:
        raise InferdocError(f"ledger {path}: cannot be read: {error.strerror or error}") from None
    found = []
    for number, text in enumerate(texts, start=1):
        if not text.strip():
            continue
        try:
            line = msgspec.json.decode(text, type=Verification)
        except NOT_JSON:
            raise InferdocError(
                f"ledger {path}, line {number}: not a {VERIFICATION_SCHEMA_ID}; remove the line"
            ) from None
        found.append(line)
    return found
