"""The rows of the perturbation benchmark: what happens to a label along with its samples, where somebody looks."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from types import ModuleType

import msgspec
import pytest

import benchmarks.labels
from tests.conftest import recording_path

BENCHMARKS = Path(benchmarks.labels.__file__).parent


@pytest.fixture(scope="module")
def bench() -> ModuleType:
    """The benchmark as it is when it runs: its neighbours are on the path."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(BENCHMARKS))
        return import_module("perturbations")


@pytest.fixture(scope="module")
def recording(bench):
    """engine-down, 124 s, every 2 s; the onset 75 s after the first scrape."""
    file = recording_path("engine-down")
    label = next(each for each in bench.read_labels(file.parent) if each.file == file.name)
    return import_module("perturbation_rows").read_recording(file, label)


def test_every_row_has_its_own_name_and_one_change_has_one_name(bench):
    assert len(bench.BY_NAME) == len(bench.ROWS)
    changes = {row.change.name: row.change for row in bench.ROWS}
    assert all(changes[row.change.name] == row.change for row in bench.ROWS)


def test_a_stretched_recording_has_a_stretched_label(bench, recording):
    slow = bench.BY_NAME["time-double"].change.apply(recording)
    assert slow.label.onset - slow.first == pytest.approx(2 * (recording.label.onset - recording.first))
    assert slow.pivot == slow.label.onset
    assert slow.last - slow.first == pytest.approx(2 * (recording.last - recording.first))
    assert (recording.label.since, slow.label.since) == ("10m", "1200s")
    assert slow.label.onset_tolerance == 2 * recording.label.onset_tolerance


def test_scrapes_further_apart_allow_a_later_onset(bench, recording):
    thinned = bench.BY_NAME["every-3"].change.apply(recording)
    assert thinned.label.onset_tolerance == recording.label.onset_tolerance + 2 * 2
    sparse = bench.BY_NAME["every-15s"].change.apply(recording)
    assert sparse.label.onset_tolerance == recording.label.onset_tolerance + 13


def test_a_rollout_is_judged_by_old_and_new_names(bench, recording):
    rolled = bench.BY_NAME["rollout"].change.apply(recording)
    old, *new = rolled.label.affected_pods
    assert (old, len(new)) == ("vllm-0", 1) and new[0].startswith("vllm-")
    names = {dict(each.labels).get("pod") for each in rolled.samples.series}
    assert names >= {old, *new}


def test_where_somebody_looks(bench, recording):
    onset = recording.label.onset
    late = bench.BY_NAME["late-30"].look(recording)
    assert late.until is None and onset + 29 < late.begin <= onset + 30
    assert bench.BY_NAME["late-60"].look(recording) is None, "12 s of the fault would be left"
    assert bench.BY_NAME["cut-30"].look(recording).until == onset + 30
    assert bench.BY_NAME["cut-60"].look(recording) is None, "it ends before"
    assert bench.BY_NAME["before"].look(recording).until < onset
    shifted = bench.BY_NAME["shifted"].look(recording)
    assert recording.first < shifted.begin < onset < shifted.until < recording.last


def test_the_middle_of_a_control_stands_for_the_onset(bench, recording):
    control = msgspec.structs.replace(recording.label, control=True, onset=None)
    file = recording_path("engine-down")
    middle = import_module("perturbation_rows").read_recording(file, control)
    assert middle.pivot == pytest.approx((middle.first + middle.last) / 2)
    assert bench.BY_NAME["late-30"].look(middle) is not None


def test_rows_over_one_recording(bench, recording):
    folder = recording_path("engine-down").parent
    outcomes = bench.run((folder, recording.label, ("whole", "before", "late-60", "lost")))
    assert {each.row for each in outcomes} == {"whole", "before", "lost"}
    by_row = {each.row: each for each in outcomes}
    assert by_row["whole"].wrong == () and by_row["whole"].findings[0] == "engine-down"
    assert by_row["before"].findings == ()
    lines = bench.table(outcomes)
    assert lines[2].startswith("| `whole`") and "| 1 of 1 | 0 | 0 | 0 of 0 | 0 |" in lines[2]
    assert len(lines) == 5
    assert bench.misses(outcomes) == bench.misses([each for each in outcomes if each.row == "lost"])


def test_a_row_that_breaks_the_judge_is_a_result(bench, recording, monkeypatch):
    def fails(*_):
        raise KeyError("pods")

    monkeypatch.setattr(bench, "ask", fails)
    folder = recording_path("engine-down").parent
    (only,) = bench.run((folder, recording.label, ("whole",)))
    assert (only.verdict, only.wrong) == ("error", ("KeyError: 'pods'",))


def test_rows_are_chosen_by_name_or_pattern(bench):
    assert bench.chosen(["rollout"]) == ("rollout",)
    assert bench.chosen(["rollout*"]) == ("rollout", "rollout-late-60", "rollout-late-180")
    assert bench.chosen([]) == tuple(bench.BY_NAME)
    with pytest.raises(SystemExit, match="no row is called nothing; there are whole, "):
        bench.chosen(["nothing"])
