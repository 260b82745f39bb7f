"""Plans: the arithmetic, the shape of the floor, the file, and what is refused."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import jsonschema
import msgspec
import numpy as np
import plans as by_hand
import pytest
from made import DAY, noise, office
from plans import build_pool

from inferdoc.errors import InferdocError, SourceError
from inferdoc.forecast.engine import Request, forecast
from inferdoc.forecast.series import Load, LoadUnit, Rate
from inferdoc.prewarm.build import build_plan, load_per_second
from inferdoc.prewarm.difference import events, explain
from inferdoc.prewarm.plan import PlanRow, load, parse, pool_plan, schema, to_json, window_row
from inferdoc.prewarm.plan_options import POLICIES, Capacity, Limits, PoolOptions, replicas_for
from inferdoc.prewarm.week import (
    MINUTES,
    WeekWindow,
    ahead_of,
    clear_of_jumps,
    floor_of,
    grouped,
    jumps,
    ramped,
    segments,
    steps,
    within_budget,
)

NOW = 1774224000

OF_FILE = Rate(0.2, LoadUnit.OF_FILE)


def wish(**changed: object) -> PoolOptions:
    made = PoolOptions(
        request=Request(horizon=7 * DAY, zone="Europe/Berlin"),
        policy=POLICIES["balanced"],
        capacity=Capacity(OF_FILE),
        limits=Limits(minimum=1, maximum=30),
        cold_start=300,
        name="pool-a",
    )
    return replace(made, **changed)  # type: ignore[arg-type]


def plan(**changed: object) -> PlanRow:
    return build_plan([build_pool(office(21, zone="Europe/Berlin"), wish(**changed))], NOW)


@pytest.fixture(scope="module")
def usual() -> PlanRow:
    return plan()


def test_replicas_follow_the_arithmetic() -> None:
    unit = LoadUnit.GENERATED
    load, rate = Load(np.array([0.0, 1.0, 8.5, 8.6]), unit), Rate(2.0, unit)
    assert replicas_for(load, rate, 0.85).tolist() == [0, 1, 5, 6]
    assert replicas_for(Load(np.array([8.5]), unit), rate, 0.85, 1.2).tolist() == [6]
    for none in (0.0, -1.0, math.inf, math.nan):
        with pytest.raises(InferdocError, match="not a positive number"):
            replicas_for(load, Rate(none, unit), 0.85)
    with pytest.raises(InferdocError, match="generated tokens/s cannot be divided by a capacity in prompt tokens/s"):
        replicas_for(load, Rate(2.0, LoadUnit.PROMPT), 0.85)


def test_the_floor_covers_the_forecast_from_a_lead_time_before(usual: PlanRow) -> None:
    series = office(21, zone="Europe/Berlin")
    result = forecast(series, Request(horizon=7 * DAY, zone="Europe/Berlin"))
    demand, _ = load_per_second(series, result, POLICIES["balanced"])
    pool = pool_plan(usual.pools[0])
    need = np.clip(replicas_for(demand, OF_FILE, 0.85), 1, 30)
    for moment, wanted in zip(result.times.tolist(), need.tolist(), strict=True):
        assert pool.at(moment) >= wanted
        if moment - 420 >= result.start:
            assert pool.at(moment - 420) >= wanted


def test_the_floor_is_simple_and_costs_little_more_than_the_need(usual: PlanRow) -> None:
    row = usual.pools[0]
    assert row.base == 1
    assert 1 <= len(row.windows) <= 20
    assert row.base_hours < row.hours < 0.6 * 30 * 168


def test_the_plan_is_stable_and_its_file_is_read_back(usual: PlanRow, tmp_path: Path) -> None:
    assert plan().plan_id == usual.plan_id
    file = tmp_path / "plan.json"
    file.write_text(to_json(usual))
    assert load(str(file)) == usual
    jsonschema.validate(json.loads(to_json(usual)), schema())


def test_an_edited_plan_is_refused(usual: PlanRow) -> None:
    edited = to_json(usual).replace('"maximum": 30', '"maximum": 60')
    with pytest.raises(InferdocError, match="does not match plan_id"):
        parse(edited.encode(), "plan.json")


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        (b"", "no prewarm plan"),
        (b'{"schema": "inferdoc.prewarm/v1"', "no prewarm plan"),
        (b"<html>login</html>", "no prewarm plan"),
    ],
)
def test_what_is_no_plan_is_one_clear_line(raw: bytes, said: str) -> None:
    with pytest.raises(InferdocError, match=said) as fault:
        parse(raw, "plan.json")
    assert "\n" not in str(fault.value)


def test_a_plan_that_is_not_there_is_named() -> None:
    with pytest.raises(SourceError, match="no-such-plan"):
        load("no-such-plan.json")


def test_an_abstention_gives_no_windows_and_says_why() -> None:
    row = build_pool(noise(), wish())
    assert row.windows == []
    assert row.forecast.abstained
    assert "no usable rhythm" in row.notes[-1]


def test_the_maximum_the_minimum_and_the_budget_hold() -> None:
    row = build_pool(office(21), wish(limits=Limits(minimum=2, maximum=5)))
    assert row.base == 2
    assert max(w.replicas for w in row.windows) == 5
    assert "the forecast reaches the maximum of 5 replicas" in row.notes
    cheap = build_pool(office(21), wish(limits=Limits(minimum=1, maximum=30, budget=400)))
    assert cheap.hours <= 400
    assert "cut at" in cheap.notes[-1]


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"minimum": 5, "maximum": 3}, "min <= max"),
        ({"minimum": 0}, "scale-to-zero"),
        ({"ramp": 0}, "--ramp"),
        ({"dwell": 60}, "--dwell"),
    ],
)
def test_limits_that_make_no_sense_are_refused(asked: dict[str, int], said: str) -> None:
    with pytest.raises(InferdocError, match=said):
        Limits(**asked)  # type: ignore[arg-type]


def test_scale_to_zero_only_where_asked_and_silence_is_zero() -> None:
    series = office(21)
    quiet = replace(series, values=np.where(series.times % DAY < 6 * 3600, 0.0, series.values))
    row = build_pool(quiet, wish(limits=Limits(0, 30, scale_to_zero=True), request=Request(horizon=7 * DAY)))
    pool = pool_plan(row)
    assert row.base == 0
    assert pool.floor[60] == 0
    assert pool.floor[14 * 60] > 3


def test_a_ramp_starts_sooner_instead_of_higher() -> None:
    need = np.ones(MINUTES, dtype=np.int64)
    need[1000:1200] = 13
    slow = ramped(need, 3)
    assert (slow >= need).all()
    assert np.diff(slow[::5]).max() <= 3
    assert slow[980] == 1 and slow[989] == 4


def test_lead_reaches_over_the_end_of_the_week() -> None:
    need = np.ones(MINUTES, dtype=np.int64)
    need[3:10] = 9
    early = ahead_of(need, 7)
    assert early[-4] == 9 and early[-5] == 1 and early[9] == 9 and early[10] == 1


@pytest.mark.parametrize("dwell", [300, 1800, 7200])
def test_steps_cover_the_need_and_hold_each_level_long_enough(dwell: int) -> None:
    rng = np.random.default_rng(4)
    need = np.repeat(rng.integers(1, 12, size=MINUTES // 30), 30)
    floor = steps(need, dwell)
    assert (floor >= need).all()
    changes = np.flatnonzero(floor != np.roll(floor, 1))
    gaps = np.diff(np.append(changes, changes[0] + MINUTES))
    assert gaps.min() >= dwell / 60


def test_segments_and_windows_give_the_floor_back() -> None:
    rng = np.random.default_rng(5)
    for _ in range(20):
        floor = np.repeat(rng.integers(1, 5, size=56), 180)
        assert np.array_equal(floor_of(grouped(segments(floor, 1)), 1), floor)
    constant = np.full(MINUTES, 3)
    assert segments(constant, 1) == []


def test_budget_cuts_from_the_top() -> None:
    floor = np.ones(MINUTES, dtype=np.int64)
    floor[:600] = 10
    cut, top = within_budget(floor, 1, 200.0)
    assert top == 4 and cut.sum() / 60 <= 200


@pytest.mark.parametrize("name", ["Europe/Berlin", "America/New_York", "Australia/Lord_Howe"])
def test_no_change_stays_where_a_clock_change_skips_or_repeats_it(name: str) -> None:
    zone = ZoneInfo(name)
    begin = datetime(2026, 1, 1, tzinfo=UTC)
    floor = np.ones(MINUTES, dtype=np.int64)
    for day in range(7):
        floor[day * 1440 + 90 : day * 1440 + 140] = 4
    clear, notes = clear_of_jumps(floor, zone, begin, 400)
    assert (clear >= floor).all()
    assert notes
    for jump in jumps(zone, begin, 400):
        stretch = clear[np.arange(jump.start - 1, jump.end) % MINUTES]
        assert len(set(stretch.tolist())) == 1


def test_explain_lists_changes_in_local_time_and_utc_with_reasons(usual: PlanRow) -> None:
    text = explain(usual, datetime(2026, 3, 23, tzinfo=UTC), 1)
    assert "Europe/Berlin" in text and "Z)" in text
    assert "0.2 per second per replica" in text and "back to the base floor" in text


def test_a_change_has_the_reason_of_the_window_that_makes_it() -> None:
    """A window of the same level at another time is not it, nor one of another level at the same time."""
    windows = [WeekWindow((5,), 450, 60, 8), WeekWindow((0,), 450, 600, 8), WeekWindow((0,), 720, 60, 11)]
    rows = [window_row(window, reason) for window, reason in zip(windows, ("Saturday", "all day", "noon"), strict=True)]
    made = by_hand.pool(windows=rows, zone="UTC")
    monday = datetime(2026, 2, 23, tzinfo=UTC)
    found = events(pool_plan(made), monday + timedelta(seconds=30, microseconds=5), 1)
    base = "no window: back to the base floor; the autoscaler decides when pods leave"
    assert [(event.at - monday, event.before, event.after, event.reason) for event in found] == [
        (timedelta(minutes=450), 2, 8, "all day"),
        (timedelta(minutes=720), 8, 11, "noon"),
        (timedelta(minutes=780), 11, 8, "all day"),
        (timedelta(minutes=1050), 8, 2, base),
    ]


def test_the_shares_of_a_forecast_are_told_from_one_in_twenty_on() -> None:
    made = by_hand.office_plan()
    for weights, told in (
        ({"week": 0.55, "day": 0.4, "last": 0.05}, "combination (week 55%, day 40%, last 5%), "),
        ({"day": 0.04, "week": 0.96}, "combination (week 96%), "),
        ({"week": 1.0}, "combination, "),
    ):
        forecast_row = msgspec.structs.replace(made.pools[0].forecast, weights=weights)
        row = msgspec.structs.replace(made.pools[0], forecast=forecast_row)
        assert f"forecast: {told}skill" in explain(msgspec.structs.replace(made, pools=[row]), by_hand.MADE, 1)


def test_a_plan_is_stale_after_its_last_moment_and_not_before() -> None:
    made = by_hand.office_plan()
    last = made.valid_until
    assert "stale" not in explain(made, last, 1)
    assert "this plan is stale" in explain(made, last + timedelta(seconds=1), 1)


def test_a_plan_of_one_pool_takes_well_under_five_seconds() -> None:
    import time

    began = time.process_time()
    plan()
    assert time.process_time() - began < 5
