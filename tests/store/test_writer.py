"""What is appended is what is read, in any order and any mixture of layouts."""

from __future__ import annotations

import random
import time

import numpy as np
import pytest

from inferdoc.collect.samples import NO_TIMESTAMP
from inferdoc.store import STALE, Store, compact, prune
from tests.store.pages import POD, bits_of, held_by, layout_of, page_of, samples_of

LAYOUT = layout_of("up", ("requests_total", {"engine": "0"}), ("usage", {"engine": "0"}), types={"usage": "gauge"})


@pytest.fixture
def path(tmp_path):
    return tmp_path / "fleet.db"


def test_pages_come_back_bit_by_bit(path):
    odd_nan = np.array([0x7FF8_0000_DEAD_BEEF], np.uint64).view(np.float64)[0]
    values = [[1, 5, 0.1], [1, np.inf, -np.inf], [1, odd_nan, float("nan")], [0, -0.0, 5e-324]] * 15
    with Store.open(path, "w") as store:
        assert store.latest_ms() is None and store.first_ms() is None and store.blocks(0, 2**60) == []
        for number, row in enumerate(values):
            assert store.writer.append(POD, 1000 + number * 15_000, page_of(LAYOUT, row))
        assert (store.first_ms(), store.latest_ms()) == (1000, 1000 + 59 * 15_000)
    with Store.open(path) as store:
        (block,) = store.blocks(1000, 1000 + 59 * 15_000)
        assert block.target == POD and block.names == ["up", "requests_total", "usage"]
        assert block.labels == [{}, {"engine": "0"}, {"engine": "0"}]
        assert block.times_ms.tolist() == [1000 + number * 15_000 for number in range(60)]
        assert (block.values.view(np.uint64) == np.array(values).view(np.uint64)).all()
        assert store.targets() == [POD] and store.types() == {"usage": "gauge"}
        assert store.names(0, 2**60) == {"up", "requests_total", "usage"} and store.names(0, 999) == set()
        assert store.name_spans(1001, 31_000) == dict.fromkeys(("up", "requests_total", "usage"), (16_000, 31_000))
        assert store.sample_counts(1000, 16_000) == {"up": 2, "requests_total": 2, "usage": 2}


@pytest.mark.parametrize("start", [1, 19, 20, 21, 39, 40, 57])
def test_a_window_begins_anywhere_in_a_chain(path, start):
    rows = np.random.default_rng(3).random((60, 3))
    with Store.open(path, "w") as store:
        for number, row in enumerate(rows):
            store.writer.append(POD, number, page_of(LAYOUT, row))
        (block,) = store.blocks(start, start + 1, {"usage"})
        assert block.names == ["usage"] and (block.values[:, 0] == rows[start : start + 2, 2]).all()
        (block,) = store.blocks(start, start, lambda name: name.startswith("u"))
        assert (block.values == rows[start : start + 1, [0, 2]]).all()
        assert store.blocks(start, 60, {"absent"}) == []
        assert store.blocks(start, 60, None, lambda labels: labels["pod"] != "vllm-0") == []


def test_the_same_scrape_twice_changes_nothing(path):
    with Store.open(path, "w") as store:
        assert store.writer.append(POD, 5, page_of(LAYOUT, [1, 2, 3]))
        assert not store.writer.append(POD, 5, page_of(LAYOUT, [7, 8, 9]))
    before = held_by(path)
    with Store.open(path, "w") as store:
        assert not store.writer.append(POD, 5, page_of(LAYOUT, [1, 2, 3]))
        assert not store.writer.append(POD, 5, page_of(layout_of("up"), [9]))
    assert held_by(path) == before


def test_other_series_of_the_same_time_join_the_page(path):
    with Store.open(path, "w") as store:
        for ts_ms in range(10):
            store.writer.append(POD, ts_ms, page_of(LAYOUT, [ts_ms, 2, 3]))
        assert store.writer.append(POD, 4, page_of(layout_of("usage", "gpu"), [50, 60]))
        (block,) = store.blocks(0, 9)
    held = samples_of([block])
    assert len(held) == 32
    assert held["up", tuple(sorted(POD.items())), 9] == bits_of(9)
    assert held["gpu", tuple(sorted(POD.items())), 4] == bits_of(60)
    assert held["usage", tuple(sorted({**POD, "engine": "0"}.items())), 4] == bits_of(3)


def test_series_absent_from_a_page_are_stale(path):
    with Store.open(path, "w") as store:
        store.writer.append(POD, 1, page_of(layout_of("up", "a"), [1, float("nan")]))
        store.writer.append(POD, 2, page_of(layout_of("up"), [0]))
        (block,) = store.blocks(1, 2)
        (other,) = store.blocks(1, 2, {"a"})
    stale = bits_of(STALE)
    column = block.names.index("a")
    assert block.values.view(np.uint64)[:, column].tolist() == [bits_of(float("nan")), stale]
    assert other.times_ms.tolist() == [1, 2] and int(other.values.view(np.uint64)[1, 0]) == stale


