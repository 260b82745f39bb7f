"""Compaction changes how samples are kept, and nothing else."""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import threading
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inferdoc.errors import SourceError
from inferdoc.store import STALE, Store, StoreError, compact, export, prune
from inferdoc.store.segments import HOUR_MS
from tests.store.pages import POD, bits_of, held_by, layout_of, page_of, samples_of

START_MS = 1_700_000_000_000 // HOUR_MS * HOUR_MS
ALL = (0, 2**60)
ODD_NAN = float(np.array([0x7FF8_0000_DEAD_BEEF], np.uint64).view(np.float64)[0])
VALUES = [0.0, -0.0, 1.0, 7.0, float("nan"), ODD_NAN, float("inf"), 5e-324, 0.1, STALE, 2.0**53, -3e300]
LAYOUTS = [
    layout_of("up", "a_total", ("b_bucket", {"le": "1"}), ("b_bucket", {"le": "2"}), "c_created"),
    layout_of("up"),
    layout_of("c", "a_total", "up", ("lora", {"adapter": "x"})),
    layout_of(),
]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "fleet.db"


def counts(path) -> tuple[int, int]:
    """Pages and segments in the file."""
    with sqlite3.connect(path) as connection:
        return connection.execute("SELECT (SELECT count(*) FROM page), (SELECT count(*) FROM stretch)").fetchone()


def fill(path, hours=3, pods=2, every_ms=60_000, width=60) -> None:
    layout = layout_of(*(f"m{number}" for number in range(width)))
    with Store.open(path, "w") as store, store.writer.round() as writer:
        for ts_ms in range(START_MS, START_MS + hours * HOUR_MS, every_ms):
            for pod in range(pods):
                values = [float(ts_ms % (number + 7) + number) for number in range(width)]
                writer.append({**POD, "pod": f"vllm-{pod}"}, ts_ms + pod, page_of(layout, values))


