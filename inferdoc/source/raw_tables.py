"""Tables of samples from single series, of which nothing tells which ones stood on one page.

Series of one page have the times of its scrapes. Two servers that scrape one target, and pods that push to one address,
have the same `job` and `instance` and other times: put into one table they would be mostly gaps.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from inferdoc.source.export_lines import RawSeries
from inferdoc.source.tables import Table, TableLayout, shared_layout
from inferdoc.source.window import Samples
from inferdoc.store.block import STALE, absent

LEAST_SHARED = 0.5
"""A series is of a page with whose other series it shares at least this part of its times."""


class _Page:
    """Series that were scraped together."""

    def __init__(self, first: RawSeries) -> None:
        self.series = [first]
        self.times = {id(first.times_ms): first.times_ms}
        self.all = set(first.times_ms.tolist())

    def take(self, one: RawSeries) -> bool:
        """Whether it is of this page; then it is added."""
        if id(one.times_ms) not in self.times:
            own = one.times_ms.tolist()
            if sum(map(self.all.__contains__, own)) < LEAST_SHARED * len(own):
                return False
            self.times[id(one.times_ms)] = one.times_ms
            self.all.update(own)
        self.series.append(one)
        return True


def tables_of(series: list[RawSeries]) -> list[Table]:
    """One table per target and scraper. `series` is emptied: both at once would be twice the memory."""
    pages: list[_Page] = []
    at_time: dict[tuple[str, str, int], _Page] = {}
    series.sort(key=lambda one: -len(one.times_ms))
    for one in series:
        if not len(one.times_ms):
            continue
        target = one.labels.get("job", ""), one.labels.get("instance", "")
        looks = (int(one.times_ms[at]) for at in (len(one.times_ms) // 2, 0, -1))
        near = dict.fromkeys(at_time.get((*target, look)) for look in looks)
        if not any(page is not None and page.take(one) for page in near):
            page = _Page(one)
            pages.append(page)
            at_time.update(((*target, at), page) for at in page.all)
    series.clear()
    at_time.clear()
    layouts: list[TableLayout] = []
    return [_table(page, layouts) for page in pages]


def _table(page: _Page, layouts: list[TableLayout]) -> Table:
    """The samples of a page; its series in the order of their names and labels, so that pages alike share a layout."""
    times = np.array(sorted(page.all), np.int64)
    target = _shared([one.labels for one in page.series])
    own = [({n: v for n, v in one.labels.items() if n not in target}, one) for one in page.series]
    own.sort(key=lambda each: (each[1].name, sorted(each[0].items())))
    rows = {key: np.searchsorted(times, at) for key, at in page.times.items()}
    page.series.clear()
    names: list[str] = []
    labels: list[dict[str, str]] = []
    values = np.full((len(own), len(times)), STALE)
    for mine, one in own:
        if not (names and names[-1] == one.name and labels[-1] == mine):  # else more of the same series
            names.append(one.name)
            labels.append(mine)
        values[len(names) - 1, rows[id(one.times_ms)]] = one.values
    values = values[: len(names)]
    kept = ~absent(values).all(axis=0)
    if not kept.all():
        times, values = times[kept], values[:, kept]
    return Table(target, shared_layout(names, labels, layouts), Samples(times, values.T))


def _shared(labels: Sequence[dict[str, str]]) -> dict[str, str]:
    """The labels that all series have alike."""
    shared = set(labels[0].items())
    for own in labels[1:]:
        shared &= own.items()
    return dict(sorted(shared))
