"""Quantiles told page by page are those of the rates of all buckets."""

from __future__ import annotations

import numpy as np
import pytest

from inferdoc.source.evaluate import evaluate_tables
from inferdoc.source.histograms import quantiles, settling
from inferdoc.source.page_histograms import page_quantiles
from inferdoc.source.reads import Grid, Read
from inferdoc.source.tables import join
from inferdoc.store.block import STALE, Block

SCRAPES, SHARES = 60, (0.5, 0.99)
READ = Read("ttft_bucket", "rate", ("pod", "engine", "le"))
GRID = Grid(100_000, 10_000, 50, 10_000, 50_000, 25_000)
BOUNDS = ("0.1", "0.5", "1", "+Inf")


def page(pod: str, les=BOUNDS, engines=("0",), seed=0, gaps=()) -> Block:
    """A target whose requests take what they take. gaps: (column, first scrape, last) without a sample."""
    rng = np.random.default_rng(seed)
    labels = [{"engine": engine, "le": le} for engine in engines for le in les]
    shares = np.sort(rng.uniform(0, 1, (SCRAPES, len(engines), len(les))), axis=2)
    values = np.cumsum(np.rint(shares * 40), axis=0).reshape(SCRAPES, -1)
    for column, first, last in gaps:
        values[first:last, column] = STALE
    times = np.arange(SCRAPES, dtype=np.int64) * 10_000 + seed * 137
    return Block({"job": "vllm", "pod": pod}, times, ["ttft_bucket"] * len(labels), labels, values)


def both(blocks, read=READ, named=lambda key: key, at_once=32):
    """What is told page by page, so many pages at a time, and of the rates of all buckets."""
    tables = join(blocks)
    batches = [tables[begin : begin + at_once] for begin in range(0, len(tables), at_once)]
    rates = evaluate_tables(tables, [read], GRID)[read]
    expected = {q: quantiles(rates, q, settling(GRID, read.width)) for q in SHARES}
    return page_quantiles(batches, {read: (SHARES, named)}, GRID).get(read), expected


def assert_same(told, expected):
    for q in SHARES:
        assert told[q].keys == expected[q].keys and told[q].bounds.tolist() == expected[q].bounds.tolist()
        np.testing.assert_array_equal(told[q].values, expected[q].values)


@pytest.mark.parametrize("width", [1, 4])
@pytest.mark.parametrize("at_once", [1, 2, 32])
def test_many_pages_agree_with_all_buckets_together(width, at_once):
    pages = [page(f"p{n}", engines=("0", "1")[: 1 + n % 2], seed=n) for n in range(5)]
    pages += [page("fine", les=("0.1", "0.2", "0.5", "1", "+Inf"), seed=7)]
    told, expected = both(pages, Read("ttft_bucket", "rate", READ.by, width=width), at_once=at_once)
    assert len(told[0.5].keys) == 8 and np.isfinite(told[0.5].values).any()
    assert_same(told, expected)


@pytest.mark.parametrize(
    "gaps", [[(1, 20, 40)], [(0, 30, SCRAPES)], [(1, 0, SCRAPES)], [(3, 0, SCRAPES)], [(c, 10, 30) for c in range(4)]]
)
def test_buckets_that_come_and_go_agree(gaps):
    """A bucket that is never there is no bound; one that vanishes leaves no quantile across the change."""
    assert_same(*both([page("a", seed=1), page("b", seed=2, gaps=gaps)]))


def test_what_is_no_bucket_is_left_out():
    told, expected = both([page("a", les=(*BOUNDS, "much", ""), seed=1)])
    assert_same(told, expected)
    assert both([page("a", les=("0.1", "1"))]) == ({0.5: None, 0.99: None}, {0.5: None, 0.99: None})


def test_buckets_that_must_be_added_up_are_not_told():
    assert both([page("a", les=("0.1", "1", "1.0", "+Inf"))])[0] is None
    for at_once in (1, 2):
        pages = [page("a", seed=1), page("b", seed=2)]
        assert both(pages, Read("ttft_bucket", "rate", ("engine", "le")), at_once=at_once)[0] is None
    assert both([page("a", seed=1), page("b", seed=2)], named=lambda _: ("one", "pod"))[0] is None
