"""Nothing is healthy, and nothing proven, by part of the data."""

from __future__ import annotations

import json

import pytest

from inferdoc import diagnose, open_source
from inferdoc.judging.completeness import qualify
from inferdoc.judging.model import seconds
from inferdoc.source.base import Incomplete
from inferdoc.store.importer import import_file
from inferdoc.store.store import Store
from tests.cli.command import alone, call
from tests.judging.frames import catalogue
from tests.judging.made import INTERVAL_S, SCRAPES, START_S, Engine, recorded, stored, then
from tests.prometheus_server import FIXTURES
from tests.source.fake_server import serving
from tests.source.reading import GOOD, read

__all__ = ["alone"]
PODS = ("chat-0", "chat-1", "chat-2")


def fleet(**second):
    """Three pods of one workload; second: what the second of them does."""
    return recorded(*(Engine(pod, **(second if pod == PODS[1] else {})) for pod in PODS))


def answer_to(text, tmp_path):
    return diagnose(open_source(store=stored(text, tmp_path)), since="6m")


def test_a_whole_fleet_is_healthy(tmp_path):
    answer = answer_to(fleet().text(), tmp_path)
    assert (answer.verdict, answer.source.incomplete) == ("healthy", [])


@pytest.mark.parametrize("kept", ["up{", "up{ process_start_time_seconds{"])
def test_a_pod_that_is_scraped_without_its_metrics_hides_behind_no_peer(tmp_path, kept):
    text = fleet(itl=then(0.02, 0.2)).only(lambda line: PODS[1] not in line or line.startswith(tuple(kept.split())))
    answer = answer_to(text, tmp_path)
    assert answer.verdict == "unknown" and answer.coverage.pods_without_metrics == [PODS[1]]
    assert answer.source.incomplete == ["no engine metrics from chat-1, although scrapes succeed"]
    assert "incomplete" in answer.summary and "chat-1" in answer.summary


def test_the_exit_code_of_an_incomplete_answer_is_3(tmp_path):
    text = fleet().only(lambda line: PODS[1] not in line or line.startswith("up{"))
    done = call("diagnose", "--store", stored(text, tmp_path), "--since", "6m", "--until", "latest")
    assert done.code == 3 and done.out.startswith("UNKNOWN") and "chat-1" in done.out


@pytest.mark.parametrize("container", [{}, {"container": "vllm"}])
def test_a_whole_workload_without_its_metrics_is_missing(tmp_path, container):
    """The only decode pod, scraped by the job of the prefill pod: no other pod of its workload shows engine metrics."""
    pods = [Engine(f"chat-{role}-0", labels=container) for role in ("prefill", "decode")]
    text = recorded(*pods).only(lambda line: "decode" not in line or line.startswith("up{"))
    answer = answer_to(text, tmp_path)
    assert (answer.verdict, answer.coverage.pods_without_metrics) == ("unknown", ["chat-decode-0"])


@pytest.mark.parametrize("pod", ["vllm-large-0", "whisper-7c9f-x2", "ollama-0", "infinity-emb-1"])
def test_a_pod_that_is_named_like_an_engine_has_to_show_one(tmp_path, pod):
    made = fleet()
    made.put("up", "gauge", {"job": "other", "instance": "n1:8000", "namespace": "llm", "pod": pod}, 1)
    answer = answer_to(made.text(), tmp_path)
    assert (answer.verdict, answer.coverage.pods_without_metrics) == ("unknown", [pod])


@pytest.mark.parametrize(
    "other",
    [
        {"job": "other", "instance": "n1:8080", "namespace": "llm", "pod": "vllm-router-0"},
        {"job": "other", "instance": "n1:8080", "namespace": "llm", "pod": "dynamo-operator-5d4b"},
        {"job": "other", "instance": "n1:8080", "namespace": "llm", "pod": "vllm-lmcache-server-0"},
        {"job": "redis", "instance": "n1:9121", "namespace": "llm", "pod": "redis-0"},
        {"job": "vllm", "instance": "n1:9121", "namespace": "llm", "pod": "redis-0", "container": "exporter"},
    ],
)
def test_another_job_or_container_needs_no_engine_metrics(tmp_path, other):
    made = fleet()
    made.put("up", "gauge", other, 1)
    assert answer_to(made.text(), tmp_path).verdict == "healthy"


