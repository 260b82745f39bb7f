"""Plans made by hand, for tests of what comes after planning."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from inferdoc.forecast.series import LoadSeries
from inferdoc.prewarm.build import outlook, shaped
from inferdoc.prewarm.plan import ForecastRow, PlanRow, PolicyRow, PoolRow, WindowRow, stamped
from inferdoc.prewarm.plan_options import PoolOptions
from inferdoc.prewarm.replay import tuned
from inferdoc.prewarm.week import WeekWindow

MADE = datetime(2026, 2, 20, 12, 0, tzinfo=UTC)
NOW = MADE.timestamp()
WORKDAYS = (0, 1, 2, 3, 4)


def pool(
    *windows: WeekWindow, name: str = "llama", zone: str = "Europe/Berlin", base: int = 2, **changed: object
) -> PoolRow:
    from inferdoc.prewarm.plan import window_row

    rows: list[WindowRow] = [window_row(w, "because") for w in windows]
    policy = PolicyRow(
        name="balanced",
        quantile=0.9,
        utilisation=0.85,
        safety_factor=1.0,
        capacity=2.0,
        capacity_unit="requests/s",
        capacity_source="given",
        cold_start_seconds=300,
        lead_seconds=420,
        dwell_seconds=1800,
    )
    forecast = ForecastRow("combination", 0.8, 10, False, "", {}, 21.0, MADE, MADE + timedelta(days=7))
    fields: dict[str, object] = {
        "name": name,
        "role": "both",
        "zone": zone,
        "base": base,
        "maximum": 20,
        "scale_to_zero": base == 0,
        "windows": rows,
        "policy": policy,
        "forecast": forecast,
        "hours": 400.0,
        "base_hours": 336.0,
    }
    return PoolRow(**{**fields, **changed})  # type: ignore[arg-type]


def plan(*pools: PoolRow) -> PlanRow:
    return stamped(PlanRow("inferdoc.prewarm/v1", "", MADE, MADE + timedelta(days=8), list(pools)))


def office_plan(**changed: object) -> PlanRow:
    """Working days 07:30-12:00 with 8 and 12:00-18:15 with 11; Saturday night over Sunday with 4."""
    windows = [WeekWindow(WORKDAYS, 450, 270, 8), WeekWindow(WORKDAYS, 720, 375, 11), WeekWindow((5,), 1320, 600, 4)]
    return plan(pool(*windows, **changed))  # type: ignore[arg-type]


def build_pool(series: LoadSeries, wish: PoolOptions) -> PoolRow:
    """The plan of one pool, as `plan` makes it of a file."""
    return shaped(*tuned(series, outlook(series, wish), wish))
