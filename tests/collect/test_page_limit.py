"""Pages that are too large lose whole metrics, the largest first, and say so."""

from __future__ import annotations

import threading

import pytest

from inferdoc.collect.collector import collect
from inferdoc.collect.discovery import Discovery, make_target
from inferdoc.collect.exposition import parse
from inferdoc.collect.samples import Page
from inferdoc.collect.scrape import ScrapeOptions, Scraper
from inferdoc.collect.session import Room, fitted

from .conftest import PageServer, respond

SMALL = "# TYPE up2 gauge\nup2 1\n# HELP m about\n# TYPE m gauge\n"
LARGE = "".join(f'm{{id="{number}"}} {number}\n' for number in range(50))
ODD = "".join(f'{{"odd.name",id="{number}"}} 1\n' for number in range(30))


@pytest.mark.parametrize(
    ("body", "most", "left", "names"),
    [
        (SMALL + LARGE + "z 3\n", 200, 52, None),
        (SMALL + LARGE + "z 3\n", 52, 52, None),
        (SMALL + LARGE + "z 3\n", 10, 2, "52 samples, more than 10: m (50) left out"),
        ("z 3\n" + SMALL + LARGE, 10, 2, "m (50) left out"),
        (LARGE, 10, 0, "m (50) left out"),
        (LARGE + ODD + "a 1\n", 40, 31, "m (50) left out"),
        (LARGE + ODD + "a 1\n", 20, 1, "m (50), odd.name (30) left out"),
        ("\n".join(f"n{number} 1" for number in range(9)) + "\n", 4, 4, "n0 (1), n1 (1), n2 (1) and 2 more metrics"),
    ],
)
@pytest.mark.parametrize("end", ["", "# EOF\n"], ids=["text", "OpenMetrics"])
def test_whole_metrics_are_left_out(body: str, most: int, left: int, names: str | None, end: str) -> None:
    kept, why = fitted((body + end).encode(), most)
    assert (why is None) == (names is None)
    assert names is None or names in (why or "")
    kind = "application/openmetrics-text" if end else "text/plain; version=0.0.4"
    page = parse(kept, kind, strict=True)
    assert len(page) == left
    whole = {sample.name: sample.value for sample in parse((body + end).encode(), kind).samples()}
    assert all(whole[sample.name] == sample.value or sample.name == "m" for sample in page.samples())


def test_a_large_page_is_stored_in_part_and_named(server: PageServer) -> None:
    server.pages["/metrics"] = respond((SMALL + LARGE + "z 3\n").encode())
    with Scraper(ScrapeOptions(max_series=10)) as scraper:
        result = scraper.scrape(make_target(server.url))
    assert result.up and result.page is not None
    assert [sample.name for sample in result.page.samples()] == ["up2", "z"]
    assert result.page.problems == [
        "52 samples, more than 10: m (50) left out; raise --max-series, or drop them at the target"
    ]


def test_pages_that_are_too_large_together_fail_alone(server: PageServer) -> None:
    server.pages["/metrics"] = respond(LARGE.encode())
    with Scraper(ScrapeOptions(bytes_at_once=len(LARGE))) as scraper:
        for _ in range(3):
            assert scraper.scrape(make_target(server.url)).up, "the room is given back"
    with Scraper(ScrapeOptions(bytes_at_once=100)) as scraper:
        for _ in range(3):
            result = scraper.scrape(make_target(server.url))
            assert result.error == "left out: all pages under way are larger than 100 bytes together"


class SlowSink:
    """Counts the pages that are read and not yet stored."""

    def __init__(self) -> None:
        self.stored = 0

    def append(self, labels: dict[str, str], timestamp_ms: int, page: Page) -> None:
        self.stored += 1
        threading.Event().wait(0.002)


def test_pages_wait_for_those_before_them(server: PageServer) -> None:
    """With room for two pages, a run of many still stores every one, and ends."""
    server.pages["/metrics"] = respond(LARGE.encode())
    targets = Discovery([make_target(server.url, {"pod": str(number)}) for number in range(25)])
    sink = SlowSink()
    stats = collect(targets, sink, once=True, options=ScrapeOptions(series_at_once=100), workers=8)
    assert (stats.scrapes, stats.failed, sink.stored) == (25, 0, 25)


def test_a_run_that_ends_early_leaves_no_thread_waiting(server: PageServer) -> None:
    server.pages["/metrics"] = respond(LARGE.encode())
    targets = Discovery([make_target(server.url, {"pod": str(number)}) for number in range(25)])
    stop = threading.Event()

    class Stopping(SlowSink):
        def append(self, labels: dict[str, str], timestamp_ms: int, page: Page) -> None:
            stop.set()
            raise MemoryError

    before = set(threading.enumerate())
    with pytest.raises(MemoryError):
        collect(targets, Stopping(), once=True, options=ScrapeOptions(series_at_once=60), workers=8, stop=stop)
    assert not [thread for thread in set(threading.enumerate()) - before if thread.name.startswith("scrape")]


def test_what_is_larger_than_the_room_goes_alone() -> None:
    room = Room(10)
    room.take(25)
    assert not room.try_take(1)
    room.give(25)
    assert room.try_take(10) and not room.try_take(1)
