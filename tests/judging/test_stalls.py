"""Stalls of many units at once against one unit at a time, step by step."""

from __future__ import annotations

import numpy as np
import pytest

from inferdoc.judging.conditions.stalls import HEALED_SECONDS, LONGEST_GAP_FACTOR, MIN_SCRAPES, evaluate_rows
from inferdoc.judging.context import UnitQuery
from tests.judging.frames import N, scene, when

STALLED = when("speed", stalls="queue")


def plain(progress, work, context):
    """(holds, first, last, usual) of one unit that has both signals: its stalls in order, each against the pauses
    before it."""
    earlier, clock = context.clock.window_steps - 1, context.clock
    known = [t for t in range(N) if np.isfinite(progress[t] + work[t])]
    found, pause, run, moved = None, 0, [], False
    for t in [*known, None]:  # a step that was not scraped ends nothing
        if t is not None and progress[t] == 0 and work[t] > 0:
            run.append(t)
            continue
        if run:
            told = moved and t is None
            need = clock.steps(0, MIN_SCRAPES) if told else clock.steps(HEALED_SECONDS, MIN_SCRAPES)
            if len(run) >= 2 and len(run) + earlier >= max(need, LONGEST_GAP_FACTOR * pause):
                found = max(0, run[0] - earlier), run[-1]
            else:
                pause = max(pause, len(run))
        run = []
        moved = moved or (t is not None and progress[t] > 0)
    usual = [v for v in (progress[: found[0]] if found else progress) if np.isfinite(v)]
    middle = float(np.median(usual)) if usual else None
    return (True, *found, middle) if found else (False, None, None, middle)


@pytest.mark.parametrize("seed", range(6))
def test_rows_agree_with_one_unit_at_a_time(seed):
    rng = np.random.default_rng(seed)
    speed, queue = {}, {}
    for pod in range(40):
        stops = np.cumsum(rng.integers(1, 40, 12))
        moving = np.searchsorted(stops, np.arange(N)) % 2 == 0
        progress = np.where(moving | (rng.random(N) < 0.02), rng.lognormal(3, 1, N), 0.0)
        progress[rng.random(N) < 0.05] = np.nan
        work = np.where(rng.random(N) < 0.05, 0.0, rng.integers(0 if pod % 2 else 1, 9, N).astype(float))
        work[rng.random(N) < 0.05] = np.nan
        if pod % 3 == 0:  # one long stop, which goes on to the end
            stop = int(rng.integers(N // 4, N))
            progress[:stop], progress[stop:], work[stop:] = rng.lognormal(3, 1, stop), 0.0, 4.0
            if pod % 2:  # nothing is scraped for a while
                away = int(rng.integers(0, N - 20))
                progress[away : away + 20], work[away : away + 20] = np.nan, np.nan
        if pod % 5:
            queue[f"p{pod}"] = work
        if pod % 7:
            speed[f"p{pod}"] = progress
    context = scene({"speed": speed, "queue": queue})
    outcomes = evaluate_rows(STALLED, context, [UnitQuery(unit) for unit in context.view.units])
    held = 0
    for unit, found in zip(context.view.units, outcomes, strict=True):
        name = unit.member.pod
        if name in speed and name in queue:
            told = (found.holds, found.first, found.last, found.baseline if found.holds else found.observed)
            assert told == plain(speed[name], queue[name], context)
            held += bool(found.holds)
        else:
            assert found.holds is None and found.missing == (("queue",) if name in speed else ("speed",))
    assert held
