"""Forecast when the load of a pool passes its capacity, with the growth of the load carried on.

The 95 % path over the usable rate is the moment to be ready for; the middle path, with the growth of the load carried
on, over the middle of the knee is the one to expect. Both are of quarters of an hour: what five minutes bring is chance
where requests are few and long, and it breaks no objective. Replicas are requested their cold start earlier, as a
prewarm plan does it.

The paths of a forecast are days like those that were, so a load that grows every day is always ahead of them. Each day
is compared with the day before of the same kind (working day, weekend). The history itself shows how much
of the growth is real: each day is predicted from the one before it with the growth seen until then, and without. The
share by which the error falls is the share that is carried on."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime

import numpy as np

from inferdoc.capacity.service_level import replicas_needed
from inferdoc.forecast.calendar import Rows, fold, zone_of
from inferdoc.forecast.result import Forecast
from inferdoc.forecast.series import DAY, LoadSeries
from inferdoc.headroom.reading import ForecastMoment, HeadroomClock, PoolReading
from inferdoc.prewarm.plan_options import MARGIN_SECONDS, lead_seconds
from inferdoc.sizing.model import Predicted, number
from inferdoc.times import rfc3339
from inferdoc.words import figure, how_many

LEAST = 3
"""Steps from day to day that a growth takes, of which the last can be predicted from the others."""
KNOWN = 0.5
"""Share of two days that must be known in both."""
MIDDLE = 0.5
FURTHEST = 7
"""Days for which a growth is carried on: nobody knows that it lasts longer (own choice)."""


@dataclass(frozen=True)
class Growth:
    """each: from one day to the next of its kind, a log; share: of it that the history bears out, 0 to 1; days: steps
    from day to day that were seen."""

    each: float
    share: float
    days: int

    @property
    def a_day(self) -> float:
        """What is carried on, as a share of the day before."""
        return math.expm1(self.share * self.each)


def with_growth(series: LoadSeries, ahead: Forecast) -> tuple[Forecast, Growth | None]:
    """A forecast with the growth of its load carried on, and that growth; the forecast as it is and None where it
    abstains, where too few days show a growth, or where it may be chance. series: that it was made of.

    The middle path is moved. The upper ones are not, unless they would lie below it: they hold the errors of days that
    the forecast missed for want of growth."""
    rows = fold(series, zone_of(ahead.zone), len(ahead.p50))
    kinds = rows.resting.mean(axis=1) > KNOWN
    growth = None if ahead.abstained else _growth(rows, kinds)
    if growth is None or growth.share <= 0:
        return ahead, None
    path = ahead.p50.copy()
    for day in range(rows.ahead):
        steps = np.flatnonzero(rows.row == day)
        path[steps] *= np.exp(growth.share * _growth_missing(rows, kinds, growth, steps, ahead.mean[steps]))
    quantiles = {
        level: path if level == MIDDLE else np.maximum(values, path) if level > MIDDLE else np.minimum(values, path)
        for level, values in ahead.quantiles.items()
    }
    return replace(ahead, quantiles=quantiles), growth


def _growth_missing(rows: Rows, kinds: np.ndarray, growth: Growth, steps: np.ndarray, predicted: np.ndarray) -> float:
    """What the forecast of a day lacks of the newest day alike with its growth, a log; 0 where that day is not known.
    steps: int64[n], of the day; predicted: float64[n], forecast for them."""
    if not len(steps):
        return 0.0
    day = rows.count + int(rows.row[steps[0]])
    last = _newest_alike(rows, kinds, day)
    if last is None:
        return 0.0
    before = rows.z[last, rows.col[steps]] ** 2
    both = np.isfinite(before) & (predicted > 0)
    if both.sum() < KNOWN * len(steps) or not before[both].sum() > 0:
        return 0.0
    carried = growth.each * min(day - last, FURTHEST)
    return float(carried - np.log(predicted[both].sum() / before[both].sum()))


def _growth(rows: Rows, kinds: np.ndarray) -> Growth | None:
    """Of the days before the forecast. kinds: bool[R + F], whether a day is of a weekend."""
    steps = np.array([_step(rows, day) for day in range(1, rows.count) if kinds[day] == kinds[day - 1]])
    steps = steps[np.isfinite(steps)]
    if len(steps) < LEAST:
        return None
    with_it = sum(float(steps[at] - np.median(steps[:at])) ** 2 for at in range(1, len(steps)))
    without = float((steps[1:] ** 2).sum())
    share = max(0.0, 1.0 - with_it / without) if without > 0 else 0.0
    return Growth(float(np.median(steps)), share, len(steps))


def _step(rows: Rows, day: int) -> float:
    """From the day before to a day, a log, over what is known of both; NaN where that is too little."""
    both = np.isfinite(rows.z[day - 1 : day + 1]).all(axis=0)
    before, after = (rows.z[day - 1 : day + 1, both] ** 2).sum(axis=1)
    if both.mean() < KNOWN or before <= 0 or after <= 0:
        return float("nan")
    return float(np.log(after / before))


def _newest_alike(rows: Rows, kinds: np.ndarray, day: int) -> int | None:
    """The newest known day of the same kind as one to come."""
    alike = [at for at in range(rows.count) if kinds[at] == kinds[day] and np.isfinite(rows.z[at]).mean() >= KNOWN]
    return alike[-1] if alike else None


WEEK = 7 * DAY
GROWTH = "growth"


def headroom_clock(reading: PoolReading, ahead: Forecast, growth: Growth | None = None) -> HeadroomClock:
    """The clock of a pool from the forecast of its load. growth: that the forecast carries on, None without any."""
    if ahead.abstained:
        return HeadroomClock("abstains", None, None, None, f"the forecast abstains: {ahead.reason}", [])
    usable = reading.carries
    earliest = first_over(ahead.p95, ahead.start, ahead.step, usable)
    if earliest is None:
        most = float(ahead.p95.max()) / usable
        reason = f"the 95 % path stays at {figure(most, 'ratio')} of the usable rate or below"
        return HeadroomClock("not within the horizon", None, None, None, reason, [])
    middle, _ = reading.knee
    expected = first_over(ahead.p50, ahead.start, ahead.step, (middle or reading.usable) * reading.replicas)
    more = _missing(reading, ahead, earliest)
    lead = lead_seconds(reading.cold.seconds, more)
    zone, begin = ahead.zone, ahead.start
    over = reading.load.now > usable
    return HeadroomClock(
        "beyond it now" if over else "crosses",
        None if expected is None else local_moment(expected, zone, begin),
        local_moment(earliest, zone, begin),
        local_moment(earliest - lead, zone, begin) if earliest - lead > begin else None,
        "its load is beyond the usable rate already" if over else "",
        [*_numbers(reading, ahead, earliest, expected), *_grows(growth), *_replicas_to_add(reading, ahead, more, lead)],
    )


def first_over(path: np.ndarray, start: float, step: float, limit: float) -> float | None:
    """Unix seconds at which a path (float64[n], means of steps) first passes a limit, on the line between the middles
    of its steps; None where it never does."""
    over = np.flatnonzero(path > limit)
    if not len(over):
        return None
    first = int(over[0])
    if first == 0:
        return float(start)
    share = (limit - path[first - 1]) / (path[first] - path[first - 1])
    return float(start + (first - 0.5 + share) * step)


def local_moment(seconds: float, zone: str, now: float) -> ForecastMoment:
    """A time on the users' clock, with its date where a weekday is ambiguous. now: Unix seconds."""
    there = datetime.fromtimestamp(round(seconds / 60) * 60, UTC).astimezone(zone_of(zone))
    words = f"{there:%A %H:%M}" if seconds - now < WEEK - DAY else f"{there:%A %Y-%m-%d %H:%M}"
    return ForecastMoment(rfc3339(round(seconds)), words)


