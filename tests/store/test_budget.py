"""Reading a store with too many label sets: whole metrics are left out and named, the others read as ever."""

from __future__ import annotations

import io

import numpy as np
import pytest

from inferdoc.errors import TooSlowError
from inferdoc.source.reads import Grid, Read
from inferdoc.source.store_source import StoreSource
from inferdoc.store import Store, StoreError, compact, export
from inferdoc.store.budget import ReadBudget
from tests.store.pages import layout_of, page_of, samples_of

START_MS = 1_700_000_400_000 // 3_600_000 * 3_600_000
SCRAPES, PODS, FRESH = 40, 3, 5
FIXED = ("up", ("tokens_total", {"engine": "0"}), ("wide", {"a": "1"}), ("wide", {"a": "2"}))


@pytest.fixture(params=["pages", "chunks", "both"])
def path(request, tmp_path):
    """Every scrape of a pod has five adapters of its own, and an id that nobody asks for."""
    path = tmp_path / "fleet.db"
    with Store.open(path, "w") as store:
        for scrape in range(SCRAPES):
            with store.writer.round() as writer:
                for pod in range(PODS):
                    fresh = [("adapters", {"name": f"{pod}-{scrape}-{n}"}) for n in range(FRESH)]
                    fresh.append(("requests", {"id": f"{pod}-{scrape}"}))
                    layout = layout_of(*FIXED, *fresh)
                    values = np.arange(len(layout)) + scrape * 10.0
                    writer.append({"pod": str(pod)}, START_MS + scrape * 30_000, page_of(layout, values))
            if request.param == "both" and scrape == SCRAPES // 2:
                compact(store, START_MS + 3_600_000)
        if request.param == "chunks":
            compact(store, START_MS + 3_600_000)
    return path


def read(store: Store, names=None):
    return samples_of(store.blocks(START_MS, START_MS + 3_600_000, names))


def test_a_read_that_takes_too_long_ends(path, monkeypatch):
    now = [0.0]
    grid = Grid(START_MS + 300_001, 30_000, 20, 30_000, 150_000, 75_000)
    asked = Read("tokens_total", "rate", ("pod",))
    source = StoreSource(path, timeout=5.0, clock=lambda: now[0])
    read_target = Store._block

    def slowly(*given):
        now[0] += 2.0
        return read_target(*given)

    with monkeypatch.context() as slow:
        slow.setattr(Store, "_block", slowly)
        with pytest.raises(TooSlowError, match="was not read within 5 s; raise --timeout") as caught:
            source.evaluate([asked], grid)
    assert caught.value.exit_code == 4
    whole = StoreSource(path).evaluate([asked], grid)[asked]
    np.testing.assert_array_equal(source.evaluate([asked], grid)[asked].values, whole.values)


def names_of(samples) -> dict[str, int]:
    counts: dict[str, int] = {}
    for name, _, _ in samples:
        counts[name] = counts.get(name, 0) + 1
    return counts


ALL = {"up": 120, "tokens_total": 120, "wide": 240, "adapters": 600, "requests": 120}


@pytest.mark.parametrize(
    ("budget", "gone"),
    [
        (ReadBudget(), {}),
        (ReadBudget(label_sets=500), {"adapters": "more than 500 label sets"}),
        (ReadBudget(label_sets=50), {"adapters": "more than 50 label sets", "requests": "more than 50 label sets"}),
        (ReadBudget(series=200), {"adapters": "600 series, 200 fit at once"}),
        (ReadBudget(series=20), dict.fromkeys(("adapters", "requests"))),
        (ReadBudget(values=6000), {"adapters": "24,000 values, 6,000 fit at once"}),
        (ReadBudget(gaps=6000), {"adapters": "23,400 values without a sample, 6,000 fit at once"}),
        (ReadBudget(gaps=1), dict.fromkeys(("adapters", "requests"))),
        (ReadBudget(values=100), dict.fromkeys(("adapters", "requests", "wide", "up", "tokens_total"))),
    ],
)
def test_whole_metrics_are_left_out_and_named(path, budget, gone):
    with Store.open(path) as store:
        whole = read(store)
        assert names_of(whole) == ALL and store.left_out == {}
    with Store.open(path) as store:
        store.budget = budget
        for _ in range(2):
            assert read(store) == {key: bits for key, bits in whole.items() if key[0] not in gone}
            assert store.left_out.keys() == gone.keys()
            assert all(store.left_out[name].why == why for name, why in gone.items() if why)
            assert store.sample_counts(START_MS, START_MS + 3_600_000) == ALL, "counting needs no room"


def test_what_nobody_asks_for_is_not_named(path):
    with Store.open(path) as store:
        store.budget = ReadBudget(label_sets=50)
        assert names_of(read(store, {"up", "wide"})) == {"up": 120, "wide": 240}
        assert store.left_out == {}
        assert names_of(read(store, {"requests", "up"})) == {"up": 120} and store.left_out.keys() == {"requests"}


def test_an_export_is_whole_or_an_error(path):
    with Store.open(path) as store:
        store.budget = ReadBudget(series=100)
        with pytest.raises(StoreError, match="cannot export adapters: 600 series, 100 fit at once; export a shorter"):
            export(store, START_MS, START_MS + 3_600_000, io.BytesIO())


def test_the_source_says_so_once(path):
    source = StoreSource(path)
    source._store.budget = ReadBudget(series=100)
    grid = Grid(START_MS + 600_000, 30_000, 20, 30_000, 150_000, 75_000)
    for _ in range(2):
        found = source.evaluate([Read("adapters", "last", ("pod",)), Read("up", "last", ("pod",))], grid)
    assert [len(result.keys) for result in found.values()] == [0, PODS]
    (warning,) = source.warnings
    assert warning.startswith("adapters is left out: 600 series, 100 fit at once; a label of it takes new values")


def test_a_writer_goes_on_with_every_series(path):
    """Reading with a small budget through the writer's own store does not disturb what it writes and compacts."""
    with Store.open(path, "w") as store:
        before = read(store)
        store.budget = ReadBudget(label_sets=50)
        assert len(read(store)) < len(before)
        late = layout_of("late", ("adapters", {"name": "0-1-0"}))
        store.writer.append({"pod": "0"}, START_MS + 30_000, page_of(late, [7, 8]))
        compact(store, START_MS + 3_600_000)
    with Store.open(path) as store:
        after = read(store)
    assert before.items() <= after.items() and len(after) == len(before) + 1
