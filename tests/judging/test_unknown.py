"""Not enough to judge: verdict unknown, exit code 3, and the answer says what is missing and how to get it."""

from __future__ import annotations

import json

import pytest

from inferdoc.store.store import Store
from tests.cli.command import alone, call
from tests.judging.frames import catalogue
from tests.judging.made import SCRAPES, Engine, Recording, recorded, stored
from tests.source.fake_server import matrix, serving, vector

__all__ = ["alone"]


def node_exporter() -> Recording:
    """A page that is not an engine's."""
    made = Recording()
    target = {"job": "node", "instance": "n1:9100"}
    made.put("up", "gauge", target, 1)
    made.put("node_load1", "gauge", target, 0.7)
    made.put("node_cpu_seconds", "counter", {**target, "cpu": "0", "mode": "user"}, range(SCRAPES), "_total")
    return made


def empty_page() -> Recording:
    """A target that answers with nothing at all."""
    made = Recording()
    made.put("up", "gauge", {"job": "vllm", "instance": "p0:8000", "pod": "p0"}, 1)
    return made


def idle() -> Recording:
    """An engine that nobody uses: no traffic, so nothing to judge."""
    return recorded(Engine("p0", requests=0, running=0, kv=0))


def gauges_only() -> str:
    """An engine whose server drops everything but three gauges: traffic, but neither latency nor progress."""
    kept = ("up{", "vllm:num_requests_running{", "vllm:num_requests_waiting{", "vllm:kv_cache_usage_perc{")
    return recorded(Engine("p0")).only(lambda line: line.startswith(kept))


@pytest.fixture(params=[node_exporter, empty_page, idle, gauges_only], ids=lambda made: made.__name__)
def source(request, tmp_path):
    made = request.param()
    return ("--store", stored(made if isinstance(made, str) else made.text(), tmp_path))


def test_the_verdict_is_unknown_and_the_exit_code_3(source):
    done = call("diagnose", *source, "--until", "latest", "-o", "json")
    document = json.loads(done.out)
    assert done.code == 3 and document["verdict"] == "unknown" and document["findings"] == []
    assert "not enough data" in document["summary"].lower()


def test_fail_on_does_not_turn_unknown_into_healthy(source):
    assert call("diagnose", *source, "--until", "latest", "--fail-on", "critical").code == 3


@pytest.mark.parametrize("made", [node_exporter, empty_page])
def test_without_an_engine_every_cause_is_unjudged_and_says_what_it_needs(made, tmp_path):
    store = stored(made().text(), tmp_path)
    document = json.loads(call("diagnose", "--store", store, "--until", "latest", "-o", "json").out)
    assert document["coverage"]["pods"] == 0 and document["coverage"]["targets"] == 1
    known = catalogue().signals
    assert {item["id"] for item in document["not_judged"]} <= catalogue().recipes.keys()
    assert len(document["not_judged"]) >= 15
    for item in document["not_judged"]:
        assert item["missing"] and set(item["missing"]) <= known.keys()
        assert item["enable"]
    assert "running" in document["coverage"]["signals_absent"]


@pytest.mark.parametrize("form", ["text", "markdown"])
def test_people_are_told_too(source, form):
    done = call("diagnose", *source, "--until", "latest", "-o", form)
    assert done.code == 3 and "unknown" in done.out.lower()
    assert len(done.out.splitlines()) < 120


def test_doctor_says_what_to_do(tmp_path):
    done = call("doctor", "--store", stored(node_exporter().text(), tmp_path))
    assert done.code == 1 and done.err == ""
    assert "engines     none" in done.out and "/metrics" in done.out


def test_an_empty_store(tmp_path):
    with Store.open(tmp_path / "empty.db", "w"):
        pass
    source = ("--store", tmp_path / "empty.db")
    for until in ("latest", "now", "2026-01-01T00:00:00Z"):
        done = call("diagnose", *source, "--until", until, "-o", "json")
        assert done.code == 3 and json.loads(done.out)["not_judged"]
    told = call("doctor", *source)
    assert told.code == 1 and "no sample at all" in told.out and "inferdoc collect" in told.out


def test_a_window_without_data_in_a_store_with_data(store_of):
    words = ("--from", "2020-01-01T00:00:00Z", "--until", "2020-01-01T01:00:00Z", "-o", "json")
    done = call("diagnose", "--store", store_of("slow-replica"), *words)
    assert done.code == 3 and json.loads(done.out)["coverage"]["pods"] == 0


def test_a_selection_that_nothing_meets(store_of):
    done = call("diagnose", "--store", store_of("slow-replica"), "--until", "latest", "-l", "pod=nobody", "-o", "json")
    document = json.loads(done.out)
    assert done.code == 3 and document["verdict"] == "unknown" and document["coverage"]["pods"] == 0


def test_a_server_without_any_series():
    def respond(asked):
        if asked.path.endswith(("/series", "/label/__name__/values")):
            return {"status": "success", "data": []}
        return vector() if asked.path.endswith("/query") else matrix()

    with serving(respond) as server:
        done = call("diagnose", "--prometheus", server.url, "--since", "5m", "-o", "json")
    document = json.loads(done.out)
    assert done.code == 3 and document["verdict"] == "unknown"
    assert document["source"]["kind"] == "prometheus" and document["not_judged"]
