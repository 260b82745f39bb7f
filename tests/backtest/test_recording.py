"""Recordings as they are replayed."""

from __future__ import annotations

import numpy as np
import pytest

from inferdoc.backtest.recording import Points, ScrapedSeries, grid_ms, input_series, of_answers, read_file, read_store
from inferdoc.errors import InferdocError
from inferdoc.source.prometheus_answers import AnswerSeries
from tests.backtest.conftest import DOWN, INTERVAL, SCRAPES, START


def running(recording: ScrapedSeries, pod: str) -> Points:
    return next(p for p in recording.series if p.name.startswith("vllm") and dict(p.labels)["pod"] == pod)


def test_a_series_ends_at_the_first_scrape_that_no_longer_brings_it(recording):
    """Without the mark a server, and promtool, would take the last value for five more minutes."""
    points = running(recording, "b")
    assert points.times[points.stale].tolist() == [(START + INTERVAL * DOWN[0]) * 1000]
    assert not running(recording, "a").stale.any()


def test_a_target_that_is_gone_ends_one_interval_later(tmp_path):
    lines = [f'up{{job="v",instance="a"}} 1 {START + 15 * n}' for n in range(10)]
    lines += [f'up{{job="v",instance="b"}} 1 {START + 15 * n}' for n in range(4)]
    path = tmp_path / "gone.om"
    path.write_text("\n".join(["# TYPE up gauge", *lines, "# EOF", ""]), "utf-8")
    gone = next(p for p in read_file(path).series if dict(p.labels)["instance"] == "b")
    assert gone.times[gone.stale].tolist() == [(START + 15 * 4) * 1000]


def test_a_cold_start_knows_nothing_of_before(recording):
    begin = (START + 300) * 1000
    assert recording.since(begin).span_ms == (begin, recording.span_ms[1])


def test_engines_without_a_pod_label_go_by_their_instance(file):
    text = file.read_text("utf-8").replace(',pod="a"', "").replace(',pod="b"', "")
    file.write_text(text, "utf-8")
    named = read_file(file).with_pods()
    assert {dict(p.labels)["pod"] for p in named.series} == {"a:8000", "b:8000"}


def test_a_server_and_a_file_give_the_same_recording(recording):
    answers = []
    for p in recording.series:
        kept = ~p.stale
        answers.append((p.name, AnswerSeries(dict(p.labels), p.times[kept], p.values[kept])))
    again = of_answers("server", answers)
    assert {(p.name, tuple(sorted(p.labels))): p.times.tolist() for p in again.series} == {
        (p.name, tuple(sorted(p.labels))): p.times.tolist() for p in recording.series
    }


def test_a_store_and_a_file_give_the_same_recording(recording, file, tmp_path):
    from inferdoc.store import Store, import_file

    with Store.open(tmp_path / "fleet.db", "w") as store:
        import_file(store, str(file))
    stored = read_store(tmp_path / "fleet.db")
    assert running(stored, "b").times.tolist() == running(recording, "b").times.tolist()


def test_values_stand_on_their_place_of_the_grid():
    points = Points(
        "m",
        (("a", 'say "x"'),),
        np.array([0, 5000, 20000, 25000]),
        np.array([1.0, 2.5, np.inf, np.nan]),
        np.array([False, False, False, True]),
    )
    said = input_series(ScrapedSeries("r", (points,)), 0, 5000)
    assert said == [{"series": 'm{a="say \\"x\\""}', "values": "1 2.5 _x2 Inf stale"}]


def test_the_grid_is_finer_than_the_scrapes(recording):
    assert grid_ms(recording) == INTERVAL * 1000 // 3
    assert len(running(recording, "a").times) == SCRAPES


def test_a_file_without_samples_says_what_to_do(tmp_path):
    path = tmp_path / "empty.om"
    path.write_text("# EOF\n", "utf-8")
    with pytest.raises(InferdocError, match="no samples with timestamps"):
        read_file(path)
