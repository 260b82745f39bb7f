"""`inferdoc canary`: who serves alike passes whatever its share of the traffic, who serves worse fails, and too little
or unlike work is told instead of judged."""

from __future__ import annotations

import json

import numpy as np
import pytest

from inferdoc.canary.checks import Check
from inferdoc.canary.interval import ArmCounts, Ratio, ShareDifference, compared, design_effect
from inferdoc.canary.request import CheckSeen
from tests.canary.made import Pod, fleet, store
from tests.cli.command import call, refused

OBJECTIVES = ("--objective", "ttft_p99=2500ms", "--objective", "tpot_request_p99=200ms")


def gate(path, *more):
    done = call("canary", "--candidate", "llama-canary-*", "--store", path, "--until", "latest", *more, "-o", "json")
    assert done.err == "", done.err
    document = json.loads(done.out)
    assert done.code == {"pass": 0, "fail": 1, "unknown": 3}[document["decision"]]
    return document


def checks(document):
    return {each["name"]: each for each in document["checks"]}


@pytest.fixture(scope="module")
def alike(tmp_path_factory):
    return store(tmp_path_factory.mktemp("alike") / "fleet.db", fleet())


def test_a_candidate_that_serves_alike_passes(alike):
    document = gate(alike, *OBJECTIVES)
    assert document["decision"] == "pass", document["summary"]
    assert checks(document).keys() >= {"ttft_p99", "tpot_request_p99", "usual_ttft", "usual_itl", "errors", "goodput"}
    assert document["candidate"]["pods"] == ["llama-canary-0"] and len(document["stable"]["pods"]) == 3


@pytest.mark.parametrize("rate", [1.0, 2.0, 8.0])
def test_another_share_of_the_traffic_passes_and_is_told(tmp_path, rate):
    document = gate(store(tmp_path / "fleet.db", fleet(rate=rate)), *OBJECTIVES)
    assert document["decision"] == "pass", document["summary"]
    assert any("requests a pod" in note for note in document["notes"])


@pytest.mark.parametrize("seed", range(1, 4))
def test_a_slower_candidate_fails_though_it_keeps_every_promise(tmp_path, seed):
    document = gate(store(tmp_path / "fleet.db", fleet(slower=1.6), seed=seed), *OBJECTIVES)
    assert document["decision"] == "fail"
    found = checks(document)
    assert found["usual_ttft"]["decision"] == "fail" and found["usual_ttft"]["low"] > found["usual_ttft"]["margin"]
    assert found["errors"]["decision"] == "pass"


def test_a_candidate_that_fails_requests_fails(tmp_path):
    document = gate(store(tmp_path / "fleet.db", fleet(failing=0.03)), *OBJECTIVES)
    assert document["decision"] == "fail" and checks(document)["errors"]["decision"] == "fail"
    assert "failed or refused" in document["summary"]


def test_a_candidate_with_too_few_requests_is_told_how_many_more(tmp_path):
    document = gate(store(tmp_path / "fleet.db", fleet(rate=0.1)), *OBJECTIVES)
    assert document["decision"] == "unknown" and document["needed"] > 0
    assert f"not enough requests: {document['needed']:,} more needed" in document["summary"]


def test_as_many_requests_as_were_asked_for_decide(tmp_path):
    few = gate(store(tmp_path / "few.db", fleet(rate=0.25)), *OBJECTIVES)
    assert few["decision"] == "unknown"
    whole = few["candidate"]["requests"] + few["needed"]
    enough = gate(store(tmp_path / "enough.db", fleet(rate=1.3 * whole / 3600)), *OBJECTIVES)
    assert enough["decision"] == "pass", enough["summary"]


def test_longer_prompts_of_the_candidate_make_the_answer_unknown(tmp_path):
    document = gate(store(tmp_path / "fleet.db", fleet(prompt=1500.0, slower=1.6)), *OBJECTIVES)
    assert document["decision"] == "unknown" and "mean prompt of the candidate" in document["summary"]


