"""Plans of every pool of a source: each in its own kind of load, none aborted by another, both sides together."""

from __future__ import annotations

import numpy as np
import pytest
from fleet_source import END, Pods, Wave, origin, served, steady, working_day
from made import DAY

from inferdoc.errors import InferdocError
from inferdoc.forecast.engine import Request
from inferdoc.forecast.series import LoadUnit, Rate
from inferdoc.prewarm.plan import PoolRow, pool_plan
from inferdoc.prewarm.plan_options import GivenRates, PerPool, PlanOptions, given_rates
from inferdoc.prewarm.pools import Planned, plan_pools

GENERATED, PROMPTS = "generation_tokens_rate", "prefill_tokens_rate"
PD = {"p": ("prefill", "h100-80"), "d": ("decode", "h100-80"), "e": ("decode", "a100-80")}


def fleet(**changed: dict[str, Wave]) -> Pods:
    """One prefill pod, and decode pods on two tiers, of which the older one serves half."""
    usual = {"p": served(PROMPTS, 9000), "d": served(GENERATED, 2000), "e": served(GENERATED, 1000)}
    return Pods(PD, {**usual, **changed})


def planned(source: Pods, *, promised: float | None = 1.0, at: int = END, **asked: object) -> Planned:
    request = PlanOptions(Request(7 * DAY, begin=at, arima_seconds=0), **asked)  # type: ignore[arg-type]
    return plan_pools(origin(source, promised), request, at)


def sharp(times: np.ndarray) -> np.ndarray:
    """A load that begins at eight o'clock and ends at six."""
    hour = times % DAY / 3600
    return np.where((hour >= 8) & (hour < 18), 1.0, 0.1) * working_day(np.full(len(times), DAY / 2))


def rows(made: Planned) -> dict[str, PoolRow]:
    return {row.name: row for row in made.rows}


def test_every_pool_is_planned_in_what_it_works_on() -> None:
    made = planned(fleet())
    found = rows(made)
    assert made.left_out == []
    assert {name: row.policy.capacity_unit for name, row in found.items()} == {
        "ns-m-prefill-h100-80": "prompt tokens/s",
        "ns-m-decode-h100-80": "generated tokens/s",
        "ns-m-decode-a100-80": "generated tokens/s",
    }
    old, new = (found[f"ns-m-decode-{tier}"].policy.capacity for tier in ("a100-80", "h100-80"))
    assert new == pytest.approx(2 * old, rel=0.02) and old == pytest.approx(1000, rel=0.1)
    assert "a lower bound" in found["ns-m-decode-a100-80"].policy.capacity_source


def test_a_pool_without_latencies_is_left_out_and_the_others_are_planned() -> None:
    made = planned(fleet(d=served(GENERATED, 2000, late=None)))
    assert sorted(rows(made)) == ["ns-m-decode-a100-80", "ns-m-prefill-h100-80"]
    ((name, why),) = made.left_out
    assert name == "ns-m-decode-h100-80" and "give --capacity 'ns-m-decode-h100-80=NUMBER generated tokens/s'" in why


def test_roles_and_tiers_of_a_model_with_a_long_name_stay_apart() -> None:
    model = "organisation/a-model-with-a-very-long-name-instruct-fp8-dynamic-2026-11"
    source = fleet()
    source.places = dict.fromkeys(PD, ("production", model))
    made = planned(source)
    names = sorted(rows(made))
    assert len(names) == 3 and all(len(name) <= 63 for name in names) and made.left_out == []


def test_pools_of_one_name_are_left_out_and_the_others_are_planned() -> None:
    """Two models whose names differ in a character that no label carries."""
    source = fleet()
    source.roles = {**PD, "e": PD["d"]}
    source.places = {"d": ("ns", "m_1"), "e": ("ns", "m.1")}
    made = planned(source)
    assert list(rows(made)) == ["ns-m-prefill-h100-80"]
    ((name, why),) = made.left_out
    assert name == "ns-m-1-decode-h100-80" and why.startswith(
        "2 pools go by this name (namespace ns, model m.1, decode"
    )
    with pytest.raises(InferdocError, match="ns-m-1-decode-h100-80: 2 pools go by this name"):
        origin(source).series()


def test_one_model_in_two_namespaces_is_two_pools() -> None:
    source = fleet()
    source.roles = {**PD, "e": PD["d"]}
    source.places = {"e": ("other", "m")}
    assert {"ns-m-decode-h100-80", "other-m-decode-h100-80"} <= set(rows(planned(source)))


def test_a_capacity_is_given_to_one_pool_in_its_own_unit() -> None:
    given = given_rates(["ns-m-decode-h100-80=500 generated tokens/s"], PerPool(None))
    found = rows(planned(fleet(), capacity=given, maximum=PerPool(50, {"ns-m-decode-h100-80": 3})))
    row = found["ns-m-decode-h100-80"]
    assert (row.policy.capacity, row.policy.capacity_source, row.maximum) == (500, "given", 3)
    assert pool_plan(row).top == 3 and found["ns-m-prefill-h100-80"].maximum == 50
    assert found["ns-m-decode-a100-80"].policy.capacity > 900


