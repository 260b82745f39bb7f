"""Health probes of the blackbox exporter: which pod each is about, and what it changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest

from inferdoc import diagnose, open_source
from inferdoc.judging.model import Diagnosis
from inferdoc.judging.telemetry import add_telemetry
from inferdoc.source.base import Scrapes
from inferdoc.source.frame import Entity, SignalFrame, SignalMatrix
from tests.judging.frames import START_MS, N, catalogue, grid, step
from tests.judging.made import ONSET, SCRAPES, START_S, Engine, Level, Recording, gpu, recorded, stored, then

SIGNALS = catalogue().signals
UP = np.ones(N)
POD = {"namespace": "llm", "job": "vllm"}
PROBER = {"job": "blackbox"}


def target(up: np.ndarray = UP, **labels: str) -> tuple[dict[str, str], np.ndarray]:
    return {**POD, **labels}, up


def joined(
    probes: Mapping[str, np.ndarray],
    targets: Sequence[tuple[dict[str, str], np.ndarray]],
    signal: str = "health_probe",
    status: Mapping[str, float] | None = None,
    **labels: str,
) -> dict[str, np.ndarray]:
    """A derived signal by pod. probes: results by URL; status: of their responses; labels: of all probes."""
    frame = SignalFrame(grid())

    def put(name: str, rows: Sequence[tuple[Mapping[str, str], np.ndarray]]) -> None:
        frame.signals[name] = SignalMatrix([Entity.of_labels(own) for own, _ in rows], np.vstack([r for _, r in rows]))

    own = [({**PROBER, **labels, "instance": url}, values) for url, values in probes.items()]
    put("probe_success", own)
    if status is not None:
        put("probe_status", [(who, np.full(N, status[who["instance"]])) for who, _ in own])
    put("target_up", [*targets, *((who, UP) for who, _ in own)])
    times = START_MS + 2000 * np.arange(N)
    add_telemetry(frame, SIGNALS, [Scrapes(who, times, up) for who, up in targets])
    found = frame.signals.get(signal)
    return {} if found is None else {e.pod: row for e, row in zip(found.entities, found.values, strict=True)}


FAILS = step(1.0, 0.0)
A, B = target(pod="a", instance="10.0.3.7:8080"), target(pod="b", instance="10.0.3.8:8080")
ON_NODE = [target(instance="gpu1:8000"), target(instance="gpu1:8001")]
NAMES = ("llama-6d4b75cb6d-h8pcq", "llama-6d4b75cb6d-x2vtz")
OF_SERVICE = [target(pod=pod, instance=f"10.0.3.{n}:8080") for n, pod in enumerate(NAMES)]


@pytest.mark.parametrize(
    ("url", "targets", "pod"),
    [
        ("http://10.0.3.7:8080/health", [A, B], "a"),
        ("10.0.3.8:8080", [A, B], "b"),
        ("http://10.0.3.7:9000/health", [A, B], "a"),
        ("http://[fd00::7]:8080/health", [target(pod="a", instance="[fd00::7]:8080"), B], "a"),
        ("https://gpu1:8001/health", ON_NODE, "gpu1:8001"),
        ("gpu1:8000/health", ON_NODE, "gpu1:8000"),
        ("http://llama.llm.svc.cluster.local:8000/health", [OF_SERVICE[0], B], "llama-6d4b75cb6d-h8pcq"),
    ],
)
def test_a_probe_is_joined_by_the_address_in_its_url(url, targets, pod):
    assert list(joined({url: FAILS}, targets)) == [pod]
    assert list(joined({url: FAILS}, targets, namespace="monitoring", pod="blackbox-0")) == [pod]


@pytest.mark.parametrize(
    ("url", "targets"),
    [
        ("http://gpu1:3000/login", ON_NODE),
        ("http://gpu1:3000/login", ON_NODE[:1]),
        ("http://gpu1/health", ON_NODE),
        ("https://example.com", [A, B]),
        ("http://10.0.3.9:8080/health", [A, B]),
        ("http://llama.other.svc:8000/health", OF_SERVICE),
        ("http://grafana.llm:3000/health", OF_SERVICE),
    ],
)
def test_a_probe_of_something_else_is_joined_to_no_pod(url, targets):
    assert joined({url: FAILS}, targets) == {} == joined({url: FAILS}, targets, "service_probe")


@pytest.mark.parametrize("url", ["http://llama:8000/health", "http://llama.llm:8000/health", "https://llama.llm.svc"])
def test_a_probe_of_a_service_is_about_all_of_its_pods(url):
    assert joined({url: FAILS}, [*OF_SERVICE, B]) == {}
    assert sorted(joined({url: FAILS}, [*OF_SERVICE, B], "service_probe")) == list(NAMES)


def test_a_response_below_500_is_no_engine_that_is_gone():
    url = "http://10.0.3.7:8080/health"
    for status, shown in ((0, 0.0), (503, 0.0), (404, 0.5), (200, 0.5)):
        assert joined({url: FAILS}, [A], status={url: status})["a"][-1] == shown


def test_of_two_probes_of_a_pod_that_disagree_neither_decides():
    other = "http://10.0.3.7:8080/v1/models"
    assert joined({"http://10.0.3.7:8080/health": UP, other: FAILS}, [A, B])["a"][-1] == 0.5


def test_a_scrape_that_fails_beside_a_probe_that_succeeds_is_missing_and_the_pod_is_up():
    failed = step(1.0, 0.0, 50, until=60)
    url, targets = "http://10.0.3.7:8080/health", [target(failed, pod="a", instance="10.0.3.7:8080"), B]
    assert (joined({url: UP}, targets, "target_up")["a"] == 1).all()
    assert np.nanmax(joined({url: UP}, targets, "missing_scrapes")["a"]) > 0.5
    assert (joined({url: failed}, targets, "target_up")["a"] == failed).all()


def test_the_target_of_a_probe_is_up_for_the_exporter_alone():
    gone = target(FAILS, instance="10.0.3.7:8080")
    assert (joined({"10.0.3.7:8080": FAILS}, [gone], "target_up")["10.0.3.7:8080"] == FAILS).all()


# ---- diagnoses ------------------------------------------------------------------------------------------------------


def health(to: Recording, url: str, success: Level, status: Level | None = None) -> None:
    """A probe as the blackbox exporter shows it, and the target that it is for the server."""
    labels = {**PROBER, "instance": url}
    result = np.broadcast_to(np.asarray(success, dtype=float), to.times.shape)
    to.put("up", "gauge", labels, 1)
    to.put("probe_success", "gauge", labels, result)
    to.put("probe_http_status_code", "gauge", labels, np.where(result > 0, 200, 0) if status is None else status)


def engines(**of_first: Level) -> list[Engine]:
    return [Engine(pod, instance=f"10.0.3.{n}:8000", **(of_first if n == 0 else {})) for n, pod in enumerate(NAMES)]


def diagnosed(recording: Recording, folder: Path, unseen: np.ndarray | None = None, since: str = "5m") -> Diagnosis:
    """unseen: bool[scrapes], at which the metrics of the first engine cannot be read."""
    lost = {str(t) for t in recording.times[unseen]} if unseen is not None else set()

    def is_read(line: str) -> bool:
        own = 'instance="10.0.3.0:8000"' in line and not line.startswith("up{")
        return not own or line.split()[-1] not in lost

    return diagnose(open_source(store=stored(recording.only(is_read), folder)), since=since, until="latest")


def first(answer: Diagnosis) -> tuple[str, str | None]:
    return answer.verdict, answer.findings[0].id if answer.findings else (
        answer.unknown.kind if answer.unknown else None
    )


NOW_AND_THEN = (np.arange(SCRAPES) >= ONSET) & (np.arange(SCRAPES) % 4 < 2)
FOR_GOOD = np.arange(SCRAPES) >= ONSET


@pytest.mark.parametrize(
    ("succeeds", "answers"),
    [(True, {("healthy", None)}), (False, {("critical", "engine-down"), ("critical", "engine-crash-loop")})],
)
def test_scrapes_that_fail_now_and_then_are_no_outage_while_the_probe_succeeds(succeeds, answers, tmp_path):
    recording = recorded(*engines(up=np.where(NOW_AND_THEN, 0.0, 1.0)))
    for n in range(2):
        health(recording, f"http://10.0.3.{n}:8000/health", 1.0 if succeeds or n else np.where(NOW_AND_THEN, 0.0, 1.0))
    assert first(diagnosed(recording, tmp_path, NOW_AND_THEN)) in answers


def test_metrics_that_cannot_be_read_any_more_are_neither_an_outage_nor_health(tmp_path):
    recording = recorded(*engines(up=np.where(FOR_GOOD, 0.0, 1.0)))
    health(recording, "http://10.0.3.0:8000/health", 1.0)
    assert first(diagnosed(recording, tmp_path, FOR_GOOD)) == ("unknown", "metrics-unread")


@pytest.mark.parametrize(("busy", "found"), [(80.0, "metrics-unread"), (0.0, "engine-hung")])
def test_a_gpu_that_stands_while_metrics_cannot_be_read_is_an_engine_that_hangs(busy, found, tmp_path):
    recording = Recording(times=START_S + 15 * np.arange(SCRAPES))
    for n, engine in enumerate(engines(up=np.where(FOR_GOOD, 0.0, 1.0))):
        engine.write(recording)
        health(recording, f"http://10.0.3.{n}:8000/health", 1.0)
        gpu(recording, engine.pod, n, DCGM_FI_DEV_GPU_UTIL=then(80.0, busy if n == 0 else 80.0))
    assert first(diagnosed(recording, tmp_path, FOR_GOOD, "12m"))[1] == found


def test_a_probe_that_begins_to_fail_without_tokens_shows_an_engine_that_is_down_although_its_page_is_served(tmp_path):
    idle = then(4.0, 0.0)
    recording = recorded(*engines(requests=idle, running=then(6.0, 0.0)))
    health(recording, "http://10.0.3.0:8000/health", then(1.0, 0.0), then(200, 503))
    answer = diagnosed(recording, tmp_path)
    assert first(answer) == ("critical", "engine-down")
    assert answer.findings[0].scope.pods == [NAMES[0]]


@pytest.mark.parametrize("status", [0, 404, 503])
def test_a_pod_whose_probe_fails_is_never_healthy(status, tmp_path):
    recording = recorded(*engines())
    health(recording, "http://10.0.3.0:8000/health", 0.0, float(status))
    assert first(diagnosed(recording, tmp_path)) == ("unknown", "probe-fails")


def test_a_service_whose_probe_fails_is_never_healthy(tmp_path):
    recording = recorded(*engines())
    health(recording, "http://llama.llm.svc:8000/health", then(1.0, 0.0), then(200, 503))
    assert first(diagnosed(recording, tmp_path)) == ("unknown", "probe-fails")


def test_probes_that_succeed_change_nothing(tmp_path):
    recording = recorded(*engines())
    for n in range(2):
        health(recording, f"http://10.0.3.{n}:8000/health", 1.0)
    health(recording, "https://example.com", 0.0)
    assert first(diagnosed(recording, tmp_path)) == ("healthy", None)
