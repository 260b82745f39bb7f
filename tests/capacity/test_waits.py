"""Waits for slots and their tails, against queues whose answers are known."""

from __future__ import annotations

import math

import pytest

from inferdoc.capacity.service_level import (
    gamma_quantile,
    live_context_variation,
    p95_with_some_waiting,
    slot_wait,
)


def test_one_slot_is_the_queue_of_one_server():
    """M/M/1: busy waits, each held / (1 - busy)."""
    assert slot_wait(1, 0.6, 2.0, 1.0) == pytest.approx((0.6, 2.0 / 0.4))


def test_two_slots_of_which_one_is_busy_are_waited_for_by_a_third():
    """Erlang's C(2, 1) = 1/3."""
    waits, wait = slot_wait(2, 1.0, 3.0, 1.0)
    assert (waits, wait) == pytest.approx((1 / 3, 3.0))


def test_nobody_waits_long_for_many_slots_and_for_ever_where_all_are_busy():
    assert slot_wait(400, 300, 5.0)[0] < 1e-6
    assert slot_wait(8, 8, 5.0) == (1.0, math.inf)


def test_the_tail_is_that_of_the_wait_alone_where_nothing_else_takes_time():
    """Share 0.2 with exponential waits: 0.2 exp(-t/m) = 0.05."""
    assert p95_with_some_waiting(0.0, 0.0, 0.2, 3.0) == pytest.approx(3.0 * math.log(4.0), rel=1e-6)


def test_the_tail_is_that_of_the_rest_where_nobody_waits_and_grows_with_those_who_do():
    alone = gamma_quantile(1.0, 0.2)
    assert p95_with_some_waiting(1.0, 0.2, 0.0, 9.0) == alone
    few, many = (p95_with_some_waiting(1.0, 0.2, waits, 9.0) for waits in (0.01, 0.2))
    assert alone < few < 1.2 * alone < many
    assert p95_with_some_waiting(1.0, 0.2, 1.0, math.inf) == math.inf


def test_answers_of_one_length_are_met_evenly_from_first_to_last_token():
    """Uniform over O: standard deviation O / sqrt(12), mean O / 2."""
    assert live_context_variation((0.001, 0.0), (600.0, 0.0)) == pytest.approx(1 / math.sqrt(3), rel=1e-4)