def test_a_round_is_all_or_nothing(path):
    with Store.open(path, "w") as store:
        store.writer.append(POD, 1, page_of(LAYOUT, [1, 2, 3]))
        with pytest.raises(RuntimeError), store.writer.round() as writer:
            writer.append({**POD, "pod": "vllm-1"}, 2, page_of(LAYOUT, [4, 5, 6]))
            writer.append(POD, 2, page_of(layout_of("new"), [4]))
            raise RuntimeError
        assert store.latest_ms() == 1 and store.targets() == [POD]
        with store.writer.round() as writer:
            writer.append(POD, 2, page_of(layout_of("other"), [7]))
            writer.append(POD, 3, page_of(LAYOUT, [7, 8, 9]))
    assert len(held_by(path)) == 7


def test_duplicate_series_and_labels_of_the_target(path):
    layout = layout_of(("up", {"pod": "inner"}), ("a", {"x": "1"}), ("a", {"x": "1"}))
    with Store.open(path, "w") as store:
        store.writer.append(POD, 1, page_of(layout, [1, 2, 3]))
        (block,) = store.blocks(1, 1)
        assert store.writer.problems == ["vllm-0: 1 duplicate series; the first kept"]
    assert block.labels == [{"exported_pod": "inner"}, {"x": "1"}] and block.values.tolist() == [[1, 2]]


def test_samples_with_times_of_their_own(path):
    with Store.open(path, "w") as store:
        now_ms = 1_700_000_000_000
        own_ms = now_ms - 100
        page = page_of(layout_of("a", "b", "c"), [1, 2, 3], [NO_TIMESTAMP, own_ms, own_ms])
        assert store.writer.append(POD, now_ms, page) and not store.writer.append(POD, now_ms, page)
        (block,) = store.blocks(own_ms, now_ms)
    assert {(name, ts) for name, _, ts in samples_of([block])} == {("a", now_ms), ("b", own_ms), ("c", own_ms)}


def test_a_clock_in_the_future_is_kept_and_told(path):
    far = int(time.time() * 1000) + 3 * 86_400_000
    with Store.open(path, "w") as store:
        for ts_ms in (far, far + 1):
            assert store.writer.append(POD, ts_ms, page_of(LAYOUT, [1, 2, 3]))
        (problem,) = store.writer.problems
        assert "vllm-0: scrapes 3.0 days in the future; kept, but never the latest" in problem
        assert store.latest_ms() == far + 1


def test_the_values_of_a_page_may_be_reused_by_the_caller(path):
    with Store.open(path, "w") as store:
        page = page_of(LAYOUT, [1, 2, 3])
        for ts_ms in range(3):
            page.values[:] = ts_ms
            store.writer.append(POD, ts_ms, page)
        (block,) = store.blocks(0, 9)
    assert block.values.tolist() == [[0] * 3, [1] * 3, [2] * 3]


def test_layouts_that_change_with_every_scrape_stay_small(path):
    """LoRA adapters: of 400 series one is new with every scrape, and the older ones stay."""
    names = [f"vllm:metric_{number}_with_a_usual_name_total" for number in range(400)]
    with Store.open(path, "w") as store:
        for scrape in range(100):
            adapters = [("lora_info", {"running": f"adapter-{number}"}) for number in range(scrape)]
            layout = layout_of(*names[:200], *adapters, *names[200:])
            store.writer.append(POD, scrape, page_of(layout, [float(scrape)] * len(layout)))
        count = store.connection.execute("SELECT sum(length(series)) FROM layout").fetchone()[0]
        (block,) = store.blocks(0, 100)
    assert count < 60_000, "a list of all series is some 3 kB, a hundred of them 300 kB"
    assert len(samples_of([block])) == sum(400 + scrape for scrape in range(100))


