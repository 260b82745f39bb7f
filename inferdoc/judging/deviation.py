"""When a series left its baseline, whether it stayed outside, and how it left: of many series at once.

Healthy data swing (a p99 over ten seconds moved fivefold in recordings of healthy engines), so a level is "outside"
only when it is beyond a ratio of the baseline median, beyond three robust sigmas of the baseline's own windows and
beyond its extreme. Because the extreme counts, a deviation can only begin at a new record: the search looks at the
record points alone, one of each row at a time. What a series does while it warms up (caches are empty when a window
begins with its pods) is no part of its baseline.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import NormalDist
from typing import Literal

import numpy as np

from inferdoc.judging.clock import Clock, Rule
from inferdoc.judging.order import ranked_rows, row_medians, row_percentile
from inferdoc.judging.spans import NONE, Counts, beginnings, needed_steps, sustained
from inferdoc.words import lasting

SIGMAS = 3.0
MIN_OBSERVATIONS = 20
FEWEST_OBSERVATIONS = 5
"""What a deviation takes at the least, however large."""
IQR_TO_SIGMA = 1.349
"""Interquartile range of a normal distribution in sigmas."""
WARM_UP = 0.25
"""Most of a baseline that its beginning may take: a series that is beyond the ratio for longer swings."""
LOWEST = 0.05
"""Where even the extreme is not the ratio away from this quantile, nothing can be outside any baseline part."""
LEAST_FINITE = 3
"""Values of a baseline part that a median takes at the least."""


@dataclass(frozen=True)
class Deviation:
    """start, last: first and last outside step; baseline: median of the baseline part; band: the limit that was
    crossed; observed: median of the outside windows."""

    start: int
    last: int
    baseline: float
    band: float
    observed: float


@dataclass
class Deviations:
    """Those of many rows. start, last: int64[R], NONE where there is none; baseline, band, observed: float64[R]; mask:
    bool[R, T] outside."""

    start: np.ndarray
    last: np.ndarray
    baseline: np.ndarray
    band: np.ndarray
    observed: np.ndarray
    mask: np.ndarray

    @classmethod
    def nothing(cls, rows: int, steps: int) -> Deviations:
        """None in any row."""
        baseline, band, observed = (np.full(rows, np.nan) for _ in range(3))
        mask = np.zeros((rows, steps), dtype=bool)
        return cls(np.full(rows, NONE), np.full(rows, NONE), baseline, band, observed, mask)

    def put(self, rows: np.ndarray, others: Deviations) -> None:
        """Take over those of others, in their order, at these rows."""
        for own, theirs in zip(self._columns, others._columns, strict=True):
            own[rows] = theirs

    def of(self, rows: np.ndarray) -> Deviations:
        """Those of some rows."""
        return Deviations(*(column[rows] for column in self._columns))

    @property
    def _columns(self) -> tuple[np.ndarray, ...]:
        return self.start, self.last, self.baseline, self.band, self.observed, self.mask

    def start_at(self, steps: np.ndarray, values: np.ndarray) -> Deviations:
        """The same of float64[R, T], without what lies before a step of each row."""
        mask = self.mask & (np.arange(values.shape[1]) >= steps[:, np.newaxis])
        return Deviations(steps, self.last, self.baseline, self.band, row_medians(values, mask), mask)

    def __getitem__(self, row: int) -> Deviation | None:
        if self.start[row] == NONE:
            return None
        start, last = int(self.start[row]), int(self.last[row])
        return Deviation(start, last, float(self.baseline[row]), float(self.band[row]), float(self.observed[row]))


def bands(values: np.ndarray, baseline: np.ndarray, rule: Rule) -> tuple[np.ndarray, np.ndarray]:
    """(median, limit), float64[R] each, of the baseline values of each row under a rule. values: float64[R, T];
    baseline: bool[R, T], in each row some. A short beginning that was itself beyond the ratio and came back is left
    out: the first requests after a start miss every cache."""
    counts = baseline.sum(axis=1)
    ranked = ranked_rows(values, baseline)
    middle = row_percentile(ranked, counts, 0.5)
    far, near = middle * rule.ratio, middle + (rule.by if rule.up else -rule.by)
    limit = (np.maximum(far, near) if rule.up else np.minimum(far, near))[:, np.newaxis]
    with np.errstate(invalid="ignore"):
        stays = baseline & ~(values > limit if rule.up else values < limit)
    first_known = stays.argmax(axis=1)
    early = Counts(baseline).between(np.zeros_like(first_known), first_known)
    warm = np.flatnonzero((early > 0) & (early <= WARM_UP * counts) & stays.any(axis=1))
    if len(warm):
        kept = baseline[warm] & (np.arange(values.shape[1]) >= first_known[warm, np.newaxis])
        counts[warm] = kept.sum(axis=1)
        ranked[warm] = ranked_rows(values[warm], kept)
    middle, spread = _middle_and_spread(ranked, counts)
    if rule.up:
        extreme = ranked[np.arange(len(ranked)), counts - 1]
        limits = (middle * rule.ratio, middle + spread, middle + rule.by, extreme)
        return middle, np.maximum.reduce(limits)
    limits = (middle * rule.ratio, middle - spread, middle - rule.by, ranked[:, 0])
    return middle, np.minimum.reduce(limits)


def _middle_and_spread(ranked: np.ndarray, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(median, what is usual around it), float64[R] each, of ranked rows: float64[R, T], counts: int64[R]."""
    low, middle, high = (row_percentile(ranked, counts, share) for share in (0.25, 0.5, 0.75))
    return middle, SIGMAS * (high - low) / IQR_TO_SIGMA


