"""Recordings of real incidents that come with inferdoc."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from inferdoc.catalogue.content import PACKAGE
from inferdoc.catalogue.load import Catalogue
from inferdoc.diagnose.api import Options, diagnose
from inferdoc.diagnose.model import Diagnosis
from inferdoc.errors import InferdocError


def recordings() -> Path:
    """The folder of the recordings: beside the package in a checkout, inside it when installed."""
    for folder in (PACKAGE / "content" / "recordings", PACKAGE.parent / "fixtures" / "recordings"):
        if (folder / "labels.json").is_file():
            return folder
    raise InferdocError(f"{PACKAGE / 'content' / 'recordings'}: the recordings are missing; reinstall inferdoc-toolkit")


def _labels() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((recordings() / "labels.json").read_text("utf-8"))["recordings"]
    return found


def faults() -> Iterator[tuple[str, str]]:
    """Cause and description of every recorded fault."""
    for label in _labels():
        if label.get("cause"):
            yield label["cause"], str(label["load_after"])


def play(fault: str, catalogue: Catalogue) -> Diagnosis:
    """Diagnose the recording of a fault from a fresh embedded store. Raises InferdocError for an unknown fault."""
    from inferdoc.source.open import open_source
    from inferdoc.store import Store, import_file

    label = next((entry for entry in _labels() if entry.get("cause") == fault), None)
    if label is None:
        raise InferdocError(f"no recording shows {fault!r}; inferdoc demo --list names those that exist")
    with tempfile.TemporaryDirectory(prefix="inferdoc-demo-") as folder:
        path = Path(folder) / "demo.db"
        with Store.open(path, "w") as store:
            import_file(store, str(recordings() / label["file"]))
        answer = diagnose(open_source(store=path), since="10m", until="latest", options=Options(catalogue=catalogue))
    answer.source.location = label["file"]
    return answer
