"""Engines other than vLLM: what is declared of them is enough to find causes on their pages."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from inferdoc import diagnose, open_source
from inferdoc.catalogue.aliases import MAIN, declared_series, engines_of
from inferdoc.catalogue.load import load_catalogue
from tests.cli.command import call
from tests.engines.fleets import KINDS
from tests.engines.pages import engine_page

FOUND = {
    "sglang": ("demand-beyond-capacity", "engine-crash-loop", "kv-preemption-thrash", "kv-capacity-bound"),
    "sglang_": ("demand-beyond-capacity", "engine-crash-loop", "kv-preemption-thrash"),
    "trtllm": ("demand-beyond-capacity", "engine-crash-loop", "kv-capacity-bound"),
    "tgi": ("demand-beyond-capacity", "engine-crash-loop", "engine-hung"),
    "triton": ("demand-beyond-capacity", "engine-crash-loop", "kv-capacity-bound"),
    "lmdeploy": ("demand-beyond-capacity", "engine-crash-loop", "engine-hung", "kv-capacity-bound"),
    "nim": ("demand-beyond-capacity", "engine-crash-loop", "engine-hung", "kv-capacity-bound"),
    "dynamo": ("demand-beyond-capacity", "engine-crash-loop", "kv-preemption-thrash"),
}
PAGES = Path(__file__).parents[2] / "fixtures" / "pages"
ENGINES = {name: one for name, one in load_catalogue().exporters.items() if one.page == "engine" and name != MAIN}


def judged(store):
    source = open_source(store=store)
    try:
        return diagnose(source, since="2h")
    finally:
        source.close()


@pytest.mark.parametrize(("kind", "cause"), [(kind, cause) for kind, causes in FOUND.items() for cause in causes])
def test_a_cause_is_found_on_pages_of_another_engine(fleets, kind, cause):
    answer = judged(fleets.store(kind, cause))
    assert [finding.id for finding in answer.findings] == [cause]
    assert answer.findings[0].certainty in ("likely", "proven")


@pytest.mark.parametrize("kind", KINDS)
def test_a_calm_fleet_of_another_engine_is_healthy(fleets, kind):
    answer = judged(fleets.store(kind, "control-steady"))
    assert (answer.verdict, answer.findings) == ("healthy", [])


def test_evidence_names_the_series_of_the_engine_that_is_there(fleets):
    answer = judged(fleets.store("trtllm", "kv-capacity-bound"))
    queries = [item.query for item in answer.findings[0].evidence if item.query]
    assert queries
    assert all("trtllm_" in query and "vllm:" not in query for query in queries)


def test_advice_says_what_the_engine_calls_a_flag(fleets):
    answer = judged(fleets.store("sglang", "kv-preemption-thrash"))
    steps = [step.do for step in answer.findings[0].next_steps]
    assert any("SGLang has --max-running-requests for --max-num-seqs" in step for step in steps)
    assert any("--watermark is a flag of vLLM" in step for step in steps)


def test_doctor_says_what_an_engine_cannot_show(fleets):
    done = call("doctor", "--store", fleets.store("tgi", "control-steady"), "--until", "latest")
    said = " ".join(done.out.split())
    assert "text-generation-inference cannot show the time to first token" in said
    assert "text-generation-inference shows nothing of the kind:" in said
    assert "vLLM 0." not in said


def test_what_an_engine_has_no_series_for_is_not_asked_of_its_user(fleets):
    answer = json.loads(judged(fleets.store("triton", "control-steady")).to_json())
    waits = next(entry for entry in answer["not_judged"] if entry["id"] == "prefill-compute-bound")
    assert waits["kind"] == "off"
    assert waits["enable"] == "Triton shows nothing of the kind"


@pytest.mark.parametrize(
    ("page", "title"),
    [
        ("dynamo/dynamo-frontend", "Dynamo frontend"),
        ("routers/litellm", "LiteLLM proxy"),
        ("source/lmcache", "LMCache"),
    ],
)
def test_doctor_names_what_is_there_where_no_engine_is(page, title):
    done = call("doctor", PAGES / f"{page}.txt")
    assert f"exporters   {title}\n" in done.out
    assert "scrape the engines, for vLLM /metrics" in " ".join(done.out.split())


def test_the_frontend_of_dynamo_is_read_as_a_router(fleets):
    source = open_source(store=fleets.store("dynamo", "control-steady"))
    latest = source.latest_ms() / 1000
    frame = source.read(["router_ttft_p99", "router_request_rate", "http_error_ratio"], latest - 600, latest, 15)
    source.close()
    models = {entity.get("model_name") for entity in frame["router_ttft_p99"].entities}
    assert models == {"meta-llama/Llama-3.3-70B-Instruct"}
    assert (frame["router_request_rate"].values[0, -5:] > 0).all()
    assert (frame["http_error_ratio"].values[:, -5:] == 0).all()


REQUESTS = ("running", "waiting", "request_rate", "arrival_rate", "e2e_mean", "queue_time_mean", "served_rate")
OTHERS = {
    "llamacpp": ("running", "waiting", "step_rate", "prompt_tokens_rate", "generation_tokens_rate", "itl_mean"),
    "nim": ("running", "waiting", "request_rate", "arrival_rate", "e2e_mean", "ttft_mean", "served_rate"),
    "tei": (
        "requests_in_engine",
        "waiting",
        "request_rate",
        "queue_time_mean",
        "inference_request_mean",
        "served_rate",
    ),
    "vllm-mlx": ("running", "waiting", "request_rate", "arrival_rate", "e2e_mean", "ttft_mean", "served_rate"),
    "vllm-omni": ("running", "waiting", "request_rate", "arrival_rate", "inference_request_mean", "served_rate"),
}
"""What an engine shows that counts no requests and has no histograms, no time in the queue, or no requests that run."""
WITHOUT_TOKENS = ("sglang-diffusion", "tei", "vllm-omni")
"""Of which no page of a language model can be made: tests/judging/test_models_without_tokens.py has theirs."""


@pytest.mark.parametrize("name", ENGINES)
def test_every_engine_declares_enough_to_be_judged(name):
    signals = load_catalogue().signals
    series = declared_series(load_catalogue().exporters.values())
    core = OTHERS.get(name, REQUESTS)
    assert all(any(name in engines_of(reading, series) for reading in signals[one].readings) for one in core)
    assert ENGINES[name].cannot
    assert ENGINES[name].flags
    assert name in WITHOUT_TOKENS or engine_page(name).series


@pytest.mark.parametrize("name", ENGINES)
def test_advice_knows_the_flags_that_an_engine_has_another_name_for(name):
    assert set(ENGINES[name].flags) <= set(load_catalogue().flags.flags)


def test_rules_and_what_they_read_are_those_of_the_main_engine():
    catalogue = load_catalogue()
    series = declared_series(catalogue.exporters.values())
    read = {
        one
        for signal in catalogue.signals_of_rules.values()
        for way in signal.readings
        for one in engines_of(way, series)
    }
    assert read == {MAIN}
