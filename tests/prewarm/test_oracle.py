"""The oracle against facts known of KEDA, Kubernetes, cron and systemd."""

from __future__ import annotations

import shutil
import subprocess
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import numpy as np
import pytest

from inferdoc.prewarm.reference_check import MinuteSpan, _debian, cron_matches, keda_floor, last_event, systemd_floor


def span(begin: str, days: float) -> MinuteSpan:
    return MinuteSpan(int(datetime.fromisoformat(begin).replace(tzinfo=UTC).timestamp()) // 60, round(days * 1440))


def keda(start: str, end: str, zone: str, where: MinuteSpan) -> list[str]:
    """Active differing_segments as local `Fri 08:00` .. `Fri 18:00`."""
    spec = {
        "minReplicaCount": 0,
        "triggers": [
            {"type": "cron", "metadata": {"timezone": zone, "start": start, "end": end, "desiredReplicas": "1"}}
        ],
    }
    active = keda_floor(where, spec)
    edges = np.flatnonzero(np.diff(active)) + 1

    def local(at: int) -> str:
        moment = datetime.fromtimestamp((where.begin + at) * 60, UTC).astimezone(ZoneInfo(zone))
        return moment.strftime("%a %d %H:%M")

    return [local(int(at)) for at in edges]


WEEK = span("2026-06-01", 21)  # a Monday


@pytest.mark.parametrize(
    ("start", "end", "expected"),
    [
        ("0 8 * * *", "0 18 * * 5", ["Fri 05 08:00", "Fri 05 18:00", "Fri 12 08:00"]),
        ("0 8 * * 1", "0 18 * * *", ["Mon 01 08:00", "Sun 07 18:00", "Mon 08 08:00"]),
        ("0 22 * * 1-5", "0 6 * * 1-5", ["Mon 01 06:00", "Mon 01 22:00", "Tue 02 06:00"]),
        ("0 22 * * 1-5", "0 6 * * 2-6", ["Mon 01 22:00", "Tue 02 06:00", "Tue 02 22:00"]),
    ],
)
def test_keda_triggers_have_no_memory(start: str, end: str, expected: list[str]) -> None:
    assert keda(start, end, "UTC", WEEK)[:3] == expected


def test_a_night_window_without_shifted_end_days_runs_over_the_weekend() -> None:
    edges = keda("0 22 * * 1-5", "0 6 * * 1-5", "UTC", WEEK)
    assert "Fri 05 22:00" in edges
    assert edges[edges.index("Fri 05 22:00") + 1] == "Mon 08 06:00"


def test_a_start_that_the_clock_skips_closes_the_gap_before_it() -> None:
    edges = keda("30 2 * * *", "0 6 * * *", "America/New_York", span("2026-03-06", 6))
    assert edges[edges.index("Sat 07 02:30") + 1] == "Sat 07 06:00" or "Sun 08 06:00" in edges
    assert "Sun 08 02:30" not in edges


def test_a_start_in_the_repeated_hour_opens_at_its_second_occurrence() -> None:
    where = span("2026-10-31", 3)
    zone = "America/New_York"
    spec = {
        "triggers": [
            {
                "type": "cron",
                "metadata": {"timezone": zone, "start": "30 1 * * 0", "end": "0 6 * * 0", "desiredReplicas": "1"},
            }
        ]
    }
    active = np.flatnonzero(keda_floor(where, spec))
    opened = datetime.fromtimestamp((where.begin + int(active[0])) * 60, UTC)
    assert opened == datetime(2026, 11, 1, 6, 30, tzinfo=UTC)


def test_skipped_local_times_never_fire_and_repeated_ones_fire_twice() -> None:
    spring = cron_matches(span("2026-03-28", 2), "30 2 * * *", "Europe/Berlin")
    autumn = cron_matches(span("2026-10-24", 2), "30 2 * * *", "Europe/Berlin")
    assert (spring.sum(), autumn.sum()) == (1, 3)


def test_debian_cron_does_not_repeat_the_repeated_hour() -> None:
    where = span("2026-10-24", 2)
    fires = cron_matches(where, "30 2 * * *", "Europe/Berlin")
    assert (_debian(where, fires, "Europe/Berlin")).sum() == 2


def test_seven_is_sunday_for_cron_and_an_error_for_keda() -> None:
    week = span("2026-06-01", 7)
    assert np.array_equal(cron_matches(week, "0 1 * * 7", "UTC", True), cron_matches(week, "0 1 * * 0", "UTC"))
    with pytest.raises(ValueError, match="outside 0-6"):
        cron_matches(week, "0 1 * * 7", "UTC")


def test_dated_expressions_are_refused() -> None:
    with pytest.raises(ValueError, match="fires again next year"):
        cron_matches(WEEK, "0 8 25 12 *", "UTC")


def test_the_last_event_wins_and_a_clash_shows() -> None:
    where = MinuteSpan(0, 6)
    one, two = np.array([0, 1, 0, 0, 0, 0], dtype=bool), np.array([0, 0, 0, 1, 0, 0], dtype=bool)
    assert last_event(where, [(one, np.full(6, 5)), (two, np.full(6, 2))]).tolist() == [-1, 5, 5, 2, 2, 2]
    assert last_event(where, [(one, np.full(6, 5)), (one, np.full(6, 2))]).tolist()[1] == -2


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
def test_systemd_agrees() -> None:
    where = span("2026-03-27", 4)
    line = "Sat,Sun *-*-* 02:30:00 Europe/Berlin"
    words = ["systemd-analyze", "calendar", "--iterations=3", "--base-time=2026-03-27 00:00:00 UTC", line]
    said = subprocess.run(
        words, capture_output=True, text=True, check=True, env={"TZ": "UTC", "PATH": "/usr/bin:/bin"}
    ).stdout
    level = systemd_floor(where, f"OnCalendar={line}", np.arange(where.count))
    fired = np.unique(level[level >= 0])
    for at in fired.tolist():
        moment = datetime.fromtimestamp((where.begin + at) * 60, UTC)
        assert moment.strftime("%Y-%m-%d %H:%M") in said
    assert len(fired) == 1
