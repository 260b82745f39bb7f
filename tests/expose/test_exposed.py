"""The page that a Prometheus scrapes: what is declared, what a diagnosis and a forecast become, what goes stale."""

from __future__ import annotations

import contextlib
import json
import shutil
import socket
import subprocess
import threading
import time
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from prometheus_client.parser import text_string_to_metric_families

from inferdoc import diagnose, open_source
from inferdoc.catalogue.own_metrics import Families
from inferdoc.collect.collector import CollectStats, log_feed_from_flag
from inferdoc.collect.eplb_log import eplb_page
from inferdoc.errors import ConfigError, SourceError
from inferdoc.expose.exporter import Exposed, address_of, serving, verdict_rows
from inferdoc.expose.rounds import STALE_ROUNDS, Rounds
from inferdoc.forecast.result import forecast_rows
from tests.cli.command import call, refused
from tests.judging.frames import catalogue

DECLARED = catalogue().exporters["inferdoc"].metrics
EPLB = "INFO EPLB step: {} for model moe: avg_tokens=100.0, max_tokens={}, balancedness={}"


def free_address() -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{probe.getsockname()[1]}"


def read(address: str) -> dict[str, list]:
    """Samples by name."""
    with urllib.request.urlopen(f"http://{address}/metrics", timeout=10) as answer:
        text = answer.read().decode()
    samples: dict[str, list] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            samples.setdefault(sample.name, []).append(sample)
    return samples


def judged(answer) -> Rounds:
    rounds: Rounds = Rounds("diagnosis", lambda: answer, 60.0, lambda line: None)
    rounds.once()
    return rounds


def exposed(**more) -> Exposed:
    return Exposed(Families(catalogue().exporters["inferdoc"]), CollectStats(5, 2, 1, 300), lambda: 4096, **more)


@pytest.fixture(scope="module")
def sick(store_of):
    source = open_source(store=store_of("kv-preemption-thrash"))
    yield diagnose(source, since="10m")
    source.close()


def test_a_finding_is_a_series_per_pod(sick):
    rows = verdict_rows(judged(sick))
    finding = sick.findings[0]
    assert [labels["pod"] for labels, _ in rows["inferdoc_finding"]] == finding.scope.pods
    labels, value = rows["inferdoc_finding"][0]
    assert labels["cause"] == "kv-preemption-thrash" and labels["model_name"] == finding.scope.model and value == 1
    assert {labels["verdict"]: value for labels, value in rows["inferdoc_verdict"]}[sick.verdict] == 1
    assert sum(value for _, value in rows["inferdoc_verdict"]) == 1
    assert sum(value for _, value in rows["inferdoc_causes_not_judged"]) == len(sick.not_judged)


def test_a_diagnosis_that_is_old_prints_nothing(sick):
    rounds = judged(sick)
    now = time.time()
    assert rounds.newest(now + 60) is not None
    assert rounds.newest(now + STALE_ROUNDS * 60 + 1) is None


def test_a_round_that_fails_is_counted_printed_once_and_tried_again():
    results, printed = [SourceError("no server"), SourceError("no server"), KeyError("odd"), 3], []

    def work():
        result = results.pop(0)
        if isinstance(result, Exception):
            raise result
        return result

    rounds: Rounds = Rounds("diagnosis", work, 60.0, printed.append)
    for _ in range(4):
        rounds.once()
    assert (rounds.done, rounds.failed) == (1, 3) and rounds.newest().value == 3
    assert printed == ["diagnosis: no server", "diagnosis: KeyError: 'odd'", "diagnosis: well again"]


