"""The embedded store as a source: one reading for many calls, long segments in pieces, a writer at work meanwhile."""

from __future__ import annotations

import io
import time
from datetime import UTC, datetime

import numpy as np
import pytest

from inferdoc.errors import InferdocError, SourceError
from inferdoc.source import store_source
from inferdoc.source.open import open_source
from inferdoc.source.reads import Grid, Read
from inferdoc.source.store_source import StoreSource
from inferdoc.store.importer import import_file
from inferdoc.store.store import Store
from tests.recording_text import openmetrics
from tests.store.pages import layout_of, page_of

START_S = 1_700_000_000
PODS = ("p0", "p1")


def fill(path, begin, end, spacing=10):
    """Two targets, scraped every 10 s: up, a counter that rises by 3 a scrape, a gauge, an info, junk."""
    with Store.open(path, "w") as store:
        import_file(store, io.BytesIO(openmetrics(PODS, range(START_S + begin, START_S + end, spacing)).encode()))


@pytest.fixture
def path(tmp_path):
    fill(tmp_path / "s.db", 0, 3600)
    return tmp_path / "s.db"


def grid(begin=1800, count=100, step=10):
    return Grid((START_S + begin) * 1000 + 1, step * 1000, count, 10_000, 50_000, 25_000)


RATE, GAUGE = Read("work_total", "rate", ("pod",)), Read("level", "last", ("pod",))


def test_one_reading_serves_a_whole_diagnosis(path):
    source = open_source(store=path)
    latest = source.latest_ms()
    assert latest == (START_S + 3590) * 1000
    assert "work_total" in source.names(latest - 60_000, latest)
    before = source.cost.queries
    source.scrapes(latest - 1_200_000, latest)
    found = source.evaluate([GAUGE], grid(2600, 100))
    assert found[GAUGE].keys == [("p0",), ("p1",)]
    assert source.cost.queries == before + 2  # one for `up`, one with the gauge
    source.evaluate([GAUGE], grid(2700, 90))
    source.scrapes(latest - 600_000, latest)
    assert source.cost.queries == before + 2
    assert source.cost.seconds > 0


def test_names_that_are_expected_are_read_along(path):
    source = StoreSource(path)
    source.expect(["work_total", "level"])
    source.scrapes((START_S + 600) * 1000, grid().end_ms)
    source.evaluate([RATE], grid())
    source.evaluate([GAUGE], grid())
    assert source.cost.queries == 1
    source.evaluate([Read("junk", "last", ())], grid())
    assert source.cost.queries == 2


def test_an_earlier_beginning_is_read_and_joined(path):
    held, fresh = StoreSource(path), StoreSource(path)
    for source in (held, fresh):
        source.expect(["work_total", "level"])
    held.scrapes((START_S + 1800) * 1000, grid().end_ms)
    wide = grid(10, 279)
    assert (
        held.evaluate([RATE, GAUGE], wide)[RATE].values.tolist() == fresh.evaluate([RATE], wide)[RATE].values.tolist()
    )
    assert held.cost.queries == 2
    assert held.cost.samples == fresh.cost.samples


def test_samples_added_meanwhile_are_seen_when_asked_for(path):
    source = open_source(store=path)
    late = grid(3500, 30)
    assert np.isfinite(source.evaluate([GAUGE], late)[GAUGE].values[0]).sum() == 12
    fill(path, 3600, 3900)
    assert source.latest_ms() == (START_S + 3890) * 1000
    later = grid(3500, 35)
    assert np.isfinite(source.evaluate([GAUGE], later)[GAUGE].values[0]).all()


def test_long_stretches_are_read_in_pieces(path, monkeypatch):
    whole = StoreSource(path).evaluate([RATE, GAUGE], grid(60, 340))
    monkeypatch.setattr(store_source, "MOST_VALUES", 300)
    monkeypatch.setattr(store_source, "SHORT_MS", 0)
    pieces = StoreSource(path)
    found = pieces.evaluate([RATE, GAUGE], grid(60, 340))
    assert pieces.cost.queries > 3
    for read in (RATE, GAUGE):
        assert found[read].keys == whole[read].keys
        np.testing.assert_array_equal(found[read].values, whole[read].values)


def test_what_is_held_is_not_read_again_in_pieces(path, monkeypatch):
    whole = StoreSource(path).evaluate([RATE, GAUGE], grid(60, 340))
    source = StoreSource(path)
    source.expect(["work_total", "level"])
    source.scrapes(START_S * 1000, (START_S + 3600) * 1000)
    before = source.cost.queries
    monkeypatch.setattr(store_source, "MOST_VALUES", 300)
    monkeypatch.setattr(store_source, "SHORT_MS", 0)
    found = source.evaluate([RATE, GAUGE], grid(60, 340))
    assert source.cost.queries == before
    for read in (RATE, GAUGE):
        assert found[read].keys == whole[read].keys
        np.testing.assert_array_equal(found[read].values, whole[read].values)