LONGEST_PAST = 1 / 3
"""A history that was outside for longer is no history of a steady series."""
FEW_EPISODES = 2
"""What a history shows once or twice is an incident of the past; what it shows again and again is how the series is."""


def without_past(values: np.ndarray, rule: Rule, clock: Clock) -> np.ndarray:
    """Series without the incidents of their history that were over before the window started: they are neither of
    the window nor a baseline. values: float64[R, T]; the same, or a copy with NaN in their place."""
    history = values[:, clock.lead : clock.begin]
    finite = np.isfinite(history)
    counts = finite.sum(axis=1)
    ranked = ranked_rows(history, finite)
    middle, spread = (each[:, np.newaxis] for each in _middle_and_spread(ranked, counts))
    with np.errstate(invalid="ignore"):
        if rule.up:
            out = history > np.maximum.reduce((middle * rule.ratio, middle + spread, middle + rule.by))
        else:
            out = history < np.minimum.reduce((middle * rule.ratio, middle - spread, middle - rule.by))
    kept = values
    for row in np.flatnonzero(out.any(axis=1) & (counts >= clock.least_baseline)):
        for first, last in _over(np.flatnonzero(out[row]), int(finite[row].argmax()), history.shape[1], clock):
            kept = values.copy() if kept is values else kept
            kept[row, clock.lead + first : clock.lead + last + 1] = np.nan
    return kept


def _over(steps: np.ndarray, first_known: int, length: int, clock: Clock) -> list[tuple[int, int]]:
    """First and last step of each incident of a history that was over before its end; none where they are so many or so
    long that they are how the series is. A series that begins outside warms up (the caches of a new process are empty):
    that is no incident, and no baseline either. steps: int64[n], outside; first_known: the first of the series."""
    groups = np.split(steps, np.flatnonzero(np.diff(steps) > clock.least_baseline) + 1)
    over = [(int(g[0]), int(g[-1])) for g in groups if length - 1 - g[-1] > clock.out_steps + clock.window_steps]
    warm_up = [(first, last) for first, last in over if first <= first_known + clock.window_steps]
    incidents = [one for one in over if one not in warm_up]
    if len(groups) - len(warm_up) > FEW_EPISODES or _length(incidents) > LONGEST_PAST * length:
        return []
    return over if 2 * _length(over) <= length - first_known else incidents


def _length(spans: list[tuple[int, int]]) -> int:
    return sum(last - first + 1 for first, last in spans)


