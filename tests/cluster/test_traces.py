"""Links to traces: what the exemplars of a server become beside a finding."""

from __future__ import annotations

import json
import time
from contextlib import closing

import pytest
import requests
from msgspec import structs

from inferdoc import diagnose
from inferdoc.cluster.traces import MOST, link_traces
from inferdoc.config import load_config
from inferdoc.errors import ConfigError
from inferdoc.judging.model import Diagnosis, stamp
from inferdoc.report import render
from inferdoc.source.open import open_source
from tests import prometheus_server
from tests.judging.frames import catalogue
from tests.page_server import answering
from tests.source.fake_server import Asked, refusal, serving

URL = "https://tempo.example.org/trace/{trace_id}"
E2E = "vllm:e2e_request_latency_seconds_bucket"
OPENMETRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"


@pytest.fixture
def answer(simulated) -> Diagnosis:
    """One finding on one pod, in seconds that it shows in."""
    with closing(open_source(store=str(simulated.of("slow-gpu").store))) as source:
        found = diagnose(source)
    return structs.replace(found, findings=found.findings[:1])


def exemplar_answer(*traced: tuple[str, str, str, float]) -> dict:
    """As the API answers. traced: series, pod, trace, seconds."""
    rows = [
        {
            "seriesLabels": {"__name__": name, "pod": pod, "le": "+Inf"},
            "exemplars": [{"labels": {"trace_id": trace}, "value": str(took), "timestamp": 1600000000.5}],
        }
        for name, pod, trace, took in traced
    ]
    return {"status": "success", "data": rows}


def linked(answer: Diagnosis, respond) -> list[Asked]:
    """Link what a server answers; what it was asked."""
    with serving(respond) as server, closing(open_source(prometheus=server.url)) as source:
        link_traces(answer, source, catalogue(), URL)
        return [asked for asked in server.asked if asked.path.endswith("query_exemplars")]


def test_the_slowest_of_the_pods_of_a_finding(answer):
    pod = answer.findings[0].scope.pods[0]
    rows = [(E2E, pod, f"id{n}", float(n)) for n in (3, 9, 1, 7, 5)]
    asked = linked(answer, lambda one: exemplar_answer(*rows, (E2E, "somebody-else", "other", 99.0)))
    traces = answer.findings[0].traces
    assert [(trace.trace_id, trace.value, trace.pod) for trace in traces] == [
        ("id9", 9.0, pod),
        ("id7", 7.0, pod),
        ("id5", 5.0, pod),
    ][:MOST]
    assert traces[0].url == "https://tempo.example.org/trace/id9"
    assert float(asked[0].params["start"]) <= float(asked[0].params["end"]) and len(asked) == 1


def test_a_request_that_many_scrapes_report_is_one_link(answer):
    pod = answer.findings[0].scope.pods[0]
    linked(answer, lambda one: exemplar_answer((E2E, pod, "a", 9.0), (E2E, pod, "a", 9.0), (E2E, pod, "b", 7.0)))
    assert [trace.trace_id for trace in answer.findings[0].traces] == ["a", "b"]


def test_what_affects_is_requested_first_and_what_has_none_gives_way(answer):
    pod = answer.findings[0].scope.pods[0]
    empty = {"status": "success", "data": []}
    asked = linked(answer, lambda one: exemplar_answer((E2E, pod, "a", 2.0)) if "e2e" in one.params["query"] else empty)
    assert answer.findings[0].traces[0].signal.startswith("e2e") and "e2e" in asked[-1].params["query"]


def test_an_id_is_quoted_and_every_format_shows_the_link(answer):
    pod = answer.findings[0].scope.pods[0]
    linked(answer, lambda one: exemplar_answer((E2E, pod, 'x"/><script>', 4.0)))
    address = "https://tempo.example.org/trace/x%22%2F%3E%3Cscript%3E"
    assert answer.findings[0].traces[0].url == address
    for form in ("text", "markdown", "html", "json"):
        page = render(answer, form, detail=1)
        assert address in "".join(page.split())
        assert form != "html" or '"/><script>' not in page


@pytest.mark.parametrize("status", [404, 400, 501])
def test_a_server_without_exemplars_is_one_warning(answer, status):
    linked(answer, lambda one: refusal(status, "bad_data", "no such endpoint"))
    (warning,) = [one for one in answer.source.warnings if one.startswith("no traces are linked")]
    assert "\n" not in warning and answer.findings[0].traces == []


def test_nothing_is_requested_without_an_address_or_of_a_store(answer, store_of):
    with closing(open_source(store=str(store_of("slow-replica")))) as source:
        link_traces(answer, source, catalogue(), URL)
    with serving(lambda one: exemplar_answer()) as server, closing(open_source(prometheus=server.url)) as source:
        link_traces(answer, source, catalogue(), None)
        assert not [asked for asked in server.asked if asked.path.endswith("query_exemplars")]
    assert answer.findings[0].traces == []


def test_an_address_needs_a_place_for_the_id(tmp_path):
    file = tmp_path / "inferdoc.toml"
    for url in ("https://tempo.example.org/trace/", "javascript:{trace_id}"):
        file.write_text(f"[links]\ntrace_url = {json.dumps(url)}\n")
        with pytest.raises(ConfigError, match="trace_url"):
            load_config(str(file))


def exposition(path: str) -> str:
    """A page with an exemplar, as OpenMetrics writes it."""
    return (
        f"# TYPE {E2E.removesuffix('_bucket')} histogram\n"
        f'{E2E}{{le="+Inf",model_name="m"}} 5 # {{trace_id="4bf92f3577b34da6"}} 12.5 {time.time():.3f}\n'
        "# EOF\n"
    )


@pytest.mark.live
def test_from_a_page_to_a_link_by_a_real_prometheus(answer, tmp_path):
    if not prometheus_server.available():
        pytest.skip(prometheus_server.MISSING)
    pod = answer.findings[0].scope.pods[0]
    flags = ("--enable-feature=exemplar-storage", "--web.enable-lifecycle")
    with answering(exposition, OPENMETRICS) as page, prometheus_server.running([], tmp_path, *flags) as url:
        targets = [{"targets": [page.removeprefix("http://")], "labels": {"pod": pod}}]
        scrape = {"scrape_configs": [{"job_name": "vllm", "scrape_interval": "1s", "static_configs": targets}]}
        (tmp_path / "prometheus.yml").write_text(json.dumps(scrape))
        assert requests.post(f"{url}/-/reload", timeout=120).status_code == 200
        finding, end = answer.findings[0], time.monotonic() + 180
        while not finding.traces and time.monotonic() < end:
            time.sleep(1)
            now = time.time()
            finding.onset, answer.window.until = stamp(now - 300), stamp(now + 1)
            with closing(open_source(prometheus=url)) as source:
                link_traces(answer, source, catalogue(), URL)
        (trace,) = finding.traces
        assert (trace.trace_id, trace.value, trace.pod) == ("4bf92f3577b34da6", 12.5, pod), answer.source.warnings