def test_a_rate_of_one_kind_says_nothing_about_a_pool_of_another() -> None:
    given = given_rates(["500 generated tokens/s"], PerPool(None))
    assert given.of("p", "prefill") == () and given.of("d", "decode") == (Rate(500, LoadUnit.GENERATED),)
    assert given.of("b", "both") == (Rate(500, LoadUnit.GENERATED),)
    own = GivenRates((), {"p": (Rate(2, LoadUnit.REQUESTS),)})
    with pytest.raises(InferdocError, match="no load in requests/s was seen"):
        planned(Pods({"p": ("prefill", "")}, {"p": served(PROMPTS, 10)}), capacity=GivenRates(own.own["p"]))
    with pytest.raises(InferdocError, match="is given twice"):
        given_rates(["500 generated tokens/s", "600 generated tokens/s"], PerPool(None))


def test_of_a_pool_that_does_both_the_binding_kind_is_planned() -> None:
    both = {**served(PROMPTS, 9000), **served(GENERATED, 2000)}
    source = Pods({"b": ("both", "h100-80")}, {"b": both})
    for prompt, generated, unit in ((1000, 2000, "prompt tokens/s"), (9000, 500, "generated tokens/s")):
        given = given_rates([f"{prompt} prompt tokens/s", f"{generated} generated tokens/s"], PerPool(None))
        (row,) = planned(source, capacity=given).rows
        assert row.policy.capacity_unit == unit


def test_replayed_days_are_read_beyond_the_history_that_the_plan_is_made_of() -> None:
    """So that each of them is planned from as much as the plan itself: with eight days of history there is none to
    replay among them, and the plan does not become one of fifteen days."""
    histories = []
    given = given_rates(["900 prompt tokens/s", "100 generated tokens/s"], PerPool(None))
    for tune in (False, True):
        source = fleet(d=served(GENERATED, 2000, sharp))
        request = Request(7 * DAY, begin=END, arima_seconds=0)
        limits = {"capacity": given, "cold_start": PerPool(600), "maximum": PerPool(500)}
        asked = PlanOptions(request, tune=tune, **limits)  # type: ignore[arg-type]
        made = rows(plan_pools(origin(source, days=8), asked, END))
        assert min(source.begins) < END - (14 if tune else 7) * DAY
        assert (min(source.begins) < END - 9 * DAY) is tune
        row = made["ns-m-decode-h100-80"]
        assert (row.tuning is not None) is tune
        histories.append(row.forecast.history_days)
    assert histories == [8.0, 8.0]


def test_an_option_for_a_pool_that_is_not_there_is_refused() -> None:
    with pytest.raises(InferdocError, match="no pool is called `nosuch`; there are ns-m-decode-a100-80"):
        planned(fleet(), maximum=PerPool(50, {"nosuch": 3}))


def test_a_plan_at_its_maximum_all_week_is_refused_with_the_arithmetic() -> None:
    given = given_rates(["ns-m-decode-h100-80=1 generated tokens/s"], PerPool(None))
    made = planned(fleet(), capacity=given)
    ((name, why),) = made.left_out
    assert name == "ns-m-decode-h100-80" and "would stay at the maximum of 100 all week: p90 of" in why
    assert "/ (85% of 1 generated tokens/s per replica) =" in why and "raise --max" in why


def test_prefill_and_decode_are_ready_at_the_same_moment() -> None:
    """A request waits for the slower of the two, whatever its own pool needs."""
    cold = PerPool(120, {"ns-m-decode-a100-80": 600})
    found = rows(planned(fleet(), cold_start=cold))
    assert {row.policy.cold_start_seconds for row in found.values()} == {600}


def test_a_side_without_a_rhythm_follows_the_other() -> None:
    source = fleet(p=served(PROMPTS, 3000, steady))
    alone = Pods({"p": PD["p"]}, {"p": source.signals["p"]})
    given = given_rates(["500 prompt tokens/s"], PerPool(None))
    assert planned(alone, capacity=given).rows[0].forecast.abstained
    row = rows(planned(source, capacity=given))["ns-m-prefill-h100-80"]
    assert not row.forecast.abstained and "follows ns-m-decode" in row.forecast.reason
    noon, night = pool_plan(row).floor[12 * 60], pool_plan(row).floor[2 * 60]
    assert noon > 3 * night


def test_a_side_that_follows_a_tuned_one_follows_its_setting() -> None:
    source = fleet(p=served(PROMPTS, 3000, steady), d=served(GENERATED, 2000, sharp), e=served(GENERATED, 1000, sharp))
    leading = {"ns-m-decode-h100-80": 1.5, "ns-m-decode-a100-80": 1.5}
    given = given_rates(["100 prompt tokens/s", "100 generated tokens/s"], PerPool(None))
    tops = {}
    for tune in (False, True):
        asked = {"capacity": given, "quantile": PerPool(0.9), "safety": PerPool(None, leading)}
        found = rows(planned(source, cold_start=PerPool(600), maximum=PerPool(500), tune=tune, **asked))
        assert {name for name, row in found.items() if row.tuning is not None} == (set(leading) if tune else set())
        assert all(found[name].policy.safety_factor == 1.5 for name in leading)
        tops[tune] = pool_plan(found["ns-m-prefill-h100-80"]).top
    assert tops[True] == pytest.approx(1.5 * tops[False], rel=0.05)


def test_data_that_make_no_schedule_are_one_line_each() -> None:
    with pytest.raises(InferdocError, match=r"^the newest load is of 2026-03-16T00:00:00Z, 3\.0 days before the plan"):
        planned(fleet(), at=END + 3 * DAY)

    def gone(times: np.ndarray) -> np.ndarray:
        return np.where(times > END - 2 * DAY, np.nan, working_day(times))

    made = planned(fleet(e=served(GENERATED, 1000, gone)))
    ((name, why),) = made.left_out
    assert name == "ns-m-decode-a100-80" and "2.0 days before the plan" in why
