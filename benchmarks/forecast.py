"""How good the forecasts and the prewarm floors are, beside their free rivals and the load predictors of the field.

    .venv/bin/python benchmarks/forecast.py FOLDER [--part accuracy --part prewarm ...] [--origins 12] [--days 4]
                                            [--cold 3 5 10] [--pools 25 50 100] [--without-arima] [--slow]

FOLDER holds `*.csv.gz` series of 5-minute bins (`timestamp,value`) and, where known, `tz.json` (series -> IANA zone).
Prints Markdown tables: accuracy of a day ahead against the naive forecasts (the naive floor stands in every table), one
interval ahead against the field's predictors, abstentions, clock changes and outages, prewarm replays at 3, 5 and 10
minutes of cold start, and seconds and memory for 100 pools; and the same on made series of other shapes. Protocol: at
most 28 days before each origin, 288 steps ahead, origins evenly over the last third of a series, gaps count in no
metric. Series of tokens are scored apart, as data that no choice of the method looked at."""

from __future__ import annotations

import argparse
import json
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from unittest.mock import patch
from zoneinfo import ZoneInfo

import numpy as np
from measured import measured_line
from process_cost import ProcessCost

from inferdoc.forecast import engine
from inferdoc.forecast.agenda import from_csv
from inferdoc.forecast.calendar import fold, local_seconds, zone_of
from inferdoc.forecast.engine import Request, forecast
from inferdoc.forecast.series import DAY, LoadSeries
from inferdoc.prewarm.backtest import Report, Trial, backtest
from inferdoc.prewarm.week import jumps

AHEAD = 288
WEEK = 2016
TRAIN_DAYS = 28
PARTS = ("accuracy", "made", "weekend", "field", "abstain", "robust", "prewarm", "speed")
Method = Callable[[LoadSeries, str, int], tuple[np.ndarray, np.ndarray]]


@dataclass
class Score:
    """Of one method on one series: sums over origins."""

    mase: list[float]
    error: float = 0.0
    load: float = 0.0
    pin: float = 0.0
    under: int = 0
    count: int = 0
    seconds: float = 0.0

    def row(self) -> tuple[float, float, float, float, float]:
        each = self.seconds / max(len(self.mase), 1)
        return float(np.mean(self.mase)), self.error / self.load, self.pin / self.load, self.under / self.count, each


def read(folder: Path) -> tuple[dict[str, LoadSeries], dict[str, str]]:
    zones: dict[str, str] = {}
    if (folder / "tz.json").exists():
        zones = json.loads((folder / "tz.json").read_text())
    found = {p.name.removesuffix(".csv.gz"): from_csv(str(p)) for p in sorted(folder.glob("*.csv.gz"))}
    long = {n: s for n, s in found.items() if s.days >= 12}
    return long, {n: next((z for k, z in zones.items() if n.startswith(k)), "UTC") for n in long}


