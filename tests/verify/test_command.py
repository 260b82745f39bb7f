"""`inferdoc verify` on simulated fleets whose trouble ends, begins or stays when a step is taken."""

from __future__ import annotations

import json
from functools import cache

import pytest

from inferdoc.simulate.output import write_store
from inferdoc.simulate.scenario import Expect, FaultSpec, Length, PoolSpec, Scenario, Stream
from inferdoc.store import Store
from inferdoc.times import rfc3339
from inferdoc_dev.incidents.recording import record
from tests.cli.command import call

START = 1_795_000_200.0
STEP_AT = 1200.0
"""Seconds after the start."""
SLOW = {"helped": (600.0, STEP_AT), "worse": (STEP_AT, 2700.0), "no difference": (600.0, 2700.0)}
"""When the memory of the GPUs is slow, by what a step at STEP_AT seems to have brought."""


def at(seconds):
    return rfc3339(START + seconds, "seconds")


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    folder = tmp_path_factory.mktemp("verify")

    @cache
    def of(outcome: str, rate: float = 4.0, later: float = 1.0) -> str:
        begin, end = SLOW[outcome]
        faults = [FaultSpec(kind="clock", at=begin, until=end, clock=0.5, bandwidth=0.5)]
        faults += [FaultSpec(kind="traffic", at=STEP_AT, rate=later)] if later != 1.0 else []
        scenario = Scenario(
            id="verify",
            title="verify",
            expect=Expect(cause=None),
            pools=(PoolSpec("vllm", 2, "l40s"),),
            traffic=(Stream(Length(500, 0.5), Length(80, 0.5), rate=rate),),
            faults=tuple(faults),
            duration=2110.0,
            warmup=120.0,
            start=START,
        )
        path = folder / f"{outcome}-{later}.db"
        with Store.open(path, "w") as held:
            write_store(record(scenario).targets, held)
        return str(path)

    return of


def verified(path, tmp_path, *more):
    taken = ("slow-gpu", "--store", path, "--onset", at(620.0), "--at", at(STEP_AT), "--ledger", tmp_path / "ledger")
    return call("verify", *taken, "--ttft", "500ms", "--tpot", "50ms", *more)


@pytest.mark.parametrize(("outcome", "code"), [("helped", 0), ("worse", 1), ("no difference", 0)])
def test_what_a_step_has_brought_is_told(store, tmp_path, outcome, code):
    onset = at(620.0) if outcome != "worse" else at(300.0)
    done = verified(store(outcome), tmp_path, "-o", "json", "--onset", onset)
    answer = json.loads(done.out)
    assert (answer["outcome"], done.code) == (outcome, code), answer["moves"]


def test_less_traffic_after_the_step_is_no_merit_of_it(store, tmp_path):
    done = verified(store("helped", later=0.5), tmp_path)
    assert done.code == 3
    assert "CANNOT TELL" in done.out
    assert "less prompt tokens came after the step" in done.out


def test_the_evidence_of_a_diagnosis_is_measured_again(store, tmp_path):
    path = store("helped")
    judged = call("diagnose", "--store", path, "--from", at(300.0), "--until", at(STEP_AT), "-o", "json")
    finding = json.loads(judged.out)["findings"][0]
    file = tmp_path / "diagnosis.json"
    file.write_text(judged.out, "utf-8")
    done = call(
        "verify", finding["id"], "--store", path, "--diagnosis", file, "--at", at(STEP_AT), "--ledger",
        tmp_path / "ledger", "-o", "json", "--ttft", "500ms", "--tpot", "50ms",
    )  # fmt: skip
    assert done.code == 0, done.err + done.out
    evidence = [move for move in json.loads(done.out)["moves"] if not move["of_users"]]
    assert "helped" in {move["outcome"] for move in evidence}
    wrong = call("verify", "dead-pod", "--store", path, "--diagnosis", file, "--at", at(STEP_AT))
    assert wrong.code == 2
    assert 'no finding "dead-pod"' in wrong.err


def test_the_ledger_keeps_what_was_measured_and_what_was_foretold(store, tmp_path):
    foretold = {
        "schema": "inferdoc.whatif/v1", "inferdoc_version": "0", "pool": "p", "model": "m", "tier": "t", "replicas": 2,
        "minutes": 20.0, "changes": {"replicas": "3"}, "summary": "", "held": [], "machine": {}, "guesses": [],
        "assumed": [], "notes": [],
        "rows": [
            {
                "name": name, "title": name, "unit": "1/s", "now": band, "then": band, "change": 0.0, "move": "same",
                "formula": "", "inputs": {}, "source": "",
            }
            for name, band in (
                ("served", {"value": 4.0, "low": 3.5, "high": 4.5}),
                ("goodput", {"value": 9.0, "low": 8.0, "high": 10.0}),
            )
        ],
    }  # fmt: skip
    file = tmp_path / "whatif.json"
    file.write_text(json.dumps(foretold), "utf-8")
    for outcome in ("helped", "no difference"):
        verified(store(outcome), tmp_path, "--prediction", file)
    listed = call("verify", "--list", "--ledger", tmp_path / "ledger")
    lines = listed.out.splitlines()
    assert [line.split("  ")[1].strip() for line in lines] == ["helped", "no difference"]
    assert all("1 of 2 as predicted" in line for line in lines)
    whole = json.loads(call("verify", "--list", "--ledger", tmp_path / "ledger", "-o", "json").out)
    assert [each["changes"] for each in whole] == [{"replicas": "3"}] * 2


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "which finding?"),
        (("slow-gpu",), "--at: when was the step taken?"),
        (("slow-gpu", "--at", at(STEP_AT)), "since when?"),
        (("slow-gp", "--at", at(STEP_AT), "--onset", at(600.0)), 'no cause "slow-gp" (did you mean "slow-gpu"?)'),
        (("slow-gpu", "--at", at(300.0), "--onset", at(600.0)), "must come after the onset"),
        (("slow-gpu", "--at", at(2080.0), "--onset", at(600.0)), "3 minutes with traffic are needed"),
        (("slow-gpu", "--at", at(STEP_AT), "--diagnosis", "nowhere.json"), "cannot be read"),
        (("--list",), "cannot be read"),
    ],
)
def test_what_cannot_be_verified_is_one_line(store, tmp_path, arguments, words):
    done = call("verify", *arguments, "--store", store("helped"), "--ledger", tmp_path / "none")
    assert done.code == 2
    assert words in done.err
    assert done.err.count("\n") == 1
    assert not (tmp_path / "none").exists()
