"""What is damaged is named, and never decoded into other values."""

from __future__ import annotations

import shutil
import sqlite3
from datetime import UTC, datetime
from pathlib import Path

import pytest

from benchmarks.reliability import (
    HOUR_MS,
    START_MS,
    content,
    damaged_stores,
    fill,
    flipped,
    intact_content,
    is_part,
    truncated,
)
from inferdoc.cli.main import run
from inferdoc.source.open import open_source
from inferdoc.store import Store, StoreError, compact
from inferdoc.store.damage import DamageLog
from inferdoc.store.indexes import hidden_scrapes

FLIPS = 120


def test_one_flipped_byte_is_named_or_harmless(tmp_path):
    outcomes, _ = damaged_stores(tmp_path, FLIPS, 11, flipped, content)
    assert outcomes["wrong"] == 0
    assert outcomes["named"] > FLIPS // 4 and outcomes["same"] > FLIPS // 8


def test_one_flipped_byte_leaves_the_rest(tmp_path):
    outcomes, share = damaged_stores(tmp_path, FLIPS, 12, flipped, intact_content)
    assert outcomes["wrong"] == 0
    assert outcomes["left out"] > 4 * outcomes["named"]
    assert 0 < share < 0.25


@pytest.mark.parametrize("read", [content, intact_content])
def test_a_store_that_was_cut_off_is_named(tmp_path, read):
    outcomes, _ = damaged_stores(tmp_path, FLIPS, 13, truncated, read)
    assert outcomes["wrong"] == outcomes["same"] == 0
    assert outcomes["named"] > 0.9 * FLIPS


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    path = tmp_path_factory.mktemp("damage") / "fleet.db"
    fill(path)
    return path


@pytest.fixture
def path(whole, tmp_path):
    return Path(shutil.copy(whole, tmp_path))


DAMAGE = {
    "a page of another target": """UPDATE page SET body = (SELECT body FROM page AS other WHERE
    other.target <> page.target AND other.ts_ms BETWEEN page.ts_ms - 3 AND page.ts_ms + 3
    AND other.back_ms = page.back_ms) WHERE rowid = (SELECT max(rowid) FROM page WHERE target = 2)""",
    "a page of another time": "UPDATE page SET ts_ms = ts_ms + 1 WHERE rowid = (SELECT max(rowid) FROM page)",
    "a page in the middle is gone": """DELETE FROM page
    WHERE rowid = (SELECT min(rowid) FROM page WHERE target = 1 AND back_ms > 0)""",
    "a page of another layout": "UPDATE page SET layout = (SELECT min(layout) FROM page) WHERE target = 3",
    "a label": "UPDATE target SET labels = replace(labels, 'vllm-1', 'vllm-7')",
    "a layout of a segment": "UPDATE layout SET id = id + 1000 WHERE id = 1",
    "chunks exchanged": """UPDATE chunk SET body = (SELECT body FROM chunk AS other WHERE other.id = chunk.id + 1)
    WHERE id = (SELECT min(id) FROM chunk)""",
    "times of a segment": """UPDATE stretch SET start_ms = start_ms + 1, end_ms = end_ms + 1
    WHERE id = (SELECT max(id) FROM stretch)""",
    "a type": "UPDATE family SET type = 'gauge' WHERE name = 'tokens'",
    "the name of a type": "UPDATE family SET name = 'tokend' WHERE name = 'tokens'",
    "a type is gone": "DELETE FROM family WHERE name = 'tokens'",
    "the format": "PRAGMA user_version = 2",
    "the first format": "PRAGMA user_version = 1",
}


@pytest.mark.parametrize("fault", DAMAGE)
def test_what_stands_in_another_place_is_named(path, fault):
    before = content(path)
    with sqlite3.connect(path, isolation_level=None) as connection:
        assert connection.execute(DAMAGE[fault]).rowcount != 0
    with pytest.raises(StoreError, match="restore a copy") as caught:
        content(path)
    assert "\n" not in str(caught.value) and before[0]


PARTLY = ("a page of another target", "a page in the middle is gone", "chunks exchanged", "times of a segment")