@pytest.mark.parametrize("seed", range(6))
def test_any_order_against_a_dictionary(path, seed):
    """Scrapes of two targets and four layouts, in wild order, with repeats, re-opening and pruning."""
    chance = random.Random(seed)
    layouts = [
        layout_of("up", "a", "b"),
        layout_of("b", ("a", {"x": "1"})),
        layout_of("up"),
        layout_of("c", "b", "a", "up"),
    ]
    targets = [POD, {"job": "dcgm", "instance": "gpu"}]
    model = {}
    store = Store.open(path, "w")
    clock = 1000
    for _ in range(400):
        clock += chance.choice([1, 1, 1, 5])
        ts_ms = clock if chance.random() < 0.7 else chance.randint(900, clock)
        target, layout = chance.choice(targets), chance.choices(layouts, [6, 2, 2, 1])[0]
        values = [chance.choice([0.0, float("nan"), chance.random()]) for _ in layout.series]
        new = False
        for series, value in zip(layout.series, values, strict=True):
            key = (series.name, tuple(sorted({**target, **dict(series.labels)}.items())), ts_ms)
            new |= key not in model
            model.setdefault(key, bits_of(value))
        assert store.writer.append(target, ts_ms, page_of(layout, values)) == new
        if chance.random() < 0.02:
            store.close()
            store = Store.open(path, "w")
        if chance.random() < 0.01:
            newest = max(key[2] for key in model)
            prune(store, max_age_ms=300)
            model = {key: value for key, value in model.items() if key[2] >= newest - 300}
    assert samples_of(store.blocks(0, 10**6)) == model
    begin, end = sorted(chance.sample(range(900, clock), 2))
    part = samples_of(store.blocks(begin, end, {"a", "up"}))
    assert part == {k: v for k, v in model.items() if begin <= k[2] <= end and k[0] in ("a", "up")}
    store.close()


def test_samples_stamped_by_a_clock_ahead_are_dropped_and_named(path):
    """A page of which some samples carry a time a day ahead, some one that is fine, some none."""
    now_ms = 1_700_000_000_000
    ahead, allowed = now_ms + 86_400_000, now_ms + 599_000
    page = page_of(LAYOUT, [1, 2, 3], [NO_TIMESTAMP, ahead, allowed])
    with Store.open(path, "w") as store:
        for number in range(3):
            assert store.writer.append(POD, now_ms + number, page)
        assert store.newest_ms() == allowed
        (problem,) = store.writer.problems
        assert problem == "vllm-0: 1 samples up to 1.0 days in the future; dropped; check that clock"


@pytest.mark.parametrize(
    ("now_ms", "old_ms"),
    [
        (1_700_000_000_000, 1_700_000_000_000 - 86_400_001),
        (1_700_000_000_000, 0),
        (1_700_000_000_000, -5_000),
        (946_684_900_000, 946_684_799_999),
    ],
)
def test_samples_with_old_timestamps_are_dropped_and_named(path, now_ms, old_ms):
    """A page of which one sample is over a day older than the scrape, or from before 2000, and two are fine."""
    allowed = max(now_ms - 86_400_000, 946_684_800_000)
    with Store.open(path, "w") as store:
        for number in range(3):
            page = page_of(LAYOUT, [1, 2, 3], [NO_TIMESTAMP, old_ms, allowed + number])
            assert store.writer.append(POD, now_ms + number, page)
        assert store.first_ms() == allowed and store.newest_ms() == now_ms + 2
        (problem,) = store.writer.problems
        assert "vllm-0: 1 samples up to " in problem and "older than the scrape; dropped; check that clock" in problem


def test_one_line_names_old_and_future_samples(path):
    now_ms = 1_700_000_000_000
    day_ms = 86_400_000
    with Store.open(path, "w") as store:
        page = page_of(LAYOUT, [1, 2, 3], [now_ms + day_ms, now_ms - 2 * day_ms, now_ms - 3 * day_ms])
        assert not store.writer.append(POD, now_ms, page)
        assert store.newest_ms() is None
        (problem,) = store.writer.problems
    assert problem == (
        "vllm-0: 1 samples up to 1.0 days in the future and 2 samples up to 3.0 days older than the scrape; "
        "dropped; check that clock"
    )


def test_a_scrape_without_timestamps_may_be_of_any_time(path):
    """An import or a host without a clock: only the timestamps of a page are compared with its scrape."""
    with Store.open(path, "w") as store:
        assert store.writer.append(POD, 1000, page_of(LAYOUT, [1, 2, 3], [NO_TIMESTAMP, NO_TIMESTAMP, NO_TIMESTAMP]))
        assert store.newest_ms() == 1000 and not store.writer.problems


def test_a_scrape_of_the_future_is_not_the_latest(path):
    now_ms = 1_700_000_000_000
    day_ms = 86_400_000
    with Store.open(path, "w") as store:
        for ts_ms in (now_ms + day_ms, now_ms - 5_000_000, now_ms - 1000):
            store.writer.append(POD, ts_ms, page_of(LAYOUT, [1, 2, 3]))
        store.writer.append({**POD, "pod": "b"}, now_ms + 2 * day_ms, page_of(LAYOUT, [1, 2, 3]))
        for _ in range(2):
            assert store.latest_ms(now_ms) == now_ms - 1000
            assert store.latest_ms(now_ms + day_ms) == now_ms + day_ms
            assert store.latest_ms(now_ms - 4_000_000) == now_ms - 5_000_000
            assert store.latest_ms(now_ms - 10 * day_ms) == now_ms + 2 * day_ms, "then the clock here is behind"
            compact(store, now_ms + 9 * day_ms)
