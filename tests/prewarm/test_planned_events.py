"""A planned event raises the floor of its hours, whatever the policy holds the load under."""

from __future__ import annotations

from datetime import UTC, datetime

from made import office
from plans import build_pool

from inferdoc.forecast.agenda import PlannedEvent
from inferdoc.forecast.engine import Request
from inferdoc.forecast.series import DAY, LoadUnit, Rate
from inferdoc.prewarm.plan import PoolRow
from inferdoc.prewarm.plan_options import POLICIES, Capacity, Limits, PoolOptions


def planned(*events: PlannedEvent) -> PoolRow:
    request = Request(horizon=7 * DAY, zone="UTC", events=events, arima_seconds=0)
    wish = PoolOptions(
        request, POLICIES["balanced"], Capacity(Rate(0.2, LoadUnit.OF_FILE)), Limits(1, 500), cold_start=300
    )
    return build_pool(office(21), wish)


def test_a_launch_raises_its_hours_beyond_the_cap_of_the_policy() -> None:
    noon = office(21).end + 2 * DAY + 11 * 3600
    plain, launch = planned(), planned(PlannedEvent(noon, noon + 2 * 3600, 3.0, "Launch"))
    highest = max(window.replicas for window in plain.windows)
    day = datetime.fromtimestamp(noon, UTC).strftime("%a").lower()
    raised = [window for window in launch.windows if window.replicas > highest]
    assert {name for window in raised for name in window.days} == {day}
    assert max(window.replicas for window in raised) > 2 * highest
    assert any("Launch: x3" in note for note in launch.notes)