def test_a_slower_candidate_at_a_higher_load_is_not_blamed_but_its_errors_are(tmp_path):
    loaded = gate(store(tmp_path / "a.db", fleet(rate=8.0, slower=1.6)), *OBJECTIVES)
    assert loaded["decision"] == "unknown" and "slower may be the load alone" in loaded["summary"]
    failing = gate(store(tmp_path / "b.db", fleet(rate=8.0, slower=1.6, failing=0.03)), *OBJECTIVES)
    assert failing["decision"] == "fail"


def test_the_first_minutes_of_the_candidate_are_left_out(tmp_path):
    path = store(tmp_path / "fleet.db", fleet(began=600, cold=540))
    warm = gate(path, *OBJECTIVES)
    assert warm["decision"] == "pass", warm["summary"]
    assert gate(path, *OBJECTIVES, "--warmup", "0s")["windows"] > warm["windows"]
    assert gate(path, *OBJECTIVES, "--warmup", "0s")["decision"] != "pass"


def test_no_common_window_is_unknown(tmp_path):
    document = gate(store(tmp_path / "fleet.db", fleet(began=3300)), *OBJECTIVES)
    assert document["decision"] == "unknown" and document["windows"] == 0
    assert "in no window" in document["summary"]


def test_of_two_promises_on_one_latency_goodput_takes_the_tighter(alike):
    loose = gate(alike, *OBJECTIVES)["candidate"]["goodput"]
    tight = gate(alike, *OBJECTIVES, "--objective", "ttft_p50=500ms")["candidate"]["goodput"]
    assert tight[1] < loose[0] <= loose[1]


def test_more_looks_ask_for_more(alike):
    once, thrice = (checks(gate(alike, *OBJECTIVES, "--looks", looks))["ttft_p99"] for looks in (1, 3))
    assert (gate(alike)["interval"], gate(alike, "--looks", 2)["interval"]) == (pytest.approx(0.9), pytest.approx(0.95))
    assert thrice["high"] > once["high"] and thrice["low"] < once["low"]


def test_starting_points_stand_in_for_promises_and_are_assumed(alike):
    document = gate(alike)
    assert document["decision"] == "pass" and len(document["assumed"]) >= 2


