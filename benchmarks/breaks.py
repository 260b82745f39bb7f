"""How forecasts stand loads that change for good: level shifts, tenants that leave or arrive, launches.

    .venv/bin/python benchmarks/breaks.py [--day 16] [--seed 0] [--arima-seconds 0] [--every 8] [--only SERIES]...

Made series of 29 days: an office, a consumer service with a week, and fleets of two tenants, under correlated noise.
At one day each changes in one way. Origins every eight hours from a day before to ten days after, a day ahead.
Prints MASE (by the one-week naive forecast before the change) of the combination and of each naive forecast, and the
worst ratio to the best naive one, over the whole segment and in the days right after the change."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from fnmatch import fnmatch

import numpy as np
from forecast import AHEAD, Method, correlated_noise, naive, ours
from measured import measured_line

from inferdoc.forecast.series import LoadSeries

BEGIN = 1_772_409_600
DAYS = 29
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


def made_series(at: int, seed: int) -> dict[str, LoadSeries]:
    """The made loads by name. at: day of the change."""

    def steps(day: np.ndarray, factor: float) -> np.ndarray:
        return np.where(day >= at, factor, 1.0)

    bins = np.arange(DAYS * AHEAD)
    hour, day = bins % AHEAD / 12, bins // AHEAD
    gone = np.where(day < at, 1.0, 0.0)
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
        "all leave": consumer(hour, day) * steps(day, 0.02),
        "launch: from next to nothing": office(hour, day) * 0.02 * steps(day, 50.0),
        "launch that grows for a week": consumer(hour, day) * (1 + np.clip((bins / AHEAD - at) / 7, 0, 1) * 4),
        "a launch that ebbs": consumer(hour, day) * (1 + 3 * ebbing(bins / AHEAD - at)),
        "the office works six hours later": np.where(day < at, office(hour, day), office((hour - 6) % 24, day)),
        "weekends become working days": np.where(day < at, office(hour, day), office(hour, day * 0)),
    }
    found = {}
    for number, (name, base) in enumerate(loads.items()):
        rng = np.random.default_rng(seed + number)
        load = rng.poisson(base * np.exp(correlated_noise(rng, 0.05, len(bins))))
        found[name] = LoadSeries(BEGIN, 300, load.astype(float), name=name)
    return found


def ebbing(since: np.ndarray) -> np.ndarray:
    """1 at the change, half after each two days, 0 before. since: days after it."""
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
    parser.add_argument("--day", type=int, default=16, help="of the change, at most 18")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--arima-seconds", type=float, default=0.0)
    parser.add_argument("--every", type=int, default=8, help="hours from one origin to the next")
    parser.add_argument("--only", action="append", metavar="SERIES", help="a series, or a pattern: office*")
    asked = parser.parse_args()
    methods = {"combination": ours("combination", arima_seconds=asked.arima_seconds)}
    methods |= {name: naive(name) for name in NAIVES}
    origins = np.arange((asked.day - 1) * AHEAD, (asked.day + 10) * AHEAD, asked.every * AHEAD // 24)
    since = origins / AHEAD - asked.day
    print("| series | " + " | ".join(f"{phase}: ours, best naive, ratio" for phase in (*PHASES, "all")) + " |")
    print("|---" * (len(PHASES) + 2) + "|")
    worst = dict.fromkeys((*PHASES, "all"), 0.0)
    for name, series in made_series(asked.day, asked.seed).items():
        if asked.only and not any(fnmatch(name, pattern) for pattern in asked.only):
            continue
        past = series.values[: asked.day * AHEAD]
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
    print(f"\n{measured_line()}")


if __name__ == "__main__":
    main()
