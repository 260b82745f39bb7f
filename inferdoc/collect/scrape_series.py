"""The series that a scrape itself adds to a page, as Prometheus adds them."""

from __future__ import annotations

import threading
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
            layout = partners[first.digest] = Layout(
                (*first.series, *second.series),
                {**second.types, **first.types},
                {**second.units, **first.units},
                {**second.help, **first.help},
            )
        return layout
