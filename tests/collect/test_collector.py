"""The collecting loop against loopback servers. No bound here depends on a fast machine."""

from __future__ import annotations

import itertools
import os
import signal
import statistics
import threading
import time
from collections import defaultdict
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from inferdoc.collect.collector import LogFeed, collect, jitter, stop_on_signals
from inferdoc.collect.discovery import Discovery, Target, make_target
from inferdoc.collect.eplb_log import EplbLog
from inferdoc.collect.samples import Page
from inferdoc.collect.scrape import ScrapeOptions
from inferdoc.errors import ConfigError, InferdocError, SourceError

from .conftest import PageServer, respond

PAGE = b"a 1\nb 2\n"


class Memory:
    """A sink that keeps everything; `fail` makes it refuse."""

    def __init__(self, fail: bool = False, delay: float = 0.0) -> None:
        self.pages: defaultdict[str, list[tuple[int, Page]]] = defaultdict(list)
        self.labels: list[dict[str, str]] = []
        self.fail = fail
        self.delay = delay
        self.threads: set[int] = set()

    def append(self, target_labels: dict[str, str], timestamp_ms: int, page: Page) -> None:
        time.sleep(self.delay)
        self.threads.add(threading.get_ident())
        if self.fail:
            raise InferdocError("disk is full")
        self.labels.append(target_labels)
        self.pages[target_labels.get("pod", target_labels["instance"])].append((timestamp_ms, page))

    def value(self, pod: str, name: str, place: int = -1) -> float:
        page = self.pages[pod][place][1]
        return next(sample.value for sample in page.samples() if sample.name == name)


def pods(server: PageServer, *names: str) -> list[Target]:
    return [make_target(f"{server.url}/{name}", {"pod": name}) for name in names]


def test_once_scrapes_every_target_and_one_failure_stops_nobody(server: PageServer) -> None:
    for name in "abc":
        server.pages[f"/{name}"] = respond(PAGE)
    server.pages["/b"] = respond(b"<html>login</html>", "text/html")
    sink, said = Memory(), list[str]()
    stats = collect(Discovery(pods(server, "a", "b", "c")), sink, once=True, report=said.append)
    assert (stats.scrapes, stats.failed, stats.not_stored) == (3, 1, 0)
    assert [sink.value(pod, "up") for pod in "abc"] == [1.0, 0.0, 1.0]
    assert sink.value("a", "scrape_samples_scraped") == 2.0
    assert sink.value("a", "a") == 1.0
    assert 0 < sink.value("a", "scrape_duration_seconds") < 60
    assert sink.labels[0]["job"] == "inferdoc"
    assert said == [f"b ({server.url[7:]}): HTML page, not metrics: is this behind a login?"]
    assert sink.threads == {threading.get_ident()}


def test_the_schedule_keeps_its_pace_and_a_hanging_target_delays_nobody(server: PageServer) -> None:
    def hang(handler: BaseHTTPRequestHandler) -> None:
        handler.close_connection = True
        server.closing.wait(60)

    names = [f"pod{n}" for n in range(4)]
    for name in names:
        server.pages[f"/{name}"] = respond(PAGE)
    server.pages["/slow"] = hang
    sink = Memory()
    stats = collect(
        Discovery(pods(server, "slow", *names)),
        sink,
        interval=0.25,
        duration=2.5,
        options=ScrapeOptions(timeout=0.6),
    )
    for name in names:
        times = [moment for moment, _ in sink.pages[name]]
        assert 5 <= len(times) <= 11
        assert times == sorted(times)
        assert 200 <= statistics.median(b - a for a, b in itertools.pairwise(times)) <= 400
    assert {sink.value("slow", "up", place) for place in range(len(sink.pages["slow"]))} == {0.0}
    assert stats.failed == len(sink.pages["slow"]) >= 2
    assert stats.scrapes == sum(len(pages) for pages in sink.pages.values())


def test_the_time_limit_is_at_most_the_interval(server: PageServer) -> None:
    server.pages["/slow"] = lambda handler: server.closing.wait(60) and None
    sink, said = Memory(), list[str]()
    collect(Discovery(pods(server, "slow")), sink, interval=0.3, duration=0.7, report=said.append)
    assert said[0].endswith("took longer than 0.3 s")


