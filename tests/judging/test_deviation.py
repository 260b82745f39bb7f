"""When a series left its calm: noise stays in it, real changes are found where they are."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inferdoc.judging.clock import MIN_BASELINE_SECONDS, MIN_OUT_SCRAPES, MIN_OUT_SECONDS, Clock, Rule
from inferdoc.judging.deviation import against, bands, find, find_rows, parting, shift, student
from inferdoc.judging.spans import NONE, holding
from tests.judging import plain_deviation as plain
from tests.judging.frames import CLOCK, WINDOW

steady = settings(derandomize=True, deadline=None, max_examples=120)
NAN = np.nan
N = 120
CALM_STEPS, OUT_STEPS = CLOCK.baseline_steps, CLOCK.out_steps
RISE, FALL = Rule(1.5), Rule(0.7)

seeds = st.integers(0, 2**32 - 1)
places = st.integers(CALM_STEPS + WINDOW, N - OUT_STEPS - WINDOW)
levels = st.floats(1e-3, 1e6)


def smoothed(values: np.ndarray) -> np.ndarray:
    """As a rate reads it: every step the mean of one window, neighbours share samples."""
    return np.convolve(values, np.ones(WINDOW) / WINDOW, "valid")


def noisy(level: float, seed: int, count: int = N) -> np.ndarray:
    return level * np.random.default_rng(seed).lognormal(0.0, 0.1, count)


def one_held(mask: np.ndarray, rule: Rule) -> tuple[int, int]:
    starts, lasts = holding(mask[np.newaxis], np.ones((1, len(mask)), dtype=bool), rule, CLOCK)
    return int(starts[0]), int(lasts[0])


def test_the_clock_counts_seconds_and_scrapes():
    assert MIN_BASELINE_SECONDS / 2 <= CALM_STEPS <= MIN_BASELINE_SECONDS / 2 + 1
    assert OUT_STEPS == MIN_OUT_SECONDS / 2
    slow = Clock(15.0, 15.0, 5)
    assert slow.out_steps == MIN_OUT_SCRAPES and slow.baseline_steps == 15
    thinned = Clock(60.0, 15.0, 5)
    assert thinned.out_steps == 2 and thinned.baseline_steps == 4
    assert Clock(2.0, 2.0, 5, lead=300).baseline_steps == 300, "a chosen baseline is calm as a whole"


# ---- noise ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", [Rule(1.2), Rule(1.5), Rule(2.0), Rule(0.8), Rule(0.5)], ids=lambda r: f"x{r.ratio}")
@pytest.mark.parametrize(
    ("kind", "most"),
    [
        (lambda r: r.normal(10, 2, N), 0),
        (lambda r: r.lognormal(1, 0.6, N), 0),
        (lambda r: r.poisson(3, N).astype(float), 0),
        (lambda r: smoothed(r.poisson(1.5, N + WINDOW - 1).astype(float)), 8),
        (lambda r: smoothed(r.lognormal(1, 0.5, N + WINDOW - 1)), 8),
    ],
    ids=["normal", "lognormal", "counts", "rates of counts", "means of latencies"],
)
def test_pure_noise_seldom_leaves_its_calm(kind, most, rule):
    """Of two hundred quiet stretches of four minutes at most a few leave."""
    left = [find(kind(np.random.default_rng(seed)), rule, CLOCK) for seed in range(200)]
    assert sum(found is not None for found in left) <= most


@given(level=levels)
@steady
def test_a_flat_line_never_leaves(level):
    assert find(np.full(N, level), RISE, CLOCK) is None
    assert find(np.full(N, level), FALL, CLOCK) is None


@given(place=places, seed=seeds, length=st.integers(1, OUT_STEPS - 1))
@steady
def test_a_short_burst_is_no_deviation(place, seed, length):
    values = noisy(10, seed)
    values[place : place + length] *= 4
    assert find(values, RISE, CLOCK) is None


# ---- changes --------------------------------------------------------------------------------------------------------


@given(place=places, seed=seeds, level=levels)
@steady
def test_a_step_is_found_within_a_window_of_its_place(place, seed, level):
    values = noisy(level, seed, N + WINDOW - 1)
    values[place + WINDOW - 1 :] *= 3
    found = find(smoothed(values), RISE, CLOCK)
    assert found is not None
    assert place <= found.start <= place + WINDOW
    assert found.last == N - 1
    assert found.baseline == pytest.approx(level, rel=0.15) and found.observed == pytest.approx(3 * level, rel=0.15)
    assert found.baseline < found.band < found.observed


@given(place=places, seed=seeds, level=levels)
@steady
def test_a_fall_is_found_within_a_window_of_its_place(place, seed, level):
    values = noisy(level, seed, N + WINDOW - 1)
    values[place + WINDOW - 1 :] /= 3
    found = find(smoothed(values), FALL, CLOCK)
    assert found is not None and place <= found.start <= place + WINDOW
    assert found.observed < found.band < found.baseline
    assert find(smoothed(values), RISE, CLOCK) is None, "a fall is no rise"


@given(
    place=st.integers(CALM_STEPS + OUT_STEPS + 6, N - 2 * OUT_STEPS), seed=seeds, ahead=st.integers(OUT_STEPS + 2, 18)
)
@steady
def test_a_lone_spike_before_an_episode_does_not_begin_it(place, seed, ahead):
    values = noisy(10, seed)
    values[place:] *= 4
    values[place - ahead] = 25
    found = find(values, RISE, CLOCK)
    assert found is not None and found.start == place


@given(seed=seeds, lengths=st.tuples(st.integers(OUT_STEPS + 2, 25), st.integers(OUT_STEPS + 4, 30)))
@steady
def test_an_episode_that_ended_ends_where_it_did(seed, lengths):
    place, (length, after) = 50, lengths
    values = noisy(10, seed, place + length + after)
    values[place : place + length] *= 4
    found = find(values, RISE, CLOCK)
    assert found is not None and (found.start, found.last) == (place, place + length - 1)


@given(seed=seeds, lone=st.integers(4, 8))
@steady
def test_single_calm_windows_do_not_end_an_episode(seed, lone):
    values = noisy(10, seed)
    values[60:] *= 4
    values[60 + lone :: lone] /= 4
    found = find(values, RISE, CLOCK)
    assert found is not None and found.start == 60
    assert found.last >= N - 2
    assert not find_rows(values[np.newaxis], RISE, CLOCK).mask[0, 60 + lone]


@given(seed=seeds, share=st.floats(0.0, 0.4), place=places)
@steady
def test_gaps_hide_a_change_no_longer_than_they_last(seed, share, place):
    values = noisy(10, seed)
    values[place:] *= 4
    gaps = np.random.default_rng(seed + 1).random(N) < share
    values[gaps] = NAN
    found = find(values, RISE, CLOCK)
    seen_after = np.flatnonzero(~gaps[place:]) + place
    if (
        np.isfinite(values[:place]).sum() >= CALM_STEPS
        and len(seen_after) >= OUT_STEPS
        and N - seen_after[0] > OUT_STEPS + 5
    ):
        assert found is not None and found.start == seen_after[0]
    assert not find_rows(values[np.newaxis], RISE, CLOCK).mask[0, gaps].any()


@given(seed=seeds, place=places, factor=st.sampled_from([1e-6, 0.01, 3.0, 7.5, 1e9]))
@steady
def test_the_unit_does_not_matter(seed, place, factor):
    values = noisy(10, seed)
    values[place:] *= 3
    one = find(values, Rule(1.5, by=2.0), CLOCK)
    other = find(values * factor, Rule(1.5, by=2.0 * factor), CLOCK)
    assert one is not None and other is not None
    assert (one.start, one.last) == (other.start, other.last)
    assert other.band == pytest.approx(one.band * factor) and other.observed == pytest.approx(one.observed * factor)


@given(seed=seeds, place=places)
@steady
def test_the_spacing_of_scrapes_does_not_matter_only_their_number(seed, place):
    values = noisy(10, seed)
    values[place:] *= 3
    fast, slow = find(values, RISE, CLOCK), find(values, RISE, Clock(15.0, 15.0, WINDOW))
    assert fast is not None and slow is not None and fast.start == slow.start


# ---- an oracle ------------------------------------------------------------------------------------------------------


def slowly(values: np.ndarray, rule: Rule, clock: Clock):
    """The definition, with nothing left out: the first step that is a deviation against all that lies before it, and
    outside as often as asked for from its beginning on; where there is none, the part of the first that is."""
    finite = np.isfinite(values)
    if finite.sum() < clock.out_steps:
        return None
    late, earliest = None, 0
    for split in range(max(clock.lead, int(np.argmax(finite)) + CALM_STEPS), len(values)):
        found = plain.against(values, split, rule, clock)
        if found is not None and found.start == split >= earliest:
            begins = often_from(found, finite, rule.share, clock.out_steps)
            if begins == split:
                return found
            late, earliest = late or found.begun_at(begins, values), begins
    return late


def often_from(found, finite, share, need):
    """The first outside step from which on, up to every later one, the share of outside steps is kept, and half of that
    of the later half of the deviation."""
    half = slice((found.start + found.last + 1) // 2, found.last + 1)
    share = max(share, found.mask[half].sum() / max(1, finite[half].sum()) / 2)
    for start in np.flatnonzero(found.mask):
        stretches = [slice(start, end + 1) for end in range(start, found.last + 1)]
        if all(found.mask[s].sum() >= share * finite[s].sum() - 1e-9 for s in stretches):
            return int(start) if found.mask[start:].sum() >= need else found.start
    return found.start


@given(
    seed=seeds,
    ratio=st.sampled_from([1.1, 1.5, 2.0, 0.9, 0.5]),
    by=st.sampled_from([0.0, 3.0]),
    share=st.sampled_from([0.3, 0.5, 0.9]),
    hold=st.sampled_from([None, 30.0]),
    changes=st.lists(st.tuples(st.integers(5, N - 5), st.floats(0.2, 5.0)), max_size=4),
    holes=st.floats(0.0, 0.3),
)
@settings(derandomize=True, deadline=None, max_examples=250)
def test_the_quick_search_finds_what_the_definition_does(seed, ratio, by, share, hold, changes, holes):
    random = np.random.default_rng(seed)
    values = smoothed(10 * random.lognormal(0, 0.4, N + WINDOW - 1))
    for place, factor in changes:
        values[place:] *= factor
    values[random.random(N) < holes] = NAN
    rule = Rule(ratio, by, share, hold)
    quick, slow = find(values, rule, CLOCK), slowly(values, rule, CLOCK)
    assert (quick is None) == (slow is None)
    if quick is not None and slow is not None:
        assert (quick.start, quick.last, quick.band, quick.observed) == (
            slow.start,
            slow.last,
            slow.band,
            slow.observed,
        )


@given(values=st.lists(st.floats(-1e6, 1e6), min_size=3, max_size=60), ratio=st.floats(0.1, 5.0), by=st.floats(0, 100))
@steady
def test_the_band_is_beyond_the_calm_itself(values, ratio, by):
    calm = np.array(values)
    (median,), (band,) = bands(calm[np.newaxis], np.ones((1, len(calm)), dtype=bool), Rule(ratio, by))
    warm = calm[len(calm) // 4 + 1 :]  # its beginning may be left out
    if ratio >= 1:
        assert band >= warm.max() and band >= median + by and band >= median * ratio
    else:
        assert band <= warm.min() and band <= median - by and band <= median * ratio


@given(
    marks=st.lists(st.booleans(), min_size=1, max_size=100),
    share=st.sampled_from([0.3, 0.5, 1.0]),
    hold=st.sampled_from([None, 40.0]),
)
@settings(derandomize=True, deadline=None, max_examples=300)
def test_what_is_held_is_long_enough_and_often_enough(marks, share, hold):
    mask, rule = np.array(marks), Rule(2.0, share=share, hold_seconds=hold)
    first, last = one_held(mask, rule)
    if first == NONE:
        assert not (mask.all() and len(mask) >= (20 if hold else OUT_STEPS)), "all of it, long enough, is held"
        return
    assert mask[first] and mask[last]
    assert last - first + 1 >= OUT_STEPS
    assert mask[first : last + 1].mean() >= share


# ---- the edges ------------------------------------------------------------------------------------------------------


def test_no_calm_no_deviation():
    values = np.full(N, 30.0)
    values[: CALM_STEPS - 3] = 10
    assert find(values, RISE, CLOCK) is None
    assert against(values, CALM_STEPS - 3, RISE, CLOCK) is None


@pytest.mark.parametrize("values", [np.array([]), np.full(N, NAN), np.full(3, 1.0), np.full(CALM_STEPS, 1.0)])
def test_nothing_to_look_at(values):
    assert find(values, RISE, CLOCK) is None


def test_a_series_that_begins_late_has_its_own_calm():
    values = np.full(N, NAN)
    values[30:] = 10.0
    values[30 + CALM_STEPS + 5 :] = 40.0
    found = find(values, RISE, CLOCK)
    assert found is not None and found.start == 30 + CALM_STEPS + 5


def test_a_chosen_baseline_is_calm_whatever_it_holds():
    lead = 60
    values = np.concatenate([np.where(np.arange(lead) < 30, 10.0, 30.0), np.full(40, 32.0)])
    clock = Clock(2.0, 2.0, WINDOW, lead=lead)
    assert find(values, RISE, clock) is None, "the window is not above the calm extreme"
    values[lead:] = 90.0
    found = find(values, RISE, clock)
    assert found is not None and found.start == lead


def test_a_fault_at_the_first_step_after_a_chosen_baseline_is_found():
    """Though the first windows of the baseline are not full yet, and the level does not rise any further."""
    values = np.concatenate([np.full(2, NAN), np.full(40, 10.0), np.full(45, 30.0)])
    found = find(values, RISE, Clock(2.0, 2.0, WINDOW, lead=42))
    assert found is not None and found.start == 42


@pytest.mark.parametrize(("warm_up", "found_at"), [(0, 60), (8, 60), (14, 60), (20, None)])
def test_a_warm_up_is_no_calm(warm_up: int, found_at: int | None):
    """Caches that begin empty hit nothing at first, which would make 0 the calm extreme: nothing could fall below."""
    hits = np.where(np.arange(N) < 60, 0.9, 0.0)
    hits[:warm_up] = np.linspace(0.0, 0.5, warm_up)
    found = find(hits, Rule(0.8, 0.1), CLOCK)
    assert (None if found is None else found.start) == found_at, "a quarter of the calm at most is a warm-up"


def test_a_swing_inside_the_calm_is_no_warm_up():
    hits = np.where(np.arange(N) < 60, 0.9, 0.0)
    hits[20:30] = 0.0
    assert find(hits, Rule(0.8, 0.1), CLOCK) is None


def test_observations_are_counted_once_though_windows_overlap():
    values = np.full(N, 10.0)
    values[60:] = 17.0
    few = np.full(N, 1.0)
    assert find(values, RISE, CLOCK, few) is None, "60 windows of one observation that they share are 12 observations"
    assert find(values, RISE, CLOCK, 2 * few) is not None


@pytest.mark.parametrize(("early", "begins"), [(6, 60), (25, 10)])
def test_a_limit_touched_long_before_is_not_where_an_episode_begins(early: int, begins: int):
    """Six windows beyond a limit and forty-four back under it are no beginning of what comes then; twenty-five are."""
    beyond = np.zeros(N, dtype=bool)
    beyond[10 : 10 + early] = beyond[60:] = True
    assert one_held(beyond, Rule(2.0)) == (begins, N - 1)


@pytest.mark.parametrize(("ends", "begins"), [(75, 40), (55, 90)])
def test_the_earliest_of_two_episodes_counts_while_it_outweighs_the_calm_between(ends: int, begins: int):
    values = np.full(N, 10.0)
    values[40:ends] = 40.0
    values[90:] = 60.0
    found = find(values, RISE, CLOCK)
    assert found is not None and found.start == begins


def test_a_series_that_swings_before_it_rises_begins_where_it_rises():
    """One window in three is beyond a calm that was short by chance; from the sixtieth on all are."""
    values = np.full(N, 10.0)
    values[40:60:3] = 25.0
    values[60:] = 30.0
    found = find(values, RISE, CLOCK)
    assert found is not None and found.start == 60


@pytest.mark.parametrize(("after", "sign"), [(30.0, 1), (3.0, -1), (10.0, 0)])
def test_shift_compares_means_in_windows_that_share_nothing(after, sign):
    values = noisy(10, 1)
    values[60:] *= after / 10
    moved = shift(values, 60, N - 1, CLOCK)
    assert moved is not None
    assert moved.before == pytest.approx(10, rel=0.1) and moved.after == pytest.approx(after, rel=0.1)
    assert abs(moved.errors) < 3 if sign == 0 else np.sign(moved.errors) == sign and abs(moved.errors) > 5


@pytest.mark.parametrize(("split", "last"), [(10, N - 1), (60, 62)])
def test_shift_needs_three_windows_before_and_two_after(split, last):
    assert shift(noisy(10, 1), split, last, CLOCK) is None


def test_shift_of_constants_is_certain():
    values = np.full(N, 10.0)
    assert shift(values, 60, N - 1, CLOCK).errors == 0.0
    values[60 - WINDOW :] = 20.0
    values[:60] = 10.0
    assert shift(values, 60, N - 1, CLOCK).errors == np.inf


@pytest.mark.parametrize(
    ("freedom", "chance", "value"), [(5, 0.01, 3.365), (10, 0.001, 4.144), (20, 0.0001, 4.539), (1e6, 0.025, 1.960)]
)
def test_student_is_that_of_the_tables(freedom: float, chance: float, value: float):
    assert student(freedom, chance) == pytest.approx(value, rel=0.01)


def test_of_series_without_a_change_next_to_none_part():
    """As many of three thousand as the chance says, in windows that share samples."""
    rng = np.random.default_rng(7)
    series = [smoothed(rng.lognormal(0.0, 0.3, N + WINDOW - 1)) for _ in range(3000)]
    assert sum(parting(np.log(values), CLOCK, 0.0) is not None for values in series) <= 6


@pytest.mark.parametrize("seed", range(10))
def test_a_mean_that_rose_among_swings_parts_where_it_rose(seed: int):
    values = np.random.default_rng(seed).lognormal(0.0, 0.3, N + WINDOW - 1)
    values[60:] *= 2
    found = parting(np.log(smoothed(values)), CLOCK, 0.2)
    assert found is not None and abs(found[0] - 60) <= 2 * WINDOW


def test_too_short_a_series_does_not_part():
    assert parting(noisy(10, 1, CALM_STEPS), CLOCK, 0.0) is None
