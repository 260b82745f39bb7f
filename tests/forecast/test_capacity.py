"""The knee of latency over load, its uncertainty, and when it was not seen."""

from __future__ import annotations

import numpy as np
import pytest

from inferdoc.fleet.members import Member, Pool
from inferdoc.forecast.capacity import capacities, knee, to_table, uncertainty
from inferdoc.forecast.fromsource import Gathered

KEY = ("", "ns", "a")


def curve(count: int = 2000, capacity: float = 10.0, top: float = 9.8, seed: int = 5) -> tuple[np.ndarray, np.ndarray]:
    """An M/M/1-like wait: latency 0.1 / (1 - load / capacity), with noise; it doubles at half the capacity."""
    rng = np.random.default_rng(seed)
    load = rng.uniform(0.3, top, size=count)
    return load, 0.1 / (1 - load / capacity) * rng.lognormal(0, 0.15, size=count)


def history(load: np.ndarray, late: np.ndarray, residence: float = 2.0, off: float = 1.0) -> Gathered:
    made = Gathered(0, 300, len(load))
    made.members[KEY] = Member(KEY, "a:8000", "n", Pool("", "ns", "m", "both", "h100"))
    for name, values in {
        "request_rate": load,
        "ttft_p99": late,
        "generation_tokens_rate": load * 200,
        "running": load * residence * off,
        "e2e_mean": np.full(len(load), residence),
    }.items():
        made.rows[name] = {KEY: values}
    return made


def test_the_knee_is_where_p99_doubles_for_good() -> None:
    found = knee(*curve())
    assert found is not None and found[1] == "p99"
    assert 4.5 <= found[0] <= 6.5


def test_an_slo_that_is_crossed_earlier_wins() -> None:
    found = knee(*curve(), limit=0.14)
    assert found is not None and found[1] == "slo"
    assert 1.5 <= found[0] <= 3.5


@pytest.mark.parametrize(
    ("load", "late"),
    [
        curve(top=3.0),  # never near the knee
        curve(count=40),  # too few
        (np.full(500, 5.0), np.full(500, 0.2)),  # one load only
    ],
)
def test_too_little_load_history_is_not_seen(load: np.ndarray, late: np.ndarray) -> None:
    assert knee(load, late) is None


def test_a_bump_in_the_middle_is_no_knee() -> None:
    load, late = curve(top=4.0)
    late[(load > 1.5) & (load < 2.0)] *= 5
    assert knee(load, late) is None


def test_the_band_holds_the_knee() -> None:
    load, late = curve()
    low, high = uncertainty(load, late, None)
    at = knee(load, late)
    assert low is not None and high is not None and at is not None
    assert low <= at[0] <= high


def test_capacity_of_a_pool_with_tokens_and_littles_law() -> None:
    (found,) = capacities(history(*curve()))
    assert found.per_second is not None and found.tokens is not None
    assert found.tokens / found.per_second == pytest.approx(200, rel=0.1)
    assert found.little == pytest.approx(1.0)
    assert found.notes() == []
    assert found.tier == "h100"
    assert "ns-m-h100" in to_table([found])


def test_a_gap_in_littles_law_is_said() -> None:
    (found,) = capacities(history(*curve(), off=3.0))
    assert "Little's law is off by 3.0x" in found.notes()[0]


def test_not_seen_gives_a_bound_not_a_number() -> None:
    (found,) = capacities(history(*curve(top=3.0)))
    assert found.verdict == "not seen" and found.per_second is None
    assert found.to_dict()["requests_per_second_per_replica"] is None
    assert "up to 3" in found.notes()[0] or "up to 2.99" in found.notes()[0]
