"""The replay's arithmetic, and what a back-test says."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from made import csv_of, noise, office

from inferdoc.cli.prewarm import command
from inferdoc.errors import InferdocError
from inferdoc.forecast.engine import Request
from inferdoc.forecast.result import Forecast
from inferdoc.forecast.series import LoadSeries
from inferdoc.prewarm.backtest import Report, Trial, backtest, pareto, to_dict, to_image, to_table
from inferdoc.prewarm.replay import Site, highest_ahead, judge, oracle, per_minute, reactive

SITE = Site(capacity=10.0, cold=3)


def test_amounts_and_rates_become_load_per_minute() -> None:
    amounts = office(1)
    rates = replace(amounts, values=amounts.values / 300, kind="rate")
    assert np.allclose(per_minute(amounts), per_minute(rates))
    assert per_minute(amounts).sum() == pytest.approx(amounts.values.sum())
    fine = replace(amounts, step=10, values=np.ones(60))
    assert per_minute(fine).tolist() == [6.0] * 10


def test_the_reactive_scaler_sees_the_load_a_minute_late_and_holds_five_minutes() -> None:
    load = np.array([7.0] * 5 + [70.0] * 3 + [7.0] * 10)
    paid = reactive(load, SITE)
    assert paid[4] == 1 and paid[5] == 1 and paid[6] == 10
    assert (paid[6:13] == 10).all() and paid[13] == 1


def test_small_deviations_are_tolerated() -> None:
    assert reactive(np.array([70.0, 70.0, 76.0, 76.0]), SITE).tolist() == [10, 10, 10, 10]


def test_a_floor_and_the_maximum_hold() -> None:
    load = np.full(10, 70.0)
    assert (reactive(load, SITE, np.full(10, 14)) == 14).all()
    assert (reactive(load, Site(10.0, 3, maximum=4), np.full(10, 14)) == 4).all()


def test_replicas_serve_only_after_a_cold_start() -> None:
    load = np.array([5.0, 5.0, 25.0, 25.0, 25.0, 25.0, 25.0])
    paid = np.array([1, 1, 3, 3, 3, 3, 3])
    found = judge(load, paid, SITE)
    assert found.minutes == 3
    assert found.excess == pytest.approx(45.0)
    assert found.hours == pytest.approx(17 / 60)


def test_perfect_foresight_is_never_overloaded() -> None:
    load = np.random.default_rng(1).uniform(0, 200, size=500)
    assert judge(load, oracle(load, SITE), SITE, skip=5).excess == 0


def test_gaps_count_in_no_metric() -> None:
    load = np.array([5.0, np.nan, 5.0])
    assert judge(load, np.ones(3, dtype=np.int64), SITE).requests == 10


def test_highest_ahead_looks_forward_only() -> None:
    assert highest_ahead(np.array([1, 5, 1, 1]), 1).tolist() == [5, 5, 1, 1]


@pytest.fixture(scope="module")
def report() -> Report:
    return backtest(office(18), Trial(300, days=3))


def test_prewarming_spares_overload_and_never_adds_any(report: Report) -> None:
    base = report.outcomes["reactive"].overload
    assert base > 0
    for name in ("economy", "balanced", "safe", "balanced, scheduled"):
        assert report.outcomes[name].overload <= base
    cut = report.cut("balanced")
    assert cut is not None and cut > 0.6
    assert report.hours_ratio("balanced") < 1.4
    assert report.outcomes["oracle"].overload == 0
    assert report.abstained == 0


def test_every_report_shows_the_naive_floor_and_marks_the_front(report: Report) -> None:
    found = to_dict(report, price=2.0)
    rows = {row["policy"]: row for row in found["policies"]}
    assert {"reactive", "naive floor", "economy", "balanced", "safe", "static peak", "oracle"} <= set(rows)
    assert rows["oracle"]["cost"] == pytest.approx(2 * rows["oracle"]["replica_hours"], rel=1e-3)
    assert pareto(report) and not rows["oracle"]["pareto"]
    assert "naive floor" in to_table(report)


def test_a_plot_is_drawn(report: Report) -> None:
    pytest.importorskip("matplotlib")
    assert to_image(report).startswith(b"\x89PNG")


def test_an_arrhythmic_series_gets_no_floor() -> None:
    found = backtest(noise(18), Trial(300, days=2))
    assert found.abstained == 1
    assert found.outcomes["balanced"].hours == found.outcomes["reactive"].hours
    assert "abstained at 100%" in to_table(found)


def test_the_forecast_is_made_anew_every_six_hours(monkeypatch: pytest.MonkeyPatch) -> None:
    known: list[int] = []

    def noted(history: LoadSeries, request: Request) -> Forecast:
        known.append(history.end)
        return Forecast("", "", history.end, 300, "UTC", np.zeros(1), {}, "flat", abstained=True)

    monkeypatch.setattr("inferdoc.prewarm.backtest.forecast", noted)
    series = noise(10)
    backtest(series, Trial(300, days=1, scheduled=False))
    assert known == [series.end - hours * 3600 for hours in (24, 18, 12, 6)]


def test_too_short_a_history_is_one_clear_line() -> None:
    with pytest.raises(InferdocError, match="needs at least 7"):
        backtest(office(5), Trial(300))
    with pytest.raises(InferdocError, match="contains no load"):
        backtest(replace(office(9), values=np.zeros(9 * 288)), Trial(300))


def test_the_command_prints_json(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_text(csv_of(office(12)))
    words = ["backtest", "--input", str(file), "--cold-start", "3m", "--days", "2", "--quantile", "0.8", "-o", "json"]
    answer = CliRunner().invoke(command, words)
    assert answer.exit_code == 0, answer.output
    found = json.loads(answer.stdout)
    assert found["cold_start_seconds"] == 180
    assert "chosen" in [row["policy"] for row in found["policies"]]
    assert found["days"] == 2
