"""`diagnose --predict`: steps that name replicas or a setting carry what they would bring."""

from __future__ import annotations

import json

import pytest
from msgspec.structs import replace

from inferdoc.judging.model import NextStep
from inferdoc.simulate.output import write_store
from inferdoc.simulate.scenario import FaultSpec, Length, Stream
from inferdoc.store import Store
from inferdoc.whatif import answer
from inferdoc.whatif.answer import named_settings
from inferdoc.whatif.predict import Prediction
from inferdoc_dev.incidents.recording import record
from tests.cli.command import call
from tests.whatif.lab import scenario


@pytest.mark.parametrize(
    ("do", "command", "named"),
    [
        ("Scale to 3 replicas", "kubectl -n llm scale deployment/llama --replicas=3", {"replicas": "3"}),
        ("Scale to 3 replicas", "kubectl -n llm scale deployment/llama --replicas=<n>", {}),
        ("Cap the requests that run at once: --max-num-seqs 24", None, {"max-num-seqs": "24"}),
        ("Lower --max-num-batched-tokens one step (8192 to 4096)", None, {}),
        ("Drain the pod", "kubectl drain node-3", {}),
    ],
)
def test_a_step_is_played_where_it_names_a_number(do, command, named):
    assert named_settings(NextStep(do, "", "", "", command)) == named


@pytest.mark.slow
@pytest.mark.takes_long("a fit takes some ninety plays of the pool")
def test_more_replicas_for_more_demand_are_foretold_to_help(tmp_path):
    grown = replace(
        scenario(),
        traffic=(Stream(Length(400, 0.5), Length(80, 0.5), rate=1.1),),
        faults=(FaultSpec(kind="traffic", at=600.0, rate=2.6),),
    )
    with Store.open(tmp_path / "grown.db", "w") as store:
        write_store(record(grown).targets, store)
    done = call(
        "diagnose", "--store", tmp_path / "grown.db", "--since", "14m", "--until", "latest", "--predict", "-o", "json"
    )
    finding = json.loads(done.out)["findings"][0]
    assert finding["id"] == "demand-beyond-capacity"
    predicted = [step["predicted"] for step in finding["next_steps"] if step["predicted"] is not None]
    assert predicted, finding["next_steps"]
    moves = {move["name"]: move for move in predicted[0]["moves"]}
    assert int(predicted[0]["changes"]["replicas"]) > 2
    assert moves["goodput"]["then"] > moves["goodput"]["now"]
    assert moves["ttft_p99"]["then"] < moves["ttft_p99"]["now"]


@pytest.mark.parametrize(
    ("role", "key"), [("both", "replicas"), ("prefill", "prefill.replicas"), ("decode", "decode.replicas")]
)
def test_a_step_on_one_side_changes_that_side(monkeypatch, role, key):
    changed = {}
    monkeypatch.setattr(answer, "changed_for_request", lambda pool, settings, catalogue: changed.update(settings))
    monkeypatch.setattr(answer, "predicted", lambda pool, change, before: Prediction((), ()))
    step = answer._prediction(answer.PoolPlayed(None, role, []), {"replicas": "4"}, None, None)
    assert changed == {key: 4}
    assert step.changes == {"replicas": "4"}
