"""First scrape_live: pages of engines that nobody scraped before, scraped for a minute and judged as samples arrive."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from inferdoc.collect.discovery import Target
from inferdoc.collect.scrape import ScrapeResult
from inferdoc.collect.scrape_series import page_to_store
from inferdoc.errors import SourceError
from inferdoc.judging.judge import PAGED_AFTER_SECONDS
from inferdoc.judging.model import Diagnosis
from inferdoc.judging.references.lifetime import Lifetime
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
