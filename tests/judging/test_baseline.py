"""A stretch that the user chose to compare with, and windows without any calm of their own."""

from __future__ import annotations

import json

import numpy as np
import pytest

from inferdoc import diagnose, open_source
from inferdoc.judging.api import Options
from inferdoc.judging.model import stamp
from inferdoc.judging.session import read_session
from inferdoc.source.frame import SignalMatrix
from inferdoc.source.reads import Grid
from tests.cli.command import alone, call
from tests.contract.labels import LABELS, seconds
from tests.judging.frames import catalogue, frame_of
from tests.judging.made import Engine, recorded, stored, then

__all__ = ["alone"]
LABEL = next(label for label in LABELS if label.name == "prefix-unstable-prompt")
AFTER = LABEL.onset + 12


@pytest.fixture
def source(store_of):
    opened = open_source(store=store_of(LABEL.name))
    yield opened
    opened.close()


def calm(source) -> tuple[int, int]:
    """The stretch of the recording before the fault, milliseconds."""
    first = min(int(s.times_ms[0]) for s in source.scrapes(0, source.latest_ms()))
    return first, round(1000 * (LABEL.onset - 4))


def test_a_window_begun_late_is_compared_with_the_history_before_it(source):
    answer = diagnose(source, from_=AFTER)
    assert [f.id for f in answer.findings] == list(LABEL.expected)
    assert answer.window.baseline.kind == "history"
    assert seconds(answer.window.from_) == pytest.approx(AFTER, abs=4)
    assert seconds(answer.findings[0].onset) < AFTER, "it began before anybody looked"
    assert seconds(answer.window.baseline.until) <= seconds(answer.findings[0].onset)


def test_what_was_over_before_the_window_is_no_finding(source):
    whole = diagnose(source, since="10m")
    first = min(int(s.times_ms[0]) for s in source.scrapes(0, source.latest_ms())) / 1000
    early = diagnose(source, from_=first + 1, until=LABEL.onset - 4)
    assert [f.id for f in whole.findings] == list(LABEL.expected) and early.findings == []


def test_with_a_chosen_calm_the_same_window_tells(source):
    baseline = calm(source)
    answer = diagnose(source, from_=AFTER, options=Options(baseline=baseline))
    assert [f.id for f in answer.findings] == list(LABEL.expected)
    assert answer.window.baseline.kind == "chosen"
    assert seconds(answer.window.baseline.from_) == pytest.approx(baseline[0] / 1000, abs=2)
    assert seconds(answer.window.from_) == pytest.approx(AFTER, abs=4)
    assert seconds(answer.findings[0].onset) >= seconds(answer.window.from_), "nothing in the window is older than it"


def test_a_chosen_calm_of_another_pod_or_model_is_none(source):
    """A baseline before the data: there is nothing to compare with, and nothing is invented."""
    answer = diagnose(source, from_=AFTER, options=Options(baseline=(1_000_000_000_000, 1_000_000_060_000)))
    assert LABEL.expected[0] not in [f.id for f in answer.findings]


def test_on_the_command_line(source, store_of):
    first, last = (stamp(ms / 1000) for ms in calm(source))
    words = ("diagnose", "--store", store_of(LABEL.name), "--from", stamp(AFTER), "--until", "latest", "-o", "json")
    done = call(*words, "--baseline", f"{first}..{last}")
    document = json.loads(done.out)
    assert done.code == 1 and document["findings"][0]["id"] == LABEL.expected[0]
    assert document["window"]["baseline"]["kind"] == "chosen"


def test_prepend_puts_a_baseline_in_front_row_by_row():
    now = frame_of({"load": {"p0": np.full(4, 1.0), "p1": np.full(4, 2.0)}, "new": {"p0": np.full(4, 3.0)}})
    before = frame_of({"load": {"p1": np.full(3, 7.0), "p9": np.full(3, 9.0)}})
    before.grid = Grid(0, 2000, 3, 2000, 10_000, 5000)
    now["load"].counts = np.full((2, 4), 30.0)
    before.signals["load"] = SignalMatrix(before["load"].entities, before["load"].values, np.full((2, 3), 20.0))
    now.prepend(before)
    assert now["load"].values.shape == (2, 7) and now.grid.count == 4
    np.testing.assert_array_equal(now["load"].values[0], [8.0] * 3 + [1.0] * 4, "not there then: as its peers")
    np.testing.assert_array_equal(now["load"].values[1], [7.0] * 3 + [2.0] * 4)
    np.testing.assert_array_equal(now["load"].counts[1], [20.0] * 3 + [30.0] * 4)
    np.testing.assert_array_equal(now["new"].values[0], [np.nan] * 3 + [3.0] * 4)


def test_a_first_token_after_less_than_half_a_millisecond_is_no_measurement(tmp_path):
    """Requests that end before they are computed leave such a mean: nothing is slow because it takes longer."""
    source = open_source(store=stored(recorded(Engine("p0", ttft=then(7e-5, 0.3))).text(), tmp_path))
    frame = read_session(source, catalogue(), Options(), "6m", "latest").frame
    (row,) = frame["ttft_mean"].values
    assert np.nanmin(row) > 0.05 and np.isnan(row[:20]).all()
