"""A report on a part of the fleet: everything is read and compared, and what is not asked for is named."""

from __future__ import annotations

import json

import numpy as np
import pytest

from inferdoc import diagnose, open_source
from inferdoc.errors import InferdocError
from inferdoc.fleet.lineage import Lineage
from inferdoc.fleet.members import Fleet, FleetFilter, Member, Pool
from inferdoc.judging.api import Options
from inferdoc.judging.focus import focus_on, lost_peers
from inferdoc.report import render
from inferdoc.source.base import Scrapes
from tests.cli.command import alone, call, refused

__all__ = ["alone"]
POOL = Pool("", "llm", "qwen", "both", "h100-80")


def fleet(*pods: str) -> Fleet:
    return Fleet([Member(("", "llm", pod), pod, "n1", POOL) for pod in pods])


def target(pod: str, job: str = "vllm") -> Scrapes:
    labels = {"job": job, "namespace": "llm", "pod": pod, "instance": f"{pod}:8000"}
    return Scrapes(labels, np.arange(3, dtype=np.int64), np.ones(3))


def test_without_names_the_report_is_about_everybody():
    assert focus_on(FleetFilter(), fleet("a", "b"), Lineage(), []).members is None


def test_names_narrow_one_after_the_other():
    focus = focus_on(FleetFilter(namespace="llm", pod="b"), fleet("a", "b"), Lineage(), [])
    assert [m.pod for m in focus.members or ()] == ["b"]
    assert focus.has_pool(POOL) and not focus.has_pool(Pool("", "llm", "qwen", "decode", "h100-80"))


def test_a_cluster_tells_pods_of_one_name_apart():
    pools = [Pool(cluster, "llm", "qwen", "both", "h100-80") for cluster in ("eu-1", "us-1")]
    both = Fleet([Member((pool.cluster, "llm", "a"), "a", "n1", pool) for pool in pools])
    focus = focus_on(FleetFilter(cluster="us-1", pod="a"), both, Lineage(), [])
    assert [m.key for m in focus.members or ()] == [("us-1", "llm", "a")]
    with pytest.raises(InferdocError, match="--cluster us-2: no such cluster in the window; known here: us-1, eu-1"):
        focus_on(FleetFilter(cluster="us-2"), both, Lineage(), [])


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        (FleetFilter(pod="vllm-21"), "--pod vllm-21: no such pod in the window; known here: vllm-1, vllm-2, router-7"),
        (FleetFilter(model="qwem"), "--model qwem: no such model in the window; known here: qwen"),
        (FleetFilter(namespace="llm", role="decode"), "--role decode: no such role in the window; known here: both"),
    ],
)
def test_a_name_of_nobody_is_refused_with_the_nearest_names_first(wanted, said):
    with pytest.raises(InferdocError) as fault:
        focus_on(wanted, fleet("router-7", "vllm-1", "vllm-2"), Lineage(), [])
    assert str(fault.value) == said


def test_of_many_names_the_nearest_are_shown():
    with pytest.raises(InferdocError, match=r"known here: p-39, .+ and 32 more$"):
        focus_on(FleetFilter(pod="p-39x"), fleet(*(f"p-{n}" for n in range(40))), Lineage(), [])


def test_a_pod_that_was_replaced_stands_for_its_heir():
    old, new = fleet("old", "new").members
    lineage = Lineage(predecessor={new.key: old})
    focus = focus_on(FleetFilter(pod="old"), Fleet([new], [old]), lineage, [])
    assert [m.pod for m in focus.members or ()] == ["new"]


def test_a_pod_without_an_engine_is_no_mistake():
    scrapes = [target("a"), target("router-0", "router")]
    focus = focus_on(FleetFilter(namespace="llm", pod="router-0"), fleet("a", "b"), Lineage(), scrapes)
    assert [m.pod for m in focus.members or ()] == ["a", "b"]
    assert focus.warnings == ("--pod router-0 runs no engine: the report is about the engines beside it",)


def test_label_matchers_that_remove_the_peers_are_warned_about():
    scrapes = [target("a"), target("b"), target("c"), target("gpu", "dcgm")]
    said = lost_peers((("pod", "=", "a"),), fleet("a"), scrapes)
    assert said is not None and said.startswith("-l pod=a leaves 2 of 3 targets of its job unread")
    assert lost_peers((("namespace", "=", "llm"),), fleet("a", "b", "c"), scrapes) is None
    assert lost_peers((("model_name", "=", "qwen"),), fleet("a"), scrapes) is None


def test_the_sick_pod_is_found_among_its_peers_and_the_well_one_says_where_to_look(store_of):
    source = open_source(store=store_of("slow-replica"))
    whole = diagnose(source)
    sick = diagnose(source, options=Options(selected=FleetFilter(pod="vllm-1")))
    well = diagnose(source, options=Options(selected=FleetFilter(pod="vllm-0")))
    source.close()
    assert [f.id for f in whole.findings] == ["slow-gpu"] and whole.focus is None
    assert sick.findings == whole.findings and sick.verdict == whole.verdict
    assert sick.focus is not None and (sick.focus.pods, sick.focus.of_pods) == (["vllm-1"], 2)
    assert sick.focus.elsewhere == [] and sick.coverage == whole.coverage
    assert well.findings == [] and well.verdict == "healthy" and well.focus is not None
    assert [(one.id, one.pods) for one in well.focus.elsewhere] == [("slow-gpu", ["vllm-1"])]
    for form in ("text", "markdown", "html"):
        said = render(well, form)
        assert "pod vllm-0: 1 of 2 pods" in said and "slow-gpu on vllm-1" in said


def test_on_the_command_line(store_of):
    store = ("--store", store_of("slow-replica"), "--until", "latest")
    done = call("diagnose", *store, "--pod", "vllm-1", "-o", "json")
    document = json.loads(done.out)
    assert done.code == 1 and document["focus"]["pod"] == "vllm-1" and document["coverage"]["pods"] == 2
    refused(call("diagnose", *store, "--pod", "vlm-1"), 2, "--pod vlm-1", "known here: vllm-1, vllm-0")
    refused(call("audit", *store, "--pod", "vlm-1"), 2, "known here: vllm-1, vllm-0")
    alone_read = call("diagnose", *store, "-l", "pod=vllm-1", "-o", "json")
    assert "warning: -l pod=vllm-1 leaves 1 of 2 targets" in alone_read.err


def test_around_a_time(store_of):
    store = ("--store", store_of("slow-replica"))
    document = json.loads(call("diagnose", *store, "--around", "1795254760", "-o", "json").out)
    assert [f["id"] for f in document["findings"]] == ["slow-gpu"]
    assert document["window"]["until"] == "2026-11-21T09:52:59.382Z"
    early = json.loads(call("diagnose", *store, "--around", "1795254760", "--until", "1795254650", "-o", "json").out)
    assert early["findings"] == []
    refused(call("diagnose", *store, "--around", "latest", "--since", "5m"), 2, "--around")
