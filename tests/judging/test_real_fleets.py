"""Incidents of fleets of real servers, whole and a minute late: the cause, and none but the pods it struck."""

from __future__ import annotations

import json
from typing import Any

import pytest

from inferdoc import diagnose, open_source
from tests.conftest import ROOT, store_of_file

FLEETS = ROOT / "fixtures" / "fleets"
LATE_SECONDS = 60.0
ENTRIES: list[dict[str, Any]] = json.loads((FLEETS / "labels.json").read_text("utf-8"))["recordings"]


def document(entry: dict[str, Any], begin: float) -> Any:
    return diagnose(open_source(store=store_of_file(FLEETS / entry["file"])), from_=begin, until=entry["window"][1])


@pytest.mark.parametrize("entry", ENTRIES, ids=[entry["file"].removesuffix(".om.gz") for entry in ENTRIES])
def test_the_whole_recording_names_what_was_done(entry: dict[str, Any]) -> None:
    answer = document(entry, entry["window"][0])
    if entry["control"]:
        assert answer.findings == []
        return
    first = answer.findings[0]
    assert first.id in {*entry["expected"], *entry["edge_accepts"]}
    assert set(first.scope.pods) <= set(entry["affected_pods"])


FAULTS = [entry for entry in ENTRIES if not entry["control"]]


@pytest.mark.parametrize("entry", FAULTS, ids=[entry["file"].removesuffix(".om.gz") for entry in FAULTS])
def test_whoever_looks_a_minute_late_hears_the_same(entry: dict[str, Any]) -> None:
    answer = document(entry, entry["onset"] + LATE_SECONDS)
    assert answer.verdict in ("degraded", "critical")
    assert answer.findings[0].id in {*entry["expected"], *entry["edge_accepts"]}
