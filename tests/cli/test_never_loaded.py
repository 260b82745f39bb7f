"""A pool that was never loaded: its histograms are there and empty. Each command says in a line what it lacks."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from inferdoc.simulate.output import write_store
from inferdoc.simulate.scenario import Expect, Length, PoolSpec, Scenario, Stream
from inferdoc.store import Store
from inferdoc_dev.incidents.recording import record
from tests.cli.command import alone, call

__all__ = ["alone"]

POOL = "sim-meta-llama-llama-3-1-8b-instruct-l4"
BOTH = (PoolSpec("vllm", 2, "l4"),)
APART = tuple(replace(BOTH[0], name=role, pods=1, role=role) for role in ("prefill", "decode"))


@pytest.fixture(scope="module", params=[BOTH, APART], ids=["one pool", "apart"])
def idle(request, tmp_path_factory):
    quiet = Stream(Length(500), Length(80), rate=1e-9)
    scenario = Scenario("idle", "idle", Expect(cause=None), request.param, (quiet,), duration=910.0)
    path = tmp_path_factory.mktemp("idle") / "fleet.db"
    with Store.open(path, "w") as store:
        write_store(record(scenario).targets, store)
    return path


@pytest.mark.parametrize(
    ("words", "codes"),
    [
        (["whatif", "--set", "traffic=1.5"], (2,)),
        (["kv"], (2,)),
        (["size", "--like", POOL, "--tp", "1"], (2,)),
        (["headroom", "--until", "latest", "--tz", "UTC"], (3,)),
        (["cost", "--until", "latest"], (0,)),
        (["audit", "--until", "latest"], (0, 3)),
        (["slo", "suggest"], (3,)),
        (["diagnose", "--until", "latest"], (3,)),
    ],
    ids=lambda each: each[0] if isinstance(each, list) else "",
)
def test_it_is_a_line_and_no_fault(idle, words, codes):
    done = call(*words, "--store", idle)
    assert done.code in codes, done.err
    assert done.err.count("\n") <= 1 and "fault in inferdoc" not in done.err
    assert (done.out + done.err).strip()
    assert not {"nan", "inf"} & set((done.out + done.err).lower().replace("(", " ").replace(",", " ").split())