@pytest.mark.parametrize("fault", PARTLY)
def test_what_is_intact_is_read(path, fault):
    before = intact_content(path)
    with sqlite3.connect(path, isolation_level=None) as connection:
        connection.execute(DAMAGE[fault])
    after = intact_content(path)
    assert after[-1] and after[0].items() < before[0].items()
    assert len(after[0]) > 0.6 * len(before[0])
    assert is_part(after, before) or fault == "a page in the middle is gone"  # it is not there to be counted


def flip_page(path, after: int = 0) -> int:
    """Damage the second page of a chain of the first target, or one so many after it. Returns its time in ms."""
    with sqlite3.connect(path, isolation_level=None) as connection:
        query = "SELECT rowid, ts_ms, body FROM page WHERE target = 1 AND back_ms > 0 ORDER BY ts_ms LIMIT 1 OFFSET ?"
        number, ts_ms, body = connection.execute(query, (after,)).fetchone()
        connection.execute("UPDATE page SET body = ? WHERE rowid = ?", (body[:-1] + bytes([body[-1] ^ 1]), number))
    return int(ts_ms)


def test_a_read_says_what_it_left_out(path):
    ts_ms = flip_page(path)
    source = open_source(store=path)
    for _ in range(2):  # once, however often it is read
        source.scrapes(START_MS, START_MS + 10 * HOUR_MS)
        source.scrapes(ts_ms - 60_000, ts_ms + 60_000)
    (warning,) = source.warnings
    assert "vllm-0 from 2023-11-1" in warning and f"the page of {ts_ms} ms is damaged" in warning
    assert "store info --check" in warning and "\n" not in warning


def test_a_read_that_begins_within_a_chain_names_what_is_lost_of_it(path):
    ts_ms = flip_page(path, after=2)
    source = open_source(store=path)
    source.scrapes(ts_ms - 1, ts_ms + 60_000)
    (warning,) = source.warnings
    moment = f"{datetime.fromtimestamp(ts_ms / 1000, UTC):%Y-%m-%dT%H:%M:%SZ}"
    assert f"vllm-0 from {moment} to {moment} (1 scrape): the page of {ts_ms} ms is damaged" in warning


def move_index_entry(path, table: str, time: str, rowid: int) -> int:
    """Let an index say a millisecond more of one row, which leaves its order. Returns the time of the row."""
    with sqlite3.connect(path) as connection:
        query = f"SELECT target, {time} FROM {table} WHERE rowid = ?"
        target, ts_ms = connection.execute(query, (rowid,)).fetchone()
    # The end of a record (https://sqlite.org/fileformat.html#record_format): target, 48 bits of time, the rowid.
    found = bytes([target]) + ts_ms.to_bytes(6, "big") + rowid.to_bytes(2 if rowid > 127 else 1, "big")
    moved = bytes([target]) + (ts_ms + 1).to_bytes(6, "big") + found[7:]
    whole = path.read_bytes()
    assert whole.count(found) == 1
    path.write_bytes(whole.replace(found, moved))
    return int(ts_ms)


def test_an_index_that_leads_astray_is_noticed(path):
    """The place of any entry damaged (https://sqlite.org/fileformat.html#b_tree_pages): another target, time and row id
    stand there then, also one that makes the table look larger than what is worth a check."""
    with sqlite3.connect(path) as connection:
        query = "SELECT rootpage FROM sqlite_master WHERE name = 'sqlite_autoindex_page_1'"
        ((root,),) = connection.execute(query).fetchall()
        rows = connection.execute("SELECT target, ts_ms FROM page NOT INDEXED ORDER BY 1, 2").fetchall()
    whole = path.read_bytes()
    begin = (root - 1) * int.from_bytes(whole[16:18], "big")
    assert whole[begin] == 10, "a leaf"
    noticed = 0
    for cell in range(int.from_bytes(whole[begin + 3 : begin + 5], "big")):
        for change in (0x01, 0xA8):
            damaged = bytearray(whole)
            damaged[begin + 8 + 2 * cell] ^= change
            path.write_bytes(damaged)
            try:
                with sqlite3.connect(path) as connection:
                    query = "SELECT target, ts_ms FROM page INDEXED BY sqlite_autoindex_page_1"
                    is_astray = connection.execute(query).fetchall() != rows
                    hidden = hidden_scrapes(connection, path, has_chunks=True)
            except (StoreError, sqlite3.DatabaseError):
                noticed += 1
            else:
                assert hidden or not is_astray, (cell, change)
    assert noticed > cell