def test_text_fits_and_shows_how_each_difference_comes_about(alike, monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    done = call("canary", "--candidate", "llama-canary-0", "--store", alike, "--until", "latest", *OBJECTIVES, "-v")
    assert done.code == 0 and done.out.startswith("PASS")
    for words in ("TTFT over 2.5 s", "design effect", "vllm:time_to_first_token_seconds"):
        assert words in done.out
    assert max(len(line) for line in done.out.splitlines()) <= 100


@pytest.mark.parametrize(("candidate", "since", "decision"), [("vllm-1", "12m", "fail"), ("vllm-2", "1h", "pass")])
def test_on_simulated_engines_the_slow_pod_fails_and_its_like_passes(simulated, candidate, since, decision):
    """Three alike pods behind round robin; after twelve minutes one GPU of vllm-1 runs at half its clock."""
    path = simulated.of("slow-gpu").store
    done = call(
        "canary", "--candidate", candidate, "--baseline", "vllm-0", "--store", path, "--until", "latest",
        "--since", since, "--warmup", "0s", "-o", "json",
    )  # fmt: skip
    assert json.loads(done.out)["decision"] == decision, json.loads(done.out)["summary"]


def test_a_pod_that_is_sent_more_is_not_blamed_for_it(simulated):
    path = simulated.of("control-steady").store
    arguments = ("--candidate", "vllm-0", "--store", path, "--until", "latest", "--warmup", "0s", "-o", "json")
    document = json.loads(call("canary", *arguments).out)
    load = next(guard for guard in document["guards"] if guard["name"] == "load")
    assert load["ratio"] > 1.5 and document["decision"] == "unknown"


def test_a_shift_at_a_bucket_bound_that_the_mean_hardly_shows_passes():
    near = CheckSeen(_usual_check(), _worse(), Ratio(1.02, 1.03, 1.04))
    far = CheckSeen(_usual_check(), _worse(), Ratio(1.2, 1.3, 1.4))
    between = CheckSeen(_usual_check(), _worse(), Ratio(1.0, 1.08, 1.2))
    assert [one.decision for one in (near, far, between)] == ["pass", "fail", "unknown"]


def _usual_check():
    return Check("usual_ttft", "", "usual", 0.1, 0.05, counts([[1.0], [1.0]], [[2.0], [2.0]]), "")


def _worse():
    return ShareDifference(0.4, 0.1, 0.3, 0.25, 0.35, (1000.0, 1000.0), 1.0, 100)


# ---- the interval ---------------------------------------------------------------------------------------------------


def counts(bad, of):
    return ArmCounts(np.array(bad, dtype=float), np.array(of, dtype=float))


def test_the_worked_case_of_two_thousand_requests():
    """40 against 20 bad of 2,000: +1.0 [0.37, 1.66] points, where requests are independent."""
    rows = counts([[2.0] * 20, [1.0] * 20], [[100.0] * 20] * 2)
    seen = compared(rows, 0.01, 1)
    assert (seen.design, seen.value) == (1.0, pytest.approx(0.01))
    assert (seen.low, seen.high) == (pytest.approx(0.0037, abs=1e-4), pytest.approx(0.0166, abs=1e-4))


@pytest.mark.parametrize("share", [0.99, 1.0])
def test_where_almost_all_are_bad_the_difference_is_told_too(share):
    rows = ArmCounts(np.array([[0.0] * 12, [100.0 * share] * 12]), np.full((2, 12), 100.0))
    seen = compared(rows, 0.01, 1)
    assert seen.value == pytest.approx(-share)
    assert seen.high < -0.9
    assert seen.needed > 0


def test_bad_requests_that_come_together_widen_the_interval():
    together = counts([[20.0, 0.0] * 10, [1.0] * 20], [[100.0] * 20] * 2)
    together = counts([sorted(together.bad[0].tolist()), [1.0] * 20], [[100.0] * 20] * 2)
    spread = counts([[10.0] * 20, [1.0] * 20], [[100.0] * 20] * 2)
    assert design_effect(together) > 3 > design_effect(spread) == 1.0


# ---- bad input ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--candidate", "lama-canary-0"), 'no pool or pod "lama-canary-0"; seen:'),
        (("--candidate", "llama-*"), "no other pod serves its model"),
        (("--candidate", "llama-canary-0", "--baseline", "llama-canary-*"), "has no pod of its own"),
        (("--candidate", "llama-canary-0", "--margin", "1.5"), "--margin"),
        (("--candidate", "llama-canary-0", "--looks", "9"), "--looks"),
        (("--candidate", "llama-canary-0", "--objective", "ttft=2s"), "SIGNAL=LIMIT"),
        (("--candidate", "llama-canary-0", "--warmup", "soon"), "not a duration"),
        ((), "--candidate"),
    ],
)
def test_odd_requests_are_one_line(alike, arguments, words):
    done = call("canary", "--store", alike, "--until", "latest", *arguments)
    refused(done, 2)
    assert words.split(";")[0] in done.err


def test_other_models_are_not_compared(tmp_path):
    pods = [*fleet(1), Pod("qwen-0", model="qwen")]
    path = store(tmp_path / "fleet.db", pods, seconds=900)
    done = call("canary", "--store", path, "--until", "latest", "--candidate", "qwen-0", "--baseline", "llama-stable-*")
    refused(done, 2, "serve the model qwen", "llama")


def test_a_source_that_cannot_be_read_is_four(tmp_path):
    refused(call("canary", "--candidate", "x", "--store", tmp_path / "none.db"), 4)