def test_the_page_has_what_is_declared_and_nothing_else(sick, tmp_path, store_of):
    feed = log_feed_from_flag(str(tmp_path / "vllm.log"))
    feed.log.path.write_text("\n".join(EPLB.format(n, 200.0, 0.5) for n in (1, 2)) + "\n")
    feed.log.newest = eplb_page(feed.log.read())
    address = free_address()
    with serving(exposed(eplb=feed, diagnoses=judged(sick)), address):
        page = read(address)
        with urllib.request.urlopen(f"http://{address}/metrics", timeout=10) as answer:
            text = answer.read()
    assert page["inferdoc_scrapes_total"][0].value == 3 and page["inferdoc_store_size_bytes"][0].value == 4096
    assert page["inferdoc_eplb_balancedness"][0].labels == {"model_name": "moe"}
    assert page["inferdoc_eplb_balancedness"][0].value == 0.5
    for name, samples in page.items():
        assert all(set(s.labels) == set(DECLARED[name].labels) for s in samples), name
    elsewhere = ("inferdoc_forecast_", "inferdoc_cost_", "inferdoc_headroom_")
    silent = {
        name for name, one in DECLARED.items() if not name.startswith(elsewhere) and one.needs != "inferdoc serve"
    }
    assert set(page) == silent, "everything but forecasts, which were not asked for, and what other commands write"
    if promtool := shutil.which("promtool"):
        checked = subprocess.run([promtool, "check", "metrics"], input=text, capture_output=True, check=False)
        assert checked.returncode == 0, checked.stdout + checked.stderr


def test_forecasts_have_the_names_that_are_declared():
    import numpy as np

    from inferdoc.forecast.result import Forecast

    ahead = np.array([1.0, 2.0])
    levels = {0.5: ahead, 0.95: ahead * 2}
    result = Forecast("chat", "requests", 1_700_000_000, 300, "UTC", ahead, levels, "flat", skill=0.5, missed=0.1)
    rows = forecast_rows([result], 1_700_000_100.0)
    assert set(rows) == {name for name in DECLARED if name.startswith("inferdoc_forecast_")}
    rounds: Rounds = Rounds("forecast", lambda: [result], 60.0, lambda line: None)
    rounds.once()
    address = free_address()
    with serving(exposed(forecasts=rounds), address):
        page = read(address)
    assert {s.labels["quantile"]: s.value for s in page["inferdoc_forecast_load_max"]} == {"0.5": 2, "0.95": 4}


@pytest.mark.parametrize(
    ("text", "expected"),
    [(":9108", ("0.0.0.0", 9108)), ("127.0.0.1:80", ("127.0.0.1", 80)), ("[::1]:9108", ("::1", 9108))],
)
def test_an_address(text, expected):
    assert address_of(text) == expected


@pytest.mark.parametrize("text", ["9108", ":0", ":port", "host:", ":70000"])
def test_what_is_no_address_is_refused(text):
    with pytest.raises(ConfigError, match="not an address such as :9108"):
        address_of(text)


def test_an_address_that_is_taken_is_refused(tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        done = call("collect", "--target", "http://127.0.0.1:9", "--store", tmp_path / "s.db", "--expose", address)
    refused(done, 2, address, "is taken")


def test_rounds_without_a_page_are_refused(tmp_path):
    done = call("collect", "--target", "http://127.0.0.1:9", "--store", tmp_path / "s.db", "--judge-every", "1m")
    refused(done, 2, "--expose")


def test_collecting_serves_its_health_and_a_verdict(tmp_path):
    """The command line: pages are scraped, judged and shown until it ends; then nobody answers."""

    class Engine(BaseHTTPRequestHandler):
        def do_GET(self):
            body = b'vllm:num_requests_running{model_name="m",engine="0"} 1\n'
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Engine)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    address, pages = free_address(), []

    def scrape_once():
        while not ended.is_set():
            with contextlib.suppress(OSError):
                pages.append(read(address))
            ended.wait(0.1)

    ended = threading.Event()
    watcher = threading.Thread(target=scrape_once)
    watcher.start()
    target = f"http://127.0.0.1:{server.server_address[1]}/metrics,pod=vllm-0"
    where = ("--store", tmp_path / "s.db", "--expose", address, "--judge-every", "1s", "--forecast-every", "1s")
    done = call("--log-format", "json", "collect", "--target", target, "--interval", "0.5s", "--duration", "6s", *where)
    ended.set()
    watcher.join()
    server.shutdown()
    server.server_close()
    assert done.code == 0, done
    scrapes = [s.value for page in pages for s in page["inferdoc_scrapes_total"] if s.labels["result"] == "ok"]
    assert scrapes == sorted(scrapes) and scrapes[-1] > 1
    assert any("inferdoc_verdict" in page for page in pages), done.err
    messages = [json.loads(line)["message"] for line in done.err.splitlines()]
    assert any(line.startswith("forecast: ") for line in messages), "a day of forecasts needs more than seconds"
    with pytest.raises(OSError):
        read(address)
