"""A Prometheus server and a store with the same samples give the same answer."""

from __future__ import annotations

import json

import pytest

from inferdoc.simulate.output import write_file, write_store
from inferdoc.simulate.scenario import EngineFlags, Expect, Length, PoolSpec, Prefixes, Scenario, Stream
from inferdoc.store import Store
from inferdoc_dev.incidents.recording import record
from tests import prometheus_server
from tests.cli.command import call


@pytest.mark.skipif(not prometheus_server.available(), reason=prometheus_server.MISSING)
def test_both_sources_tell_the_same(tmp_path):
    scenario = Scenario(
        id="kv",
        title="kv",
        expect=Expect(cause=None),
        pools=(PoolSpec(name="vllm", pods=1, flags=EngineFlags(blocks=3000, kv_metrics=True)),),
        traffic=(Stream(Length(300, 0.5), Length(100, 0.4), rate=3.0, prefixes=Prefixes(40, 1200, 0.8, 0.8)),),
        duration=1800.0,
        scrape=30.0,
    )
    targets = record(scenario).targets
    with Store.open(tmp_path / "kv.db", "w") as store:
        write_store(targets, store)
    write_file(targets, tmp_path / "kv.om")
    stored = call("kv", "--store", str(tmp_path / "kv.db"), "-o", "json")
    with prometheus_server.running([tmp_path / "kv.om"], tmp_path / "server") as address:
        served = call("kv", "--prometheus", address, "-o", "json")
    assert stored.code == served.code == 0, served.err
    one, other = (
        {(p["title"], n["title"]): n["value"] for p in json.loads(done.out)["parts"] for n in p["numbers"]}
        for done in (stored, served)
    )
    assert one.keys() == other.keys() and len(one) > 10
    for key, value in one.items():
        assert other[key] == pytest.approx(value, rel=1e-6), key
