"""Many targets at once answer what each of them answers by itself, to the last bit."""

from __future__ import annotations

import numpy as np
import pytest

from inferdoc.source import alike, window
from inferdoc.source.alike import SeriesRequest, apply_all
from inferdoc.source.window import FUNCTIONS, Samples, Windows
from inferdoc.store.block import STALE

STEP_MS = 15_000
ENDS_MS = np.arange(0, 40 * STEP_MS, STEP_MS) + 1_000_000_001


def target(random, phase_ms, kind, scrapes=30):
    """Five series of a target: counters that are young, old, still or reset, and a gauge with an ordinary NaN."""
    times_ms = 1_000_000_000 + 60_000 + phase_ms + STEP_MS * np.arange(scrapes)
    steps = random.integers(0, 5, (scrapes, 5)).astype(float) * random.choice([1.0, 0.1], 5)
    steps[:, 3] = 0.0
    values = steps.cumsum(axis=0) + np.array([0.0, 3.0, 1e6, 7.0, 0.5])
    values[:, 4] = random.normal(size=scrapes)
    values[scrapes // 2, 4] = np.nan
    if kind == "reset":
        values[scrapes // 2 :, 1] -= values[scrapes // 2, 1]
    if kind == "gaps":
        values[random.random(values.shape) < 0.2] = STALE
    return Samples(times_ms, np.asfortranarray(values))


@pytest.mark.parametrize("fn", FUNCTIONS)
@pytest.mark.parametrize("most", [1, 4_000, 1 << 20])
def test_a_target_among_others_tells_what_it_tells_alone(fn, most, monkeypatch):
    monkeypatch.setattr(alike, "MOST_VALUES", most)
    random = np.random.default_rng(5)
    kinds = ["plain", "plain", "reset", "gaps", "plain", "short"] * 4
    asked = []
    for number, kind in enumerate(kinds):
        samples = target(random, 700 * number % STEP_MS, kind, 1 if kind == "short" else 30)
        columns = np.array([4, 0, 2] if number % 5 == 4 else [0, 1, 2, 3, 4])
        asked.append(SeriesRequest(samples, columns, Windows.over(samples.times_ms, ENDS_MS, 60_000)))
    for one, told in zip(asked, apply_all(fn, asked), strict=True):
        values, found = window.apply(fn, one.samples.take(one.columns), one.windows)
        assert (told.found == found.T).all() and found.any() == (len(one.samples.times_ms) > 1 or told.found.any())
        assert told.values[told.found].tobytes() == values.T[found.T].tobytes()


def test_targets_that_are_scraped_alike_are_worked_out_together(monkeypatch):
    random = np.random.default_rng(5)
    samples = [target(random, 500 * number + 500, "reset" if number == 3 else "plain") for number in range(8)]
    asked = [SeriesRequest(one, np.arange(4), Windows.over(one.times_ms, ENDS_MS, 60_000)) for one in samples]
    alone = []
    monkeypatch.setattr(window, "apply", lambda fn, part, windows: alone.append(part) or FUNCTIONS[fn](part, windows))
    apply_all("rate", asked)
    assert [one.values[:, 1].tolist() for one in alone] == [samples[3].values[:, 1].tolist()]
