"""The diagnosis that a name on the command line means: an incident of the record, a capsule, or a document."""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from pathlib import Path

import msgspec

from inferdoc.errors import NOT_JSON, InferdocError
from inferdoc.incidents.capsule import read
from inferdoc.incidents.record import Record
from inferdoc.judging.model import Diagnosis


def diagnosis_named(name: str, record: Callable[[], Record]) -> Diagnosis:
    """The document. record: opens the record, where the name is no file. Raises InferdocError."""
    place = Path(name)
    if place.is_file():
        if zipfile.is_zipfile(place):
            return read(place)[0].document
        try:
            return msgspec.json.decode(place.read_bytes(), type=Diagnosis)
        except OSError as error:
            raise InferdocError(f"{name}: cannot be read: {error.strerror or error}") from None
        except NOT_JSON:
            raise InferdocError(f"{name}: neither a capsule nor what `inferdoc diagnose -o json` writes") from None
    opened = record()
    try:
        run = find_conclusive_run(opened, opened.incident(name).id)
        return opened.diagnosis(run)
    finally:
        opened.close()


def find_conclusive_run(record: Record, incident: str) -> int:
    """The number of the last run with a cause, else of the last finished run. Raises InferdocError."""
    run = record.conclusive_run(incident)
    if run is None:
        raise InferdocError(f"{incident}: no finished diagnosis yet; retry in a minute")
    return run.number
