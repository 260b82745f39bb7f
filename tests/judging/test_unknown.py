"""Sources without a working engine: each state has a line of its own with its next step, in text and JSON."""

from __future__ import annotations

import json
import re

import pytest

from inferdoc import diagnose, open_source
from inferdoc.judging.api import Options
from inferdoc.report import render
from inferdoc.store import Store, import_file
from tests.cli.command import call, refused
from tests.judging.frames import catalogue
from tests.source.fake_server import Answer, Asked, refusal, serving

BEGIN, EVERY, COUNT = 1_795_252_000, 15, 240
POD = {"namespace": "llm", "pod": "llama-7d4b9c6f5d-x2vtz"}
ENGINE = {"job": "vllm", "instance": "10.0.0.1:8000", **POD}
KSM = {"job": "kube-state-metrics", "instance": "10.0.0.8:8080"}
NODE = {"job": "node", "instance": "10.0.0.9:9100"}
GAUGES = ("num_requests_running", "num_requests_waiting", "kv_cache_usage_perc")
COUNTERS = ("generation_tokens_total", "prompt_tokens_total", "request_success_total")
Rows = dict[str, list[tuple[dict[str, str], float]]]


def engine(prefix: str = "vllm:", work: float = 0.0) -> Rows:
    labels = {**ENGINE, "model_name": "m", "engine": "0"}
    rows: Rows = {prefix + name: [(labels, work)] for name in (*GAUGES, *COUNTERS)}
    return {"up": [(ENGINE, 1)], **rows}


def waiting(reason: str, pod: str = POD["pod"], container: str = "vllm") -> Rows:
    labels = {**KSM, "namespace": "llm", "pod": pod, "container": container, "reason": reason}
    return {"up": [(KSM, 1)], "kube_pod_container_status_waiting_reason": [(labels, 1)]}


FRONT = [
    f"{name}_seconds_{part}" for name in ("time_to_first_token", "inter_token_latency") for part in ("sum", "count")
]
RAW = "kubectl get --raw /api/v1/namespaces/llm/pods/llama-7d4b9c6f5d-x2vtz:8000/proxy/metrics"
LOG = "kubectl -n llm logs llama-7d4b9c6f5d-x2vtz -c vllm --previous --tail=300"
FORWARD = "kubectl -n llm port-forward llama-7d4b9c6f5d-x2vtz 8000"
STATES: dict[str, tuple[Rows, str, str, str | None]] = {
    "crash-loop": (
        waiting("CrashLoopBackOff"), "container-waiting", r"x2vtz is in CrashLoopBackOff.* log of the previous",
        LOG,
    ),
    "no-image": (
        waiting("ImagePullBackOff"), "container-waiting", r"is in ImagePullBackOff.* events of the pod: image name",
        "kubectl -n llm describe pod llama-7d4b9c6f5d-x2vtz",
    ),
    "crash-loop-and-down": (
        {**waiting("CrashLoopBackOff"), "up": [(KSM, 1), (ENGINE, 0)]}, "container-waiting", "CrashLoopBackOff",
        LOG,
    ),
    "down": (
        {"up": [(ENGINE, 0), (NODE, 1)]}, "target-down",
        r"x2vtz \(10.0.0.1:8000\) is down: up is 0 in the whole window.* what its /metrics endpoint returns",
        f"kubectl -n llm get pod llama-7d4b9c6f5d-x2vtz -o wide; {RAW}",
    ),
    "down-without-pod": (
        {"up": [({"job": "vllm", "instance": "gpu1:8000"}, 0)]}, "target-down", r"gpu1:8000 is down",
        "curl -sS -i -m 10 http://gpu1:8000/metrics",
    ),
    "idle": (
        engine(), "idle", "no request arrived: .* Send one request of one token",
        f"{FORWARD} & sleep 3; inferdoc probe http://localhost:8000; kill $!",
    ),
    "no-engine-metrics": (
        {"up": [(ENGINE, 1)], "process_start_time_seconds": [(ENGINE, BEGIN - 5000)]}, "no-engine-metrics",
        "1 target responded, none with metrics of an engine. Scrape /metrics on the port of the API server",
        RAW,
    ),
    "names-of-a-front-end": (
        {"up": [(ENGINE, 1)], **{f"dynamo_frontend_{name}": [(ENGINE, 3)] for name in FRONT}},
        "no-engine-metrics", "1 target responded, none with metrics of an engine", RAW,
    ),
    "other-names": (
        engine("acme_vllm_", work=3.0), "other-names",
        r'6 names of vLLM under the prefix acme_vllm_ .*regex "acme_vllm_\(\.\+\)".* replacement "vllm:\$1"', None,
    ),
}  # fmt: skip


