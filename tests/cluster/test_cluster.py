"""`diagnose --kubernetes` against recorded answers of kubectl, and `--probe` against a server."""

from __future__ import annotations

import json
import os
from types import SimpleNamespace

import pytest

from inferdoc.catalogue.load import load_catalogue
from inferdoc.cluster import evidence
from inferdoc.cluster.evidence import add_cluster_evidence, probe_pods, weigh
from inferdoc.cluster.pods import facts_of
from inferdoc.errors import ExitCode
from inferdoc.judging.model import ClusterFact, Finding
from tests.cli.command import call
from tests.openai_server import engine
from tests.simulated import SimulatedStores

__all__ = ["engine"]
KUBECTL = """#!/bin/sh
echo "$@" >> "$FOLDER/log"
test -z "$REFUSE" || { echo 'Error from server (Forbidden): pods "x" is forbidden: User "me" cannot get' >&2; exit 1; }
case "$1 $2" in
"get pod") cat "$FOLDER/pod.json" ;;
"get events") cat "$FOLDER/events.json" ;;
*) cat "$FOLDER/last.log" ;;
esac
"""
POD = {
    "status": {
        "containerStatuses": [
            {
                "name": "vllm",
                "state": {"running": {"startedAt": "2026-11-18T11:20:40Z"}},
                "lastState": {
                    "terminated": {"reason": "OOMKilled", "exitCode": 137, "finishedAt": "2026-11-18T11:18:40Z"}
                },
            }
        ]
    }
}
EVENTS = {
    "items": [
        {"type": "Normal", "reason": "Pulled", "message": "image is there", "lastTimestamp": "2026-11-18T11:18:41Z"},
        {"type": "Warning", "reason": "BackOff", "message": "Back-off restarting failed container vllm in pod"},
    ]
}
LOG = "loading HF_TOKEN=hf_abcdefghijkl\nloaded weights\x1b[31m\n"
SIGNS = load_catalogue().signs


@pytest.fixture
def cluster(tmp_path, monkeypatch):
    tool = tmp_path / "kubectl"
    tool.write_text(KUBECTL)
    tool.chmod(0o755)
    (tmp_path / "pod.json").write_text(json.dumps(POD))
    (tmp_path / "events.json").write_text(json.dumps(EVENTS))
    (tmp_path / "last.log").write_text(LOG)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("FOLDER", str(tmp_path))
    return tmp_path


@pytest.fixture(scope="module")
def stores(tmp_path_factory):
    return SimulatedStores()


def diagnosed(stores, *more, incident="engine-oom"):
    return call("diagnose", "--store", stores.of(incident).store, "--since", "2h", "--until", "latest", *more)


def test_the_last_end_of_a_container_decides(cluster, stores):
    plain = json.loads(diagnosed(stores, "-o", "json").out)["findings"][0]
    assert (plain["id"], plain["certainty"], plain["cluster"]) == ("engine-oom", "likely", [])
    answer = json.loads(diagnosed(stores, "--kubernetes", "-o", "json").out)
    found = answer["findings"][0]
    assert (found["id"], found["certainty"]) == ("engine-oom", "proven")
    assert found["probability"] > plain["probability"]
    assert "(proven)" in answer["summary"]
    first = found["cluster"][0]
    assert first["detail"] == "vllm ended: OOMKilled, exit code 137"
    assert (first["kind"], first["sign"], first["at"]) == ("terminated", "killed_for_memory", "2026-11-18T11:18:40Z")


def test_it_stands_in_the_report_and_no_secret_does(cluster, stores):
    done = diagnosed(stores, "--kubernetes", "-vv")
    printed = " ".join(done.out.split())
    assert "the kernel killed a container for want of host memory: vllm ended: OOMKilled, exit code 137" in printed
    assert "loaded weights\\u001b[31m" in printed and "\x1b" not in done.out
    (cluster / "last.log").write_text(LOG.split("\n")[0])
    done = diagnosed(stores, "--kubernetes", "-vv")
    assert "HF_TOKEN=***" in done.out and "hf_abc" not in done.out + done.err


def test_only_reads_are_requested(cluster, stores):
    diagnosed(stores, "--kubernetes")
    queried = (cluster / "log").read_text().splitlines()
    assert {tuple(line.split()[:1]) for line in queried} == {("get",), ("logs",)}
    assert all("--request-timeout=10s" in line and "--namespace=sim" in line for line in queried)


def test_without_the_flag_nothing_is_requested(cluster, stores):
    diagnosed(stores)
    assert not (cluster / "log").exists()


def test_a_cluster_that_refuses_is_one_warning(cluster, stores, monkeypatch):
    monkeypatch.setenv("REFUSE", "1")
    done = diagnosed(stores, "--kubernetes")
    assert done.code == ExitCode.FINDINGS
    assert done.err.count("\n") == 1 and "Kubernetes was not queried" in done.err and "(Forbidden)" in done.err
    assert len((cluster / "log").read_text().splitlines()) == 1


