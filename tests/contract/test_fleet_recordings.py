"""The recordings of fleets of real servers: files that can be read, and labels that say all a judge needs.

What the diagnosis says of them is not judged here."""

from __future__ import annotations

import functools
import json
from collections import defaultdict
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from inferdoc.catalogue.load import load_catalogue
from inferdoc.collect.openmetrics_file import read_openmetrics
from tests.conftest import ROOT

FLEETS = ROOT / "fixtures" / "fleets"
ENTRIES: list[dict[str, Any]] = json.loads((FLEETS / "labels.json").read_text("utf-8"))["recordings"]
FAULTS = [entry for entry in ENTRIES if not entry["control"]]
CONTROLS = [entry for entry in ENTRIES if entry["control"]]
LARGEST_BYTES, ALL_BYTES = 400_000, 10_000_000
BASELINE_SECONDS, FAULT_SECONDS = 150, 120
LEFT_OUT = ("python_", "process_cpu")


def named(entries: list[dict[str, Any]]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("entry", entries, ids=[entry["file"].removesuffix(".om.gz") for entry in entries])


@dataclass(frozen=True)
class Content:
    """problems: of the reader; names: of the series; times: per pod, the seconds of its scrapes; up: how many of them
    answered."""

    problems: list[str]
    names: set[str]
    times: dict[str, np.ndarray]
    up: dict[str, int]


@functools.cache
def content(file: str) -> Content:
    with (FLEETS / file).open("rb") as stream:
        columns = read_openmetrics(stream)
    labels = [dict(series.labels) for series in columns.series]
    scrapes: dict[str, list[np.ndarray]] = defaultdict(list)
    up: dict[str, int] = defaultdict(int)
    for number, series in enumerate(columns.series):
        if series.name == "up":
            own = columns.series_index == number
            scrapes[labels[number]["pod"]].append(columns.timestamps_ms[own] / 1000)
            up[labels[number]["pod"]] += int(columns.values[own].sum())
    times = {pod: np.sort(np.concatenate(parts)) for pod, parts in scrapes.items()}
    return Content(columns.problems, {series.name for series in columns.series}, times, dict(up))


def test_labels_and_files_are_the_same_set() -> None:
    assert sorted(entry["file"] for entry in ENTRIES) == sorted(path.name for path in FLEETS.glob("*.om.gz"))
    assert len({entry["file"] for entry in ENTRIES}) == len(ENTRIES)


def test_the_set_is_wide_and_small() -> None:
    assert len(CONTROLS) >= 4
    assert len({entry["expected"][0] for entry in FAULTS}) >= 12, "faults of different classes"
    sizes = [(FLEETS / entry["file"]).stat().st_size for entry in ENTRIES]
    assert max(sizes) < LARGEST_BYTES and sum(sizes) < ALL_BYTES


@named(ENTRIES)
def test_a_file_is_read_without_a_problem(entry: dict[str, Any]) -> None:
    recorded = content(entry["file"])
    assert recorded.problems == []
    assert {"up", "process_start_time_seconds", "vllm:num_requests_running", "vllm:cache_config_info"} <= recorded.names
    assert not [name for name in recorded.names if name.startswith(LEFT_OUT)]


@named(ENTRIES)
def test_the_pods_of_a_label_are_those_of_the_file(entry: dict[str, Any]) -> None:
    recorded = content(entry["file"])
    affected, healthy = set(entry["affected_pods"]), set(entry["healthy_pods"])
    assert affected | healthy <= set(recorded.times) and not affected & healthy
    assert all(recorded.up[pod] > 0 for pod in recorded.times), "every pod answered at least once"
    begin, end = entry["window"]
    for times in recorded.times.values():
        assert begin - 1 <= times[0] and times[-1] <= end + 1
        assert np.median(np.diff(times)) == pytest.approx(entry["scrape_interval_s"], abs=0.5)


@named(FAULTS)
def test_a_fault_says_what_when_and_where(entry: dict[str, Any]) -> None:
    begin, end = entry["window"]
    assert entry["onset"] - begin >= BASELINE_SECONDS and end - entry["onset"] >= FAULT_SECONDS
    assert entry["onset"] <= entry["onset_latest"] <= end and entry["onset"] < entry["end"] <= end
    assert entry["expected"] and entry["affected_pods"] and entry["done"]
    assert {*entry["expected"], *entry["edge_accepts"]} <= {*load_catalogue().recipes, "unexplained-anomaly", "none"}
    assert bool(entry["edge"]) == bool(entry["edge_accepts"])


@named(FAULTS)
def test_clients_are_hurt_after_the_onset_and_not_before(entry: dict[str, Any]) -> None:
    clients = entry["clients"]
    assert clients["hurt_before"] < 0.1 < clients["hurt_after"]
    assert clients["before"].get("answered", 0) > 100


@named(CONTROLS)
def test_a_control_hurts_nobody(entry: dict[str, Any]) -> None:
    assert entry["expected"] == [] and entry["affected_pods"] == [] and entry["onset"] is None
    assert entry["clients"]["hurt_before"] < 0.1


@named(ENTRIES)
def test_the_machine_did_not_spoil_the_recording(entry: dict[str, Any]) -> None:
    """Engines and API servers got their cores: otherwise a pod would be slow for a reason that no label tells."""
    assert entry["cpu_wait_before"] < 0.25


def test_rollouts_give_new_names() -> None:
    """There is a fault and a control in which every pod is replaced by one of another replica set."""
    kinds = set()
    for entry in ENTRIES:
        pods = content(entry["file"]).times
        releases = {pod.rsplit("-", 1)[0] for pod in pods}
        if len(releases) == 2 and len(pods) >= 4:
            kinds.add(entry["control"])
    assert kinds == {True, False}
