"""Prefill and decode apart: GPU-seconds out of readings of live pods, and what two pools would save."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from inferdoc.fleet.members import Member, Pool
from inferdoc.forecast.fromsource import Gathered
from inferdoc.headroom.pairs import ApartInputs, phases_apart
from inferdoc.headroom.phases import DecodeStep, PhasesSeen, phases_seen

COMPUTED, OUTPUT, GPUS = 4000.0, 200.0, 4
PACE = 1 / (3918.0 * GPUS)
"""Seconds per prompt token of a 70B on four H100 (golden number 14)."""
EACH = (20.81e-3 - 15.81e-3) / 63
FIXED = 15.81e-3 - EACH
"""A decode step takes 15.81 ms alone and 20.81 ms with 64 streams (golden number 15)."""


def history(role: str = "both", idle: float = 0.0, count: int = 200) -> Gathered:
    """One pod whose batch goes from 4 to 60. idle: share of each reading in which nothing runs."""
    made = Gathered(0, 1800, count)
    key = ("", "ns", "pod-0")
    made.members[key] = Member(key, "a:8000", "n", Pool("", "ns", "m", role, "h100-80"))
    batch = np.linspace(4, 60, count)
    prefill = 0.0 if role == "decode" else COMPUTED * PACE
    decode = 0.0 if role == "prefill" else OUTPUT * (FIXED + EACH * batch)
    rate = (1 - idle) * (batch / (decode + batch * prefill) if role != "prefill" else np.full(count, 0.5 / prefill))
    for name, values in {
        "request_rate": rate,
        "prefill_tokens_rate": np.zeros(count) if role == "decode" else rate * COMPUTED,
        "generation_tokens_rate": rate * (1.0 if role == "prefill" else OUTPUT),
        "running_mean": (1 - idle) * batch,
        "prefill_seconds_per_token": np.full(count, np.nan if role == "decode" else PACE),
        "prompt_len_mean": np.full(count, 5000.0),
    }.items():
        made.rows[name] = {key: values}
    return made


def seen(role: str = "both", idle: float = 0.0) -> PhasesSeen:
    made = history(role, idle)
    found = phases_seen(made, list(made.members), role)
    assert isinstance(found, PhasesSeen), found
    return found


def inputs(prefill: PhasesSeen, decode: PhasesSeen) -> ApartInputs:
    return ApartInputs(
        rate=20.0,
        prefill=prefill,
        decode=dataclasses.replace(decode, at_once=150.0),
        gpus=GPUS,
        gpus_known=True,
        step_limit=20.81e-3,
        ttft=2.0,
        knee=None,
        kv_bytes=81920.0,
        nic_gbits=400.0,
    )


BOTH = seen()
GOLDEN = inputs(BOTH, BOTH)


@pytest.mark.parametrize("roles", [("both", "both"), ("prefill", "decode")])
def test_gpu_seconds_of_a_request_are_those_of_the_engines(roles):
    one = inputs(*map(seen, roles))
    assert one.batch == pytest.approx(64, rel=0.01)
    assert one.seconds.prefill == pytest.approx(1.0209, rel=2e-3)
    assert one.seconds.decode == pytest.approx(0.2602, rel=5e-3)
    assert one.seconds.ratio == pytest.approx(3.924, rel=5e-3)


def test_two_pools_of_whole_replicas_save_what_the_reference_says():
    found = phases_apart(["p"], GOLDEN)
    numbers = {each.name: each.value for each in found.part.numbers}
    assert (numbers["together"], numbers["prefill"], numbers["decode"]) == (44, 28, 8)
    assert numbers["saved"] == pytest.approx(0.1818, rel=1e-3)
    assert [each.met for each in found.conditions] == [True] * 5
    assert "parting may pay: 28 + 8 GPUs apart against 44 together" in found.summary


def test_the_use_of_one_pool_is_that_of_its_knee():
    of_request = GOLDEN.seconds.prefill + GOLDEN.seconds.decode
    at_knee = dataclasses.replace(GOLDEN, knee=0.5 * GPUS / of_request)
    assert at_knee.use == pytest.approx(0.5)
    together = {each.name: each for each in phases_apart(["p"], at_knee).part.numbers}["together"]
    assert together.value == 52 and "knee of the pool" in together.source, "20 x 1.281 / 0.5 = 51.2"


@pytest.mark.parametrize(
    ("changed", "place"),
    [
        ({"knee": 0.75 * GPUS / 1.2811}, 0),  # used as well together as apart
        ({"rate": 5.0}, 1),  # one decode pod
        ({"ttft": 0.05}, 2),
        ({"decode": dataclasses.replace(BOTH, at_once=99.0)}, 3),
        ({"prefill": dataclasses.replace(BOTH, prompt=499.0)}, 4),
    ],
)
def test_each_condition_alone_speaks_against_parting(changed, place):
    found = phases_apart(["p"], dataclasses.replace(GOLDEN, **changed))
    assert found.conditions[place].met is False
    assert "parting does not pay" in found.summary and found.conditions[place].what in found.summary


@pytest.mark.parametrize("unknown", [{"ttft": None}, {"kv_bytes": None}])
def test_what_is_not_known_leaves_a_condition_open_and_says_why(unknown):
    found = phases_apart(["p"], dataclasses.replace(GOLDEN, **unknown))
    assert found.conditions[2].met is None and "not known" in found.summary
    assert any("the KV transfer is open" in note for note in found.notes)


def test_a_pair_is_held_against_one_pool_and_its_ratio_against_the_wanted_one():
    pair = dataclasses.replace(GOLDEN, present=(3, 3))
    numbers = {each.name: each.value for each in phases_apart(["p", "d"], pair).part.numbers}
    assert numbers["present"] == 1.0 and numbers["wanted"] == pytest.approx(3.924, rel=5e-3)
    assert phases_apart(["p", "d"], pair).summary.startswith("the pair pays")


def test_idle_time_of_an_engine_does_not_make_its_steps_longer():
    assert seen("decode", idle=0.4).step.seconds(32) == pytest.approx(seen("decode").step.seconds(32), rel=0.12)


def test_a_batch_is_no_larger_than_half_as_many_again_as_were_seen():
    step = DecodeStep(FIXED, EACH, 40.0)
    assert step.batch_within(1.0) == 60.0 and step.batch_within(None) == 40.0
    assert step.batch_within(0.001) == 1.0


def test_too_few_readings_or_prefill_that_nobody_timed_give_no_number():
    made = history(count=20)
    assert "20 readings with requests, 30 are needed" in phases_seen(made, list(made.members), "both")
    made = history()
    del made.rows["prefill_seconds_per_token"]
    assert "prefill was not timed" in phases_seen(made, list(made.members), "both")