def test_a_job_of_a_whole_cluster_needs_no_engine_metrics(tmp_path):
    made = fleet()
    for place, pod in (("llm", "redis-0"), ("web", "shop-0")):
        made.put("up", "gauge", {"job": "vllm", "instance": f"{pod}:80", "namespace": place, "pod": pod}, 1)
    assert answer_to(made.text(), tmp_path).verdict == "healthy"


@pytest.mark.parametrize("lost", ["vllm:num_requests_waiting{", "vllm:generation_tokens_total{"])
def test_a_pod_that_shows_a_part_of_the_metrics_of_its_peers_is_not_healthy(tmp_path, lost):
    text = fleet().only(lambda line: PODS[1] not in line or not line.startswith(lost))
    answer = answer_to(text, tmp_path)
    assert (answer.verdict, answer.coverage.pods_without_some_metrics) == ("unknown", [PODS[1]])
    assert answer.source.incomplete == ["some engine metrics are missing from chat-1, although scrapes succeed"]


def test_a_pod_whose_scrapes_do_not_show_is_compared_with_its_namespace(tmp_path):
    lost = ("up{", "vllm:num_requests_waiting{")
    text = fleet().only(lambda line: PODS[1] not in line or not line.startswith(lost))
    answer = answer_to(text, tmp_path)
    assert (answer.verdict, answer.coverage.pods_without_some_metrics) == ("unknown", [PODS[1]])


@pytest.mark.parametrize(
    ("family", "listed"),
    [
        ("vllm:num_requests_waiting", "vllm:num_requests_waiting"),
        ("vllm:e2e_request_latency_seconds", "vllm:e2e_request_latency_seconds_count"),
    ],
)
def test_metrics_that_the_source_lists_and_no_pod_shows_are_missing(tmp_path, monkeypatch, family, listed):
    text = fleet().only(lambda line: not line.startswith(family))
    source = open_source(store=stored(text, tmp_path))
    assert diagnose(source, since="6m").verdict == "healthy", "dropped by the scrape of every pod"
    names = source.raw.names
    monkeypatch.setattr(source.raw, "names", lambda *span: names(*span) | {listed})
    answer = diagnose(source, since="6m")
    assert (answer.verdict, answer.coverage.pods_without_some_metrics) == ("unknown", list(PODS))


def test_pods_that_finish_no_requests_need_no_latencies(tmp_path, monkeypatch):
    text = recorded(*(Engine(pod, requests=0.0) for pod in PODS)).only(lambda line: "latency_seconds" not in line)
    source = open_source(store=stored(text, tmp_path))
    names = source.raw.names
    monkeypatch.setattr(source.raw, "names", lambda *span: names(*span) | {"vllm:e2e_request_latency_seconds_count"})
    assert diagnose(source, since="6m").coverage.pods_without_some_metrics == []


def test_a_pod_without_work_may_lack_counters(tmp_path):
    idle = Engine(PODS[1], requests=0.0, running=0.0)
    text = recorded(Engine(PODS[0]), idle).only(lambda line: PODS[1] not in line or "_total{" not in line)
    assert answer_to(text, tmp_path).coverage.pods_without_some_metrics == []


def test_a_sidecar_of_another_workload_needs_no_engine_metrics(tmp_path):
    made = fleet()
    made.put("up", "gauge", {"job": "exporter", "instance": "n1:9400", "pod": "dcgm-exporter-x7kqz"}, 1)
    assert answer_to(made.text(), tmp_path).verdict == "healthy"


