"""A source that began minutes before the change: its first minutes are what the rest is compared with."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from inferdoc import diagnose, open_source
from inferdoc.judging.model import Diagnosis
from inferdoc.store import Store, import_file
from tests.conftest import ROOT

RECORDINGS = ROOT / "fixtures" / "recordings"
ENTRIES: dict[str, dict[str, Any]] = {
    entry["file"].removesuffix(".om.gz"): entry
    for entry in json.loads((RECORDINGS / "labels.json").read_text("utf-8"))["recordings"]
}
BEFORE_SECONDS = 34.0
"""Shorter than a calm of 45 s, longer than two windows of 10 s."""


def begun_late(name: str, folder: Path, begin: float) -> Diagnosis:
    """The answer on a recording without what lies before a moment; one below 1 is a share of its length."""
    lines = gzip.decompress((RECORDINGS / f"{name}.om.gz").read_bytes()).decode().splitlines()
    times = [0.0 if line.startswith("#") else float(line.rsplit(" ", 1)[1]) for line in lines]
    if begin < 1:
        first, last = min(filter(None, times)), max(times)
        begin = first + begin * (last - first)
    kept = (line for line, at in zip(lines, times, strict=True) if not at or at >= begin)
    (folder / "late.om").write_text("\n".join(kept) + "\n")
    with Store.open(folder / "late.db", "w") as store:
        import_file(store, folder / "late.om")
    return diagnose(open_source(store=folder / "late.db"), since="1h", until="latest")


@pytest.mark.parametrize("name", ["slow-replica", "prefix-unstable-prompt"])
def test_what_changed_after_half_a_minute_is_told_from_that(name: str, tmp_path: Path) -> None:
    entry = ENTRIES[name]
    answer = begun_late(name, tmp_path, entry["onset"] - BEFORE_SECONDS)
    first = answer.findings[0]
    assert first.id in entry["expected"] and set(first.scope.pods) <= set(entry["affected_pods"])
    assert answer.window.baseline.kind == "calm-before"


@pytest.mark.parametrize("name", [name for name, entry in ENTRIES.items() if entry["control"]])
@pytest.mark.parametrize("share", [0.25, 0.5])
def test_a_quiet_recording_that_begins_anywhere_has_no_finding(name: str, share: float, tmp_path: Path) -> None:
    assert begun_late(name, tmp_path, share).findings == []
