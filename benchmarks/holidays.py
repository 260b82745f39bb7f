"""How forecasts stand holidays that are told to them.

    .venv/bin/python benchmarks/holidays.py [--seed 0] [--only KIND]...         made loads, whose truth is known
    .venv/bin/python benchmarks/holidays.py --series FILE --tz ZONE --dates FILE  a load of your own, and its holidays

A day ahead from each holiday's local midnight, and from the one after it, without a list, with it and 28 days of
history, and with it and all that came before. Bias: sum of p50 over the sum of the load, less one, the mean over the
holidays; WAPE alike; cover95: share of the bins at or below p95.

The made loads: 17 weeks of an office and of a consumer service under drifting levels, correlated noise and counting,
with five holidays on different working days that all behave in one way."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import numpy as np
from breaks import consumer, office
from forecast import AHEAD, TRAIN_DAYS, correlated_noise
from measured import measured_line

from inferdoc.forecast.agenda import dates_of, from_csv
from inferdoc.forecast.engine import Request, forecast
from inferdoc.forecast.series import DAY, LoadSeries

MONDAY = date(2026, 3, 2)
WEEKS = 17
FREE = (29, 46, 64, 87, 109)
"""Days after the first Monday that are holidays: a Tuesday, Friday, Wednesday, Thursday and Friday."""
ALIKE = {"as a Sunday": 1.0, "half as a Sunday": 0.5, "as any day": 0.0, "half of a Sunday": 1.0}
MEASURES = ("bias", "bias of the day after", "WAPE", "cover95")
WAYS = {"no list": (False, TRAIN_DAYS), "list, 28 days": (True, TRAIN_DAYS), "list, all history": (True, None)}


def made_series(kind: str, seed: int) -> dict[str, LoadSeries]:
    """Loads whose holidays behave in one way, by name."""
    bins = np.arange(WEEKS * 7 * AHEAD)
    hour, day = bins % AHEAD / 12, bins // AHEAD
    free = np.isin(day, FREE)
    found = {}
    for number, shape in enumerate((office, consumer)):
        rng = np.random.default_rng(seed * 10 + number)
        sunday = shape(hour, day * 0 + 6) * (0.5 if kind == "half of a Sunday" else 1.0)
        base = np.where(free, ALIKE[kind] * sunday + (1 - ALIKE[kind]) * shape(hour, day), shape(hour, day))
        noise = correlated_noise(rng, 0.05, len(bins))
        level = np.exp(np.cumsum(rng.normal(0, 0.03, WEEKS * 7)))[day]
        load = rng.poisson(base * level * np.exp(noise)).astype(float)
        start = int(datetime(MONDAY.year, MONDAY.month, MONDAY.day, tzinfo=UTC).timestamp())
        found[shape.__name__] = LoadSeries(start, 300, load)
    return found


def measured(series: LoadSeries, zone: str, day: date, told: Sequence[date], days: float | None) -> np.ndarray:
    """float64[4]: the MEASURES of one holiday; NaN where the series does not reach."""
    found = []
    for moment in (day, day + timedelta(1)):
        begin = int(datetime(moment.year, moment.month, moment.day, tzinfo=ZoneInfo(zone)).timestamp())
        at = (begin - series.start) // series.step
        actual = series.values[at : at + DAY // series.step]
        request = Request(DAY, zone, holidays=told, never_abstain=True, arima_seconds=0.0)
        made = forecast(series.before(begin, days), request)
        known = np.isfinite(actual)
        load = float(actual[known].sum())
        bias, error = made.p50[: len(actual)][known].sum() / load - 1, np.abs(made.p50[: len(actual)] - actual)[known]
        found.append((float(bias), float(error.sum()) / load, float((actual <= made.p95[: len(actual)])[known].mean())))
    return np.array([found[0][0], found[1][0], found[0][1], found[0][2]])


def line(name: str, parts: Sequence[np.ndarray]) -> str:
    bias, after, wape, cover = np.mean(parts, axis=0)
    return f"| {name} | {bias:+.1%} | {after:+.1%} | {wape:.3f} | {cover:.2f} |"


def made(seed: int, kinds: Iterable[str]) -> None:
    print("| made holidays | " + " | ".join(MEASURES) + " |\n|---|---|---|---|---|")
    holidays = [MONDAY + timedelta(day) for day in FREE]
    for kind in kinds:
        loads = made_series(kind, seed)
        for way, (listed, days) in WAYS.items():
            told = holidays if listed else []
            groups = {"first": holidays[:1], "later": holidays[1:]} if listed else {"all": holidays}
            for which, asked in groups.items():
                parts = [measured(series, "UTC", day, told, days) for series in loads.values() for day in asked]
                print(line(f"{kind}, {way}, {which}", parts), flush=True)


def real(path: str, zone: str, dates: str) -> None:
    series, listed = from_csv(path), dates_of(dates)
    name = Path(path).name.removesuffix(".csv.gz")
    clock = [(day, datetime(day.year, day.month, day.day, tzinfo=ZoneInfo(zone)).timestamp()) for day in listed]
    asked = [day for day, at in clock if at >= series.start + 8 * DAY and at + 2 * DAY <= series.end]
    asked = [day for day in asked if day.weekday() < 5]
    print(f"| {name}, {len(asked)} holidays | " + " | ".join(MEASURES) + " |\n|---|---|---|---|---|")
    for way, (told, days) in WAYS.items():
        parts = [measured(series, zone, day, listed if told else [], days) for day in asked]
        print(line(way, parts))
        for day, part in zip(asked, parts, strict=True):
            print(line(f"{way}: {day}", [part]))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", action="append", choices=ALIKE, metavar="KIND", help="how the made holidays behave")
    parser.add_argument("--series")
    parser.add_argument("--tz", default="UTC")
    parser.add_argument("--dates", help="holidays of the series, one YYYY-MM-DD a line")
    asked = parser.parse_args()
    if asked.series and asked.dates:
        real(asked.series, asked.tz, asked.dates)
    else:
        made(asked.seed, asked.only or ALIKE)
    print(f"\n{measured_line()}")


if __name__ == "__main__":
    main()
