"""Where the time of a request goes, before and after the onset."""

from __future__ import annotations

import numpy as np
import pytest

from inferdoc.judging.document import split_phases
from tests.judging.frames import CALM, N, scene, step


def split(onset=CALM, labels=None, **rows):
    context = scene({name: v if isinstance(v, dict) else {"p0": v} for name, v in rows.items()}, labels)
    found = split_phases(context.view, context.view.units, onset)
    return {p.phase: (p.baseline_seconds, p.observed_seconds) for p in found}, [p.phase for p in found]


USUAL = {
    "queue_time_mean": step(0.1, 2.0),
    "prefill_time_mean": np.full(N, 0.3),
    "decode_time_mean": np.full(N, 4.0),
    "ttft_mean": step(0.5, 2.5),
}


def test_means_before_and_now():
    phases, order = split(**USUAL)
    assert phases["queue"] == (pytest.approx(0.1), pytest.approx(2.0))
    assert phases["prefill"] == (pytest.approx(0.3), pytest.approx(0.3))
    assert order == ["frontend", "queue", "prefill", "decode"]


def test_the_front_end_is_what_the_first_token_holds_beyond_queue_and_prefill():
    assert split(**USUAL)[0]["frontend"] == (pytest.approx(0.1), pytest.approx(0.2))
    less = {**USUAL, "ttft_mean": step(0.2, 0.2)}
    assert split(**less)[0]["frontend"] == (0.0, 0.0), "never negative"


def test_without_an_onset_there_is_only_now():
    phases, _ = split(onset=None, **USUAL)
    assert phases["decode"] == (None, pytest.approx(4.0))


def test_a_phase_that_nothing_shows_is_left_out():
    assert split(decode_time_mean=USUAL["decode_time_mean"])[1] == ["decode"]
    assert split(load=np.ones(N))[1] == []


def test_transfers_where_there_are_any():
    assert split(nixl_xfer_mean=step(0.03, 26))[0]["transfer"] == (pytest.approx(0.03), pytest.approx(26))


def test_a_role_of_its_own_has_no_front_end():
    _, order = split(labels={"p0": {"role": "decode"}}, **USUAL)
    assert "frontend" not in order


def test_requests_that_failed_before_they_were_scheduled_leave_nonsense_which_is_not_shown():
    broken = np.where(np.arange(N) % 2 == 0, -1.7e9, 0.2)
    assert split(queue_time_mean=broken)[0]["queue"] == (pytest.approx(0.2), pytest.approx(0.2))
    huge = np.where(np.arange(N) % 2 == 0, 1.7e9, 0.2)
    assert split(queue_time_mean=huge)[0]["queue"] == (pytest.approx(0.2), pytest.approx(0.2))
    failing = np.where(np.arange(N) % 2 == 0, 1.0, 0.0)
    odd = np.where(np.arange(N) % 2 == 0, 77.0, 0.2)
    assert split(queue_time_mean=odd, error_rate=failing)[0]["queue"] == (pytest.approx(0.2), pytest.approx(0.2))


def test_the_middle_pod_counts_not_the_worst():
    rows = {"p0": np.full(N, 1.0), "p1": np.full(N, 2.0), "p2": np.full(N, 60.0)}
    assert split(decode_time_mean=rows)[0]["decode"] == (pytest.approx(2.0), pytest.approx(2.0))


def test_the_transfer_is_taken_out_of_the_queue_of_the_pod_that_reads():
    rows = {"queue_time_mean": step(0.2, 9.0), "nixl_xfer_mean": step(0.1, 8.0)}
    reads, _ = split(labels={"p0": {"role": "decode"}}, **rows)
    assert reads["queue"] == (pytest.approx(0.1), pytest.approx(1.0))
    assert reads["transfer"] == (pytest.approx(0.1), pytest.approx(8.0))


def test_the_gateway_is_what_the_router_waits_beyond_the_engine():
    phases, order = split(ttft_mean=np.full(N, 0.5), router_ttft_mean=step(0.6, 3.5))
    assert phases["gateway"] == (pytest.approx(0.1), pytest.approx(3.0)) and order[0] == "gateway"


def test_with_prefill_and_decode_apart_both_first_tokens_come_before_the_user():
    pods = {"p-prefill": np.full(N, 0.4), "p-decode": np.full(N, 0.3)}
    labels = {"p-prefill": {"role": "prefill"}, "p-decode": {"role": "decode"}}
    router = {pod: step(0.8, 1.7) for pod in pods}
    phases, _ = split(labels=labels, ttft_mean=pods, router_ttft_mean=router)
    assert phases["gateway"] == (pytest.approx(0.1), pytest.approx(1.0))


def test_the_gateway_never_owes_time():
    assert split(ttft_mean=np.full(N, 0.5), router_ttft_mean=step(0.4, 0.3))[0]["gateway"] == (0.0, 0.0)
