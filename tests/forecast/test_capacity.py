"""What a replica serves of each kind of load: by the objective, by the knee, or at least so much."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from inferdoc.catalogue.slo import Slo
from inferdoc.errors import InferdocError
from inferdoc.fleet.members import Member, Pool
from inferdoc.forecast.capacity import capacities, knee, served_well, to_table, uncertainty
from inferdoc.forecast.fromsource import Gathered
from inferdoc.forecast.series import LoadUnit, Rate, rate_of

TOKENS = 200


def curve(count: int = 2000, capacity: float = 10.0, top: float = 9.8, seed: int = 5) -> tuple[np.ndarray, np.ndarray]:
    """An M/M/1-like wait: latency 0.1 / (1 - load / capacity), with noise; it doubles at half the capacity."""
    rng = np.random.default_rng(seed)
    load = rng.uniform(0.3, top, size=count)
    return load, 0.1 / (1 - load / capacity) * rng.lognormal(0, 0.15, size=count)


def history(
    load: np.ndarray, late: np.ndarray, role: str = "decode", off: float = 1.0, seconds: float = 2.0
) -> Gathered:
    """One replica: `load` requests/s, 200 generated tokens and 3000 computed ones each; off: in Little's law."""
    made = Gathered(0, 900, len(load))
    key = ("", "ns", role)
    made.members[key] = Member(key, "a:8000", "n", Pool("", "ns", "m", role, "h100"))
    for name, values in {
        "request_rate": load,
        "ttft_p99": late,
        "generation_tokens_rate": load * TOKENS,
        "prefill_tokens_rate": load * 3000,
        "running": load * seconds * off,
        "e2e_mean": np.full(len(load), seconds),
    }.items():
        made.rows[name] = {key: values}
    return made


def promise(target: float, signal: str = "ttft_p99") -> list[Slo]:
    return [Slo("x", "X", signal, "latency", target, 0.99, "30d")]


def test_the_knee_is_where_p99_doubles_for_good() -> None:
    found = knee(*curve())
    assert found is not None and 4.5 <= found <= 6.5


@pytest.mark.parametrize(("limit", "least", "most"), [(0.14, 1.5, 3.5), (0.5, 7.0, 8.6)])
def test_an_objective_decides_on_either_side_of_the_knee(limit: float, least: float, most: float) -> None:
    """0.1 / (1 - load / 10) crosses 0.14 at 2.9 and 0.5 at 8.0; it has doubled at 5."""
    found = knee(*curve(), limit=limit)
    assert found is not None and least <= found <= most


@pytest.mark.parametrize(
    ("load", "late"),
    [
        curve(top=3.0),  # never near the knee
        curve(count=40),  # too few
        (np.full(500, 5.0), np.full(500, 0.2)),  # one load only
    ],
)
def test_too_little_load_history_shows_no_knee(load: np.ndarray, late: np.ndarray) -> None:
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
    assert low <= at <= high


@pytest.mark.parametrize(
    ("role", "unit", "each"),
    [("prefill", LoadUnit.PROMPT, 3000), ("decode", LoadUnit.GENERATED, TOKENS)],
)
def test_each_role_is_measured_in_what_it_works_on(role: str, unit: LoadUnit, each: int) -> None:
    (found,) = capacities(history(*curve(), role=role))
    (served,) = found.served
    assert served.unit == unit and served.verdict == "p99" and served.rate is not None
    assert 4.5 <= served.rate.per_second / each <= 6.5
    assert served.safe == Rate(served.low or 0.0, unit)
    assert found.little == pytest.approx(1.0) and found.notes() == []
    assert served.low is not None and served.high is not None
    moved = 10.0 ** np.floor(np.log10(served.high - served.low))
    shown = moved * round(served.rate.per_second / moved)
    assert f"{shown:.4g} {unit.value} per replica" in to_table([found]), "no digit that resamples move"


def test_a_pool_that_does_both_is_measured_in_both_kinds() -> None:
    (found,) = capacities(history(*curve(), role="both"))
    assert [each.unit for each in found.served] == [LoadUnit.PROMPT, LoadUnit.GENERATED]
    (asked,) = capacities(history(*curve(), role="both"), unit=LoadUnit.REQUESTS)
    assert [each.unit for each in asked.served] == [LoadUnit.REQUESTS]


def test_requests_count_where_no_tokens_were_seen() -> None:
    made = history(*curve())
    del made.rows["generation_tokens_rate"]
    assert capacities(made)[0].served[0].unit == LoadUnit.REQUESTS


def test_the_promised_latency_alone_decides() -> None:
    """Time to first token doubles at half of what it may take: the objective holds up to 8 of 10."""
    made = history(*curve())
    (free,), (held,) = capacities(made), capacities(made, promise(0.5))
    assert free.served[0].verdict == "p99" and held.served[0].verdict == "slo"
    assert held.served[0].rate is not None and free.served[0].rate is not None
    assert held.served[0].rate.per_second > 1.3 * free.served[0].rate.per_second
    assert "ttft_p99 of 0.5 s is broken above it" in to_table([held])


def test_an_objective_that_was_never_broken_gives_a_stated_lower_bound() -> None:
    (found,) = capacities(history(*curve(top=6.0)), promise(0.9))
    served = found.served[0]
    assert served.verdict == "at least" and served.rate is not None and served.low is None
    assert 5.5 * TOKENS <= served.rate.per_second <= 6.0 * TOKENS
    text = to_table([found])
    assert "at least" in text and "a lower bound" in text and "within the objective of 0.9 s" in text


def test_an_objective_that_is_always_broken_gives_no_number() -> None:
    (found,) = capacities(history(*curve()), promise(0.01))
    assert found.served[0].verdict == "missed" and found.served[0].rate is None
    assert "--capacity 'ns-m-decode-h100=NUMBER generated tokens/s'" in to_table([found])
    assert served_well(np.full(100, 5.0), np.full(100, 2.0), 1.0) is None


def test_a_gap_in_littles_law_is_said() -> None:
    (found,) = capacities(history(*curve(), off=3.0))
    assert "Little's law: 3 of rate x time in the system are running" in found.notes()[0]
    (idle,) = capacities(history(*curve(), off=0.0))
    assert "Little's law: 0 of" in to_table([idle])


def test_a_capacity_is_a_number_and_one_of_the_known_units() -> None:
    assert rate_of("4000 generated tokens/s", "--capacity") == Rate(4000, LoadUnit.GENERATED)
    assert rate_of(" 1.5e4  Prompt  tokens / s", "--capacity") == Rate(15000, LoadUnit.PROMPT)
    for text in (
        "4000",
        "4000 tokens/s",
        "0 requests/s",
        "-1 requests/s",
        "x requests/s",
        "1.2.3 requests/s",
        "",
        "9e999 requests/s",
    ):
        with pytest.raises(InferdocError, match="one of requests/s, prompt tokens/s, generated tokens/s"):
            rate_of(text, "--capacity")


def test_a_capacity_does_not_depend_on_the_order_in_which_pods_were_read() -> None:
    made = history(*curve(seed=5))
    for number in range(3):
        key, pod = ("", "ns", f"decode-{number}"), history(*curve(seed=6 + number))
        ((known, member),) = pod.members.items()
        made.members[key] = replace(member, key=key)
        for name, rows in pod.rows.items():
            made.rows[name][key] = rows[known]
    turned = replace(made, members=dict(reversed(made.members.items())))
    assert capacities(turned, promise(0.5)) == capacities(made, promise(0.5))
