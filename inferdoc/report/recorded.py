"""Recordings of real incidents that come with inferdoc."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from inferdoc.catalogue.content import PACKAGE
from inferdoc.catalogue.document import nearest
from inferdoc.catalogue.load import Catalogue
from inferdoc.errors import InferdocError
from inferdoc.judging.api import Options, diagnose
from inferdoc.judging.model import Diagnosis


def recordings() -> Path:
    """The folder of the recordings: beside the package in a checkout, inside it when installed."""
    for folder in (PACKAGE / "content" / "recordings", PACKAGE.parent / "fixtures" / "recordings"):
        if (folder / "labels.json").is_file():
            return folder
    raise InferdocError(f"{PACKAGE / 'content' / 'recordings'}: the recordings are missing; reinstall inferdoc-toolkit")


def _labels() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((recordings() / "labels.json").read_text("utf-8"))["recordings"]
    return found


def _name(label: dict[str, Any]) -> str:
    return str(label["file"]).removesuffix(".om.gz")


def _label(name: str) -> dict[str, Any]:
    labels = _labels()
    found = next((entry for entry in labels if name in (_name(entry), entry.get("cause"))), None)
    if found is None:
        near = nearest(name, [_name(entry) for entry in labels])
        raise InferdocError(f'no recording is called "{name}"{near}; inferdoc demo --list names them')
    return found


def recorded() -> Iterator[tuple[str, str]]:
    """Name and description of every recording."""
    for label in _labels():
        yield _name(label), str(label.get("load_after") or label.get("load_before") or label.get("note") or "")


def cause_of(name: str) -> str | None:
    """The fault under which a recording was made; None for a control. Raises InferdocError for an unknown name."""
    cause: str | None = _label(name).get("cause")
    return cause


def replay_recording(name: str, catalogue: Catalogue) -> Diagnosis:
    """Diagnose a recording, named as its file or by its cause, from a fresh embedded store. Raises InferdocError for an
    unknown name."""
    from inferdoc.source.open import open_source
    from inferdoc.store import Store, import_file

    label = _label(name)
    with tempfile.TemporaryDirectory(prefix="inferdoc-demo-") as folder:
        path = Path(folder) / "demo.db"
        with Store.open(path, "w") as store:
            import_file(store, str(recordings() / label["file"]))
        answer = diagnose(open_source(store=path), since="10m", until="latest", options=Options(catalogue=catalogue))
    answer.source.location = label["file"]
    return answer