@pytest.mark.parametrize(
    ("warning", "verdict"),
    [
        (Incomplete("the server warns: No StoreAPIs matched for this query"), "unknown"),
        ("the server warns: PromQL info: metric might not be a counter", "healthy"),
    ],
)
def test_what_was_not_read_makes_healthy_unknown(tmp_path, warning, verdict):
    answer = answer_to(fleet().text(), tmp_path)
    qualify(answer, [warning], catalogue().calibration)
    assert answer.verdict == verdict
    assert json.loads(answer.to_json())["source"]["incomplete"] == ([warning] if verdict == "unknown" else [])


def test_what_was_not_read_leaves_a_finding_and_proves_nothing(tmp_path):
    text = fleet(itl=then(0.02, 0.2)).text()
    answer = answer_to(text, tmp_path)
    first, verdict = answer.findings[0], answer.verdict
    first.certainty = "proven"
    qualify(answer, [Incomplete("half of the store is damaged")], catalogue().calibration)
    assert (answer.verdict, answer.findings[0]) == (verdict, first)
    assert (first.certainty, first.probability) == ("likely", catalogue().calibration.probability("likely"))


def test_warnings_of_storage_are_gaps_and_remarks_on_a_query_are_none():
    body = {**GOOD, "warnings": ["store-1: connection refused", "PromQL warning: quantile value should be"]}
    with serving(lambda *_: {**body, "isPartial": True}) as fake:
        _, source = read(fake.url)
    gaps = [line for line in source.warnings if isinstance(line, Incomplete)]
    assert len(gaps) == 2 and "store-1: connection refused" in gaps[0] and "partial" in gaps[1]


@pytest.mark.parametrize(("minutes", "verdict"), [(4, "healthy"), (9, "unknown")])
def test_a_window_whose_end_was_not_seen_is_not_healthy(tmp_path, minutes, verdict):
    end = START_S + (SCRAPES - 1) * INTERVAL_S
    source = open_source(store=stored(fleet().text(), tmp_path))
    answer = diagnose(source, from_=str(START_S), until=str(end + 60 * minutes))
    assert (answer.verdict, bool(answer.source.incomplete)) == (verdict, verdict == "unknown")
    assert seconds(answer.window.newest) == pytest.approx(end, abs=1)


def test_a_fault_lasts_until_it_is_seen_to_end(tmp_path):
    end = START_S + (SCRAPES - 1) * INTERVAL_S
    source = open_source(store=stored(fleet(itl=then(0.02, 0.2)).text(), tmp_path))
    (found, *_) = diagnose(source, from_=str(START_S), until=str(end + 1200)).findings
    assert found.ongoing and found.ended is None


def test_time_after_the_newest_sample_does_not_hide_a_fault(tmp_path):
    """All scraping stopped minutes ago: the finding of the last samples stays."""
    with Store.open(tmp_path / "slow.db", "w") as store:
        import_file(store, FIXTURES / "recordings" / "slow-replica.om.gz")
    source = open_source(store=tmp_path / "slow.db")
    for later_ms in (180_000, 420_000):
        until_ms = source.latest_ms() + later_ms
        late = diagnose(source, since="10m", until=str(until_ms / 1000))
        assert [finding.id for finding in late.findings] == ["slow-gpu"]
        assert abs(1000 * seconds(late.window.until) - until_ms) <= 2000
        assert bool(late.source.incomplete) == (later_ms > 300_000)


@pytest.mark.parametrize("offset", [-7200, 900])
def test_a_window_without_samples_names_the_newest(tmp_path, offset):
    """The history before the window, or time after it, has samples."""
    source = open_source(store=stored(fleet().text(), tmp_path))
    until = START_S + (SCRAPES - 1) * INTERVAL_S + offset
    answer = diagnose(source, since="10m", until=str(until))
    assert answer.verdict == "unknown" and answer.summary.startswith("There is no sample in the window: the newest is")