def find_rows(values: np.ndarray, rule: Rule, clock: Clock, counts: np.ndarray | None = None) -> Deviations:
    """The earliest sustained deviation of each row. values, counts: float64[R, T]; NaN are gaps; of counts a row of NaN
    has none."""
    rows, steps = values.shape
    found = Deviations.nothing(rows, steps)
    if not rows or not steps:
        return found
    finite = np.isfinite(values)
    candidates = _records(values, finite, rule, clock)
    candidates[resting(values, rule, clock)] = False
    _drop_spikes(candidates, values, finite, rule, clock)
    late = Deviations.nothing(rows, steps)
    pending = np.flatnonzero(candidates.any(axis=1))
    while len(pending):
        at = candidates[pending].argmax(axis=1)
        candidates[pending, at] = False
        some = None if counts is None else counts[pending]
        left = against_rows(values[pending], at, rule, clock, some)
        here = np.flatnonzero(left.start == at)
        if len(here):
            left, there = left.of(here), pending[here]
            begins = beginnings(left.mask, finite[there], left.start, left.last, clock.out_steps, rule.share)
            settled = begins == left.start
            found.put(there[settled], left.of(settled))
            candidates[there[settled]] = False
            # What begins there may stand out from all before it: then it is found, with a longer baseline.
            moved = ~settled
            candidates[there[moved]] &= np.arange(steps) >= begins[moved, np.newaxis]
            first = moved & (late.start[there] == NONE)
            late.put(there[first], left.of(first).start_at(begins[first], values[there[first]]))
        pending = pending[candidates[pending].any(axis=1)]
    missing = np.flatnonzero((found.start == NONE) & (late.start != NONE))
    found.put(missing, late.of(missing))
    return found


def find(values: np.ndarray, rule: Rule, clock: Clock, counts: np.ndarray | None = None) -> Deviation | None:
    """The earliest sustained deviation of one series, or None. values, counts: float64[T]; NaN are gaps."""
    return find_rows(values[np.newaxis], rule, clock, None if counts is None else counts[np.newaxis])[0]


def _records(values: np.ndarray, finite: np.ndarray, rule: Rule, clock: Clock) -> np.ndarray:
    """bool[R, T]: where a deviation may begin: a value beyond all before it, once there is a baseline. A record of the
    first windows may be a warm-up (`bands`), so what follows need not beat it to be looked at."""
    steps = values.shape[1]
    signed = np.where(finite, values if rule.up else -values, -np.inf)
    columns, first = np.arange(steps), finite.argmax(axis=1)[:, np.newaxis]
    early = np.minimum(first + clock.least_baseline, steps) - 1
    record = np.maximum.accumulate(np.where(columns >= early, signed, -np.inf), axis=1)
    beyond = np.zeros_like(finite)
    beyond[:, 1:] = finite[:, 1:] & (signed[:, 1:] > record[:, :-1])
    return np.asarray(beyond & (columns >= np.maximum(clock.lead, first + clock.least_baseline)))


def _drop_spikes(candidates: np.ndarray, values: np.ndarray, finite: np.ndarray, rule: Rule, clock: Clock) -> None:
    """Take out candidates, bool[R, T], at which nothing that lasts can begin, cheaply: too few of the next values are
    beyond the record before, where that is baseline whatever is left out of the baseline as a warm-up (`bands`)."""
    steps = values.shape[1]
    every, starts = np.nonzero(candidates)
    follows = np.flatnonzero(np.diff(every) == 0)  # of those of one row, in the order of time, all but the first
    rows, before, at = every[follows], starts[follows], starts[follows + 1]
    seen = np.cumsum(finite, axis=1, dtype=np.int32)
    baseline = seen[rows, before] > np.floor(WARM_UP * seen[rows, at - 1])
    rows, before, at = rows[baseline], before[baseline], at[baseline]
    need = needed_steps(at, steps, rule, clock)[:, np.newaxis]
    ahead = np.arange(int(need.max(initial=0)))
    columns = at[:, np.newaxis] + ahead
    inside = (ahead < need) & (columns < steps)
    columns = np.minimum(columns, steps - 1)
    soon = inside & finite[rows[:, np.newaxis], columns]
    next_values, record = values[rows[:, np.newaxis], columns], values[rows, before][:, np.newaxis]
    with np.errstate(invalid="ignore"):
        beyond = soon & (next_values > record if rule.up else next_values < record)
    spikes = beyond.sum(axis=1) < rule.share * soon.sum(axis=1)
    candidates[rows[spikes], at[spikes]] = False


