"""The search for deviations one series at a time, step by step as ARCHITECTURE.md describes it: slow and plain, to hold
the arithmetic on many rows against."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from inferdoc.judging.clock import Clock, Rule
from inferdoc.judging.deviation import (
    FEW_EPISODES,
    FEWEST_OBSERVATIONS,
    IQR_TO_SIGMA,
    LEAST_BLOCKS,
    LONGEST_PAST,
    LOWEST,
    MIN_OBSERVATIONS,
    SIGMAS,
    WARM_UP,
    Shift,
)
from inferdoc.judging.order import median, percentiles


@dataclass(frozen=True)
class Deviation:
    """start, last: first and last outside step; baseline: median before the change; band: the limit that was crossed;
    observed: median of the outside windows; mask: bool[T] outside."""

    start: int
    last: int
    baseline: float
    band: float
    observed: float
    mask: np.ndarray

    def begun_at(self, step: int, values: np.ndarray) -> Deviation:
        """The same of a series, without what lies before a step."""
        mask = self.mask.copy()
        mask[:step] = False
        return replace(self, start=step, mask=mask, observed=median(values[mask]))


def baseline_band(baseline: np.ndarray, rule: Rule) -> tuple[float, float]:
    """(median, limit) of the finite baseline values under a rule."""
    ranked = np.sort(baseline)
    low, middle, high = percentiles(ranked, (0.25, 0.5, 0.75))
    spread = SIGMAS * (high - low) / IQR_TO_SIGMA
    if rule.up:
        return middle, max(middle * rule.ratio, middle + spread, middle + rule.by, float(ranked[-1]))
    return middle, min(middle * rule.ratio, middle - spread, middle - rule.by, float(ranked[0]))


def warmed(baseline: np.ndarray, rule: Rule) -> np.ndarray:
    """Finite baseline values without a short beginning that was itself beyond the ratio and came back: the first
    requests after a start miss every cache."""
    middle = median(baseline)
    limit = max(middle * rule.ratio, middle + rule.by) if rule.up else min(middle * rule.ratio, middle - rule.by)
    beyond = baseline > limit if rule.up else baseline < limit
    began = int(np.argmin(beyond))
    return baseline[began:] if began <= WARM_UP * len(baseline) else baseline


def without_past(values: np.ndarray, rule: Rule, clock: Clock) -> np.ndarray:
    """A series without the incidents of its history that were over before the window began: they are neither of the
    window nor a baseline. values: float64[T]; the same, or a copy with NaN in their place."""
    history = values[clock.lead : clock.begin]
    finite = np.isfinite(history)
    if finite.sum() < clock.least_baseline:
        return values
    low, middle, high = percentiles(np.sort(history[finite]), (0.25, 0.5, 0.75))
    spread = SIGMAS * (high - low) / IQR_TO_SIGMA
    with np.errstate(invalid="ignore"):
        if rule.up:
            out = history > max(middle * rule.ratio, middle + spread, middle + rule.by)
        else:
            out = history < min(middle * rule.ratio, middle - spread, middle - rule.by)
    steps = np.flatnonzero(out)
    if not len(steps):
        return values
    groups = np.split(steps, np.flatnonzero(np.diff(steps) > clock.least_baseline) + 1)
    over = [g for g in groups if len(history) - 1 - g[-1] > clock.out_steps + clock.window_steps]
    began = int(np.argmax(finite))
    warm_up = [g for g in over if g[0] <= began + clock.window_steps]
    incidents = [g for g in over if g[0] > began + clock.window_steps]
    long = sum(g[-1] - g[0] + 1 for g in incidents)
    if len(groups) - len(warm_up) > FEW_EPISODES or long > LONGEST_PAST * len(history):
        return values
    # The caches of a new process are empty: that is no incident, and no baseline either.
    most_is_baseline = 2 * sum(g[-1] - g[0] + 1 for g in over) <= len(history) - began
    kept = values.copy()
    for group in over if most_is_baseline else incidents:
        kept[clock.lead + group[0] : clock.lead + group[-1] + 1] = np.nan
    return kept


def find(values: np.ndarray, rule: Rule, clock: Clock, counts: np.ndarray | None = None) -> Deviation | None:
    """The earliest sustained deviation of a series, or None. values, counts: float64[T]; NaN are gaps."""
    finite = np.isfinite(values)
    if finite.sum() < clock.out_steps:
        return None
    signed = np.where(finite, values if rule.up else -values, -np.inf)
    first = int(np.argmax(finite))
    # A record of the first windows may be a warm-up (`warmed`), so what follows need not beat it to be looked at.
    early = min(first + clock.least_baseline, len(values)) - 1
    record = np.full(len(values), -np.inf)
    record[early:] = np.maximum.accumulate(signed[early:])
    earliest = max(clock.lead, first + clock.least_baseline)
    if earliest >= len(values):
        return None
    if not _can_leave(np.sort(values[finite]), rule):
        return None
    candidates = np.flatnonzero(finite[earliest:] & (signed[earliest:] > record[earliest - 1 : -1])) + earliest
    late = None
    for start in candidates:
        found = against(values, int(start), rule, clock, counts) if start >= earliest else None
        if found is None or found.start != start:
            continue
        begins = _where_it_begins(found.mask, finite, found.start, found.last, clock.out_steps, rule.share)
        if begins == start:
            return found
        # What begins there may stand out from all that lies before it: then it is found, and with a longer baseline.
        late, earliest = late or found.begun_at(begins, values), begins
    return late


def _can_leave(ranked: np.ndarray, rule: Rule) -> bool:
    """A cheap refusal: the extreme is not even the ratio away from the lowest values of the whole."""
    if rule.up:
        (usual,) = percentiles(ranked, (LOWEST,))
        return float(ranked[-1]) > max(usual * rule.ratio, usual + rule.by)
    (usual,) = percentiles(ranked, (1 - LOWEST,))
    return float(ranked[0]) < min(usual * rule.ratio, usual - rule.by)


def against(
    values: np.ndarray, split: int, rule: Rule, clock: Clock, counts: np.ndarray | None = None
) -> Deviation | None:
    """The deviation after a given split, judged against the baseline before it; None where it is not sustained or the
    baseline is too short to compare with."""
    before = values[:split]
    baseline = before[np.isfinite(before)]
    if len(baseline) < max(3, clock.baseline_steps // 4) or split < clock.baseline_steps:
        return None
    middle, band = baseline_band(warmed(baseline, rule), rule)
    after = values[split:]
    with np.errstate(invalid="ignore"):
        out = np.isfinite(after) & ((after > band) if rule.up else (after < band))
    if not out.any():
        return None
    start, last = _sustained(out, np.isfinite(after), rule, clock)
    if start is None or last is None:
        return None
    if counts is not None:
        inside = counts[split:][start : last + 1][out[start : last + 1]]
        middle_out = np.float64(median(after[start : last + 1][out[start : last + 1]]))
        with np.errstate(invalid="ignore", divide="ignore"):
            ratio = middle_out / band if rule.up else band / middle_out
        needed = (SIGMAS / (ratio - 1)) ** 2 if ratio > 1 else MIN_OBSERVATIONS
        if np.nansum(inside) / clock.window_steps < min(MIN_OBSERVATIONS, max(FEWEST_OBSERVATIONS, needed)):
            return None
    mask = np.zeros(len(values), dtype=bool)
    mask[split:] = out
    mask[: split + start] = False
    mask[split + last + 1 :] = False
    return Deviation(split + start, split + last, middle, band, median(values[mask]), mask)


def _sustained(out: np.ndarray, finite: np.ndarray, rule: Rule, clock: Clock) -> tuple[int | None, int | None]:
    """First and last outside step of the first stretch that stays out: long enough, and outside often enough."""
    indices = np.flatnonzero(out)
    while len(indices):
        start = int(indices[0])
        need = clock.out_steps
        if rule.hold_seconds is not None:
            need = max(need, min(int(np.ceil(rule.hold_seconds / clock.step_seconds)), (len(out) - start) // 2))
        tried = indices
        while len(tried) and tried[-1] - start + 1 >= need:
            last = int(tried[-1])
            outside = int(out[start : last + 1].sum())
            seen = int(finite[start : last + 1].sum())
            if (
                outside >= rule.share * seen
                and outside >= min(need, seen)
                and _dense(out, finite, start, need, rule.share)
            ):
                return start, last
            tried = tried[: _before_longest_gap(tried)]
        indices = indices[max(1, len(tried)) :]
    return None, None


def _where_it_begins(out: np.ndarray, finite: np.ndarray, start: int, last: int, need: int, share: float) -> int:
    """The first step of an episode without what only happened before it: a beginning that is outside less often than
    the share that is asked for, or less than half as often as the later half, is none of it."""
    later_half = slice((start + last + 1) // 2, last + 1)
    share = max(share, out[later_half].sum() / max(1, finite[later_half].sum()) / 2)
    stretch = slice(start, last + 1)
    balance = np.round(np.cumsum(out[stretch] - share * finite[stretch]), 9)
    low = int(np.argmin(balance))
    later = np.flatnonzero(out[start + low + 1 : last + 1])
    return start if balance[low] >= 0 or len(later) < need else start + low + 1 + int(later[0])


def _dense(out: np.ndarray, finite: np.ndarray, start: int, need: int, share: float) -> bool:
    """Whether the beginning itself is outside often enough: a lone spike long before an episode does not begin it."""
    stretch = slice(start, start + need)
    return bool(out[stretch].sum() >= share * finite[stretch].sum())


def _before_longest_gap(indices: np.ndarray) -> int:
    """How many of the outside steps lie before the longest baseline stretch among them: where an episode ended."""
    gaps = np.diff(indices)
    return int(np.argmax(gaps)) + 1 if len(gaps) and gaps.max() > 1 else 0


def held(mask: np.ndarray, finite: np.ndarray, rule: Rule, clock: Clock) -> tuple[int, int] | None:
    """(first, last) step of an absolute condition that holds long or often enough, or None."""
    if not mask.any():
        return None
    start, last = _sustained(mask, finite, rule, clock)
    if start is None or last is None:
        return None
    return _where_it_begins(mask, finite, start, last, clock.out_steps, rule.share), last


def shift(values: np.ndarray, split: int, last: int, clock: Clock) -> Shift | None:
    """Compare the means of the baseline part and of (split, last], in blocks of one rate window (neighbouring steps
    share samples). For quantities that arrive in ones and twos, whose windows swing more than their mean. The first
    window of a series is left out where enough others are there: a rate that reaches back before the first scrape
    is low."""
    step = clock.window_steps
    ends_before = _ends(values, split - 1, 0, step)
    born = int(np.argmax(np.isfinite(values)))
    grown = ends_before[ends_before >= born + step]
    ends_before = grown if len(grown) >= LEAST_BLOCKS else ends_before
    ends_after = _ends(values, last, split + step if last - split >= step else last, step)
    baseline, now = values[ends_before], values[ends_after]
    if len(baseline) < LEAST_BLOCKS or len(now) < 2:
        return None
    parts = [(part.var(ddof=1) / len(part), len(part) - 1) for part in (baseline, now)]
    variance = sum(part for part, _ in parts)
    freedom = variance**2 / sum(part**2 / free for part, free in parts) if variance > 0 else np.inf
    difference = float(now.mean() - baseline.mean())
    errors = difference / float(np.sqrt(variance)) if variance > 0 else float(np.sign(difference)) * np.inf
    return Shift(float(baseline.mean()), float(now.mean()), errors if difference else 0.0, float(freedom))


def _ends(values: np.ndarray, last: int, least: int, step: int) -> np.ndarray:
    """The last finite value until `last`, the last that lies a window before it, and so on down to the least."""
    ends = list[int]()
    for place in range(last, least - 1, -1):
        if np.isfinite(values[place]) and (not ends or place <= ends[-1] - step):
            ends.append(place)
    return np.array(ends, dtype=np.int64)
