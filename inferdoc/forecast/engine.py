"""From a load series to a forecast: the combination, a named model, or an abstention with a baseline."""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import date
from functools import partial
from statistics import NormalDist

import numpy as np

from inferdoc.errors import InferdocError
from inferdoc.forecast import MODELS, SETTLE_SECONDS
from inferdoc.forecast.agenda import PlannedEvent, factors, without_events
from inferdoc.forecast.arima import arima_path, carried_over, installed, named_model
from inferdoc.forecast.bands import Residuals, wider
from inferdoc.forecast.calendar import EPOCH, Likeness, Rows, fold, likeness_of, local_seconds, zone_of
from inferdoc.forecast.combine import MethodForecast, Trials, candidates, combine, largest, with_tenants
from inferdoc.forecast.paths import BASELINES, Folded, fill_gaps
from inferdoc.forecast.result import Forecast
from inferdoc.forecast.series import DAY, LoadSeries, stamp, without_outages

HISTORY_DAYS = 28.0
HOLIDAY_DAYS = 400.0
"""How far back holidays are looked for: a year, and the weeks around its first one."""
LEVELS = (0.5, 0.9, 0.95)
MIN_STEP = 60
COVERAGE_CENTERS = 24
MAX_HORIZON_DAYS = 35
MIN_DAYS, MAX_GAP_SHARE, MIN_SKILL, MIN_FOLDS = 3.0, 0.30, 0.25, 3


@dataclass(frozen=True)
class Request:
    """The request for a forecast. horizon: seconds; zone: IANA name; begin: Unix seconds of the first step (None =
    right after the data); model: one of MODELS; levels: quantiles, 0.5 and 0.95 always among them; holidays: local
    dates, whose working days are as those of the past were, else like a Sunday; events: when the load is a multiple of
    the usual one; arima_seconds: wall-clock budget of the ARIMA path of the combination, 0 leaves it out (as does a
    core without statsmodels); followed: whether the forecast before was one to act on (True) or abstained (False), so
    that a skill near the limit does not change that run by run (None = there was none)."""

    horizon: int
    zone: str = "UTC"
    begin: int | None = None
    model: str = "combination"
    levels: tuple[float, ...] = LEVELS
    holidays: Collection[date] = ()
    history_days: float = HISTORY_DAYS
    events: Collection[PlannedEvent] = ()
    keep_outages: bool = False
    never_abstain: bool = False
    arima_seconds: float = SETTLE_SECONDS
    followed: bool | None = None


