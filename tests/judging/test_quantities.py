"""What signals measure, and where it stands between a mechanism and a hurt user."""

from __future__ import annotations

import pytest

from inferdoc.judging.distances import IMPACT, LOAD, MECHANISM, QUANTITIES, TIME, place, precedence, quantity, stem
from tests.judging.frames import catalogue


def test_every_listed_signal_is_in_the_catalogue_and_stands_in_one_quantity():
    known = set(catalogue().signals) | {stem(name) for name in catalogue().signals}
    listed = [signal for _, signals in QUANTITIES.values() for signal in signals.split()]
    assert [signal for signal in listed if signal not in known] == []
    assert len(listed) == len(set(listed))


@pytest.mark.parametrize(
    ("one", "other"),
    [("ttft_mean", "router_ttft_p99"), ("waiting", "queue_time_p99"), ("kv_usage", "kv_tokens_used")],
)
def test_views_of_one_quantity_are_one(one, other):
    assert quantity(one) == quantity(other)


def test_the_chain_from_a_mechanism_to_a_hurt_user():
    chain = ["spec_acceptance_rate", "waiting_capacity", "prefill_time_mean", "e2e_p99"]
    assert [place(name) for name in chain] == [MECHANISM, LOAD, TIME, IMPACT]


def test_what_is_not_listed_is_a_mechanism_of_its_own_even_under_the_name_of_a_group():
    assert place("queue") == MECHANISM and quantity("queue") != quantity("waiting")
    assert quantity("weirdness_p50") == quantity("weirdness_mean")


def test_the_name_that_recipes_use_comes_first():
    assert precedence("waiting_capacity") < precedence("waiting") < precedence("router_endpoint_queue")
