"""Errors of forecasts over several days, as benchmarks/forecast.py sums them."""

from __future__ import annotations

import numpy as np
import pytest
from forecast import AHEAD, correlated_noise, day_errors

from inferdoc.forecast import engine
from inferdoc.forecast.series import DAY, LoadSeries


@pytest.mark.parametrize("keep_outages", [False, True])
def test_a_load_that_repeats_has_next_to_no_error(monkeypatch, keep_outages):
    monkeypatch.setattr(engine, "installed", lambda: False)
    hours = np.arange(12 * AHEAD) % AHEAD / 12
    series = LoadSeries(1_772_409_600, 300, 50 + 45 * np.sin((hours - 9) / 24 * 2 * np.pi))
    assert day_errors(series, "UTC", series.start + 10 * DAY, 2, keep_outages) < 0.01


def test_noise_stays_from_one_value_to_the_next():
    noise = correlated_noise(np.random.default_rng(1), 0.1, 5000)
    assert np.corrcoef(noise[1:], noise[:-1])[0, 1] == pytest.approx(0.95, abs=0.02)
