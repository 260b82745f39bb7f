"""Synthetic load series for the tests: seeded, so that every run sees the same numbers."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import numpy as np

from inferdoc.forecast.calendar import local_seconds
from inferdoc.forecast.series import LoadSeries

MONDAY = int(datetime(2026, 3, 2, tzinfo=UTC).timestamp())
DAY = 86_400


def office(
    days: float = 21, *, step: int = 300, zone: str = "UTC", seed: int = 1, start: int = MONDAY, peak: float = 400.0
) -> LoadSeries:
    """A service used in the day, less at weekends, with counting noise: local clock of `zone`."""
    count = round(days * DAY / step)
    times = start + step * np.arange(count)
    clock = local_seconds(times, ZoneInfo(zone))
    hour = clock % DAY / 3600
    weekend = (clock // DAY + 3) % 7 >= 5
    level = 0.08 + np.exp(-(((hour - 14) / 3.2) ** 2)) * np.where(weekend, 0.35, 1.0)
    values = np.random.default_rng(seed).poisson(peak * level).astype(np.float64)
    return LoadSeries(start=start, step=step, values=values, name="office")


def noise(days: float = 21, *, step: int = 300, seed: int = 2) -> LoadSeries:
    """Bursts without any rhythm."""
    rng = np.random.default_rng(seed)
    count = round(days * DAY / step)
    hours = np.repeat(rng.lognormal(3, 1.0, size=count * step // 3600 + 1), 3600 // step)[:count]
    return LoadSeries(start=MONDAY, step=step, values=rng.poisson(hours).astype(np.float64), name="noise")


def csv_of(series: LoadSeries) -> str:
    lines = ["timestamp,value"]
    for moment, value in zip(series.times.tolist(), series.values.tolist(), strict=True):
        text = "" if value != value else f"{value:g}"
        lines.append(f"{datetime.fromtimestamp(moment, UTC):%Y-%m-%dT%H:%M:%SZ},{text}")
    return "\n".join(lines) + "\n"
