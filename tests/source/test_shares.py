"""A share of few events is read over a window that holds enough of them; one of many is read as it is."""

from __future__ import annotations

import numpy as np
import pytest

from inferdoc.catalogue.signal import Reading, Term
from inferdoc.source.assemble import EntityTable, enough_events, width_for
from inferdoc.source.frame import Entity
from inferdoc.source.reads import Grid

GRID = Grid(0, 30_000, 13, 15_000, 120_000, 60_000)
"""Steps of half a minute, rates over two minutes."""
APART = 4
SHARE = Reading(
    formula="bad / all",
    terms={"bad": Term(rate="requests_total", match={"code": "500"}), "all": Term(rate="requests_total")},
)


def per_second(events: float) -> float:
    """The rate of so many events in one window."""
    return events / 120.0


def rows(*values: float) -> np.ndarray:
    return np.array([values])


def test_a_share_of_many_events_is_left_as_it_is() -> None:
    terms = {"bad": np.full((2, 13), per_second(5)), "all": np.full((2, 13), per_second(20))}
    told = enough_events(SHARE, terms, GRID)
    assert all(np.array_equal(told[name], terms[name]) for name in terms)


def test_few_events_are_counted_over_several_windows_that_do_not_overlap() -> None:
    bad = np.zeros((1, 13))
    bad[0, 12], bad[0, 8] = per_second(10), per_second(4)
    told = enough_events(SHARE, {"bad": bad, "all": np.full((1, 13), per_second(10))}, GRID)
    assert told["bad"][0, 12] == pytest.approx(per_second(14) / 2)
    assert told["bad"][0, 8] == pytest.approx(per_second(4) / 2)
    assert told["all"][0, 12] == pytest.approx(per_second(10))


def test_the_first_steps_are_read_over_what_there_is() -> None:
    terms = {"bad": np.full((1, 13), per_second(1)), "all": np.full((1, 13), per_second(2))}
    told = enough_events(SHARE, terms, GRID)
    assert np.allclose(told["bad"], terms["bad"])


@pytest.mark.parametrize("steps", [1, 3, 5])
def test_a_grid_shorter_than_the_windows_is_read_over_what_there_is(steps: int) -> None:
    terms = {"bad": np.full((1, steps), per_second(1)), "all": np.full((1, steps), per_second(2))}
    assert np.allclose(enough_events(SHARE, terms, GRID)["bad"], terms["bad"])


def test_a_gap_stays_a_gap_and_is_left_out_of_later_windows() -> None:
    everything = np.full((1, 13), per_second(10))
    everything[0, 8] = np.nan
    told = enough_events(SHARE, {"bad": everything, "all": everything}, GRID)
    assert np.isnan(told["all"][0, 8])
    assert told["all"][0, 12] == pytest.approx(per_second(10))


def test_a_share_of_something_else_than_events_is_left_as_it_is() -> None:
    share = Reading(formula="used / size", terms={"used": Term(rate="used_total"), "size": Term(gauge="size")})
    terms = {"used": rows(*[0.001] * 13), "size": rows(*range(1, 14))}
    told = enough_events(share, terms, GRID)
    assert all(np.array_equal(told[name], terms[name]) for name in terms)


def test_a_formula_with_a_gauge_keeps_the_gauge_at_its_step() -> None:
    share = Reading(
        formula="bad / all * weight",
        terms={"bad": Term(rate="bad_total"), "all": Term(rate="all_total"), "weight": Term(gauge="weight")},
    )
    terms = {"bad": rows(*[0.001] * 13), "all": rows(*[0.01] * 13), "weight": rows(*range(1, 14))}
    assert np.array_equal(enough_events(share, terms, GRID)["weight"], terms["weight"])


@pytest.mark.parametrize(("events", "width"), [(20.0, 1), (19.0, 2), (10.0, 2), (9.0, 4), (0.1, 4), (0.0, 4)])
def test_windows_are_doubled_twice_at_most(events: float, width: int) -> None:
    assert width_for(np.array([[events, events, 0.0]])) == width


def of_model(model: str, pod: str = "proxy-0") -> Entity:
    return Entity.of(("cluster", "namespace", "pod", "model_name"), ("", "gateway", pod, model))


def test_what_fails_of_one_model_does_not_fail_of_another():
    table = EntityTable(2)
    table.add([of_model("coder")], np.ones((1, 2)))
    assert table.knows(of_model("coder")) and table.knows(of_model(""))
    assert not table.knows(of_model("embed")) and not table.knows(of_model("coder", "proxy-1"))
    assert np.isnan(table.stack([of_model("embed")])).all()


def test_what_carries_no_model_is_of_every_model_of_its_pod():
    table = EntityTable(2)
    table.add([of_model("")], np.ones((1, 2)))
    assert (table.stack([of_model("coder"), of_model("embed")]) == 1).all()