def test_a_slow_sink_does_not_shift_the_schedule(server: PageServer) -> None:
    server.pages["/a"] = respond(PAGE)
    sink = Memory(delay=0.4)
    stats = collect(Discovery(pods(server, "a")), sink, interval=0.1, duration=0.6)
    assert stats.scrapes >= 3
    times = [moment for moment, _ in sink.pages["a"]]
    assert statistics.median(b - a for a, b in itertools.pairwise(times)) < 350


def test_changes_are_said_once(server: PageServer) -> None:
    answers = [respond(PAGE), respond(b"", status=500), respond(b"", status=500), respond(PAGE), respond(b"a 1\nx\n")]
    calls = iter(answers)
    server.pages["/a"] = lambda handler: next(calls, respond(PAGE))(handler)
    said: list[str] = []
    stop = threading.Event()

    def note(line: str) -> None:
        said.append(line)
        if len(said) == 4:
            stop.set()

    collect(Discovery(pods(server, "a")), Memory(), interval=0.5, duration=60, stop=stop, report=note)
    who = f"a ({server.url[7:]})"
    assert said == [
        f"{who}: HTTP 500 Internal Server Error",
        f"{who}: well again",
        f"{who}: 1 problems, first: line 2: no value",
        f"{who}: well again",
    ]


def test_a_sink_that_refuses_is_reported_and_the_run_goes_on(server: PageServer) -> None:
    server.pages["/a"] = respond(PAGE)
    said: list[str] = []
    stats = collect(Discovery(pods(server, "a")), Memory(fail=True), interval=0.1, duration=0.5, report=said.append)
    assert [line for line in said if line.startswith("store")] == ["store: disk is full"]
    assert stats.not_stored == stats.scrapes >= 2
    with pytest.raises(InferdocError, match="disk is full"):
        collect(Discovery(pods(server, "a")), Memory(fail=True), once=True)


def test_once_without_one_good_target_is_an_error(server: PageServer) -> None:
    server.pages["/a"] = respond(b"", status=503)
    sink = Memory()
    with pytest.raises(SourceError, match=r"none of 1 targets could be scraped: a .*: HTTP 503 Service Unavailable"):
        collect(Discovery(pods(server, "a")), sink, once=True)
    assert sink.value("a", "up") == 0.0
    with pytest.raises(SourceError, match=r"none of 0 targets could be scraped: targets: /no/such\.json: no such file"):
        collect(Discovery(file_sd=["/no/such.json"]), sink, once=True)


def test_upkeep_runs_where_pages_are_stored_and_its_errors_are_said(server: PageServer) -> None:
    server.pages["/a"] = respond(PAGE)
    calls: list[int] = []
    said: list[str] = []

    def upkeep() -> None:
        calls.append(threading.get_ident())
        raise InferdocError("cannot prune")

    collect(Discovery(pods(server, "a")), Memory(), interval=0.1, duration=0.4, maintain=upkeep, report=said.append)
    assert calls == [threading.get_ident()]
    assert [line for line in said if line.startswith("store")] == ["store upkeep: cannot prune"]


def test_targets_come_and_go(server: PageServer, tmp_path: Path) -> None:
    for name in "abc":
        server.pages[f"/{name}"] = respond(PAGE)

    class Changing:
        problems: tuple[str, ...] = ()
        asked = 0

        def targets(self) -> list[Target]:
            self.asked += 1
            if self.asked > 6 and "c" in sink.pages:
                stop.set()
            if self.asked == 4:
                raise ConfigError("cannot list targets")
            return pods(server, "a", "b") if self.asked < 3 else pods(server, "a", "c")

    sink, said, stop = Memory(), list[str](), threading.Event()
    collect(Changing(), sink, interval=0.1, duration=60, stop=stop, report=said.append)
    assert len(sink.pages["a"]) > len(sink.pages["b"]) >= 1
    assert len(sink.pages["c"]) >= 1
    assert [line for line in said if line.startswith("targets")] == [
        "targets: cannot list targets",
        "targets: well again",
    ]


