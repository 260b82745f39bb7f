"""How forecasts stand loads that change for good: level shifts, tenants that leave or arrive, launches.

    .venv/bin/python benchmarks/breaks.py [--arima-seconds 0]

Made series of 28 days: an office, a consumer service with a week, and fleets of two tenants, under correlated noise.
At day 16 each changes in one way. Origins every eight hours from a day before to ten days after, a day ahead.
Prints MASE (by the one-week naive forecast before the change) of the combination and of each naive forecast, and the
worst ratio to the best naive one, over the whole stretch and in the days right after the change."""

from __future__ import annotations

import argparse
from collections.abc import Callable

import numpy as np
from forecast import AHEAD, Method, naive, ours

from inferdoc.forecast.series import LoadSeries

BEGIN = 1_772_409_600
DAYS, BREAK = 28, 16
EVERY = AHEAD // 3
NAIVES = ("yesterday", "last-week", "time-of-week", "last-value", "flat")
PHASES = {"before": (-1, 0), "days 0-2": (0, 3), "days 3-9": (3, 10)}
"""Origins in days after the change."""

Shape = Callable[[np.ndarray, np.ndarray], np.ndarray]


def office(hour: np.ndarray, day: np.ndarray) -> np.ndarray:
    return np.where((hour > 8) & (hour < 18), 100, 10) * np.where(day % 7 >= 5, 0.3, 1)


def consumer(hour: np.ndarray, day: np.ndarray) -> np.ndarray:
    return (20 + 90 * np.exp(-(((hour - 20) / 3) ** 2))) * np.where(day % 7 >= 5, 1.4, 1)


def nightly(hour: np.ndarray, day: np.ndarray) -> np.ndarray:
    return np.where((hour >= 1) & (hour < 5), 120.0, 0.0) + 0.0 * day


def steps(day: np.ndarray, factor: float) -> np.ndarray:
    return np.where(day >= BREAK, factor, 1.0)


def made_series() -> dict[str, LoadSeries]:
    """The made loads by name; day: of each bin, hour: of its day."""
    bins = np.arange(DAYS * AHEAD)
    hour, day = bins % AHEAD / 12, bins // AHEAD
    gone = np.where(day < BREAK, 1.0, 0.0)
    loads = {
        "office, half from one day on": office(hour, day) * steps(day, 0.5),
        "office, double from one day on": office(hour, day) * steps(day, 2.0),
        "office, four times from one day on": office(hour, day) * steps(day, 4.0),
        "consumer, a fifth from one day on": consumer(hour, day) * steps(day, 0.2),
        "consumer, three times, half-way into the day": consumer(hour, day) * steps(day - (hour < 12), 3.0),
        "the night job leaves the office": office(hour, day) + nightly(hour, day) * gone,
        "a night job comes to the office": office(hour, day) + nightly(hour, day) * (1 - gone),
        "the consumers leave the office": office(hour, day) + consumer(hour, day) * gone,
        "consumers come to the office": office(hour, day) + consumer(hour, day) * (1 - gone),
        "all leave": consumer(hour, day) * np.where(day < BREAK, 1.0, 0.02),
        "launch: from next to nothing": office(hour, day) * np.where(day < BREAK, 0.02, 1.0),
        "launch that grows for a week": consumer(hour, day) * (1 + np.clip((bins / AHEAD - BREAK) / 7, 0, 1) * 4),
        "a launch that ebbs": consumer(hour, day) * (1 + 3 * gone_by(bins)),
        "the office works six hours later": np.where(day < BREAK, office(hour, day), office((hour - 6) % 24, day)),
        "weekends become working days": np.where(day < BREAK, office(hour, day), office(hour, day * 0)),
    }
    found = {}
    for number, (name, base) in enumerate(loads.items()):
        rng = np.random.default_rng(number)
        noise = np.zeros(len(bins))
        for i, shock in enumerate(rng.normal(0, 0.05, len(bins) - 1), start=1):
            noise[i] = 0.95 * noise[i - 1] + shock
        load = rng.poisson(base * np.exp(noise))
        found[name] = LoadSeries(BEGIN, 300, load.astype(float), name=name)
    return found


def gone_by(bins: np.ndarray) -> np.ndarray:
    """1 at the break, half after each two days, 0 before."""
    since = bins / AHEAD - BREAK
    return np.where(since >= 0, 0.5 ** (np.maximum(since, 0) / 2), 0.0)


def errors(series: LoadSeries, method: Method, origins: np.ndarray) -> np.ndarray:
    """float64[origins]: mean absolute error of a day ahead."""
    found = []
    for at in origins.tolist():
        past = series.before(BEGIN + at * 300)
        p50, _ = method(past, "UTC", AHEAD)
        found.append(float(np.abs(series.values[at : at + AHEAD] - p50).mean()))
    return np.array(found)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--arima-seconds", type=float, default=0.0)
    asked = parser.parse_args()
    methods = {"combination": ours("combination", arima_seconds=asked.arima_seconds)}
    methods |= {name: naive(name) for name in NAIVES}
    origins = np.arange((BREAK - 1) * AHEAD, (BREAK + 10) * AHEAD, EVERY)
    since = origins / AHEAD - BREAK
    print("| series | " + " | ".join(f"{phase}: ours, best naive, ratio" for phase in (*PHASES, "all")) + " |")
    print("|---" * (len(PHASES) + 2) + "|")
    worst = dict.fromkeys((*PHASES, "all"), 0.0)
    for name, series in made_series().items():
        past = series.values[: BREAK * AHEAD]
        scale = float(np.abs(past[7 * AHEAD :] - past[: -7 * AHEAD]).mean())
        found = {label: errors(series, method, origins) / scale for label, method in methods.items()}
        cells = []
        for phase in worst:
            low, high = PHASES.get(phase, (-99, 99))
            part = (since >= low) & (since < high)
            mine = float(found["combination"][part].mean())
            best = min(NAIVES, key=lambda label: found[label][part].mean())
            theirs = float(found[best][part].mean())
            worst[phase] = max(worst[phase], mine / theirs)
            cells.append(f"{mine:.2f}, {theirs:.2f} ({best}), {mine / theirs:.2f}")
        print(f"| {name} | " + " | ".join(cells) + " |", flush=True)
    print("| **worst ratio** | " + " | ".join(f"**{ratio:.2f}**" for ratio in worst.values()) + " |")


if __name__ == "__main__":
    main()
