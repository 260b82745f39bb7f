"""Pages of engines that were named on the command line, live or saved, and their diagnosis."""

from __future__ import annotations

import re
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from inferdoc.catalogue.load import Catalogue
from inferdoc.collect.discovery import DEFAULT_JOB, Target
from inferdoc.collect.exposition import parse
from inferdoc.collect.samples import Layout, Page, ParseError, Series
from inferdoc.collect.scrape import ScrapeOptions, Scraper, ScrapeResult
from inferdoc.collect.scrape_series import join_pages, page_to_store
from inferdoc.config import Config
from inferdoc.errors import InferdocError, SourceError
from inferdoc.judging.api import diagnose
from inferdoc.judging.judge import PAGED_AFTER_SECONDS
from inferdoc.judging.model import Diagnosis
from inferdoc.judging.references.lifetime import Lifetime
from inferdoc.judging.request import diagnosis, options_of
from inferdoc.source.recognise import Recognised, recognise
from inferdoc.source.store_source import StoreSource
from inferdoc.store.importer import import_file
from inferdoc.store.store import Store

FIRST_SCRAPES = 8
"""Five scrapes are more than a spike, a rate needs one before them, and the first rates span seconds."""
MOST_AT_ONCE = 32
PAST = Lifetime(present=PAGED_AFTER_SECONDS)
"""The life of each process, but for the time that the fastest page takes: what is sick now was sick for as long."""


@dataclass(frozen=True)
class Pace:
    """interval: seconds between scrapes; seconds: total scrape time; clock, sleep: for tests."""

    interval: float = 5.0
    seconds: float = 60.0
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep

    @property
    def scrapes(self) -> int:
        """How many scrapes fit."""
        return 1 + int(self.seconds / self.interval)


def scrape_live(
    targets: Sequence[Target],
    store: Store,
    scrape: Callable[[Target], ScrapeResult],
    judge: Callable[[Lifetime], Diagnosis],
    pace: Pace,
    log: Callable[[str], None],
) -> Diagnosis:
    """Scrape the targets into a store and judge what they show; `judge` is called after the sixth scrape and at the
    end, with the baseline of a first scrape. log: writes a line per diagnosis and per failure.

    Raises SourceError where no target answers at first.
    """
    for number in scrape_rounds(targets, store, scrape, pace, log):
        if number + 1 == FIRST_SCRAPES < pace.scrapes:
            answer = judge(PAST)
            left = pace.seconds - number * pace.interval
            log(f"first diagnosis after {number * pace.interval:g} s: {answer.verdict}. {answer.summary}")
            log(f"looking on for {left:g} s")
    return judge(PAST)


def scrape_rounds(
    targets: Sequence[Target],
    store: Store,
    scrape: Callable[[Target], ScrapeResult],
    pace: Pace,
    log: Callable[[str], None],
) -> Iterator[int]:
    """Scrape all targets into a store for as long as `pace` says; the number of each round, from 0, once it is stored.
    log: gets a line about each failure.

    Raises SourceError where no target answers at first.
    """
    answered = False
    started = pace.clock()
    failures: dict[Target, str] = {}
    with ThreadPoolExecutor(min(MOST_AT_ONCE, max(1, len(targets)))) as pool:
        for number in range(pace.scrapes):
            if number:
                pace.sleep(max(0.0, started + number * pace.interval - pace.clock()))
            for result in pool.map(scrape, targets):
                store.writer.append(dict(result.target.labels), result.timestamp_ms, page_to_store(result))
                answered |= result.page is not None and result.up
                if result.error is not None and failures.get(result.target) != result.error:
                    failures[result.target] = result.error
                    log(f"{result.target.url}: {result.error}")
            if not answered:
                raise SourceError("; ".join(f"{target.url}: {error}" for target, error in failures.items()))
            yield number


DATED = re.compile(r"(?P<name>.+)@(?P<seconds>\d{9,11}(\.\d+)?)$")
"""`vllm-0@1795000000.prom`: the page of vllm-0 at that time, Unix seconds. Without it the time is that of the file."""
WITH_TIMES = re.compile(rb"(?m)^[a-zA-Z_:][\w:]*(\{.*\})? \S+ \d{9,}")
HEAD_BYTES = 1 << 16
UP = Layout([Series("up", ())], {"up": "gauge"})
"""Who saved a page had an answer."""


@dataclass(frozen=True)
class SavedPage:
    """pod: as the file is called; at_ms: when it was saved, milliseconds since 1970."""

    pod: str
    at_ms: int
    path: Path


def put_into(store: Store, paths: Sequence[Path]) -> Lifetime | None:
    """Store saved pages; what the first of each pod shows of the time before, or None where the files hold times of
    their own (OpenMetrics as `inferdoc export` writes it), and so a past. Raises InferdocError for a folder without
    pages, ParseError for a file that is none."""
    pages = []
    for path in paths:
        files = sorted(f for f in path.iterdir() if f.is_file() and f.name[0] != ".") if path.is_dir() else [path]
        if not files:
            raise InferdocError(f"{path}: no files in this folder; save pages there (curl URL/metrics > vllm-0.prom)")
        for file in files:
            if _has_times(file):
                import_file(store, file)
            else:
                pages.append(_saved(file))
    for saved in sorted(pages, key=lambda one: (one.at_ms, one.pod)):
        labels = {"job": DEFAULT_JOB, "instance": saved.pod, "pod": saved.pod}
        page = join_pages(Page(UP, np.ones(1)), _parsed(saved.path))
        store.writer.append(labels, saved.at_ms, page)
    return PAST if pages else None