scrape = st.tuples(
    st.integers(0, 1),
    st.integers(0, 2 * HOUR_MS // 400_000),
    st.integers(0, 3),
    st.integers(0, 2**32),
)


@settings(max_examples=25, deadline=None)
@given(st.lists(scrape, max_size=40), st.integers(0, 40), st.integers(0, 3))
def test_blocks_are_the_same_bit_by_bit(tmp_path_factory, some, first, hours):
    """Whatever was appended, in any order, before and after a first compaction, is read alike from one that never
    compacted: values, times, columns and counts, in whole and in part."""
    folder = tmp_path_factory.mktemp("same")
    with Store.open(folder / "a.db", "w") as plain, Store.open(folder / "b.db", "w") as packed:
        for number, (target, step, layout, seed) in enumerate(some):
            if number == first:
                compact(packed, START_MS + hours * HOUR_MS)
            chance = random.Random(seed)
            page = page_of(LAYOUTS[layout], [chance.choice(VALUES) for _ in LAYOUTS[layout].series])
            added = [
                each.writer.append({"pod": str(target)}, START_MS + step * 400_000, page) for each in (plain, packed)
            ]
            assert added[0] == added[1]
        assert alike(plain, packed)
        compact(packed, START_MS + 9 * HOUR_MS)
        assert packed.connection.execute("SELECT count(*) FROM page").fetchone() == (0,)
        assert alike(plain, packed)


def alike(one: Store, other: Store) -> bool:
    assert (one.first_ms(), one.latest_ms()) == (other.first_ms(), other.latest_ms())
    for window in (ALL, (START_MS + 400_000, START_MS + HOUR_MS), (START_MS + HOUR_MS, START_MS + HOUR_MS)):
        assert one.sample_counts(*window) == other.sample_counts(*window)
        for names in (None, {"a_total"}, {"up", "lora", "b_bucket"}):
            assert told(one.blocks(*window, names)) == told(other.blocks(*window, names))
    return True


def told(blocks) -> list:
    """Everything in the blocks, columns in order of series."""
    found = []
    for block in blocks:
        columns = sorted((name, sorted(own.items())) for name, own in zip(block.names, block.labels, strict=True))
        order = [(name, sorted(own.items())) for name, own in zip(block.names, block.labels, strict=True)]
        bits = block.values.view(np.uint64)[:, [order.index(each) for each in columns]]
        found.append((block.target, block.times_ms.tolist(), columns, bits.tolist()))
    return found


def test_only_hours_gone_by(path):
    fill(path)
    before = held_by(path)
    with Store.open(path, "w") as store:
        done = compact(store, START_MS + 2 * HOUR_MS + 1)
        assert (done.pages, done.samples, done.complete) == (240, 240 * 60, True)
        assert compact(store, START_MS + 2 * HOUR_MS + 1).pages == 0
        writer = store.writer
        assert not writer.append({**POD, "pod": "vllm-0"}, START_MS, page_of(layout_of("m0"), [9]))
        assert writer.append({**POD, "pod": "vllm-0"}, START_MS + 3 * HOUR_MS, page_of(layout_of("m0"), [9]))
    assert counts(path) == (121, 4)
    after = held_by(path)
    assert len(after) == len(before) + 1 and before.items() <= after.items()


def test_a_limited_time_does_a_part(path):
    fill(path, hours=2)
    before = held_by(path)
    with Store.open(path, "w") as store:
        assert not compact(store, seconds=0).complete
        assert counts(path) == (240, 0)
        assert compact(store, seconds=60).complete
    assert counts(path) == (0, 4) and held_by(path) == before


def test_what_comes_late_lies_beside_and_is_merged(path):
    fill(path, hours=2, pods=1)
    pod = {**POD, "pod": "vllm-0"}
    layout = layout_of("m1", "late", "m0")
    with Store.open(path, "w") as store:
        compact(store)
        assert store.writer.append(pod, START_MS + 60_000, page_of(layout, [1, 2, 3]))
        assert not store.writer.append(pod, START_MS + 60_000, page_of(layout, [4, 5, 6]))
        assert store.writer.append(pod, START_MS + 60_000, page_of(layout_of("later", "late"), [7, 8]))
        assert store.writer.append(pod, START_MS + 60_001, page_of(layout, [1, STALE, ODD_NAN]))
        assert counts(path) == (2, 2)
        before = held_by(path)
        assert store.sample_counts(*ALL)["late"] == 2
        assert compact(store).pages == 2
    assert counts(path) == (0, 2) and held_by(path) == before
    key = tuple(sorted(pod.items()))
    assert before["late", key, START_MS + 60_000] == bits_of(2)
    assert before["m0", key, START_MS + 60_000] == bits_of(float((START_MS + 60_000) % 7))
    assert before["m0", key, START_MS + 60_001] == bits_of(ODD_NAN)


def test_chains_that_cross_the_hour_begin_anew(path):
    layout = layout_of("a")
    with Store.open(path, "w") as store:
        for number in range(40):
            store.writer.append(POD, START_MS + HOUR_MS - 15_000 * 30 + number * 15_000, page_of(layout, [number]))
        compact(store, START_MS + HOUR_MS)
        for number in range(40, 50):
            store.writer.append(POD, START_MS + HOUR_MS - 15_000 * 30 + number * 15_000, page_of(layout, [number]))
        (block,) = store.blocks(*ALL)
    assert counts(path) == (20, 1) and block.values[:, 0].tolist() == list(range(50))
    with Store.open(path) as store:
        (block,) = store.blocks(START_MS + HOUR_MS + 15_000, START_MS + HOUR_MS + 30_000)
    assert block.values[:, 0].tolist() == [31, 32]


def test_clocks_that_go_backwards(path):
    """The clock of the collector jumps a day back, then forth; nothing is compacted too early or lost."""
    layout = layout_of("a", "b")
    stamps = [START_MS + number * 60_000 + jump for jump in (0, -86_400_000, 30_000) for number in range(90)]
    with Store.open(path, "w") as store:
        for number, ts_ms in enumerate(stamps):
            assert store.writer.append(POD, ts_ms, page_of(layout, [number, 0.1 * number]))
            if number % 50 == 49:
                compact(store, ts_ms)
        plain = samples_of(store.blocks(*ALL))
        compact(store)
        assert samples_of(store.blocks(*ALL)) == plain and len(plain) == 2 * len(stamps)
        assert compact(store, 0).pages == 0
    assert counts(path) == (0, 4)


@pytest.mark.parametrize("growing", [True, False])
def test_series_that_come_and_go_with_every_scrape(path, growing):
    """LoRA adapters: a new series with every scrape, the older ones staying or not; and pages wholly new."""
    names = [f"vllm:metric_{number}_total" for number in range(60)]
    with Store.open(path, "w") as store:
        for number in range(120):
            adapters = [("lora_info", {"running": f"adapter-{each}"}) for each in range(number + 1)]
            layout = layout_of(*names, *(adapters if growing else adapters[-1:]))
            if number % 40 == 39:
                layout = layout_of(*(f"other_{number}_{each}" for each in range(400)))
            store.writer.append(POD, START_MS + number * 15_000, page_of(layout, [float(number)] * len(layout)))
        plain = samples_of(store.blocks(*ALL))
        some = told(store.blocks(*ALL, {"lora_info"}))
        pages = store.connection.execute("SELECT sum(length(body)) FROM page").fetchone()[0]
        compact(store)
        chunks = store.connection.execute("SELECT sum(bytes) FROM stretch").fetchone()[0]
        assert samples_of(store.blocks(*ALL)) == plain and told(store.blocks(*ALL, {"lora_info"})) == some
    assert chunks < pages


def test_a_reader_meanwhile(path):
    fill(path, hours=6, width=30)
    problems = []
    stop = threading.Event()

    def read() -> None:
        with Store.open(path) as store:
            while not stop.is_set():
                found = told(store.blocks(*ALL, {"m3", "m20"}))
                if found != expected or store.sample_counts(*ALL) != totals:
                    problems.append("another answer")

    with Store.open(path) as store:
        expected, totals = told(store.blocks(*ALL, {"m3", "m20"})), store.sample_counts(*ALL)
    thread = threading.Thread(target=read)
    thread.start()
    with Store.open(path, "w") as store:
        for hour in range(1, 7):
            compact(store, START_MS + hour * HOUR_MS)
            time.sleep(0.01)
    stop.set()
    thread.join()
    assert problems == [] and counts(path) == (0, 12)


def test_a_full_disk_loses_nothing(path):
    """Pages of eight pods share the file's pages, so that dropping those of one makes no room for its chunks."""
    layout, chance = layout_of(*(f"m{number}" for number in range(60))), np.random.default_rng(4)
    with Store.open(path, "w") as store, store.writer.round() as writer:
        for number in range(480):
            pod = {**POD, "pod": f"vllm-{number % 8}"}
            writer.append(pod, START_MS + number, page_of(layout, chance.random(60)))
    before = held_by(path)
    with Store.open(path, "w") as store:
        size = store.connection.execute("PRAGMA page_count").fetchone()[0]
        store.connection.execute(f"PRAGMA max_page_count = {size}")
        with pytest.raises(StoreError, match="no space left") as caught:
            compact(store)
        assert "\n" not in str(caught.value)
        assert samples_of(store.blocks(*ALL)) == before
        store.connection.execute(f"PRAGMA max_page_count = {size * 2}")
        assert store.writer.append({**POD, "pod": "vllm-0"}, START_MS + 30_000, page_of(LAYOUTS[1], [1]))
        compact(store)
    assert counts(path) == (0, 8)
    after = held_by(path)
    assert len(after) == len(before) + 1 and before.items() <= after.items()


def test_the_current_hour_up_to_the_last_full_ten_minutes(path):
    fill(path, hours=1, pods=2)
    before = held_by(path)
    with Store.open(path, "w") as store:
        assert compact(store, START_MS + 35 * 60_000).pages == 2 * 30
        assert counts(path) == (2 * 30, 2)
        assert compact(store, START_MS + 39 * 60_000).pages == 0
        late = store.writer.append({**POD, "pod": "vllm-0"}, START_MS + 1, page_of(layout_of("m0"), [9]))
        assert late and compact(store, START_MS + 40 * 60_000).pages == 2 * 10 + 1
        assert counts(path) == (2 * 20, 2)  # one segment of a target and hour
        compact(store, START_MS + HOUR_MS)
    assert counts(path) == (0, 2)
    after = held_by(path)
    assert len(after) == len(before) + 1 and before.items() <= after.items()


def test_retention_drops_whole_hours(path):
    fill(path)
    before = held_by(path)
    with Store.open(path, "w") as store:
        compact(store)
        assert prune(store, max_age_ms=3 * HOUR_MS).first_ms is None
        done = prune(store, max_age_ms=HOUR_MS + HOUR_MS // 2)
        assert (done.scrapes, done.targets, done.first_ms) == (120, 2, START_MS)
        assert store.first_ms() == START_MS + HOUR_MS
    assert held_by(path) == {key: bits for key, bits in before.items() if key[2] >= START_MS + HOUR_MS}
    with Store.open(path, "w") as store:
        done = prune(store, max_bytes=0)
        assert done.scrapes == 3 * 60 and [target["pod"] for target in store.targets()] == ["vllm-1"]
        assert store.latest_ms() == START_MS + 3 * HOUR_MS - 60_000 + 1
        prune(store, max_age_ms=0)
        assert store.connection.execute("SELECT count(*) FROM layout").fetchone() == (1,)
    with sqlite3.connect(path) as connection:
        orphans = "SELECT count(*) FROM chunk WHERE id >> 20 NOT IN (SELECT id FROM stretch)"
        assert connection.execute(orphans).fetchone() == (0,)


def test_export_is_the_same(path, tmp_path):
    fill(path, hours=2)
    texts = []
    with Store.open(path, "w") as store:
        for number in range(2):
            with (tmp_path / f"{number}.om").open("wb") as out:
                export(store, *ALL, out)
            texts.append((tmp_path / f"{number}.om").read_text())
            compact(store)
    assert texts[0] == texts[1]


def test_damaged_chunks_are_told(path):
    fill(path, hours=1)
    with Store.open(path, "w") as store:
        compact(store)
    faults = [
        "UPDATE chunk SET body = substr(body, 1, 20)",
        "DELETE FROM chunk",
        "UPDATE stretch SET body = substr(body, 2)",
        "UPDATE stretch SET layouts = x'00'",
        "UPDATE stretch SET end_ms = end_ms + 1",
        "UPDATE stretch SET layouts = 7",
    ]
    for fault in faults:
        with sqlite3.connect(path, isolation_level=None) as connection:
            connection.execute("BEGIN")
            connection.execute(fault)
            connection.execute("COMMIT")
        with Store.open(path, "w") as store:
            with pytest.raises(StoreError, match="restore a copy") as caught:
                store.blocks(*ALL)
            assert "\n" not in str(caught.value)
        path.unlink()
        fill(path, hours=1)
        with Store.open(path, "w") as store:
            compact(store)


def test_flipped_bytes_are_told_not_traced(path):
    """Not all damage can be seen, but none ends in another exception."""
    fill(path, hours=2, pods=1, every_ms=30_000, width=20)
    with Store.open(path, "w") as store:
        compact(store, START_MS + HOUR_MS)
        store.writer.append({**POD, "pod": "vllm-0"}, START_MS + 7, page_of(LAYOUTS[0], [1] * 5))
    whole = path.read_bytes()
    chance = random.Random(2)
    told_of = 0
    for _ in range(60):
        damaged = bytearray(whole)
        for _ in range(8):
            damaged[chance.randrange(100, len(whole))] = chance.randrange(256)
        path.write_bytes(damaged)
        try:
            with Store.open(path, "w") as store:
                store.sample_counts(*ALL)
                compact(store)
                store.blocks(*ALL)
        except SourceError as error:
            told_of += 1
            assert "\n" not in str(error)
    assert told_of


def compact_and_die(path, hour_ms: int, seconds: float) -> bool:
    """Compact in a process of its own that is killed after so long; whether it was still at it."""
    child = os.fork()
    if not child:
        try:
            with Store.open(path, "w") as store:
                while not compact(store, hour_ms, seconds=0.005).complete:
                    pass
        finally:
            os._exit(0)
    time.sleep(seconds)
    os.kill(child, signal.SIGKILL)
    return os.WIFSIGNALED(os.waitpid(child, 0)[1])


def test_killed_while_compacting(path):
    """At random moments; whatever was killed, the samples are all there, and the next run goes on."""
    fill(path, hours=6, pods=3, every_ms=30_000, width=70)
    with Store.open(path) as store:
        before = told(store.blocks(*ALL))
    chance = random.Random(3)
    killed = 0
    for hour in range(1, 7):
        for _ in range(3):
            killed += compact_and_die(path, START_MS + hour * HOUR_MS, chance.random() * 0.05)
            with sqlite3.connect(path) as connection:
                assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
                halves = "SELECT count(*) FROM page JOIN stretch USING (target) WHERE ts_ms BETWEEN start_ms AND end_ms"
                assert connection.execute(halves).fetchone() == (0,)
        with Store.open(path) as store:
            assert told(store.blocks(*ALL)) == before
    assert killed
    with Store.open(path, "w") as store:
        compact(store)
    assert counts(path) == (0, 18)
    with Store.open(path) as store:
        assert told(store.blocks(*ALL)) == before