@pytest.fixture
def stored(tmp_path):
    """The path of a store with constant series over an hour."""

    def of(rows: Rows):
        lines = []
        for name, series in rows.items():
            kind = "counter" if name.endswith("_total") else "gauge"
            lines.append(f"# TYPE {name.removesuffix('_total') if kind == 'counter' else name} {kind}")
            for labels, value in series:
                own = {**labels, "finished_reason": "stop"} if "success" in name else labels
                shown = ",".join(f'{key}="{text}"' for key, text in own.items())
                lines += [f"{name}{{{shown}}} {value} {BEGIN + EVERY * i}" for i in range(COUNT)]
        text = tmp_path / "rows.om"
        text.write_text("\n".join([*lines, "# EOF", ""]))
        with Store.open(tmp_path / "fleet.db", "w") as store:
            import_file(store, text)
        return tmp_path / "fleet.db"

    return of


def answered(source):
    with_catalogue = Options(catalogue=catalogue())
    answer = diagnose(source, since="30m", options=with_catalogue)
    source.close()
    return answer


@pytest.mark.parametrize("name", STATES)
def test_a_state_without_a_working_engine_has_its_own_next_step(name, stored):
    rows, kind, says, command = STATES[name]
    answer = answered(open_source(store=stored(rows)))
    assert answer.verdict == "unknown" and answer.unknown is not None
    assert (answer.unknown.kind, answer.unknown.command) == (kind, command)
    assert re.search(says, answer.summary), answer.summary
    document = json.loads(render(answer, "json"))
    assert document["unknown"]["do"] in document["summary"]
    text = render(answer, "text")
    assert " ".join(answer.summary.split()) in " ".join(text.split())
    assert command is None or f"$ {command}" in text
    assert "switch on" not in text and "API port" not in text


@pytest.mark.parametrize(
    ("error", "kind", "do"),
    [
        ("server returned HTTP status 500 Internal Server Error", "scrape-error", "kubectl -n llm logs"),
        (
            'Get "http://10.0.0.1:8000/metrics": dial tcp 10.0.0.1:8000: connect: connection refused',
            "target-down",
            "--raw",
        ),
    ],
)
def test_why_a_scrape_fails_is_known_to_the_server(error, kind, do, stored, monkeypatch):
    source = open_source(store=stored({"up": [(ENGINE, 0)]}))
    monkeypatch.setattr(source.raw, "scrape_errors", lambda: {"10.0.0.1:8000": error})
    answer = answered(source)
    assert answer.unknown is not None and answer.unknown.kind == kind
    assert error in answer.summary and do in (answer.unknown.command or "")


def test_a_container_that_is_not_an_engine_is_named_only_without_one(stored):
    engine_pod, other = waiting("CrashLoopBackOff"), waiting("CrashLoopBackOff", "redis-0", "redis")
    both = {name: [*series, *other[name]] for name, series in engine_pod.items()}
    both["up"] = [(KSM, 1)]
    assert "x2vtz" in answered(open_source(store=stored(both))).summary


def test_an_engine_with_work_is_not_idle(stored):
    answer = answered(open_source(store=stored(engine(work=2.0))))
    assert answer.unknown is None or answer.unknown.kind != "idle"


def test_errors_of_scrapes_are_those_of_the_targets_that_have_one():
    active = [
        {"labels": {"instance": "a:1"}, "lastError": "", "health": "up"},
        {"labels": {"instance": "b:1"}, "lastError": "context deadline exceeded", "health": "down"},
    ]

    def respond(asked: Asked) -> Answer | dict:
        assert (asked.path, asked.params["state"]) == ("/api/v1/targets", "active")
        return {"status": "success", "data": {"activeTargets": active, "droppedTargets": []}}

    with serving(respond) as fake:
        source = open_source(prometheus=fake.url)
        assert source.scrape_errors() == {"b:1": "context deadline exceeded"}
        source.close()
    with serving(lambda asked: refusal(404, "not_found", "no such endpoint")) as fake:
        source = open_source(prometheus=fake.url)
        assert source.scrape_errors() == {}
        source.close()


@pytest.mark.parametrize(("status", "says"), [(500, "read its log"), (503, "read its log"), (404, "answers there")])
def test_a_live_page_that_fails_names_what_to_do(status, says):
    with serving(lambda asked: Answer(status, "no metrics")) as fake:
        refused(call("diagnose", fake.url), 4, f"HTTP {status}", says)


def test_nothing_that_listens_is_named():
    refused(call("diagnose", "http://127.0.0.1:1"), 4, "connection refused", "that the engine runs")