def test_quantiles_are_told_page_by_page_only_where_the_pages_fit_into_memory(path, monkeypatch):
    told = {RATE: {0.5: None}}
    monkeypatch.setattr(store_source, "page_quantiles", lambda *_: told)
    asked = {RATE: ((0.5,), lambda key: key)}
    source = StoreSource(path)
    assert source.page_quantiles({}, grid(60, 340)) == {}
    assert source.page_quantiles(asked, grid(60, 340)) == told
    source.expect(["work_total"])
    source.scrapes(START_S * 1000, (START_S + 3600) * 1000)
    monkeypatch.setattr(store_source, "MOST_VALUES", 100)
    monkeypatch.setattr(store_source, "SHORT_MS", 0)
    assert source.page_quantiles(asked, grid(60, 340)) == told, "they are held already"
    assert StoreSource(path).page_quantiles(asked, grid(60, 340)) == {}


def test_buckets_of_a_large_store_are_read_with_their_quantiles(tmp_path, monkeypatch):
    """They are most of the samples: 512 pods took 1.6 GB with them, and 1.1 GB without."""
    bounds = ("0.1", "1", "+Inf")
    layout = layout_of("up", "work_total", *(("ttft_bucket", {"le": le}) for le in bounds))
    with Store.open(tmp_path / "s.db", "w") as store, store.writer.round() as writer:
        for scrape in range(100):
            for pod in range(40):
                values = [1, scrape, scrape, 3 * scrape, 4 * scrape]
                writer.append({"pod": f"p{pod:02}"}, (START_S + 10 * scrape) * 1000 + pod, page_of(layout, values))
    reads = [RATE, Read("ttft_bucket", "rate", ("pod",), (("le", "=", "1"),))]
    quantile = {Read("ttft_bucket", "rate", ("pod", "le")): ((0.5,), lambda key: key)}
    small, large = StoreSource(tmp_path / "s.db"), StoreSource(tmp_path / "s.db")
    answers = []
    for source in (small, large):
        source.expect(["up", "work_total", "ttft_bucket"], START_S * 1000)
        source.scrapes(START_S * 1000, (START_S + 1000) * 1000)
        answers.append((source.evaluate(reads, grid(200, 80)), source.page_quantiles(quantile, grid(200, 80))))
        monkeypatch.setattr(store_source, "FEW_VALUES_SCRAPES", 1000)
        monkeypatch.setattr(store_source, "MOST_VALUES", 15_000)
    (own, quantiles), (others, of_large) = answers
    assert all(own[read].keys == others[read].keys and len(own[read].keys) == 40 for read in reads)
    assert all(np.array_equal(own[read].values, others[read].values, equal_nan=True) for read in reads)
    (one,), (other,) = ([each[0.5] for each in found.values()] for found in (quantiles, of_large))
    assert one.keys == other.keys and np.isfinite(one.values).all()
    np.testing.assert_array_equal(one.values, other.values)
    sizes = [sum(table.samples.values.size for table in source._loaded.tables) for source in (small, large)]
    assert sizes == [20_000, 8_000]


def test_rates_and_info(path):
    source = open_source(store=path)
    result = source.evaluate([RATE], grid(), (("pod", "=", "p1"),))[RATE]
    assert result.keys == [("p1",)]
    np.testing.assert_allclose(result.values, 0.3, rtol=1e-12)
    (info,) = source.info("build_info", grid(), (("pod", "=", "p0"),))
    assert info.labels["version"] == "1"
    assert (info.values == 1).all()
    assert source.info("no_such", grid()) == []


def test_no_reads_and_an_empty_window(path):
    source = open_source(store=path)
    assert source.evaluate([], grid()) == {}
    result = source.evaluate([RATE], grid(-9000))[RATE]
    assert result.keys == []
    assert result.values.shape == (0, 100)
    assert source.scrapes(0, 1000) == []


def test_no_store_is_one_line(tmp_path):
    with pytest.raises(SourceError) as caught:
        open_source(store=tmp_path / "none.db")
    assert "\n" not in str(caught.value)


def test_repr_and_location(path):
    source = open_source(store=str(path))
    assert source.location == str(path)
    assert source.kind == "store"
    assert str(path) in repr(source)
    source.close()


def test_moments_are_read_as_everywhere(store_of):
    source = open_source(store=store_of("control-steady"))
    latest = source.latest_ms() / 1000
    stamp = datetime.fromtimestamp(latest - 60, UTC).isoformat()
    frames = [source.read(["running"], begin, end) for begin, end in ((latest - 60, latest), (stamp, "latest"))]
    first, second = (frame["running"].values for frame in frames)
    assert first.size and np.array_equal(first, second, equal_nan=True)
    with pytest.raises(InferdocError, match="start `noonish` is not a time"):
        source.read(["running"], "noonish", latest)


