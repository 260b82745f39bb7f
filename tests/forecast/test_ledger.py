"""A forecast is judged by the load that came after it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from made import office

from inferdoc.forecast.result import Forecast, ForecastLedger
from inferdoc.forecast.series import DAY


def ahead_of(start: int, level: float, bins: int = 288) -> Forecast:
    value = np.full(bins, level)
    return Forecast("office", "per bin", start, 300, "UTC", value, {0.5: value, 0.95: value}, "flat")


def test_the_share_above_the_band_is_of_what_was_forecast_before() -> None:
    series = office(21)
    steady = replace(series, values=np.where(np.arange(len(series.values)) % 4 == 0, 9.0, 1.0))
    ledger = ForecastLedger()
    assert ledger.missed(steady) is None
    ledger.write(ahead_of(steady.end - DAY, 5.0))
    assert ledger.missed(steady) == pytest.approx(0.25)
    ledger.write(ahead_of(steady.end - DAY // 2, 10.0))
    assert ledger.missed(steady) == pytest.approx(0.125)


def test_a_few_bins_say_nothing() -> None:
    series = office(21)
    ledger = ForecastLedger()
    ledger.write(ahead_of(series.end - 11 * 300, 0.0))
    assert ledger.missed(series) is None