def forecast(series: LoadSeries, request: Request) -> Forecast:
    """The forecast of `series`. Raises InferdocError for a request that makes no sense, never for thin data."""
    clock_start = time.perf_counter()
    zone = zone_of(request.zone)
    if request.model not in MODELS:
        raise InferdocError(f"model `{request.model}` is not known; choose one of {', '.join(MODELS)}")
    steps = request.horizon // series.step
    if steps < 1:
        raise InferdocError(f"horizon of {request.horizon} s is shorter than one step of the data ({series.step} s)")
    usual = without_events(series, request.events)
    known, skip = _as_known(usual if request.keep_outages else without_outages(usual), request)
    if (steps + skip) * series.step > MAX_HORIZON_DAYS * DAY:
        raise InferdocError(f"the forecast would reach more than {MAX_HORIZON_DAYS} days past the data; shorten it")
    history = known.before(known.end, request.history_days)
    factor = -(-MIN_STEP // history.step)
    inner = history.coarser(factor * history.step, from_end=True) if factor > 1 else history
    ahead = -(-(steps + skip) // factor)
    rows, changed = carried_over(fold(inner, zone, ahead, request.holidays))
    tenants = [carried_over(fold(part, zone, ahead, request.holidays))[0] for part in _tenants(inner)]
    made, errors, abstain, reason, skill = _make(rows, inner, request, tenants)
    share = factor if inner.kind == "amount" else 1
    before = known.before(known.end, HOLIDAY_DAYS).coarser(inner.step, from_end=True)
    has_holidays = rows.holiday_ahead.any()
    likeness = likeness_of(fold(before, zone, 0, request.holidays)) if has_holidays else Likeness()
    mean, quantiles = _per_step(rows, made, request.levels, inner.kind == "amount", factor, likeness)
    part = slice(skip, skip + steps)
    start = known.end + skip * series.step
    times = factors(start, series.step, steps, request.events)
    return Forecast(
        name=series.name,
        unit=series.unit,
        start=start,
        step=series.step,
        zone=request.zone,
        mean=mean[part] * times,
        quantiles={level: values[part] * times for level, values in quantiles.items()},
        method=made.method,
        weights=made.weights,
        folds=made.trials.folds,
        skill=skill,
        abstained=abstain,
        reason=reason,
        errors=errors,
        coverage=achieved(made, request.levels),
        gaps=history.gaps(),
        history_days=history.days,
        notes=(
            *history.notes,
            *_change_notes(rows, changed, known.end),
            *made.notes,
            *_remarks(series, mean[part], request, start, likeness),
        ),
        seconds=time.perf_counter() - clock_start,
        candidates=tuple(replace(c, error=c.error / share) for c in candidates(made.trials, made.weights)),
        arima=_arima_text(request, made) if request.model == "combination" else "",
    )


def _arima_text(request: Request, made: MethodForecast) -> str:
    if made.fitted:
        return made.fitted
    if request.arima_seconds <= 0:
        return "left out by --arima-seconds 0"
    return "could not be fitted in time" if installed() else "not installed; pip install 'inferdoc-toolkit[forecast]'"


def _change_notes(rows: Rows, changed: int | None, end: int) -> list[str]:
    """When the load changed for good. changed: row; end: Unix seconds just after the last row."""
    if changed is None:
        return []
    since = stamp(end - (rows.count - changed) * DAY)
    return [f"the load changed for good in the day from {since}: what came before is carried over by what changed"]


def _remarks(series: LoadSeries, mean: np.ndarray, request: Request, begin: int, likeness: Likeness) -> list[str]:
    """Notes on the numbers: counting noise, holidays and events in the horizon."""
    found = []
    if series.kind == "amount" and float(np.median(mean)) < 1.0 and float(mean.max()) > 0:
        found.append("fewer than one per bin most of the time: the band is counting noise, coarser bins say more")
    last = begin + len(mean) * series.step - 1
    first_day, last_day = (int(t) // DAY + EPOCH for t in local_seconds(np.array([begin, last]), zone_of(request.zone)))
    met = sorted(day for day in request.holidays if first_day <= day.toordinal() <= last_day)
    if met:
        names = ", ".join(day.isoformat() for day in met)
        found.append(f"holidays in reach are taken for {likeness.text}: {names}")
    reached = [event.text for event in request.events if event.end > begin and event.start <= last]
    found += [f"a planned event is in reach: {text}" for text in reached]
    return found


def _as_known(series: LoadSeries, request: Request) -> tuple[LoadSeries, int]:
    """The data known when the forecast starts, and the steps between their end and the first forecast step."""
    if request.begin is None:
        return series, 0
    if request.begin >= series.end:
        return series, -((series.end - request.begin) // series.step)
    known = series.before(series.start - (series.start - request.begin) // series.step * series.step)
    if not np.isfinite(known.values).any():
        raise InferdocError("the data hold nothing before --from; give a later moment")
    return known, 0


def _tenants(inner: LoadSeries) -> list[LoadSeries]:
    """The load by tenant in the bins of the whole. What was taken out of that (an outage, an event) is taken out of
    each; a tenant without load needs no forecast."""
    days = len(inner.values) * inner.step / DAY
    parts = [part.before(inner.end, days).coarser(inner.step, from_end=True) for part in inner.parts]
    if not parts:
        return []
    taken_out = np.isnan(inner.values) & np.isfinite(np.sum([part.values for part in parts], axis=0))
    return [part.with_gaps(taken_out) for part in largest(parts) if np.nansum(part.values) > 0]


def _make(
    rows: Rows, series: LoadSeries, request: Request, tenants: Sequence[Rows]
) -> tuple[MethodForecast, dict[str, float], bool, str, float | None]:
    folded = Folded(rows, fill_gaps(rows))
    with_arima = request.model == "combination" and request.arima_seconds > 0 and installed()
    combined = combine(rows, {"arima": partial(arima_path, seconds=request.arima_seconds)} if with_arima else {})
    if len(tenants) > 1 and request.model == "combination":
        combined = with_tenants(combined, tenants)
    rivals = {name: _trial(folded, combined.trials, name) for name in BASELINES}
    made = _chosen(rows, series, request, combined)
    errors = {name: _mae(combined.trials, past) for name, past in {made.method: made.past, **rivals}.items()}
    skill = _skill(combined.trials, made.past, rivals["flat"])
    limit = _skill_needed(combined.trials, made.past, rivals["flat"], request.followed)
    reason = _reason_to_abstain(series, made, skill, limit)
    if reason and request.never_abstain:
        reason = ""
    if reason and request.model == "combination":
        name = best_baseline(combined.trials, rivals)
        past = rivals[name]
        center = BASELINES[name](folded, rows.count, rows.ahead)
        assert center is not None
        made = MethodForecast(
            f"baseline {name}", center, past, combined.trials, rows.minutes, {name: 1.0}, made.notes, fitted=made.fitted
        )
    made.unproven = _swing(rows)
    return made, errors, bool(reason), reason, skill


def _swing(rows: Rows) -> np.ndarray:
    swing = np.full((1, rows.ahead, rows.width), np.nan)
    known = np.flatnonzero(np.isfinite(rows.z).any(axis=1))
    if len(known):
        swing[0, 0] = rows.z[known[-1]] - np.nanmean(rows.z[known[-1]])
    return swing


def _chosen(rows: Rows, series: LoadSeries, request: Request, combined: MethodForecast) -> MethodForecast:
    if request.model == "combination":
        return combined
    if request.model == "naive":
        folded = Folded(rows, fill_gaps(rows))
        name = "last-week" if rows.count >= 8 else "yesterday" if rows.count >= 2 else "last-value"
        center = BASELINES[name](folded, rows.count, rows.ahead)
        assert center is not None
        past = _trial(folded, combined.trials, name)
        return MethodForecast(name, center, past, combined.trials, rows.minutes, {name: 1.0})
    return named_model(request.model, rows, combined)


def _trial(folded: Folded, trials: Trials, name: str) -> np.ndarray:
    past = np.full(trials.actual.shape, np.nan)
    for k in range(len(past)):
        upto, seen = folded.count - 1 - k, min(folded.rows.ahead, k + 1)
        made = BASELINES[name](folded, upto, seen) if upto >= 1 else None
        if made is not None:
            past[k, :seen] = made
    return past


def best_baseline(trials: Trials, rivals: dict[str, np.ndarray]) -> str:
    """The baseline with the least squared error on the user's own recent past, in square-root space; the last value is
    too erratic for a whole day, and the flat level is used if nothing could be measured."""
    usable = trials.usable
    found = {}
    for name, past in rivals.items():
        error = (trials.actual[usable, 0] - past[usable, 0]) ** 2
        if name != "last-value" and np.isfinite(error).any():
            found[name] = float(np.nanmean(error))
    return min(found, key=lambda name: found[name]) if found else "flat"


def _mae(trials: Trials, past: np.ndarray) -> float:
    usable = trials.usable
    error = np.abs(trials.actual[usable, 0] ** 2 - np.maximum(past[usable, 0], 0.0) ** 2)
    return float(np.nanmean(error)) if np.isfinite(error).any() else float("nan")


def _skill(trials: Trials, past: np.ndarray, flat: np.ndarray, usable: np.ndarray | None = None) -> float | None:
    """Over the folds `usable` (bool[K], None = all of which enough is known)."""
    usable = trials.usable if usable is None else usable
    ours = (trials.actual[usable, 0] - past[usable, 0]) ** 2
    theirs = (trials.actual[usable, 0] - flat[usable, 0]) ** 2
    both = np.isfinite(ours) & np.isfinite(theirs)
    if not both.any():
        return None
    yardstick = float(theirs[both].mean())
    return 0.0 if yardstick <= 1e-12 else 1.0 - float(ours[both].mean()) / yardstick


def _skill_needed(trials: Trials, past: np.ndarray, flat: np.ndarray, followed: bool | None) -> float:
    """The skill to act on. To change the decision, the skill must pass the limit by its standard error (jackknife over
    the folds). The limit is between 0, the flat level, and twice the usual one."""
    if followed is None:
        return MIN_SKILL
    usable, without = trials.usable, []
    for left_out in np.flatnonzero(usable):
        rest = usable.copy()
        rest[left_out] = False
        skill = _skill(trials, past, flat, rest)
        without += [] if skill is None else [skill]
    count = len(without)
    error = float(np.std(without)) * (count - 1) ** 0.5 if count > 1 else 0.0
    return float(np.clip(MIN_SKILL - error if followed else MIN_SKILL + error, 0.0, 2 * MIN_SKILL))


def _reason_to_abstain(series: LoadSeries, made: MethodForecast, skill: float | None, limit: float) -> str:
    if series.days < MIN_DAYS - 0.01:
        return f"{series.days:.1f} days of history, at least {MIN_DAYS:g} are needed"
    if series.gap_share() > MAX_GAP_SHARE:
        return f"{series.gap_share():.0%} of the history is missing, at most {MAX_GAP_SHARE:.0%} may be"
    values = series.values[np.isfinite(series.values)]
    if len(values) and float(values.max()) == float(values.min()):
        return "the load never changes; there is no rhythm to forecast"
    if made.trials.folds < MIN_FOLDS:
        return f"{made.trials.folds} day(s) could be back-tested, at least {MIN_FOLDS} are needed"
    if skill is None or skill < limit:
        shown = "not measurable" if skill is None else f"{skill:.2f}"
        more = f" ({MIN_SKILL:g} and its error, to act again)" if limit > MIN_SKILL else ""
        return f"no usable rhythm: skill {shown} over the flat level, at least {limit:.2g} is needed{more}"
    return ""


def _per_step(
    rows: Rows, made: MethodForecast, levels: tuple[float, ...], amounts: bool, factor: int, likeness: Likeness
) -> tuple[np.ndarray, dict[float, np.ndarray]]:
    """Mean and quantiles of each step in the unit of the input, from square-root space. likeness: of holidays."""
    nominal = tuple(sorted({0.5, 0.95, *levels}))
    middle, adjusted = nominal.index(0.5), made.residuals.adjusted_levels(nominal)
    spread = np.stack([made.residuals.quantiles(lead, adjusted) for lead in range(rows.ahead)], axis=1)
    moments = np.stack([made.residuals.moments(lead) for lead in range(rows.ahead)], axis=1)
    center, unlike = likeness.on(made.center, made.added, rows)
    share = 1.0 / factor if amounts else 1.0
    quantiles = {}
    floor = np.zeros(len(center))
    for i, level in enumerate(nominal):
        shift = spread[i][rows.row, rows.col]
        shift = shift * 0.5 if i == middle else wider(shift, NormalDist().inv_cdf(level) * unlike)
        value = np.maximum(center + shift, 0.0) ** 2 * share
        floor = np.maximum(floor, value)
        quantiles[level] = np.repeat(floor, factor)
    bias, square = moments[0][rows.row], moments[1][rows.row]
    mean = np.maximum(center**2 + 2 * center * bias + square, 0.0) * share
    return np.repeat(mean, factor), quantiles


def achieved(made: MethodForecast, levels: tuple[float, ...]) -> dict[float, float]:
    """Coverage on the back-tested days, each scored with the residuals of the other days (first day of lead), at the
    levels that the forecast goes by."""
    values = made.residuals.values[:, 0]
    used = np.flatnonzero(np.isfinite(values).any(axis=1))
    if len(used) < MIN_FOLDS:
        return {}
    hits, adjusted = dict.fromkeys(levels, 0), made.residuals.adjusted_levels(levels)
    total = 0
    for k in used:
        others = Residuals(made.residuals.values[[i for i in used if i != k]], made.residuals.minutes)
        known = np.isfinite(values[k])
        bounds = others.quantiles(0, adjusted, COVERAGE_CENTERS)
        total += int(known.sum())
        for i, level in enumerate(levels):
            hits[level] += int((values[k][known] <= bounds[i][known]).sum())
    return {level: hits[level] / total for level in levels}
