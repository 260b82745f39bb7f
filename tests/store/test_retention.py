"""Dropping old scrapes keeps the rest readable, and the file small."""

from __future__ import annotations

import random
import time

import pytest

from inferdoc.store import Store, prune
from tests.store.pages import POD, held_by, layout_of, page_of

LAYOUTS = [layout_of(*(f"m{number}" for number in range(width))) for width in (40, 41)]


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "fleet.db"
    chance = random.Random(5)
    with Store.open(path, "w") as store, store.writer.round() as writer:
        for scrape in range(1000):
            for pod in range(3):
                layout = LAYOUTS[scrape // 13 % 2]
                values = [chance.random() for _ in layout.series]
                writer.append({**POD, "pod": f"vllm-{pod}"}, scrape * 1000, page_of(layout, values))
    return path


@pytest.mark.parametrize("age_ms", [0, 7_000, 13_500, 400_000])
def test_by_age(path, age_ms):
    before = held_by(path)
    with Store.open(path, "w") as store:
        done = prune(store, max_age_ms=age_ms)
        assert (done.scrapes, done.targets) == ((999_000 - age_ms + 999) // 1000 * 3, 3)
        assert done.first_ms == 0 and done.last_ms < 999_000 - age_ms <= store.first_ms()
        assert done.bytes == path.stat().st_size
        store.writer.append({**POD, "pod": "vllm-0"}, 1_000_000, page_of(layout_of("m0"), [7]))
    kept = {key: bits for key, bits in before.items() if key[2] >= 999_000 - age_ms}
    after = held_by(path)
    assert len(after) == len(kept) + 1 and kept.items() <= after.items()


@pytest.mark.parametrize("share", [0.8, 0.3, 0.0])
def test_by_size(path, share):
    before, size = held_by(path), path.stat().st_size
    with Store.open(path, "w") as store:
        done = prune(store, max_bytes=int(size * share))
        assert done.scrapes > 0 and done.over == (done.bytes if not share else 0)
        if share:
            assert path.stat().st_size == done.bytes <= size * share
            assert done.bytes > size * share * 0.85
        assert store.latest_ms() == 999_000
        assert len(store.targets()) == 3
    after = held_by(path)
    assert after.items() <= before.items()
    assert after == {key: bits for key, bits in before.items() if key[2] > done.last_ms}


def test_nothing_to_drop(path):
    before = held_by(path)
    with Store.open(path, "w") as store:
        assert prune(store, 2_000_000, 2**40).scrapes == 0
        assert prune(store).first_ms is None
    assert held_by(path) == before
    with Store.open(path.with_name("empty.db"), "w") as store:
        assert prune(store, 0, 0).scrapes == 0


def test_a_clock_in_the_future_does_not_drop_the_rest(path):
    now_ms = int(time.time() * 1000)
    with Store.open(path, "w") as store:
        store.writer.append(POD, now_ms - 1000, page_of(LAYOUTS[0], [1] * 40))
        store.writer.append(POD, now_ms + 40 * 86_400_000, page_of(LAYOUTS[0], [1] * 40))
        prune(store, max_age_ms=86_400_000)
        assert store.first_ms() == now_ms - 1000


def test_targets_and_layouts_without_pages_go(path):
    with Store.open(path, "w") as store:
        for scrape in range(50):
            layout = layout_of(*(f"m{number}" for number in range(40)), ("lora", {"adapter": str(scrape)}))
            store.writer.append({"job": "gone"}, scrape, page_of(layout, [1] * 41))
        assert store.connection.execute("SELECT count(*) FROM layout").fetchone() == (52,)
        prune(store, max_age_ms=5_000)
        assert store.connection.execute("SELECT count(*) FROM layout").fetchone()[0] <= 2
        assert {"job": "gone"} not in store.targets()


def test_a_reader_is_not_disturbed(path):
    with Store.open(path) as reader, Store.open(path, "w") as store:
        assert len(reader.blocks(0, 999_000)) == 3
        prune(store, max_age_ms=100_000)
        (block, *_) = reader.blocks(0, 999_000)
        assert block.times_ms[0] == 899_000 and len(block.times_ms) == 101
