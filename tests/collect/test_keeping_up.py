"""A collector that does not keep up says so, once, and says when it does again; a slow target is not its fault."""

from __future__ import annotations

import threading
from collections.abc import Callable

from inferdoc.collect import collector
from inferdoc.collect.collector import CollectStats, collect
from inferdoc.collect.discovery import Discovery, Target, make_target
from inferdoc.collect.scrape import ScrapeResult
from inferdoc.collect.scrape_series import KeepingUp

from .test_collector import Memory


def test_what_it_says_and_when():
    said = []
    told = KeepingUp(15.0, said.append, start=0.0)
    told.left_out(300)
    told.look(59.0, 1000)
    assert said == []
    told.look(60.0, 1000)
    (line,) = said
    assert line.startswith("cannot keep up with 1,000 targets every 15 s: 8% of the scrapes are left out; scrape less")
    assert "(--interval)" in line and "(--shard 1/2)" in line and line.endswith("a Prometheus agent scrape them")
    told.left_out(3)  # neither worth a line nor well again
    told.look(120.0, 1000)
    assert len(said) == 1
    told.look(180.0, 1000)
    assert said[1:] == [None]


class Held:
    """A scraper whose scrapes of some targets last until it is released."""

    def __init__(self, *slow: str) -> None:
        self.slow, self.release = slow, threading.Event()
        self.stored = self.forget = lambda what: None

    def __call__(self, options: object) -> Held:
        return self

    def __enter__(self) -> Held:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def scrape(self, target: Target, timeout: float) -> ScrapeResult:
        if target.labels["pod"] in self.slow:
            assert self.release.wait(60)
        return ScrapeResult(target, 1_700_000_000_000, None, "never mind", 0.1)


def counted(monkeypatch, scraper: Held, workers: int, enough: Callable[[int, int], bool]) -> None:
    """Scrape until enough were left out. enough: told how many in all, and how many by the collector's own fault."""
    own, stats = list[int](), CollectStats()

    def left_out(self: KeepingUp, scrapes: int) -> None:
        own.append(scrapes)
        if enough(stats.left_out, sum(own)):
            scraper.release.set()

    monkeypatch.setattr(collector, "Scraper", scraper)
    monkeypatch.setattr(KeepingUp, "left_out", left_out)
    targets = Discovery([make_target(f"10.0.0.{n}:8000", {"pod": name}) for n, name in enumerate("abcd")])
    collect(targets, Memory(), interval=0.05, workers=workers, duration=50, stats=stats, stop=scraper.release)
    assert enough(stats.left_out, sum(own))


def test_scrapes_that_find_no_worker_are_counted_as_its_own(monkeypatch) -> None:
    counted(monkeypatch, Held("a", "b", "c", "d"), 1, lambda every, own: own >= 3)


def test_a_slow_target_is_left_out_and_is_not_counted_as_its_own(monkeypatch) -> None:
    counted(monkeypatch, Held("b"), 8, lambda every, own: every - own >= 3)