def _missing(reading: PoolReading, ahead: Forecast, earliest: float) -> int:
    """Replicas that the highest load of the day after the crossing takes beyond those that are there."""
    within = (ahead.times >= earliest - ahead.step) & (ahead.times < earliest + DAY)
    most = float(ahead.p95[within].max())
    return max(1, replicas_needed(most, reading.usable, 1.0) - reading.replicas)


def _numbers(reading: PoolReading, ahead: Forecast, earliest: float, expected: float | None) -> Iterator[Predicted]:
    unit = reading.served.unit.value
    until = (earliest - ahead.start) / 3600
    hours = None if expected is None else (expected - ahead.start) / 3600
    yield number(
        ("hours", "hours until it crosses", "h"),
        {"low": until, "middle": hours, "high": hours},
        formula="first moment at which the forecast passes it: q95 over the usable rate, q50 over the knee",
        inputs={
            "usable rate": (reading.carries, unit),
            "highest q95": (float(ahead.p95.max()), unit),
            "skill": (ahead.skill or 0.0, ""),
        },
        source=f"forecast from {ahead.history_days:.1f} days, {ahead.folds} of them back-tested; "
        f"{reading.served.basis}",
    )


def _grows(growth: Growth | None) -> Iterator[Predicted]:
    if growth is None:
        return
    yield number(
        (GROWTH, "growth carried on, from day to day", "ratio"),
        growth.a_day,
        formula="median step from a day to the next of its kind x share by which days predicted with it err less",
        inputs={"median step": (math.expm1(growth.each), "ratio"), "share": (growth.share, "ratio")},
        source=f"{how_many(growth.days, 'step')} from day to day, each predicted from those before it",
    )


def _replicas_to_add(reading: PoolReading, ahead: Forecast, more: int, lead: int) -> Iterator[Predicted]:
    unit = reading.served.unit.value
    yield number(
        ("replicas", "replicas to add", "replicas"),
        float(more),
        formula="ceil(highest q95 of the day after / usable rate of a replica) - replicas there",
        inputs={"usable rate of a replica": (reading.usable, unit), "there": (reading.replicas, "replicas")},
        source=f"forecast; {reading.served.basis}",
    )
    yield number(
        ("lead", "requested so long before", "s"),
        float(lead),
        formula=f"cold start + {MARGIN_SECONDS} s for the scaler; half as much again where more than ten start",
        inputs={"cold start": (reading.cold.seconds, "s")},
        source=reading.cold.basis,
    )


def clock_words(clock: HeadroomClock, limit: str) -> str:
    """What the clock says, in a sentence. limit: what is passed, in words."""
    if clock.status == "abstains":
        return clock.reason
    if clock.earliest is None:
        return f"it does not pass {limit} within the horizon: {clock.reason}"
    more = next(each for each in clock.numbers if each.name == "replicas").value or 0.0
    by = "now" if clock.ask_by is None else f"by {clock.ask_by.local}"
    added = f"{how_many(round(more), 'replica')} {by}"
    if clock.status == "beyond it now":
        return f"{clock.reason}; {added}"
    when = f"the load may pass {limit} from {clock.earliest.local}"
    grows = next((each.value for each in clock.numbers if each.name == GROWTH), None)
    by_growth = "" if grows is None else f", at {figure(grows, 'ratio')} of growth a day,"
    later = "" if clock.expected is None else f", and is expected to{by_growth} at {clock.expected.local}"
    return f"{when}{later}; {added}"
