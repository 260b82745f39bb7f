"""What a step has brought, as a document and as a line of the ledger: `inferdoc.verification/v1`."""

from __future__ import annotations

from typing import Final, Literal

import msgspec

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


class Verification(msgspec.Struct):
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

    def to_json(self) -> str:
        """The document as indented JSON."""
        return msgspec.json.format(msgspec.json.encode(self), indent=2).decode()
