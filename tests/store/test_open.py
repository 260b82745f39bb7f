"""Opening a store: who may, and what is said when it cannot be."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from inferdoc.errors import ExitCode, SourceError
from inferdoc.store import Store, StoreError
from inferdoc.store.schema import FORMAT
from tests.store.pages import POD, held_by, layout_of, page_of

LAYOUT = layout_of("up", "a")


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "fleet.db"
    fill(path, 200)
    return path


def fill(path, count, first=0):
    with Store.open(path, "w") as store:
        for ts_ms in range(first, first + count):
            store.writer.append(POD, ts_ms, page_of(LAYOUT, [1, random.random()]))


def one_line(caught) -> str:
    error = caught.value
    assert isinstance(error, SourceError) and error.exit_code == ExitCode.SOURCE
    assert "\n" not in str(error)
    return str(error)


def test_two_writers_in_one_process(path):
    with Store.open(path, "w"):
        with pytest.raises(StoreError) as caught:
            Store.open(path, "w")
        assert f"is being written by process {os.getpid()}" in one_line(caught)
    Store.open(path, "w").close()


def test_a_writer_in_another_process(path):
    code = "import sys; from inferdoc.store import Store; s = Store.open(sys.argv[1], 'w'); print(flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-c", code, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        other.stdout.readline()
        with pytest.raises(StoreError) as caught:
            Store.open(path, "w")
        assert f"process {other.pid}; stop it" in one_line(caught)
        assert len(held_by(path)) == 400
        other.kill()
        other.wait()
        fill(path, 1, 200)
    assert len(held_by(path)) == 402


def test_a_reader_sees_what_a_writer_commits_meanwhile(path):
    with Store.open(path) as reader, Store.open(path, "w") as store:
        for ts_ms in range(200, 230):
            with store.writer.round() as writer:
                writer.append(POD, ts_ms, page_of(LAYOUT, [1, ts_ms]))
                assert reader.latest_ms() == ts_ms - 1
            assert reader.latest_ms() == ts_ms
            (block,) = reader.blocks(ts_ms - 5, ts_ms)
            assert len(block.times_ms) == 6 and block.values[-1, 1] == ts_ms


def test_a_reader_cannot_write(path):
    with Store.open(path) as store, pytest.raises(StoreError) as caught:
        _ = store.writer
    assert "reading only" in one_line(caught)


def test_a_newer_format_is_refused(path):
    with sqlite3.connect(path) as connection:
        connection.execute(f"PRAGMA user_version = {FORMAT + 1}")
    for mode in "rw":
        with pytest.raises(StoreError) as caught:
            Store.open(path, mode)
        assert f"has format {FORMAT + 1}, this inferdoc reads up to {FORMAT}; update" in one_line(caught)


def test_no_store_there(tmp_path):
    with pytest.raises(StoreError) as caught:
        Store.open(tmp_path / "none.db")
    assert "there is no store at" in one_line(caught) and not (tmp_path / "none.db").exists()
    for mode in "rw":
        with pytest.raises(StoreError) as caught:
            Store.open(tmp_path, mode)
        assert "is a folder" in one_line(caught)
    with pytest.raises(StoreError) as caught:
        Store.open("/proc/none/fleet.db", "w")
    one_line(caught)


def test_folders_are_made_for_a_new_store(tmp_path):
    Store.open(tmp_path / "a" / "b" / "fleet.db", "w").close()
    assert held_by(tmp_path / "a" / "b" / "fleet.db") == {}


def test_another_file_is_not_touched(tmp_path):
    text, other, empty = tmp_path / "text", tmp_path / "other.db", tmp_path / "empty"
    text.write_text("not a store\n" * 1000)
    with sqlite3.connect(other) as connection:
        connection.execute("CREATE TABLE mine (x)")
    empty.touch()
    for file in (text, other):
        before = file.read_bytes()
        for mode in "rw":
            with pytest.raises(StoreError) as caught:
                Store.open(file, mode)
            assert "not an inferdoc store" in one_line(caught)
        assert file.read_bytes() == before
    with pytest.raises(StoreError, match="is empty"):
        Store.open(empty)
    Store.open(empty, "w").close()
    assert held_by(empty) == {}


def test_a_truncated_store_is_told_not_traced(path):
    whole = path.read_bytes()
    told = 0
    for share in range(1, 20):
        path.write_bytes(whole[: len(whole) * share // 20])
        for attempt in (lambda: held_by(path), lambda: fill(path, 2, 1000)):
            try:
                attempt()
            except SourceError as error:
                told += 1
                assert "\n" not in str(error)
    assert told > 20


def test_flipped_bytes_are_told_not_traced(path):
    """Not all damage can be seen, but none ends in another exception."""
    whole = path.read_bytes()
    chance = random.Random(1)
    for _ in range(150):
        damaged = bytearray(whole)
        for _ in range(8):
            damaged[chance.randrange(100, len(whole))] = chance.randrange(256)
        path.write_bytes(damaged)
        try:
            held_by(path)
            fill(path, 2, 1000)
        except SourceError as error:
            assert "\n" not in str(error)


def test_a_full_disk_loses_nothing_committed(path):
    before = held_by(path)
    with Store.open(path, "w") as store:
        size = store.connection.execute("PRAGMA page_count").fetchone()[0]
        store.connection.execute(f"PRAGMA max_page_count = {size + 2}")
        stored = 0
        with pytest.raises(StoreError) as caught:
            for ts_ms in range(1000, 9000):
                with store.writer.round() as writer:
                    writer.append(POD, ts_ms, page_of(LAYOUT, [1, random.random()]))
                    writer.append(POD, ts_ms + 10_000, page_of(LAYOUT, [1, random.random()]))
                stored += 1
        assert "no space left" in one_line(caught)
        store.connection.execute(f"PRAGMA max_page_count = {size + 100}")
        assert store.writer.append(POD, 50_000, page_of(LAYOUT, [1, 2]))
    after = held_by(path)
    assert stored and len(after) == len(before) + 4 * stored + 2
    assert before.items() <= after.items()


@pytest.fixture
def folder():
    folder = Path(tempfile.mkdtemp())
    yield folder
    folder.chmod(0o755)
    shutil.rmtree(folder)


@contextlib.contextmanager
def shut(folder, mode=0o555):
    """The folder may be read, not written; root becomes `nobody` for the time."""
    for file in folder.iterdir():
        file.chmod(0o444)
    folder.chmod(mode)
    root = os.geteuid() == 0
    if root:
        os.seteuid(65534)
    try:
        yield
    finally:
        if root:
            os.seteuid(0)
        folder.chmod(0o755)


def test_a_read_only_folder(folder):
    path = folder / "fleet.db"
    fill(path, 20)
    (folder / "fleet.db.lock").unlink()
    with shut(folder):
        with pytest.raises(StoreError) as caught:
            Store.open(path, "w")
        assert "permission denied; give another --store" in one_line(caught)
        with pytest.raises(StoreError) as caught:
            Store.open(folder / "deeper" / "fleet.db", "w")
        assert "cannot create the folder" in one_line(caught)
        with Store.open(path) as store:
            assert store.latest_ms() == 19 and store.warnings == []
    with shut(folder, 0):
        for mode in "rw":
            with pytest.raises(StoreError) as caught:
                Store.open(path, mode)
            assert "permission denied" in one_line(caught)


@pytest.mark.parametrize("kept", [0, 20])
def test_a_copy_in_a_read_only_folder_without_its_shared_memory(tmp_path, folder, kept):
    if kept:
        fill(tmp_path / "fleet.db", kept)
    with Store.open(tmp_path / "fleet.db", "w") as store:
        store.writer.append(POD, 99, page_of(LAYOUT, [1, 2]))
        for name in ("fleet.db", "fleet.db-wal"):
            shutil.copy(tmp_path / name, folder)
    with shut(folder):
        if kept:
            with Store.open(folder / "fleet.db") as store:
                assert store.latest_ms() == 19 and "the newest scrapes are missing; copy" in store.warnings[0]
        else:
            with pytest.raises(StoreError) as caught:
                Store.open(folder / "fleet.db")
            assert "write-ahead log" in one_line(caught)
    with Store.open(folder / "fleet.db") as store:
        assert store.latest_ms() == 99 and store.warnings == []
