"""The result of a step as a document and as a line of the ledger: `inferdoc.verification/v1`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final, Literal

import msgspec

from inferdoc.errors import NOT_JSON, InferdocError
from inferdoc.json_document import JsonDocument
from inferdoc.replacing import private

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


VERIFICATION_SCHEMA_ID = "inferdoc.verification/v1"

Outcome = Literal["helped", "no difference", "worse", "cannot tell"]
UNDECIDED: Final = "cannot tell"


class MeasuredMove(msgspec.Struct):
    """One quantity before and after the step. change: after over before less 1, with the ends of its 90 % interval (of
    shares of requests: the difference); of_users: whether users feel it, or it is evidence of the finding."""

    name: str
    title: str
    unit: str
    before: float
    after: float
    change: float
    low: float
    high: float
    outcome: Outcome
    of_users: bool


class PredictionKept(msgspec.Struct):
    """One quantity of a what-if beside what was measured. inside: whether it lies in the band."""

    name: str
    title: str
    unit: str
    predicted: float
    low: float
    high: float
    measured: float
    inside: bool


class Verification(JsonDocument):
    """finding: id of the cause; onset, step_at, until: RFC 3339; why: what keeps it from being decided; changes: of the
    what-if, where one was given."""

    schema: str
    inferdoc_version: str
    finding: str
    pool: str
    onset: str
    step_at: str
    until: str
    outcome: Outcome
    why: list[str]
    moves: list[MeasuredMove]
    changes: dict[str, str]
    predicted: list[PredictionKept]
