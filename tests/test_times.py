"""Times as people write them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inferdoc.errors import InferdocError
from inferdoc.times import DEFAULT_SINCE, length_of, moment_ms, moment_of, resolve_window, seconds_of

NOW = 1_800_000_000.25
LATEST = 1_799_999_000_123


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90s", 90),
        ("15m", 900),
        ("1h", 3600),
        ("2d", 172800),
        ("1w", 604800),
        ("500ms", 0.5),
        ("1h30m", 5400),
        ("1.5h", 5400),
        (" 5M ", 300),
    ],
)
def test_durations(text, seconds):
    assert length_of(text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["", "5", "m", "5 m", "-5m", "5y", "1h-5m", "5m!", "soon", "1e3s"])
def test_what_is_no_duration(text):
    with pytest.raises(InferdocError, match="duration") as caught:
        length_of(text, "--since")
    assert "--since" in str(caught.value) and "\n" not in str(caught.value)


@given(
    st.lists(st.tuples(st.integers(0, 999), st.sampled_from(["ms", "s", "m", "h", "d", "w"])), min_size=1, max_size=4)
)
@settings(derandomize=True, max_examples=80, deadline=None)
def test_a_duration_is_the_sum_of_its_parts(parts):
    assert length_of("".join(f"{n}{unit}" for n, unit in parts)) == pytest.approx(
        sum(length_of(f"{n}{unit}") for n, unit in parts)
    )


def test_whole_seconds_are_at_least_one():
    assert seconds_of("1500ms", "--interval") == 2
    with pytest.raises(InferdocError, match="less than a second"):
        seconds_of("400ms", "--interval")


@pytest.mark.parametrize(
    ("value", "ms"),
    [
        ("now", 1_800_000_000_250),
        ("NOW", 1_800_000_000_250),
        ("latest", LATEST),
        ("now-10m", 1_799_999_400_250),
        ("1700000000", 1_700_000_000_000),
        ("1700000000.5", 1_700_000_000_500),
        (1_700_000_000, 1_700_000_000_000),
        ("2023-11-14T22:13:20Z", 1_700_000_000_000),
        ("2023-11-14T23:13:20+01:00", 1_700_000_000_000),
        ("2023-11-14T22:13:20", 1_700_000_000_000),
        ("2023-11-14", 1_699_920_000_000),
        (datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC), 1_700_000_000_000),
        (datetime(2023, 11, 14, 23, 13, 20, tzinfo=timezone(timedelta(hours=1))), 1_700_000_000_000),
        (datetime(2023, 11, 14, 22, 13, 20), 1_700_000_000_000),
        (timedelta(minutes=10), 1_799_999_400_250),
    ],
)
def test_moments(value, ms):
    assert moment_ms(value, LATEST, now=NOW) == ms


def test_without_any_sample_latest_is_now():
    assert moment_ms("latest", None, now=NOW) == 1_800_000_000_250


@pytest.mark.parametrize("text", ["", "yesterday", "2023-13-01", "12:30", "nan", "inf", "now+5m", "1e400"])
def test_what_is_no_time(text):
    with pytest.raises(InferdocError) as caught:
        moment_ms(text, LATEST, what="--from")
    assert "\n" not in str(caught.value) and "--from" in str(caught.value)


def test_whole_seconds_of_a_moment():
    assert moment_of("2023-11-14T22:13:20.900Z", "--from") == 1_700_000_000


# ---- windows --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("since", "begin", "until", "window"),
    [
        ("1h", None, "latest", (LATEST - 3_600_000, LATEST)),
        (None, None, "latest", (LATEST - 3_600_000, LATEST)),
        (600, None, "latest", (LATEST - 600_000, LATEST)),
        (timedelta(minutes=10), None, "latest", (LATEST - 600_000, LATEST)),
        (None, "1700000000", "1700000060", (1_700_000_000_000, 1_700_000_060_000)),
        ("1m", None, "1700000060", (1_700_000_000_000, 1_700_000_060_000)),
        (None, 1_700_000_000, 1_700_000_060, (1_700_000_000_000, 1_700_000_060_000)),
    ],
)
def test_windows(since, begin, until, window):
    assert DEFAULT_SINCE == "1h"
    assert resolve_window(since, begin, until, LATEST) == window


@pytest.mark.parametrize(
    ("since", "begin", "until"),
    [
        ("1h", "now", "latest"),
        (None, "1700000060", "1700000000"),
        (None, "1700000000", "1700000000"),
        ("0s", None, "latest"),
    ],
)
def test_windows_that_are_none(since, begin, until):
    with pytest.raises(InferdocError):
        resolve_window(since, begin, until, LATEST)
