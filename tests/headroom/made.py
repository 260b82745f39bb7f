"""Pools whose every number is chosen: a load, what a replica carries of it, and where its pods run."""

from __future__ import annotations

import numpy as np

from inferdoc.fleet.members import Pool
from inferdoc.forecast.capacity import PoolCapacity, Served, Verdict
from inferdoc.forecast.result import Forecast
from inferdoc.forecast.series import LoadSeries, LoadUnit, Rate
from inferdoc.forecast.starts import ColdStart
from inferdoc.headroom.reading import PoolLoad, PoolReading

MONDAY = 1_771_804_800
POOL = Pool("", "llm", "m", "decode", "h100-80")


def reading(
    peak: float = 25.0,
    each: float = 12.0,
    replicas: int = 3,
    verdict: Verdict = "slo",
    band: tuple[float, float] | None = None,
    cold: int = 300,
) -> PoolReading:
    """A pool of requests. peak: of its load; each: what one replica carries, with its band, requests/s."""
    low, high = band or (None, None)
    unit = LoadUnit.REQUESTS
    limit = 2.5 if verdict == "slo" else None
    served = Served(unit, verdict, Rate(each, unit), low, high, "ttft_p99", limit, each, 500)
    series = LoadSeries(MONDAY - 3600, 300, np.full(12, peak), "rate", unit, "pool")
    ready = tuple(("", "llm", f"pod-{number}") for number in range(replicas))
    capacity = PoolCapacity("pool", "decode", "h100-80", (served,), 1.0, replicas)
    load = PoolLoad(peak, peak, peak / 2, series)
    return PoolReading(POOL, "pool", ready, replicas, capacity, served, load, peak / 2, ColdStart(cold, "given"))


def ahead(q50: np.ndarray, q95: np.ndarray, step: int = 300, zone: str = "UTC", **more: object) -> Forecast:
    """A forecast from Monday midnight UTC, its paths as given: float64[n]."""
    quantiles = {0.5: q50, 0.95: q95}
    return Forecast("pool", "requests/s", MONDAY, step, zone, q50, quantiles, "made", **more)  # type: ignore[arg-type]