def test_many_targets_are_spread_over_the_interval() -> None:
    moments = sorted(jitter(make_target(f"10.0.{n // 250}.{n % 250}:8000"), 15.0) for n in range(500))
    assert moments[0] >= 0
    assert moments[-1] < 15.0
    assert max(sum(start <= moment < start + 1 for moment in moments) for start in range(15)) < 70
    one = make_target("h:8000", {"pod": "p"})
    assert jitter(one, 15.0) == jitter(make_target("h:8000", {"pod": "p"}), 15.0) == pytest.approx(11.5831174, abs=1e-6)


def test_a_signal_ends_the_run_cleanly(server: PageServer) -> None:
    server.pages["/a"] = respond(PAGE)
    before = signal.getsignal(signal.SIGTERM)
    sink = Memory()
    with stop_on_signals() as stop:
        timer = threading.Timer(0.4, os.kill, (os.getpid(), signal.SIGTERM))
        timer.start()
        stats = collect(Discovery(pods(server, "a")), sink, interval=0.1, duration=60, stop=stop)
        timer.join()
    assert stats.scrapes == len(sink.pages["a"]) >= 1
    assert signal.getsignal(signal.SIGTERM) is before


def test_no_thread_is_left_behind(server: PageServer) -> None:
    server.pages["/a"] = respond(PAGE)
    before = set(threading.enumerate())
    collect(Discovery(pods(server, "a")), Memory(), once=True)
    started = set(threading.enumerate()) - before
    assert not [thread.name for thread in started if thread.name.startswith("scrape")]


EPLB = "EPLB step: {} for model m: avg_tokens=50.0, max_tokens=100, balancedness=0.5000\n"


def test_the_eplb_log_joins_the_scrapes_of_its_pod(server: PageServer, tmp_path: Path) -> None:
    path = tmp_path / "vllm.log"
    path.write_text("")

    def page(handler: BaseHTTPRequestHandler) -> None:
        with path.open("a") as file:
            file.write(EPLB.format(7))
        respond(PAGE)(handler)

    server.pages["/a"] = page
    server.pages["/b"] = respond(PAGE)
    sink = Memory()
    feed = LogFeed(EplbLog(path), {"pod": "a"})
    collect(Discovery(pods(server, "a", "b")), sink, interval=0.5, duration=2.2, eplb=feed)
    assert set(sink.pages) == {"a", "b"}
    assert sink.value("a", "inferdoc_eplb_balancedness") == 0.5
    assert sink.value("a", "up") == 1.0
    assert len(sink.pages["b"][-1][1]) == 5


def test_an_eplb_log_of_no_target_is_stored_by_itself(server: PageServer, tmp_path: Path) -> None:
    path = tmp_path / "vllm.log"
    path.write_text(EPLB.format(7))
    server.pages["/a"] = respond(PAGE)
    sink = Memory()
    feed = LogFeed(EplbLog(path, from_start=True), {"node": "n1"})
    collect(Discovery(pods(server, "a")), sink, interval=0.5, duration=2.2, eplb=feed)
    assert sink.value("eplb-log:vllm.log", "inferdoc_eplb_step") == 7.0
    assert {"job": "inferdoc", "instance": "eplb-log:vllm.log", "node": "n1"} in sink.labels


def test_a_full_store_is_well_again_once_all_targets_are_stored_again(server: PageServer) -> None:
    """A full disk still takes small pages, such as those of failed scrapes: telling of each would fill the log."""
    server.pages["/big"] = respond(b"".join(b"m%d 1\n" % number for number in range(100)))
    server.pages["/small"] = respond(PAGE)
    stop = threading.Event()

    class Full(Memory):
        refused = 0

        def append(self, labels: dict[str, str], timestamp_ms: int, page: Page) -> None:
            if len(page) > 50:
                if self.refused < 3 or len(self.pages["small"]) < 3:
                    self.refused += 1
                    raise InferdocError("no space left for it")
                stop.set()
            super().append(labels, timestamp_ms, page)

    said: list[str] = []
    collect(Discovery(pods(server, "big", "small")), Full(), interval=0.2, duration=60, stop=stop, report=said.append)
    assert said == ["store: no space left for it", "store: well again"]
