"""The same diagnosis from the embedded store and from a real Prometheus over the same recording."""

from __future__ import annotations

import json

import pytest

from benchmarks import perturb
from inferdoc import diagnose, open_source
from inferdoc.collect.openmetrics_file import read_openmetrics
from inferdoc.judging.model import Diagnosis
from inferdoc.store.importer import import_columns
from inferdoc.store.store import Store
from tests import prometheus_server
from tests.cli.command import alone, call, refused
from tests.conftest import recording_names, recording_path
from tests.contract.labels import LABELS, seconds
from tests.sampling import sampled

__all__ = ["alone"]
pytestmark = pytest.mark.live

ONSET_WITHIN_S = 1.0
SINCE = {label.name: label.since for label in LABELS}


def findings(answer: Diagnosis) -> list[tuple]:
    """What must not depend on the source: ids in order, pods, certainty, severity, effects, stage."""
    return [
        (f.id, f.scope.pods, f.scope.level, f.certainty, f.severity, f.effects, f.stage and f.stage.index, f.ongoing)
        for f in answer.findings
    ]


def evidence(answer: Diagnosis) -> list[tuple]:
    return [(e.role, e.signal, e.entity, e.statement) for f in answer.findings for e in f.evidence]


@pytest.mark.parametrize("name", sampled(recording_names(), 2))
def test_the_same_findings(name, store_of, prometheus_of):
    store, server = open_source(store=store_of(name)), open_source(prometheus=prometheus_of(name))
    ours, theirs = (diagnose(source, since=SINCE[name]) for source in (store, server))
    assert findings(ours) == findings(theirs)
    for one, other in zip(ours.findings, theirs.findings, strict=True):
        assert seconds(one.onset) == pytest.approx(seconds(other.onset), abs=ONSET_WITHIN_S)
        assert [r.id for r in one.ruled_out] == [r.id for r in other.ruled_out]
    assert evidence(ours) == evidence(theirs)
    assert ours.verdict == theirs.verdict
    assert ours.window == theirs.window
    assert ours.changes == theirs.changes
    assert ours.coverage == theirs.coverage
    assert ours.not_judged == theirs.not_judged
    assert ours.source.warnings == theirs.source.warnings == []
    assert theirs.source.kind == "prometheus" and theirs.timing.queries > 0
    store.close()
    server.close()


def test_through_the_command_line(prometheus_of):
    words = ("diagnose", "--prometheus", prometheus_of("slow-replica"), "--since", "10m", "--until", "latest")
    done = call(*words, "-o", "json")
    assert done.code == 1 and done.err == ""
    first = json.loads(done.out)["findings"][0]
    assert first["id"] == "slow-gpu" and first["scope"]["pods"] == ["vllm-1"]
    plain = call(*words)
    assert plain.code == 1 and "slow-gpu" in plain.out


def test_evidence_queries_run_on_the_server_and_give_the_series(prometheus_of):
    """The query beside every piece of evidence can be pasted into Prometheus as it stands."""
    import requests

    name = "kv-preemption-thrash"
    server = open_source(prometheus=prometheus_of(name))
    answer = diagnose(server, since="10m")
    asked = 0
    for item in answer.findings[0].evidence:
        if item.query is None:
            continue
        moment = {"query": item.query, "time": server.latest_ms() / 1000}
        reply = requests.get(f"{prometheus_of(name)}/api/v1/query", params=moment, timeout=20)
        assert reply.status_code == 200, (item.query, reply.text)
        assert reply.json()["data"]["result"], item.query
        asked += 1
    assert asked >= 3
    server.close()


def test_a_selection_is_the_same_on_both(store_of, prometheus_of):
    name = "slow-replica"
    for pod, found in (("vllm-1", True), ("vllm-0", False)):
        for source in (("--store", store_of(name)), ("--prometheus", prometheus_of(name))):
            done = call("diagnose", *source, "--until", "latest", "-l", f"pod={pod}", "-o", "json")
            document = json.loads(done.out)
            assert document["coverage"]["pods"] == 1, (source, pod)
            assert not found or done.code in (0, 1)
            assert not [f for f in document["findings"] if f["scope"]["pods"] != [pod]]


def test_a_server_without_data_is_unknown(prometheus_of):
    """The recording is of another day than the window: nothing to judge, and it says what it would need."""
    address = prometheus_of("slow-replica")
    done = call("diagnose", "--prometheus", address, "--from", "1000000000", "--until", "1000003600", "-o", "json")
    assert done.code == 3
    document = json.loads(done.out)
    assert document["verdict"] == "unknown" and document["findings"] == []
    assert all(item["missing"] and item["enable"] for item in document["not_judged"]) and document["not_judged"]


def test_no_prometheus_behind_the_address(prometheus_of):
    refused(call("diagnose", "--prometheus", prometheus_of("slow-replica") + "/nowhere", "--since", "5m"), 4)


def test_what_the_first_counters_tell_is_the_same(tmp_path):
    """A source that begins half a minute after the onset, in a store and on a server."""
    label = next(each for each in LABELS if each.name == "prefix-unstable-prompt")
    with recording_path(label.name).open("rb") as stream:
        samples = perturb.begun(read_openmetrics(stream), 1000 * (label.onset + 30))
    with Store.open(tmp_path / "young.db", "w") as store:
        import_columns(store, samples, label.name)
    text = tmp_path / "young.om"
    text.write_text(call("export", "--store", tmp_path / "young.db", "--since", "1h", "--until", "latest").out)
    with prometheus_server.running([text], tmp_path) as address:
        store, server = open_source(store=tmp_path / "young.db"), open_source(prometheus=address)
        ours, theirs = diagnose(store, since="10m"), diagnose(server, since="10m")
        store.close()
        server.close()
    assert findings(ours) == findings(theirs) and evidence(ours) == evidence(theirs)
    assert theirs.findings[0].id in label.expected and theirs.window.baseline.kind == "lifetime"
