"""The series that a scrape itself adds to a page, as Prometheus adds them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from weakref import WeakKeyDictionary

import numpy as np

from inferdoc.collect.samples import NO_TIMESTAMP, Layout, Page, Series
from inferdoc.collect.scrape import ScrapeResult

SCRAPE_LAYOUT = Layout(
    [Series("up", ()), Series("scrape_duration_seconds", ()), Series("scrape_samples_scraped", ())],
    dict.fromkeys(("up", "scrape_duration_seconds", "scrape_samples_scraped"), "gauge"),
)
"""1 or 0; seconds; number of samples on the page. Source: Prometheus docs, "Jobs and instances"."""

_lock = threading.Lock()
_joined: WeakKeyDictionary[Layout, dict[bytes, Layout]] = WeakKeyDictionary()


def page_to_store(result: ScrapeResult, extra: Page | None = None) -> Page:
    """The page of a scrape behind `up` and its companions, with `extra` samples of the same target before it.

    A failed scrape gives `up` 0 and what samples there are. What the page holds comes last, so that
    where it has an `up` of its own, that one is the duplicate.
    """
    scraped = len(result.page) if result.page is not None else 0
    own = np.array([float(result.up), result.duration_seconds, float(scraped)])
    page = Page(SCRAPE_LAYOUT, own)
    for part in (extra, result.page):
        if part is not None:
            page = join_pages(page, part)
    return page


def join_pages(first: Page, second: Page) -> Page:
    """One page of both; its layout is the same object whenever the same two layouts meet."""
    timestamps = None
    if first.timestamps is not None or second.timestamps is not None:
        timestamps = np.concatenate([_timestamps(first), _timestamps(second)])
    values = np.concatenate([first.values, second.values])
    return Page(_join(first.layout, second.layout), values, timestamps, [*first.problems, *second.problems])


def _timestamps(page: Page) -> np.ndarray:
    return np.full(len(page), NO_TIMESTAMP, np.int64) if page.timestamps is None else page.timestamps


def _join(first: Layout, second: Layout) -> Layout:
    with _lock:
        partners = _joined.setdefault(second, {})
        layout = partners.get(first.digest)
        if layout is None:
            layout = Layout((*first.series, *second.series), {**second.types, **first.types})
            partners[first.digest] = layout
        return layout


REPORT_SECONDS = 60.0
"""Seconds between reports: a short time with a busy disk or CPU is no problem."""
LEAST_SHARE = 0.01
"""Fewer scrapes that are left out are chance."""
HELP = "scrape less often (--interval), share the targets (--shard 1/2), or have a Prometheus agent scrape them"


class KeepingUp:
    """Counts scrapes that were left out because this process was busy, and reports it. A slow target is not counted.
    say: called with the problem, or None once it is over."""

    def __init__(self, interval: float, say: Callable[[str | None], None], start: float) -> None:
        self._interval, self._say = interval, say
        self._left_out = 0
        self._look_at = start + max(REPORT_SECONDS, 2 * interval)
        self._looked = start

    def left_out(self, scrapes: int) -> None:
        """So many scrapes were left out."""
        self._left_out += scrapes

    def look(self, now: float, targets: int) -> None:
        """Say how it stands, once a minute. now: seconds; targets: how many are scraped."""
        if now < self._look_at:
            return
        seconds = now - self._looked
        scheduled = targets * seconds / self._interval
        if self._left_out > max(1.0, LEAST_SHARE * scheduled):
            share = min(1.0, self._left_out / scheduled) if scheduled else 1.0
            load = f"{targets:,} targets every {self._interval:g} s"
            self._say(f"cannot keep up with {load}: {share:.0%} of the scrapes are left out; {HELP}")
        elif not self._left_out:
            self._say(None)
        self._left_out, self._looked = 0, now
        self._look_at = now + max(REPORT_SECONDS, 2 * self._interval)