def _parsed(path: Path) -> Page:
    try:
        return parse(path.read_bytes(), strict=False)
    except ParseError as error:
        raise ParseError(
            f"{path}: {error}; it is no saved page of metrics: name pages alone, or their folder"
        ) from error


def _has_times(path: Path) -> bool:
    with path.open("rb") as stream:
        head = stream.read(HEAD_BYTES)
    return head.startswith(b"\x1f\x8b") or WITH_TIMES.search(head) is not None


def _saved(path: Path) -> SavedPage:
    dated = DATED.match(path.stem)
    if dated:
        return SavedPage(dated["name"], round(1000 * float(dated["seconds"])), path)
    return SavedPage(path.stem, round(1000 * path.stat().st_mtime), path)


WINDOW_WORDS = {
    "since": "--since",
    "begin": "--from",
    "around": "--around",
    "baseline": "--baseline",
    "watch": "--watch",
}
SERVED = ("prometheus", "store")


def recognised(texts: Sequence[str], scraping: ScrapeOptions) -> list[Recognised]:
    """What each argument is. Raises InferdocError where they are of kinds that do not go together."""
    with Scraper(scraping) as scraper:

        def fetch(target: Target) -> tuple[bytes, str | None]:
            answer, error = scraper.fetch(target)
            return b"".join(answer.blocks), error

        found = [recognise(text, fetch) for text in texts]
    kinds = {"saved" if one.kind in ("file", "folder") else one.kind for one in found}
    served = [one for one in found if one.kind in SERVED]
    if len(kinds) > 1 or len(served) > 1:
        sources = ", ".join(f"{one.text} (a {'Prometheus' if one.kind == 'prometheus' else one.kind})" for one in found)
        raise InferdocError(f"{sources}: pass one server or store, or only URLs of engines")
    return found


def is_served(found: Sequence[Recognised]) -> bool:
    """Whether it is a source that has a past: a Prometheus, or a store."""
    return any(one.kind in SERVED for one in found)


def diagnose_pages(
    found: Sequence[Recognised],
    config: Config,
    catalogue: Catalogue,
    params: dict[str, Any],
    scraping: ScrapeOptions,
    pace: Pace,
    log: Callable[[str], None],
) -> Diagnosis:
    """Diagnose pages: live ones are scraped for as long as `pace` says, saved ones are read. params: the values of the
    command's options by name; with `store` the samples stay there, else they are thrown away."""
    live = [one.target for one in found if one.target is not None]
    unfit = [word for name, word in WINDOW_WORDS.items() if params.get(name)] if live else []
    if unfit:
        raise InferdocError(
            f"{unfit[0]} needs history, which a live URL does not have; use --for 2m for a longer scrape"
        )
    with _store(params.get("store")) as path, Store.open(path, "w") as store:

        def judge(lifetime: Lifetime | None) -> Diagnosis:
            source = StoreSource(path)
            try:
                if not live:
                    return diagnose_saved(source, config, catalogue, params, lifetime)
                options = options_of(source, config, catalogue, params)
                options.baseline = None if _has_past(source, pace.seconds) else lifetime
                return diagnose(source, until="latest", options=options)
            finally:
                source.close()

        if not live:
            answer = judge(put_into(store, [Path(one.address) for one in found]))
        else:
            with Scraper(scraping) as scraper:
                answer = scrape_live(live, store, scraper.scrape, judge, pace, log)
    answer.source.location = ", ".join(one.text for one in found)
    return answer


@contextmanager
def store_pages(
    found: Sequence[Recognised], scraping: ScrapeOptions, pace: Pace, log: Callable[[str], None]
) -> Iterator[Path]:
    """A store of what the pages show, gone afterwards: live ones are scraped for as long as `pace` says, saved ones are
    read. Raises SourceError where no live page answers."""
    with _store(None) as path:
        live = [one.target for one in found if one.target is not None]
        with Store.open(path, "w") as store, Scraper(scraping) as scraper:
            if live:
                log(f"looking at {', '.join(target.url for target in live)} for {pace.seconds:g} s")
                deque(scrape_rounds(live, store, scraper.scrape, pace, log), maxlen=0)
            else:
                put_into(store, [Path(one.address) for one in found])
        yield path


def diagnose_saved(
    source: StoreSource, config: Config, catalogue: Catalogue, params: dict[str, Any], lifetime: Lifetime | None
) -> Diagnosis:
    """Diagnose the requested window, or up to the newest saved file."""
    until = params.get("until")
    params = params | {"until": "latest" if until in (None, "now") else until}
    if lifetime is None or params.get("baseline"):
        return diagnosis(source, config, catalogue, params)
    options = options_of(source, config, catalogue, params)
    options.baseline = lifetime
    return diagnose(source, until=params["until"], options=options)


@contextmanager
def _store(params: str | None) -> Iterator[Path]:
    if params:
        yield Path(params).expanduser()
        return
    with TemporaryDirectory(prefix="inferdoc-") as folder:
        yield Path(folder) / "look.db"


def _has_past(source: StoreSource, seconds: float) -> bool:
    """Whether the store holds more than what was scraped just now: half as long again before it."""
    latest = source.latest_ms()
    if latest is None:
        return False
    begin = latest - round(1500 * seconds)
    return any(len(target.times_ms) for target in source.scrapes(begin - 1_800_000, begin))