@pytest.mark.parametrize("which", ["min", "max"])
def test_a_scrape_that_its_index_hides_is_named(path, which):
    with sqlite3.connect(path) as connection:
        query = f"SELECT {which}(rowid) FROM page WHERE target = 3 AND rowid > 255"
        ((rowid,),) = connection.execute(query).fetchall()
    ts_ms = move_index_entry(path, "page", "ts_ms", rowid)
    with Store.open(path) as store:
        with pytest.raises(StoreError, match="index of page does not lead"):
            store.blocks(ts_ms, ts_ms)
        store.damages = log = DamageLog()
        others = store.blocks(ts_ms - 10_000, ts_ms + 10_000)
        assert {block.target["pod"] for block in others if len(block.times_ms)} == {"vllm-0", "vllm-1", "vllm-3"}
        named = [each for each in log.found.values() if "index of page does not lead" in each.what]
        assert [(each.target, each.span_ms, each.scrapes) for each in named] == [("vllm-2", (ts_ms, ts_ms), 1)]
        store.damages = log = DamageLog()
        store.blocks(ts_ms + 20_000, ts_ms + 60_000)
        assert not any("does not lead" in each.what for each in log.found.values())


def test_an_hour_that_its_index_hides_is_named(path):
    with sqlite3.connect(path) as connection:
        ((rowid,),) = connection.execute("SELECT max(id) FROM stretch WHERE target = 2").fetchall()
    start_ms = move_index_entry(path, "stretch", "start_ms", rowid)
    with Store.open(path) as store:
        store.damages = log = DamageLog()
        store.blocks(start_ms, start_ms)
        assert [(each.target, each.what) for each in log.found.values()] == [
            ("vllm-1", f"the index of stretch does not lead to what stands at {start_ms} ms")
        ]


def test_check_lists_all_that_is_damaged(path, capsys):
    ts_ms = flip_page(path)
    with sqlite3.connect(path, isolation_level=None) as connection:
        connection.execute(DAMAGE["a page of another target"])
    assert run(["store", "info", "--check", "--store", str(path)]) == 4
    said = capsys.readouterr()
    assert "damaged: vllm-0 from 2023-11-1" in said.out and f"the page of {ts_ms} ms is damaged" in said.out
    assert said.out.count("damaged: vllm-") == 2
    assert said.err.startswith("inferdoc: ") and "2 of its parts are damaged" in said.err


def test_pages_exchanged_whole_are_named(path):
    """Two pages of one target, each as it was written, at each other's time."""
    with sqlite3.connect(path, isolation_level=None) as connection:
        rows = connection.execute("SELECT rowid, body FROM page WHERE target = 1 AND back_ms > 0 LIMIT 2").fetchall()
        for (number, _), (_, body) in zip(rows, reversed(rows), strict=True):
            connection.execute("UPDATE page SET body = ? WHERE rowid = ?", (body, number))
    with pytest.raises(StoreError, match=r"page of [0-9]+ ms is damaged"):
        content(path)


def test_a_damaged_hour_does_not_hold_up_the_compaction_of_others(path):
    with sqlite3.connect(path, isolation_level=None) as connection:
        connection.execute("UPDATE page SET body = x'0400' WHERE target = 1 AND ts_ms > ?", (START_MS + 2 * HOUR_MS,))
    with Store.open(path, "w") as store:
        with pytest.raises(StoreError, match="is cut"):
            compact(store, START_MS + 9 * HOUR_MS)
        left = store.connection.execute("SELECT DISTINCT target FROM page").fetchall()
        assert left == [(1,)]
        assert (
            len(store.blocks(START_MS, START_MS + 9 * HOUR_MS, targets=lambda labels: labels["pod"] != "vllm-0")) == 3
        )
