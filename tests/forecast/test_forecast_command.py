"""The command line's contract: data on standard output, remarks on standard error, exit codes."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result
from made import MONDAY, csv_of, noise, office

from inferdoc.cli.forecast import command
from inferdoc.forecast.result import Forecast, to_table


def ask(*words: str, text: str | None = None) -> Result:
    return CliRunner().invoke(command, list(words), input=text)


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> str:
    file = tmp_path_factory.mktemp("load") / "pool-a.csv"
    file.write_text(csv_of(office(14)))
    return str(file)


def test_csv_has_one_row_per_step_in_utc(pool: str) -> None:
    answer = ask("--input", pool, "--horizon", "24h", "-o", "csv")
    assert answer.exit_code == 0
    lines = answer.stdout.splitlines()
    assert lines[0].startswith("timestamp,mean,p50,p95")
    assert len(lines) == 1 + 288
    assert lines[1].startswith("2026-03-16T00:00:00Z,")
    for line in lines[1:]:
        p50, p95 = map(float, line.split(",")[2:4])
        assert 0 <= p50 <= p95


def test_standard_input_is_read() -> None:
    answer = ask("--input", "-", "--horizon", "1h", "-o", "csv", text=csv_of(office(9)))
    assert answer.exit_code == 0
    assert len(answer.stdout.splitlines()) == 13


def test_json_says_how_the_numbers_were_made(pool: str) -> None:
    found: dict[str, Any] = json.loads(ask("--input", pool, "-o", "json", "--tz", "Europe/Berlin").stdout)
    assert found["schema"] == "inferdoc.forecast/v1"
    assert found["zone"] == "Europe/Berlin"
    assert found["abstained"] is False
    assert set(found) >= {"method", "weights", "folds", "skill", "coverage", "gaps", "seconds", "errors", "reason"}
    assert abs(sum(found["weights"].values()) - 1) < 1e-3
    assert len(found["forecast"]) == 288


def test_an_abstention_still_writes_numbers_and_exits_0(tmp_path: Path) -> None:
    file = tmp_path / "noise.csv"
    file.write_text(csv_of(noise(14)))
    answer = ask("--input", str(file), "-o", "csv")
    assert answer.exit_code == 0
    assert len(answer.stdout.splitlines()) == 289
    assert "abstained: no usable rhythm" in answer.stderr
    assert "skill" in answer.stderr
    assert ask("--input", str(file), "-o", "csv", "--fail-on-abstain").exit_code == 1
    assert json.loads(ask("--input", str(file), "-o", "json").stdout)["abstained"] is True


def test_the_table_fits_a_screen_and_says_how_far_to_trust_it(pool: str) -> None:
    answer = ask("--input", pool)
    assert len(answer.stdout.splitlines()) < 40
    assert "skill" in answer.stdout
    assert "last-week" in answer.stdout
    assert "\x1b" not in answer.stdout


def test_each_line_of_the_table_sums_a_stretch_of_local_time() -> None:
    """26 hours take two hours a line, 24 hours one: the mean of p50, and the highest p95."""
    steps = np.arange(26 * 12, dtype=np.float64)
    made = Forecast(
        "pool-a", "requests/s", MONDAY, 300, "Europe/Berlin", steps + 1, {0.5: steps, 0.95: 2 * steps}, "flat"
    )
    text = to_table(made)
    assert text.endswith("\n") and not text.endswith("\n\n\n")
    title, _, _, first, second, *_ = lines = text.splitlines()
    assert title == "pool-a: flat, requests/s, Europe/Berlin"
    assert first.split() == ["Mon", "2026-03-02", "01:00", "12.5", "11.5", "46"]
    assert second.split() == ["Mon", "2026-03-02", "03:00", "36.5", "35.5", "94"]
    assert len(lines) == 3 + 13 + 1
    day = {level: values[: 24 * 12] for level, values in made.quantiles.items()}
    assert len(to_table(replace(made, mean=made.mean[: 24 * 12], quantiles=day)).splitlines()) == 3 + 24 + 1


def test_a_plot_is_written(pool: str, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    place = tmp_path / "plot.png"
    assert ask("--input", pool, "-o", "png", "--out", str(place)).exit_code == 0
    assert place.read_bytes().startswith(b"\x89PNG")
    assert b"<svg" in ask("--input", pool, "-o", "svg").stdout_bytes


def test_the_textfile_is_what_prometheus_reads(pool: str) -> None:
    from prometheus_client.parser import text_fd_to_metric_families

    text = ask("--input", pool, "-o", "prometheus", "--pool", 'a"b').stdout
    found = {family.name: family.samples for family in text_fd_to_metric_families(io.StringIO(text))}
    load = {s.labels["quantile"]: s.value for s in found["inferdoc_forecast_load"]}
    assert load["0.5"] <= load["0.95"]
    assert found["inferdoc_forecast_load"][0].labels["pool"] == 'a"b'
    assert found["inferdoc_forecast_abstained"][0].value == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--horizon", "tomorrow"], "is not a duration"),
        (["--from", "noonish"], "is not a time"),
        (["--tz", "Mars/Base"], "does not exist"),
        (["--holidays", "no-such-file"], "cannot be read"),
    ],
)
def test_usage_errors_are_one_line(pool: str, words: list[str], said: str) -> None:
    answer = ask("--input", pool, *words)
    assert answer.exception is not None
    assert said in str(answer.exception)
    assert "\n" not in str(answer.exception)


def test_a_missing_zone_is_said_and_never_guessed(pool: str) -> None:
    assert "no --tz given, so days and weeks follow UTC" in ask("--input", pool).stderr
    assert "no --tz" not in ask("--input", pool, "--tz", "Europe/Berlin").stderr