def resting(values: np.ndarray, rule: Rule, clock: Clock) -> np.ndarray:
    """bool[R]: in which rows of float64[R, T] nothing can be found, cheaply: the extreme is not even the ratio away
    from the lowest values of the whole."""
    finite = np.isfinite(values)
    counts = finite.sum(axis=1)
    ranked = ranked_rows(values, finite)
    usual = row_percentile(ranked, counts, LOWEST if rule.up else 1 - LOWEST)
    last = np.maximum(counts - 1, 0)
    with np.errstate(invalid="ignore"):
        if rule.up:
            extreme = ranked[np.arange(len(ranked)), last]
            leaves = extreme > np.maximum(usual * rule.ratio, usual + rule.by)
        else:
            leaves = ranked[:, 0] < np.minimum(usual * rule.ratio, usual - rule.by)
    return np.asarray((counts < clock.out_steps) | ~leaves)


def against_rows(
    values: np.ndarray, splits: np.ndarray, rule: Rule, clock: Clock, counts: np.ndarray | None = None
) -> Deviations:
    """The deviation of each row after a given split, judged against the baseline before it; none where it is not
    sustained or the baseline is too short to compare with. values, counts: float64[R, T]; splits: int64[R]."""
    rows, steps = values.shape
    answer = Deviations.nothing(rows, steps)
    finite, columns = np.isfinite(values), np.arange(steps)
    baseline = finite & (columns < splits[:, np.newaxis])
    least = max(LEAST_FINITE, clock.baseline_steps // 4)
    compared = np.flatnonzero((baseline.sum(axis=1) >= least) & (splits >= clock.baseline_steps))
    if not len(compared):
        return answer
    own = values[compared]
    baseline_only = slice(None, int(splits[compared].max()))
    middle, band = bands(own[:, baseline_only], baseline[compared, baseline_only], rule)
    after = finite[compared] & (columns >= splits[compared, np.newaxis])
    with np.errstate(invalid="ignore"):
        out = after & (own > band[:, np.newaxis] if rule.up else own < band[:, np.newaxis])
    starts, lasts = sustained(out, after, rule, clock)
    mask = out & (columns >= starts[:, np.newaxis]) & (columns <= lasts[:, np.newaxis])
    left = starts != NONE
    found = Deviations(
        starts[left], lasts[left], middle[left], band[left], row_medians(own[left], mask[left]), mask[left]
    )
    kept = compared[left]
    if counts is not None:
        far, near = (found.observed, found.band) if rule.up else (found.band, found.observed)
        enough = observations(counts[kept], found.mask, clock) >= needed_observations(far, near)
        found, kept = found.of(enough), kept[enough]
    answer.put(kept, found)
    return answer


def observations(counts: np.ndarray, inside: np.ndarray, clock: Clock) -> np.ndarray:
    """float64[R]: how many a row has at some steps, inf where it is not counted. counts: float64[R, T], of a rate
    window each; inside: bool[R, T]."""
    events = np.where(inside, np.nan_to_num(counts), 0.0).sum(axis=1) / clock.window_steps
    return np.where(np.isfinite(counts).any(axis=1), events, np.inf)


def needed_observations(far: np.ndarray | float, near: np.ndarray | float) -> np.ndarray:
    """float64[R]: events that a deviation takes, by how many times `far` is `near`. Three standard errors of the mean
    of as many exponentially distributed values are within the difference: one user on a slow engine has few."""
    with np.errstate(invalid="ignore", divide="ignore"):
        needed = (SIGMAS / np.maximum(np.divide(far, near) - 1, 0)) ** 2
    return np.asarray(np.clip(np.nan_to_num(needed, nan=MIN_OBSERVATIONS), FEWEST_OBSERVATIONS, MIN_OBSERVATIONS))


def against(
    values: np.ndarray, split: int, rule: Rule, clock: Clock, counts: np.ndarray | None = None
) -> Deviation | None:
    """The same of one series. values, counts: float64[T]."""
    some = None if counts is None else counts[np.newaxis]
    return against_rows(values[np.newaxis], np.array([split]), rule, clock, some)[0]


BEGIN_SHARE, ARRIVED = 0.2, 0.8
"""Shares of the way from the baseline to what was observed between which its pace is measured."""
SEVERAL = 3
"""Two intervals may be one with a gap in it."""


@dataclass(frozen=True)
class Departure:
    """shape: step where the way was made within two rate windows (one blurs a step, another is its doubt), else drift;
    seconds: how long it took; times: intervals beyond half of the way, apart by a rate window or more."""

    shape: Literal["step", "drift"]
    seconds: float
    times: int

    @property
    def words(self) -> str:
        """What a reader should know besides the numbers: ", over 12 min", ", 4 times"; of a plain step nothing."""
        if self.times >= SEVERAL:
            return f", {self.times} times"
        return f", over {lasting(self.seconds)}" if self.shape == "drift" else ""


def course_of(
    values: np.ndarray, way: tuple[float, float], first: int, window_steps: int, step_seconds: float
) -> Departure | None:
    """values: float64[T]; way: baseline and observed value; first: the step at which it left the baseline. None where
    it did not move, or never came as far as what was observed of it."""
    baseline, observed = way
    if baseline == observed or not np.isfinite([baseline, observed]).all():
        return None
    with np.errstate(invalid="ignore"):
        share = (values - baseline) / (observed - baseline)
        arrived = np.flatnonzero(share[first:] >= ARRIVED)
        if not len(arrived):
            return None
        arrival = first + int(arrived[0])
        before = np.flatnonzero(share[: arrival + 1] < BEGIN_SHARE)
        beyond = np.flatnonzero(share[first:] >= (BEGIN_SHARE + ARRIVED) / 2)
    begin = int(before[-1]) if len(before) else 0
    steps = arrival - begin
    shape: Literal["step", "drift"] = "step" if steps <= 2 * window_steps else "drift"
    times = 1 + int((np.diff(beyond) > window_steps).sum())
    return Departure(shape, steps * step_seconds, times)


STANDARD_ERRORS = 2.0
LEAST_BLOCKS = 3
"""Windows of baseline that a mean and its error need."""


@dataclass(frozen=True)
class Shift:
    """Means before and after a split, how many standard errors lie between them, and the degrees of freedom of these
    (Welch)."""

    before: float
    after: float
    errors: float
    freedom: float

    def is_beyond(self, chance: float) -> bool:
        """Whether the means differ by more than they do with this probability where nothing changed."""
        return self.freedom >= LEAST_FREEDOM and abs(self.errors) >= student(self.freedom, chance)


LEAST_FREEDOM = 5.0
"""Below it the expansion of Student's t is off by more than a tenth."""


def student(freedom: float, chance: float) -> float:
    """What Student's t exceeds with a probability: the expansion around the normal distribution (Abramowitz and Stegun,
    26.7.5)."""
    z = NormalDist().inv_cdf(1 - chance)
    terms = ((z**3 + z) / 4, (5 * z**5 + 16 * z**3 + 3 * z) / 96, (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384)
    return z + sum(term / freedom**power for power, term in enumerate(terms, 1))


PARTING_BLOCKS = 6
"""Windows on each side of a split, of which one blurs it: with fewer the approximation of Welch is too sure."""
SPLIT_CHANCE = 0.001
"""Of the series without a change those in which one is found."""


def parting(values: np.ndarray, clock: Clock, rise: float) -> tuple[int, Shift] | None:
    """The split of a series float64[T] at which its mean rises most surely, and stays up to the end; None where chance
    explains it. As many splits as there are, as many times chance has its way (Bonferroni). rise: what the caller looks
    for; where the mean of all samples rises by less than half of it, that of the blocks does not rise by it."""
    fewest = PARTING_BLOCKS * clock.window_steps
    splits = np.arange(max(clock.baseline_steps, fewest), len(values) - fewest + 1, clock.window_steps)
    chance, finite = SPLIT_CHANCE / max(1, len(splits)), np.isfinite(values)
    sums, counts = (np.append(0, np.cumsum(each)) for each in (np.where(finite, values, 0.0), finite))
    with np.errstate(divide="ignore", invalid="ignore"):
        after = (sums[-1] - sums[splits]) / (counts[-1] - counts[splits])
        splits = splits[after - sums[splits] / counts[splits] >= rise / 2]
    if not len(splits):
        return None
    tried = shifts(np.tile(values, (len(splits), 1)), splits, np.full(len(splits), len(values) - 1), clock)
    rises = [(int(at), one) for at, one in zip(splits, tried, strict=True) if one is not None and one.errors > 0]
    at, surest = max(rises, key=lambda each: each[1].errors, default=(NONE, None))
    return (at, surest) if surest is not None and surest.is_beyond(chance) else None


def shifts(values: np.ndarray, splits: np.ndarray, lasts: np.ndarray, clock: Clock) -> list[Shift | None]:
    """Compare the means of the baseline part and of (split, last] of each row, in blocks of one rate window
    (neighbouring steps share samples). The first window of a series is left out where enough others are there: a rate
    that reaches back before the first scrape is low. values: float64[R, T]; splits, lasts: int64[R]."""
    step, finite = clock.window_steps, np.isfinite(values)
    newest = np.full((len(values), values.shape[1] + 1), NONE)
    np.maximum.accumulate(np.where(finite, np.arange(values.shape[1]), NONE), axis=1, out=newest[:, 1:])
    before = _back_from(splits - 1, np.zeros_like(splits), step, newest)
    born = finite.argmax(axis=1)[:, np.newaxis]
    grown = np.where(before >= born + step, before, NONE)
    enough = (grown >= 0).sum(axis=1) >= LEAST_BLOCKS
    before = np.where(enough[:, np.newaxis], grown, before)
    short = lasts - splits < step
    after = _back_from(lasts, np.where(short, lasts, splits + step), step, newest)
    baseline, baseline_mean, baseline_error = _means(values, before)
    now, now_mean, now_error = _means(values, after)
    difference = now_mean - baseline_mean
    with np.errstate(divide="ignore", invalid="ignore"):
        variance = baseline_error + now_error
        errors = np.where(variance > 0, difference / np.sqrt(variance), np.sign(difference) * np.inf)
        freedom = variance**2 / (baseline_error**2 / (baseline - 1) + now_error**2 / (now - 1))
    errors = np.where(difference == 0, 0.0, errors)
    freedom = np.where(variance > 0, freedom, np.inf)
    known = (baseline >= LEAST_BLOCKS) & (now >= 2)
    return [
        Shift(float(baseline_mean[i]), float(now_mean[i]), float(errors[i]), float(freedom[i])) if known[i] else None
        for i in range(len(values))
    ]


def shift(values: np.ndarray, split: int, last: int, clock: Clock) -> Shift | None:
    """The same of one series float64[T]."""
    return shifts(values[np.newaxis], np.array([split]), np.array([last]), clock)[0]


def _back_from(lasts: np.ndarray, least: np.ndarray, step: int, newest: np.ndarray) -> np.ndarray:
    """int64[R, K]: the last finite value until `last` of each row, the last one that lies `step` or more before it, and
    so on down to the least of the row; NONE beyond it. A gap costs what it is long, and no window beside it. newest:
    int64[R, 1 + T], the last finite value before each step, and until the last one."""
    flat, begins = newest.ravel(), np.arange(len(newest)) * newest.shape[1]
    most = max(1, int((lasts - least).max(initial=0)) // step + 1)
    places = np.empty((most, len(newest)), np.int64)
    place = lasts
    for number in range(most):
        place = flat[begins + np.maximum(place + 1, 0)]
        place = np.where(place >= least, place, NONE)
        places[number] = place
        place = place - step
    return places.T


def _means(values: np.ndarray, places: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Count, mean and squared standard error of the finite values at some places of each row: [R] each."""
    taken = np.where(places >= 0, np.take_along_axis(values, np.maximum(places, 0), axis=1), np.nan)
    finite = np.isfinite(taken)
    count = finite.sum(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = _sums(np.where(finite, taken, 0.0)) / count
        squares = _sums(np.where(finite, taken - mean[:, np.newaxis], 0.0) ** 2)
        error = squares / (count - 1) / count
    return count, mean, error


def _sums(values: np.ndarray) -> np.ndarray:
    """The sum of each row of float64[R, K], one value after the other: `sum` adds them in an order that depends on K,
    and K on the rows that are looked at together."""
    return np.asarray(values.cumsum(axis=1)[:, -1])
