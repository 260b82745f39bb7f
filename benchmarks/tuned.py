"""What `inferdoc prewarm plan --tune backtest` is worth on days that it did not see.

    .venv/bin/python benchmarks/tuned.py FOLDER [--days 4] [--cold 5 ...] [--known 28]

FOLDER as for benchmarks/forecast.py. Each of the last days of each series is planned twice at its beginning from what
was known then: with the quantile and safety factor that the back-test of the week before chooses, and with the balanced
policy's own. Both plans are followed for the day, as a floor under a reactive scaler, and judged by the load that came.
Series on which the forecast abstains on most days are listed, and count in no mean."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from forecast import read
from measured import measured_line

from inferdoc.forecast.engine import Request
from inferdoc.forecast.series import DAY, LoadSeries, Rate, without_outages
from inferdoc.prewarm.backtest import default_capacity
from inferdoc.prewarm.build import ahead_at, unit_of
from inferdoc.prewarm.plan_options import AVOIDED, POLICIES, PRICE, Capacity, Limits, PoolOptions, Setting, settings_of
from inferdoc.prewarm.replay import Replays, Tally, WalkedDay, followed, oracle, reactive, tuned, walk, with_setting

MOST = 100_000


@dataclass(frozen=True)
class Followed:
    """One series. chosen: the setting of each day; scaler, usual, tuned, foresight: replays of the days."""

    abstained: int
    chosen: list[Setting]
    scaler: Tally
    usual: Tally
    tuned: Tally
    foresight: Tally

    def row(self, floor: Tally) -> tuple[float, float, float]:
        """Overload of the floor over that of the scaler, share avoided, replica-hours over those of foresight."""
        before, after = self.scaler.excess.sum(), floor.excess.sum()
        avoided = float("nan") if before <= 0 else 1 - after / before
        return after, avoided, floor.hours.sum() / self.foresight.hours.sum()


def follow(series: LoadSeries, zone: str, days: int, cold: int, known: float | None) -> Followed:
    """known: days of history that the tuner has, None = all, as of a file."""
    clean = without_outages(series)
    begin = clean.end - days * DAY
    rate = Rate(default_capacity(clean.before(begin)), unit_of(clean))
    grid = settings_of(None, None)
    request = Request(7 * DAY, zone, arima_seconds=0.0)
    wish = PoolOptions(
        request, POLICIES["balanced"], Capacity(rate), Limits(1, MOST), cold * 60, name="pool", grid=grid
    )
    walked = walk(clean, wish, begin, [setting.quantile for setting in grid])
    history = [clean.before(day.begin, known) for day in walked]
    wishes = [tuned(h, ahead_at(h, day.result, wish), wish)[1] for day, h in zip(walked, history, strict=True)]
    replays = Replays(clean, walked, wish)
    settings = [Setting(each.policy.quantile, each.safety) for each in wishes]
    return Followed(
        abstained=sum(day.result.abstained for day in walked),
        chosen=settings,
        scaler=replays.tally(reactive),
        usual=replays.following(wish),
        tuned=of_days(replays, walked, wish, settings),
        foresight=replays.tally(oracle),
    )


def of_days(replays: Replays, walked: Sequence[WalkedDay], wish: PoolOptions, settings: Sequence[Setting]) -> Tally:
    """The replay of the floor whose setting is another each day."""
    parts = [followed([day], with_setting(wish, chosen)) for day, chosen in zip(walked, settings, strict=True)]
    return replays.above(np.concatenate(parts))


def table(title: str, found: dict[str, Followed]) -> None:
    rhythmic = {name: each for name, each in found.items() if 2 * each.abstained < len(each.chosen)}
    print(f"\n**{title}, {len(rhythmic)} series with rhythm**\n")
    print("| series | balanced: avoided at price | tuned: avoided at price | settings |\n|---|---|---|---|")
    for name, each in found.items():
        usual, best = (each.row(floor) for floor in (each.usual, each.tuned))
        settings = ", ".join(dict.fromkeys(map(str, each.chosen))) if name in rhythmic else "abstains"
        print(f"| {name} | {usual[1]:.0%} at {usual[2]:.2f} | {best[1]:.0%} at {best[2]:.2f} | {settings} |")
    means = []
    for pick in ("usual", "tuned"):
        rows = [each.row(getattr(each, pick)) for each in rhythmic.values()]
        means.append(f"{np.nanmean([row[1] for row in rows]):.1%} at {np.mean([row[2] for row in rows]):.3f}")
    print(f"| **mean** (asked: {AVOIDED:.0%} at {PRICE:g}) | {means[0]} | {means[1]} | |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--days", type=int, default=4)
    parser.add_argument("--cold", type=int, action="append", help="minutes of cold start (default: 5)")
    parser.add_argument("--known", type=float, help="days of history at each beginning (default: all; of a source 28)")
    parser.add_argument("--series", action="append", help="only these")
    asked = parser.parse_args()
    loads, zones = read(asked.folder)
    names = [name for name in loads if asked.series is None or name in asked.series]
    for cold in asked.cold or [5]:
        for group in ("requests", "tokens"):
            part = [name for name in names if ("tokens" in name) == (group == "tokens")]
            found = {name: follow(loads[name], zones[name], asked.days, cold, asked.known) for name in part}
            if found:
                table(f"Tuned by back-test, {group}, cold start {cold} min, last {asked.days} days", found)
    print(f"\n{measured_line()}")


if __name__ == "__main__":
    main()
