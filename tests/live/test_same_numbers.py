"""The embedded store and a real Prometheus over the same recording give the same numbers, read by read."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from inferdoc.source.grid import LOOK_MS, make_grid, scrape_interval_ms
from inferdoc.source.open import open_source
from inferdoc.source.reads import Read

pytestmark = pytest.mark.live

RECORDINGS = ["engine-down", "control-unique", "control-pd", "control-planned-restart"]
TOLERANCE = 1e-9
FUNCTIONS = ("rate", "increase", "last", "max", "mean", "change")
BY = ("pod", "instance", "engine", "model_name", "le")


@pytest.fixture(scope="module", params=RECORDINGS)
def sources(request, store_of, prometheus_of):
    store = open_source(store=store_of(request.param))
    server = open_source(prometheus=prometheus_of(request.param))
    yield store, server
    store.close()
    server.close()


def grid_of(source, until_ms=None):
    latest = source.latest_ms()
    interval = scrape_interval_ms(source.scrapes(latest - LOOK_MS, latest))
    return make_grid(latest - 150_000, until_ms or latest, interval, latest)


def assert_same(ours, theirs, what):
    assert ours.keys == theirs.keys, what
    assert ours.values.shape == theirs.values.shape, what
    np.testing.assert_allclose(ours.values, theirs.values, rtol=TOLERANCE, atol=0, err_msg=str(what))


def compare(sources, reads, grid, match=()):
    store, server = sources
    ours, theirs = store.evaluate(reads, grid, match), server.evaluate(reads, grid, match)
    assert list(ours) == list(theirs) == reads
    for read in reads:
        assert_same(ours[read], theirs[read], read)
    return ours


def test_newest_sample_names_and_scrapes(sources):
    store, server = sources
    latest = store.latest_ms()
    assert server.latest_ms() == latest
    names = store.names(latest - 600_000, latest)
    assert names == server.names(latest - 600_000, latest)
    for start in (latest - 600_000, latest - 60_000, latest - 30 * 86_400_000):
        ours, theirs = store.scrapes(start, latest), server.scrapes(start, latest)
        assert [one.labels for one in ours] == [one.labels for one in theirs]
        assert ours
        for one, other in zip(ours, theirs, strict=True):
            np.testing.assert_array_equal(one.times_ms, other.times_ms)
            np.testing.assert_array_equal(one.up, other.up)


@pytest.mark.parametrize("fn", FUNCTIONS)
def test_every_series_with_every_function(sources, fn):
    grid = grid_of(sources[0])
    names = sorted(sources[0].names(grid.start_ms, grid.end_ms))
    found = compare(sources, [Read(name, fn, BY) for name in names], grid)
    filled = sum(bool(result.keys) for result in found.values())
    assert filled > 0.9 * len(names)


def test_wider_windows_other_steps_and_odd_moments(sources):
    grid = grid_of(sources[0])
    odd = replace(grid, start_ms=grid.start_ms - 40_321, step_ms=777, count=200, rate_ms=9_973, gauge_ms=4_567)
    names = [n for n in sorted(sources[0].names(grid.start_ms, grid.end_ms)) if n.startswith("vllm:")][::7]
    ways = [
        ("rate", "sum", 1),
        ("increase", "max", 2),
        ("rate", "min", 4),
        ("mean", "sum", 3),
        ("max", "max", 2),
        ("last", "min", 1),
        ("change", "sum", 1),
    ]
    compare(sources, [Read(n, fn, (), agg=agg, width=width) for n in names for fn, agg, width in ways], odd)


@pytest.mark.parametrize(
    "match",
    [
        (("le", "=~", "0\\..*"),),
        (("le", "!=", ""),),
        (("engine", "!~", "1|2"), ("pod", "=~", "vllm.*|.*decode.*")),
        (("model_name", "=", 'no "such" \\ one'),),
        (("nowhere", "=", ""),),
    ],
)
def test_matchers(sources, match):
    grid = grid_of(sources[0])
    names = [n for n in sorted(sources[0].names(grid.start_ms, grid.end_ms)) if "_bucket" in n or "running" in n]
    compare(sources, [Read(n, "rate", BY) for n in names] + [Read(n, "last", ("pod",)) for n in names], grid, match)


def test_info_metrics(sources):
    grid = grid_of(sources[0])
    for name in ("vllm:cache_config_info", "up", "vllm:no_such_info"):
        ours, theirs = (source.info(name, grid) for source in sources)
        assert [s.labels for s in ours] == [s.labels for s in theirs]
        for one, other in zip(ours, theirs, strict=True):
            np.testing.assert_allclose(one.values, other.values, rtol=TOLERANCE)


def test_a_window_before_all_data_is_empty_and_no_error(sources):
    grid = replace(grid_of(sources[0]), start_ms=1_600_000_000_000, count=5)
    read = Read("up", "last", ("pod",))
    assert compare(sources, [read], grid)[read].keys == []
    for source in sources:
        assert source.scrapes(1_600_000_000_000, 1_600_000_100_000) == []