def test_no_kubectl_is_one_warning(stores, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    done = diagnosed(stores, "--kubernetes")
    assert done.code == ExitCode.FINDINGS
    assert done.err == (
        "warning: Kubernetes was not queried: kubectl is not installed; run where it is, or leave --kubernetes out\n"
    )


def test_an_answer_that_is_no_json_is_one_warning(cluster, stores):
    (cluster / "pod.json").write_text("<html>")
    done = diagnosed(stores, "--kubernetes")
    assert "Kubernetes was not queried: kubectl did not answer with JSON" in done.err


# ---- single facts ---------------------------------------------------------------------------------------------------


def facts(pod=None, events=(), log=""):
    def run(words):
        if words[0] == "logs":
            return log
        return json.dumps({"items": list(events)}) if words[1] == "events" else json.dumps(pod or {})

    return facts_of("ns", "p", SIGNS, run)


def waiting(reason):
    return {"status": {"containerStatuses": [{"name": "c", "state": {"waiting": {"reason": reason}}}]}}


@pytest.mark.parametrize(
    ("found", "sign"),
    [
        (facts(waiting("ImagePullBackOff")), "image_is_missing"),
        (facts(waiting("CrashLoopBackOff")), "starts_again_and_again"),
        (facts(events=[{"reason": "Killing", "message": "Container c failed liveness probe"}]), "killed_by_a_probe"),
        (facts(events=[{"reason": "FailedScheduling", "message": "0/3", "type": "Warning"}]), "no_node_takes_it"),
        (facts(POD, log="x\ntorch.OutOfMemoryError: CUDA out of memory.\ny"), "gpu_memory_ran_out"),
        (facts(POD, log="NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus"), "gpu_error"),
    ],
)
def test_signs_that_metrics_do_not_have(found, sign):
    assert sign in {fact.sign for fact in found}


def test_an_event_that_only_kills_is_no_failed_probe():
    found = facts(events=[{"reason": "Killing", "message": "Stopping container c", "type": "Normal"}])
    assert found == []


def test_a_pod_that_is_gone_has_nothing_but_events():
    assert [fact.kind for fact in facts(None, [{"type": "Warning", "reason": "Evicted", "message": "m"}])] == ["event"]


# ---- weighing -------------------------------------------------------------------------------------------------------


def finding(cause, *rivals, pods=("p",), namespace="ns"):
    scope = SimpleNamespace(pods=list(pods), namespace=namespace)
    others = [SimpleNamespace(id=rival, speaks_for=[], probability=0.1) for rival in rivals]
    parts = {"certainty": "likely", "probability": 0.5, "differential": others, "members": [], "cluster": []}
    finding = SimpleNamespace(id=cause, scope=scope, **parts)
    finding.regrade = lambda certainty, probability: Finding.regrade(finding, certainty, probability)  # type: ignore[arg-type]
    return finding


def fact(sign):
    return ClusterFact("p", "terminated", "c ended", None, sign, SIGNS[sign].says)


def test_a_sign_of_a_rival_alone_leaves_a_finding_possible():
    doubted = finding("engine-crash-loop", "engine-oom", "engine-down")
    doubted.cluster = [fact("killed_for_memory")]
    weigh(doubted, load_catalogue())
    assert doubted.certainty == "possible"
    assert [rival.speaks_for for rival in doubted.differential] == [[SIGNS["killed_for_memory"].says], []]


def test_a_sign_of_neither_changes_nothing():
    kept = finding("routing-imbalance", "slow-gpu")
    kept.cluster = [fact("killed_for_memory")]
    weigh(kept, load_catalogue())
    assert kept.certainty == "likely"


def test_what_is_no_name_is_on_no_command_line():
    queried = []
    answer = SimpleNamespace(
        findings=[finding("engine-oom", pods=("--all-namespaces", "10.0.0.1:8000", "a b"))],
        source=SimpleNamespace(warnings=[]),
        summary="",
    )
    add_cluster_evidence(answer, load_catalogue(), lambda words: queried.append(words) or "{}")
    assert queried == []


def test_a_sign_must_speak_for_a_cause_that_there_is(tmp_path):
    (tmp_path / "collectors").mkdir()
    path = tmp_path / "collectors" / "cluster.yaml"
    path.write_text("signs:\n  odd: {says: odd, log: '(', speaks_for: [engine-om]}\n", "utf-8")
    printed = load_catalogue([tmp_path]).problems()
    assert len(printed) == 2
    assert 'no such cause "engine-om"' in printed[0] and "engine-oom" in printed[0]
    assert "not a regular expression" in printed[1]


@pytest.mark.parametrize(
    ("status", "id_", "certainty"),
    [(0, "engine-hung", "proven"), (200, "engine-hung", "possible"), (503, "engine-hung", "likely")],
)
def test_a_request_proves_a_hang_or_leaves_it_possible(status, id_, certainty, engine, monkeypatch):
    monkeypatch.setattr(evidence, "PROBE_SECONDS", 0.3)
    engine.status = status
    answer = SimpleNamespace(
        findings=[finding(id_, pods=("p0", "p1"))], source=SimpleNamespace(warnings=[]), summary=""
    )
    probe_pods(answer, load_catalogue(), {"p0": engine.url}, {})
    assert [(one.pod, one.kind) for one in answer.findings[0].cluster] == [("p0", "probe")]
    assert answer.findings[0].certainty == certainty


def test_a_probe_without_findings_stands_in_the_summary(engine):
    answer = SimpleNamespace(findings=[], source=SimpleNamespace(warnings=[]), summary="Idle.")
    probe_pods(answer, load_catalogue(), {"p0": engine.url}, {})
    assert answer.summary.startswith("Idle. p0: a request of one token is served, one token of llama")


def test_no_address_to_probe_is_a_warning():
    answer = SimpleNamespace(findings=[finding("engine-hung")], source=SimpleNamespace(warnings=[]), summary="")
    probe_pods(answer, load_catalogue(), {}, {})
    assert answer.source.warnings == ["nothing was probed: no address of an engine is known"]
    assert answer.findings[0].certainty == "likely"