def origins(series: LoadSeries, count: int, ahead: int = AHEAD) -> list[int]:
    length = len(series.values)
    return [round(x) for x in np.linspace(max(length * 2 // 3, 8 * AHEAD), length - ahead, count)]


def known(series: LoadSeries, at: int) -> LoadSeries:
    return series.before(series.start + at * series.step, TRAIN_DAYS)


def score(series: LoadSeries, zone: str, method: Method, count: int, ahead: int = AHEAD) -> Score:
    made = Score([])
    for at in origins(series, count, ahead):
        past, actual = known(series, at), series.values[at : at + ahead]
        scale = float(np.nanmean(np.abs(past.values[WEEK:] - past.values[:-WEEK])))
        began = time.perf_counter()
        p50, p95 = method(past, zone, ahead)
        made.seconds += time.perf_counter() - began
        good = np.isfinite(actual)
        if not good.any():
            continue
        error = np.abs(actual - p50)[good]
        made.mase.append(float(error.mean()) / scale)
        made.error += float(error.sum())
        made.load += float(actual[good].sum())
        over = (actual - p95)[good]
        made.pin += float(np.maximum(0.95 * over, -0.05 * over).sum())
        made.under += int((over <= 0).sum())
        made.count += int(good.sum())
    return made


def ours(model: str, abstaining: bool = False, **asked: float) -> Method:
    def method(past: LoadSeries, zone: str, ahead: int) -> tuple[np.ndarray, np.ndarray]:
        request = Request(ahead * past.step, zone, model=model, **asked)
        if not abstaining:
            request = replace(request, never_abstain=True)
        made = forecast(past, request)
        return made.p50, made.p95

    return method


def naive(name: str) -> Method:
    """A rival, with the 95 % of its own past errors (in square-root space) as band."""

    def method(past: LoadSeries, zone: str, ahead: int) -> tuple[np.ndarray, np.ndarray]:
        from inferdoc.forecast.paths import BASELINES, Folded, fill_gaps

        rows = fold(past, ZoneInfo(zone), ahead)
        folded = Folded(rows, fill_gaps(rows))
        made = BASELINES[name](folded, rows.count, rows.ahead)
        if made is None:
            made = np.full((rows.ahead, rows.width), folded.flat_level)
        center = made[rows.row, rows.col]
        errors = []
        for upto in range(8, rows.count):
            then = BASELINES[name](folded, upto, 1)
            if then is not None:
                errors.append(rows.z[upto] - then[0])
        known_errors = np.concatenate(errors) if errors else np.zeros(1)
        shift = float(np.nanquantile(known_errors, 0.95))
        return center**2, np.maximum(center + shift, 0.0) ** 2

    return method


def prophet(past: LoadSeries, zone: str, ahead: int) -> tuple[np.ndarray, np.ndarray]:
    """Prophet with daily and weekly seasons on 15-minute sums, on the local clock."""
    import logging

    import pandas as pd
    from prophet import Prophet

    logging.getLogger("cmdstanpy").setLevel(logging.ERROR)
    coarse = past.coarser(900, from_end=True)
    clock = pd.to_datetime(local_seconds(coarse.times, zone_of(zone)), unit="s")
    model = Prophet(daily_seasonality=True, weekly_seasonality=True, yearly_seasonality=False, interval_width=0.9)
    model.fit(pd.DataFrame({"ds": clock, "y": coarse.values}).dropna())
    steps = coarse.end + 900 * np.arange(-(-ahead // 3))
    made = model.predict(pd.DataFrame({"ds": pd.to_datetime(local_seconds(steps, zone_of(zone)), unit="s")}))
    p50, p95 = (np.repeat(np.maximum(made[c].to_numpy(), 0.0), 3)[:ahead] / 3 for c in ("yhat", "yhat_upper"))
    return p50, np.maximum(p50, p95)


def accuracy(given: argparse.Namespace) -> None:
    """Tables 1 and 2: a day ahead."""
    loads, zones = read(given.folder)
    count = given.origins
    methods: dict[str, tuple[Method, int]] = {
        "combination": (ours("combination"), count),
        "combination without ARIMA": (ours("combination", arima_seconds=0.0), count),
        "as printed (baseline where it abstains)": (ours("combination", abstaining=True), count),
        "time of week, 4 weeks": (naive("time-of-week"), count),
        "last week": (naive("last-week"), count),
        "yesterday": (naive("yesterday"), count),
        "flat level, 7 days": (naive("flat"), count),
        "last value": (naive("last-value"), count),
    }
    if given.slow:
        methods["sarima (2 origins)"] = (ours("sarima"), 2)
        methods["dhr (2 origins)"] = (ours("dhr"), 2)
        try:
            import prophet as found

            assert found
            methods["Prophet (4 origins)"] = (prophet, 4)
        except ImportError:
            print("Prophet is not installed: left out\n", file=sys.stderr)
    groups = {
        "requests": [n for n in loads if "tokens" not in n],
        "tokens (no choice looked at these)": [n for n in loads if "tokens" in n],
    }
    for group, names in groups.items():
        if not names:
            continue
        print(f"\n### A day ahead, {group}: {len(names)} series, {count} origins each\n")
        print("| method | MASE | WAPE | pin95 | cover95, pooled | least | most | s per forecast |")
        print("|---|---|---|---|---|---|---|---|")
        detail: dict[str, dict[str, Score]] = {}
        for label, (method, number) in methods.items():
            detail[label] = {n: score(loads[n], zones[n], method, number) for n in names}
            each = np.mean([s.row()[4] for s in detail[label].values()])
            print(f"| {label} | {overall(list(detail[label].values()))} | {each:.3f} |")
        print("\n| series | last week | yesterday | time of week | combination | / last week | WAPE | cover95 |")
        print("|---|---|---|---|---|---|---|---|")
        for n in names:
            week, day, tow = (detail[k][n].row()[0] for k in ("last week", "yesterday", "time of week, 4 weeks"))
            mase, wape, _, cover, _ = detail["combination"][n].row()
            print(
                f"| {n} | {week:.2f} | {day:.2f} | {tow:.2f} | {mase:.2f} "
                f"| {mase / week:.2f} | {wape:.3f} | {cover:.3f} |"
            )


def overall(scores: Sequence[Score]) -> str:
    """Cells of several series: means of MASE, WAPE and pin95, then cover95 pooled, at least and at most."""
    mase, wape, pin, _, _ = (float(np.mean(column)) for column in zip(*(s.row() for s in scores), strict=True))
    covers = [s.row()[3] for s in scores]
    pooled = sum(s.under for s in scores) / sum(s.count for s in scores)
    return f"{mase:.3f} | {wape:.3f} | {pin:.4f} | {pooled:.3f} | {min(covers):.3f} | {max(covers):.3f}"


def made_series() -> dict[str, LoadSeries]:
    """Ten series that no choice looked at: five shapes of day and week under drifting levels, correlated noise and
    counting."""
    found = {}
    bins = np.arange(38 * AHEAD)
    hour, day = bins % AHEAD / 12, bins // AHEAD
    shapes = {
        "shift": np.where((hour > 9) & (hour < 18), 100, 10) * np.where(day % 7 >= 5, 0.3, 1),
        "two peaks": 20 + 80 * np.exp(-(((hour - 10) / 2) ** 2)) + 60 * np.exp(-(((hour - 20) / 2) ** 2)),
        "trend": (50 + 40 * np.sin((hour - 9) / 24 * 2 * np.pi)) * 1.02**day,
        "batches": 5 + np.where(bins % AHEAD % 72 < 6, 200, 0),
        "sparse": 0.6 * np.where((hour > 8) & (hour < 20), 1, 0.05),
    }
    for shape, base in shapes.items():
        for seed in (1, 2):
            rng = np.random.default_rng(seed)
            level = np.exp(np.cumsum(rng.normal(0, 0.15, 39)))[day]
            noise = correlated_noise(rng, 0.08, len(bins))
            load = rng.poisson(base * np.sqrt(level / level.mean()) * np.exp(noise))
            found[f"{shape} {seed}"] = LoadSeries(1_772_409_600, 300, load.astype(float), name=shape)
    return found


CHOSEN_ON = (
    "api_tweets_amzn",
    "demand_taxi_nyc",
    "llm_fleet_large",
    "llm_tenant_evening",
    "llm_tenant_nightjob",
    "web_nasa_62d",
)
"""The half of the request series that choices look at. The other half is scored afterwards."""
WEEKEND_PEAKS = {
    "chosen on": CHOSEN_ON[:2] + CHOSEN_ON[3:],
    "holdout": ("llm_tenant_rhythm", "llm_fleet_small", "llm_tenant_growth"),
}
WEEKEND_SEEDS = {
    "28 days, chosen on": (28, 1, 2),
    "28 days, holdout": (28, 77, 78, 79),
    "14 days, holdout": (14, 77, 79),
}


def with_peak(series: LoadSeries, zone: str) -> LoadSeries:
    """The series with its weekends times 2.5."""
    weekday = (local_seconds(series.times, zone_of(zone)) // DAY + 3) % 7
    return replace(series, values=series.values * np.where(weekday >= 5, 2.5, 1.0))


def weekend_tenants(days: int, *seeds: int) -> list[LoadSeries]:
    """Made tenants with a weekend peak, of four shapes each."""
    bins = np.arange(days * AHEAD)
    hour, day = bins % AHEAD / 12, bins // AHEAD
    evening = 15 + 60 * np.exp(-(((hour - 21) / 2.5) ** 2)) + 25 * np.exp(-(((hour - 13) / 2) ** 2))
    afternoon = 15 + 70 * np.exp(-(((hour - 15) / 3.5) ** 2)) + 50 * np.exp(-(((hour - 21) / 2.5) ** 2))
    rest, found = day % 7 >= 5, []
    for base in (
        np.where(rest, 2.2, 1.0) * evening,
        np.where(rest, 4.0, 1.0) * evening,
        np.where(rest, 2 * afternoon, evening),
        np.where(day % 7 == 5, 3 * afternoon, evening),
    ):
        for rng in map(np.random.default_rng, seeds):
            level = np.exp(np.cumsum(rng.normal(0, 0.08, days)))[day]
            load = rng.poisson(20 * base * level * np.exp(correlated_noise(rng, 0.06, len(bins))))
            found.append(LoadSeries(1_772_409_600, 300, load.astype(float), name="weekend"))
    return found


def weekend(given: argparse.Namespace) -> None:
    """Table: a day ahead, where the weekend is the peak and elsewhere, by what choices looked at."""
    loads, zones = read(given.folder)
    requests = {n: (loads[n], zones[n]) for n in loads if "tokens" not in n}
    groups = {
        "requests, chosen on": [each for n, each in requests.items() if n in CHOSEN_ON],
        "requests, holdout": [each for n, each in requests.items() if n not in CHOSEN_ON],
        "tokens, holdout": [(loads[n], zones[n]) for n in loads if "tokens" in n],
        **{
            f"weekends x 2.5, {half}": [(with_peak(*requests[n]), zones[n]) for n in names if n in requests]
            for half, names in WEEKEND_PEAKS.items()
        },
        **{
            f"made weekend tenants, {half}": [(one, "UTC") for one in weekend_tenants(*tenants)]
            for half, tenants in WEEKEND_SEEDS.items()
        },
    }
    print("\n### A day ahead, tenants with a weekend peak\n")
    print("| series | MASE | WAPE | pin95 | cover95, pooled | least | most |\n|---|---|---|---|---|---|---|")
    for label, group in groups.items():
        if group:
            scores = [score(series, zone, ours("combination"), given.origins) for series, zone in group]
            print(f"| {len(group)} {label} | {overall(scores)} |", flush=True)


def correlated_noise(rng: np.random.Generator, spread: float, count: int) -> np.ndarray:
    """float64[count]: noise of which 95 % stays from one value to the next. spread: of what is added to each."""
    noise = np.zeros(count)
    for i, shock in enumerate(rng.normal(0, spread, count - 1), start=1):
        noise[i] = 0.95 * noise[i - 1] + shock
    return noise


def made(given: argparse.Namespace) -> None:
    """Table: a day ahead on made series."""
    loads, count = made_series(), given.origins
    print(f"\n### A day ahead, made series: {len(loads)}, {count} origins each\n")
    print("| method | MASE | WAPE | pin95 | cover95, pooled | least | most |\n|---|---|---|---|---|---|---|")
    methods = {
        "combination": ours("combination"),
        "time of week, 4 weeks": naive("time-of-week"),
        "last week": naive("last-week"),
        "yesterday": naive("yesterday"),
    }
    for label, method in methods.items():
        scores = [score(series, "UTC", method, count) for series in loads.values()]
        print(f"| {label} | {overall(scores)} |")


def kalman(values: np.ndarray, last: int, ahead: int) -> np.ndarray:
    """Local linear trend with fixed noise (level 1.0, trend 0.1, observation 10): Dynamo's `kalman` by its defaults."""
    state, spread = np.array([values[0], 0.0]), np.eye(2) * 100.0
    move, noise, seen = np.array([[1.0, 1.0], [0.0, 1.0]]), np.diag([1.0, 0.1]), np.array([1.0, 0.0])
    made = np.empty(last)
    for i in range(len(values)):
        state, spread = move @ state, move @ spread @ move.T + noise
        if i >= len(values) - last:
            made[i - len(values) + last] = state[0] + (ahead - 1) * state[1]
        gain = spread @ seen / (seen @ spread @ seen + 10.0)
        state = state + gain * (values[i] - seen @ state)
        spread = spread - np.outer(gain, seen @ spread)
    return np.maximum(made, 0.0)


def auto_arima(values: np.ndarray, last: int, ahead: int) -> np.ndarray:
    """ARIMA without a season, order chosen once on a cold start (two days), then filtered along: Dynamo's `arima`. The
    order comes from pmdarima where it is installed, else from a small grid by AIC."""
    from statsmodels.tsa.arima.model import ARIMA

    train = values[-last - 2 * AHEAD : -last]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            import pmdarima

            order = pmdarima.auto_arima(train, seasonal=False, suppress_warnings=True, error_action="ignore").order
        except ImportError:
            grid = [(p, 1, q) for p in range(3) for q in range(3) if p + q]
            order = min(grid, key=lambda o: float(ARIMA(train, order=o).fit().aic))
        fitted = ARIMA(train, order=order).fit()
        made = np.empty(last)
        state = fitted
        for i in range(last):
            at = len(values) - last + i
            if i % 12 == 0:
                state = fitted.apply(values[max(0, at - 2 * AHEAD) : at])
            else:
                state = state.append(values[at - 1 : at], refit=False)
            made[i] = state.forecast(ahead)[-1]
    return np.maximum(made, 0.0)


def field(given: argparse.Namespace) -> None:
    """Table 3: one and three intervals ahead, as the planners of the field look."""
    loads, zones = read(given.folder)
    slow, days = given.slow, 1 if given.slow else given.days
    names = [n for n in loads if "tokens" not in n]
    every = 12
    steps = (1, 3)
    labels = ["last value (Dynamo constant)", "Kalman, Dynamo's defaults", "yesterday", "ours"]
    if slow:
        labels.insert(1, "ARIMA, cold start (Dynamo arima)")
    found: dict[str, dict[int, list[float]]] = {label: {s: [] for s in steps} for label in labels}
    for n in names:
        series = loads[n]
        values = series.values
        filled = values[np.maximum.accumulate(np.where(np.isfinite(values), np.arange(len(values)), 0))]
        filled = np.nan_to_num(filled)
        last = round(days * AHEAD)
        first = len(values) - last
        for s in steps:
            ends = np.arange(first, len(values) - s + 1)
            target = values[ends + s - 1]
            picked = np.isfinite(target) & ((ends - first) % every == 0)
            guesses = {
                labels[0]: filled[ends - 1],
                "Kalman, Dynamo's defaults": kalman(filled, last, s)[: len(ends)],
                "yesterday": filled[ends + s - 1 - AHEAD],
            }
            if slow:
                guesses["ARIMA, cold start (Dynamo arima)"] = auto_arima(filled, last, s)[: len(ends)]
            mine = np.full(len(ends), np.nan)
            for i in np.flatnonzero(picked):
                request = Request(s * series.step, zones[n], never_abstain=True)
                mine[i] = forecast(known(series, int(ends[i])), request).p50[-1]
            guesses["ours"] = mine
            for label, guess in guesses.items():
                found[label][s].append(float(np.abs(target - guess)[picked].sum() / target[picked].sum()))
    print(f"\n### One and three intervals ahead: WAPE, last {days:g} day(s), each hour, {len(names)} series\n")
    print("| predictor | 5 min | 15 min |\n|---|---|---|")
    for label in labels:
        print(f"| {label} | {np.mean(found[label][1]):.3f} | {np.mean(found[label][3]):.3f} |")


def abstain(given: argparse.Namespace) -> None:
    """Table 4: where it abstains."""
    loads, zones = read(given.folder)
    count = given.origins
    print(f"\n### Abstention: at the end of each series, and at {2 * count} origins in its last third\n")
    print("| series | skill at the end | abstains | skill over the origins | abstains at |\n|---|---|---|---|---|")
    for n, series in loads.items():
        end = forecast(known(series, len(series.values)), Request(DAY, zones[n]))
        rest = [forecast(known(series, at), Request(DAY, zones[n])) for at in origins(series, 2 * count)]
        skills = [r.skill for r in rest if r.skill is not None]
        silent = sum(r.abstained for r in rest)
        shown = f"{end.skill:.2f} | {'yes' if end.abstained else 'no'} | {min(skills):.2f} to {max(skills):.2f}"
        print(f"| {n} | {shown} | {silent} of {len(rest)} |")


def day_errors(series: LoadSeries, zone: str, first: int, days: int, keep_outages: bool = False) -> float:
    """WAPE of day-ahead forecasts made at each of `days` local midnights from Unix seconds `first` on."""
    request = Request(DAY, zone, never_abstain=True, keep_outages=keep_outages)
    error = load = 0.0
    for day in range(days):
        at = (first + day * DAY - series.start) // series.step
        actual = series.values[at : at + AHEAD]
        p50 = forecast(known(series, at), request).p50[: len(actual)]
        good = np.isfinite(actual)
        error += float(np.abs(actual - p50)[good].sum())
        load += float(actual[good].sum())
    return error / load


def robust(given: argparse.Namespace) -> None:
    """Tables 5 and 6: clock changes, and outages stored as zeros."""
    from datetime import UTC, datetime

    loads, zones = read(given.folder)
    print("\n### The week after a clock change: WAPE of a day ahead\n")
    print("| series | change | week before | week after, local phase | ratio | week after, phase in UTC |")
    print("|---|---|---|---|---|---|")
    for n, series in loads.items():
        begin = datetime.fromtimestamp(series.start, UTC)
        for jump in jumps(zone_of(zones[n]), begin, round(series.days)):
            at = int(jump.at.timestamp())
            midnight = at - int(local_seconds(np.array([at]), zone_of(zones[n]))[0]) % DAY + DAY
            if midnight - 14 * DAY < series.start + 8 * DAY or midnight + 8 * DAY > series.end:
                continue
            before = day_errors(series, zones[n], midnight - 8 * DAY, 7)
            after, utc = (day_errors(series, z, midnight, 7) for z in (zones[n], "UTC"))
            print(f"| {n} | {jump.at:%Y-%m-%d} | {before:.3f} | {after:.3f} | {after / before:.2f} | {utc:.3f} |")
    print("\n### Ten days after the longest gap: WAPE with the gap, with zeros in it, and with zeros kept\n")
    print("| series | gap | marked as gap | stored as zeros | ratio | zeros kept |\n|---|---|---|---|---|---|")
    for n, series in loads.items():
        longest = max(series.gaps(), key=lambda g: g[1] - g[0], default=(0, 0))
        hours = (longest[1] - longest[0]) / 3600
        if hours < 3 or longest[1] + 11 * DAY > series.end or longest[0] - 8 * DAY < series.start:
            continue
        zeros = replace(series, values=series.values.copy())
        a, b = ((edge - series.start) // series.step for edge in longest)
        zeros.values[a:b] = 0.0
        first = longest[1] + DAY
        plain, filled = day_errors(series, zones[n], first, 10), day_errors(zeros, zones[n], first, 10)
        kept = day_errors(zeros, zones[n], first, 10, keep_outages=True)
        print(f"| {n} | {hours:.0f} h | {plain:.3f} | {filled:.3f} | {filled / plain:.2f} | {kept:.3f} |")


def prewarm(given: argparse.Namespace) -> None:
    """Tables: what prewarming is worth."""
    loads, zones = read(given.folder)
    requests = [n for n in loads if "tokens" not in n]
    tokens = [n for n in loads if "tokens" in n]
    at_five: dict[str, Report] = {}
    for cold in given.cold:
        reports = {n: backtest(loads[n], Trial(cold * 60, zone=zones[n], days=given.days)) for n in requests}
        at_five = reports if cold == 5 else at_five
        replays(f"cold start {cold} min", given.days, reports)
    if tokens:
        reports = {n: backtest(loads[n], Trial(300, zone=zones[n], days=given.days)) for n in tokens}
        replays("cold start 5 min, tokens (no choice looked at these)", given.days, reports)
    print("\n### Per series at 5 min: overload % / hours to oracle\n")
    policies = ("reactive", "naive floor", "economy", "balanced", "safe", "balanced, scheduled")
    print("| series | " + " | ".join(policies) + " | abstains |\n|---" + "|---" * (len(policies) + 1) + "|")
    for n, report in at_five.items():
        cells = [f"{100 * report.outcomes[p].overload:.2f} / {report.hours_ratio(p):.2f}" for p in policies]
        print(f"| {n} | " + " | ".join(cells) + f" | {report.abstained:.0%} |")


def replays(title: str, days: float, reports: dict[str, Report]) -> None:
    """One table: means over the series on which the forecast does not abstain."""
    rhythmic = {n: r for n, r in reports.items() if r.abstained < 0.5}
    print(f"\n### Prewarm, {title}: last {days:g} days, mean of {len(rhythmic)} series with rhythm\n")
    print("| policy | overload | cut | hours / oracle | series worse than reactive |\n|---|---|---|---|---|")
    for policy in next(iter(rhythmic.values())).outcomes:
        cuts = [c for r in rhythmic.values() if (c := r.cut(policy)) is not None]
        over = 100 * float(np.mean([r.outcomes[policy].overload for r in rhythmic.values()]))
        hours = float(np.mean([r.hours_ratio(policy) for r in rhythmic.values()]))
        worse = sum(r.outcomes[policy].overload > r.outcomes["reactive"].overload for r in reports.values())
        print(f"| {policy} | {over:.3f} % | {np.mean(cuts):.1%} | {hours:.2f} | {worse} |")


def speed(given: argparse.Namespace) -> None:
    """Table 9: seconds and memory."""
    with ProcessCost() as imports:
        pass
    print("\n### Speed: synthetic pools of 4 weeks at 5 minutes, one process, one core\n")
    print("| pools | CPU seconds | per pool | wall seconds | peak MB | of it imports |\n|---|---|---|---|---|---|")
    rng = np.random.default_rng(1)
    hours = np.arange(28 * AHEAD) % AHEAD / 12
    for count in given.pools:
        with ProcessCost() as cost:
            for _ in range(count):
                values = rng.poisson(200 + 180 * np.sin((hours - 9) / 24 * 2 * np.pi)).astype(float)
                forecast(LoadSeries(1_772_409_600, 300, values), Request(DAY, "Europe/Berlin"))
        print(
            f"| {count} | {cost.cpu:.1f} | {cost.cpu / count:.3f} | {cost.wall:.1f} | {cost.memory.mb:.0f} "
            f"| {imports.memory.mb:.0f} |"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--part", action="append", choices=PARTS, help="only these parts (default: all)")
    parser.add_argument("--origins", type=int, default=12)
    parser.add_argument("--days", type=float, default=4, help="days at the end that field and prewarm replay")
    parser.add_argument("--cold", type=int, nargs="+", default=[3, 5, 10], help="minutes of cold start")
    parser.add_argument("--pools", type=int, nargs="+", default=[25, 50, 100], help="of the part speed")
    parser.add_argument("--without-arima", action="store_true", help="as without statsmodels")
    parser.add_argument(
        "--slow", action="store_true", help="also named models, cold-started ARIMA, Prophet if installed"
    )
    asked = parser.parse_args()
    with patch.object(engine, "installed", (lambda: False) if asked.without_arima else engine.installed):
        for part in asked.part or PARTS:
            began = time.perf_counter()
            globals()[part](asked)
            print(f"{part}: {time.perf_counter() - began:.0f} s", file=sys.stderr)
    print(f"\n{measured_line()}")


if __name__ == "__main__":
    main()