def test_a_clock_ahead_is_named_and_does_not_move_the_latest(tmp_path):
    now_ms = int(time.time() * 1000)
    with Store.open(tmp_path / "a.db", "w") as store:
        for pod, ts_ms in (("a", now_ms - 5000), ("b", now_ms - 4000), ("b", now_ms + 86_400_000)):
            store.writer.append({"pod": pod}, ts_ms, page_of(layout_of("up"), [1]))
    source = StoreSource(tmp_path / "a.db")
    for _ in range(2):
        assert source.latest_ms() == now_ms - 4000
    (warning,) = source.warnings
    assert warning.endswith("samples up to 1.0 days in the future are looked past (b); check that clock")


FUNCTIONS = ("rate", "increase", "last", "max", "min", "mean", "change")


def random_store(path, rng):
    """Thirteen targets, scraped every 10 s: random counters with resets, gauges, and series that come and go."""
    layouts = [
        layout_of("up", "work_total", "level"),
        layout_of("up", "work_total", "level", "rare", ("i_info", {"v": "1"})),
    ]
    with Store.open(path, "w") as store, store.writer.round() as writer:
        counters = rng.integers(0, 50, 13).astype(float)
        for scrape in range(120):
            counters = np.where(rng.random(13) < 0.02, 0.0, counters + rng.random(13))
            for pod in np.flatnonzero(rng.random(13) < 0.95).tolist():
                target = {"pod": f"p{pod}", "team": f"t{pod % 3}", **({"zone": "z"} if pod > 9 else {})}
                kind = int(pod % 4 == 0 and rng.random() < 0.8)
                values = [1, counters[pod], rng.normal(), rng.normal(), 1][: 3 + 2 * kind]
                writer.append(target, (START_S + 10 * scrape) * 1000 + pod, page_of(layouts[kind], values))


@pytest.mark.parametrize("seed", range(3))
def test_targets_evaluated_in_batches_give_what_all_at_once_give(tmp_path, monkeypatch, seed):
    random_store(tmp_path / "s.db", np.random.default_rng(seed))
    reads = [
        Read(name, fn, by, agg=agg)
        for name in ("work_total", "level", "rare")
        for fn in FUNCTIONS
        for by, agg in ((("pod",), "sum"), (("team",), "sum"), (("team",), "max"), ((), "sum"))
    ]
    start_ms, end_ms, on = START_S * 1000, (START_S + 1200) * 1000, grid(200, 95)
    plain, batched = StoreSource(tmp_path / "s.db"), StoreSource(tmp_path / "s.db")
    found = []
    for source in (plain, batched):
        source.keep({"i_info"})
        source.expect({"work_total", "level", "rare", "i_info"}, start_ms)
        scrapes = [(one.labels, one.times_ms.tolist()) for one in source.scrapes(start_ms, end_ms)]
        infos = [(one.labels, one.values.tolist()) for one in source.info("i_info", on)]
        found.append((scrapes, source.label_names(start_ms, end_ms), repr(infos), source.evaluate(reads, on)))
        for name, value in (("FEW_VALUES_SCRAPES", 10), ("MOST_KEPT_VALUES", 100), ("EVALUATED_AT_ONCE", 3)):
            monkeypatch.setattr(store_source, name, value)
    (*looked_at, own), (*also, others) = found
    assert looked_at == also and {"pod", "team", "zone", "v"} <= looked_at[1]
    assert batched.cost.queries > plain.cost.queries
    for read in reads:
        assert own[read].keys and own[read].keys == others[read].keys
        np.testing.assert_array_equal(own[read].values, others[read].values)


def test_a_large_store_keeps_only_what_is_requested_by_name(tmp_path, monkeypatch):
    random_store(tmp_path / "s.db", np.random.default_rng(5))
    monkeypatch.setattr(store_source, "FEW_VALUES_SCRAPES", 10)
    monkeypatch.setattr(store_source, "MOST_KEPT_VALUES", 100)
    source = StoreSource(tmp_path / "s.db")
    source.expect({"work_total", "level"}, START_S * 1000)
    source.scrapes(START_S * 1000, (START_S + 1200) * 1000)
    before = source.cost.samples
    source.evaluate([RATE, GAUGE], grid(200, 95))
    once = source.cost.samples - before
    source.evaluate([RATE, GAUGE], grid(200, 95))
    assert source.cost.samples - before == 2 * once > 0, "their samples were not kept"
    before = source.cost.queries
    source.scrapes(START_S * 1000, (START_S + 1200) * 1000)
    assert source.cost.queries == before, "those of `up` were"
