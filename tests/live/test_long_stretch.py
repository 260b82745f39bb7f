"""A day and a half of scrapes with outages: both sources thin it alike, and agree beyond a server's limits."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace

import numpy as np
import pytest

from inferdoc.source import prometheus
from inferdoc.source.grid import LOOK_MS, make_grid, scrape_interval_ms
from inferdoc.source.open import open_source
from inferdoc.source.reads import Read
from inferdoc.store.importer import import_file
from inferdoc.store.store import Store
from tests import prometheus_server
from tests.recording_text import openmetrics

pytestmark = pytest.mark.live

START_S = 1_700_000_000
HOURS = 36
SPACING_S = 30
END_MS = (START_S + HOURS * 3600 - SPACING_S) * 1000


def state(pod, second):
    """p1 is down for a quarter of an hour and not scraped at all for two hours."""
    age = second - START_S
    if pod == "p1" and 36_000 <= age < 36_900:
        return 0
    return None if pod == "p1" and 50_000 <= age < 57_200 else 1


@pytest.fixture(scope="module")
def sources(tmp_path_factory):
    if not prometheus_server.available():
        pytest.skip(prometheus_server.MISSING)
    folder = tmp_path_factory.mktemp("long")
    recording = folder / "long.om"
    recording.write_text(openmetrics(("p0", "p1"), range(START_S, START_S + HOURS * 3600, SPACING_S), state))
    with Store.open(folder / "long.db", "w") as store:
        import_file(store, recording)
    with ExitStack() as stack:
        options = ("--query.max-samples=4000",)
        address = stack.enter_context(prometheus_server.running([recording], folder / "server", *options))
        store, server = open_source(store=folder / "long.db"), open_source(prometheus=address)
        stack.callback(store.close)
        stack.callback(server.close)
        yield store, server


def test_scrapes_are_thinned_alike(sources):
    ours, theirs = (source.scrapes(START_S * 1000, END_MS) for source in sources)
    assert [s.labels for s in ours] == [s.labels for s in theirs]
    for one, other in zip(ours, theirs, strict=True):
        np.testing.assert_array_equal(one.times_ms, other.times_ms)
        np.testing.assert_array_equal(one.up, other.up)
    down = ours[1].times_ms[ours[1].up == 0] / 1000 - START_S
    assert down.min() == pytest.approx(36_000, abs=120)
    assert down.max() == pytest.approx(36_900, abs=120)
    assert np.diff(ours[1].times_ms).max() == pytest.approx(7_200_000, abs=150_000)


def test_the_interval_is_that_of_the_last_minutes(sources):
    intervals = {scrape_interval_ms(source.scrapes(END_MS - LOOK_MS, END_MS)) for source in sources}
    assert intervals == {SPACING_S * 1000}


def test_more_steps_than_the_server_gives_at_once(sources, monkeypatch):
    monkeypatch.setattr(prometheus, "MOST_POINTS", 20_000)
    grid = replace(make_grid(START_S * 1000, END_MS, SPACING_S * 1000, END_MS), step_ms=9_000, count=14_000)
    read = Read("up", "max", ("pod",))
    ours, theirs = (source.evaluate([read], grid)[read] for source in sources)
    assert ours.keys == theirs.keys
    np.testing.assert_array_equal(ours.values, theirs.values)


def test_numbers_agree_where_the_server_must_be_asked_in_pieces(sources, monkeypatch):
    monkeypatch.setattr(prometheus, "MOST_POINTS", 300)
    grid = make_grid(START_S * 1000, END_MS, SPACING_S * 1000, END_MS)
    reads = [
        Read(n, fn, ("pod",)) for n, fn in (("work_total", "rate"), ("level", "last"), ("level", "mean"), ("up", "max"))
    ]
    store, server = sources
    ours, theirs = store.evaluate(reads, grid), server.evaluate(reads, grid)
    assert server.cost.queries > 4 * len(reads)
    for read in reads:
        assert ours[read].keys == theirs[read].keys == [("p0",), ("p1",)]
        np.testing.assert_allclose(ours[read].values, theirs[read].values, rtol=1e-9)
