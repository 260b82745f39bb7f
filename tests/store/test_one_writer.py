"""A second writer of one file is refused, whatever name it opens it by; a file that is taken away is told."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from inferdoc.store import Store, StoreError, lock
from tests.store.pages import POD, held_by, layout_of, page_of

LAYOUT = layout_of("up", "a")
OPEN = "import sys; from inferdoc.store import Store; s = Store.open(sys.argv[1], 'w'); print(flush=True); input()"


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "data" / "fleet.db"
    with Store.open(path, "w") as store:
        append(store, 1)
    return path


def append(store: Store, ts_ms: int) -> None:
    store.writer.append(POD, ts_ms, page_of(LAYOUT, [1, ts_ms]))


def same_path(path: Path) -> Path:
    return path


def relative_path(path: Path) -> Path:
    return Path(os.path.relpath(path))


def dotted_path(path: Path) -> Path:
    return path.parent / ".." / path.parent.name / path.name


def link_to_the_file(path: Path) -> Path:
    (path.parent.parent / "link.db").symlink_to(path)
    return path.parent.parent / "link.db"


def link_to_a_link(path: Path) -> Path:
    (path.parent / "second.db").symlink_to(link_to_the_file(path))
    return path.parent / "second.db"


def link_to_the_folder(path: Path) -> Path:
    (path.parent.parent / "folder").symlink_to(path.parent)
    return path.parent.parent / "folder" / path.name


def hard_link(path: Path) -> Path:
    (path.parent / "hard.db").hardlink_to(path)
    return path.parent / "hard.db"


def lock_deleted(path: Path) -> Path:
    path.with_name("fleet.db.lock").unlink()
    return path


def lock_replaced(path: Path) -> Path:
    path.with_name("fleet.db.lock").unlink()
    path.with_name("fleet.db.lock").write_text("1\n")
    return path


def lock_deleted_behind_a_link(path: Path) -> Path:
    return link_to_the_file(lock_deleted(path))


ALIASES = [
    same_path,
    relative_path,
    dotted_path,
    link_to_the_file,
    link_to_a_link,
    link_to_the_folder,
    hard_link,
    lock_deleted,
    lock_replaced,
    lock_deleted_behind_a_link,
]


@pytest.mark.parametrize("alias", ALIASES, ids=lambda alias: alias.__name__)
@pytest.mark.parametrize("elsewhere", [False, True], ids=["one process", "two processes"])
def test_a_second_writer_is_refused(path, alias, elsewhere):
    if elsewhere:
        with subprocess.Popen(
            [sys.executable, "-c", OPEN, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        ) as other:
            assert other.stdout.readline()
            refused(alias(path))
            other.kill()
        Store.open(path, "r").close()
        return
    with Store.open(path, "w") as store:
        append(store, 2)
        refused(alias(path))
        append(store, 3)
    assert {ts_ms for _, _, ts_ms in held_by(path)} == {1, 2, 3}


def refused(name: Path) -> None:
    with pytest.raises(StoreError) as caught:
        Store.open(name, "w")
    text = str(caught.value)
    assert "\n" not in text and ("is being written by" in text or "2 names (hard links)" in text), text


@pytest.mark.parametrize("make", [Path.symlink_to, Path.hardlink_to], ids=["symbolic", "hard"])
def test_a_lock_file_that_is_a_link_is_refused(path, make):
    beside, other = path.with_name("fleet.db.lock"), path.with_name("precious.txt")
    beside.unlink()
    other.write_text("keep me")
    make(beside, other)
    with pytest.raises(StoreError, match="is a link"):
        Store.open(path, "w")
    assert other.read_text() == "keep me"


def test_a_file_mounted_on_its_own_is_not_written(path, tmp_path, monkeypatch):
    mounts = tmp_path / "mountinfo"
    line = "36 35 98:0 /data/fleet.db {} rw,noatime master:1 - ext4 /dev/root rw\n"
    monkeypatch.setattr(lock, "_MOUNTS", mounts)
    mounts.write_text(line.format(str(path).replace("d", "\\144")))
    with pytest.raises(StoreError, match="mounted as a single file"):
        Store.open(path, "w")
    with Store.open(path) as store:
        assert store.latest_ms() == 1 and "mounted as a single file" in store.warnings[0]
    mounts.write_text(line.format(path.parent))
    Store.open(path, "w").close()


def test_a_reader_by_another_name_is_refused_while_a_writer_is_at_work(path):
    other = hard_link(path)
    with Store.open(other) as store:
        assert store.latest_ms() == 1 and "2 names" in store.warnings[0]
    other.unlink()
    with Store.open(path, "w") as store:
        append(store, 2)
        with Store.open(hard_link(path).with_name("fleet.db")) as reader:
            assert reader.latest_ms() == 2
        with pytest.raises(StoreError, match="written under another name"):
            Store.open(other)
        append(store, 3)
    assert {ts_ms for _, _, ts_ms in held_by(path)} == {1, 2, 3}


def moved(path: Path) -> None:
    path.rename(path.with_name("away.db"))


def deleted(path: Path) -> None:
    path.unlink()


def replaced(path: Path) -> None:
    shutil.copy(path, path.with_name("copy.db"))
    path.with_name("copy.db").rename(path)


def log_deleted(path: Path) -> None:
    path.with_name("fleet.db-wal").unlink()


@pytest.mark.parametrize("change", [moved, deleted, replaced, log_deleted], ids=lambda change: change.__name__)
def test_a_file_taken_away_is_told_with_the_next_scrape(path, change):
    with Store.open(path, "w") as store:
        append(store, 2)
        change(path)
        with pytest.raises(StoreError, match="moved, deleted or replaced"):
            append(store, 3)


def test_a_refused_writer_leaves_the_locks_of_its_process_alone(path):
    """Closing a handle of a file drops the locks that SQLite has on it through others of the process."""
    with Store.open(path) as reader:
        assert reader.latest_ms() == 1
        with Store.open(path, "w") as store:
            append(store, 2)
            for _ in range(3):
                refused(path)
            locks = Path("/proc/locks").read_text()
            assert f":{path.stat().st_ino} " in locks
            before = sum(f":{path.stat().st_ino} " in line and "POSIX" in line for line in locks.splitlines())
        after = sum(
            f":{path.stat().st_ino} " in line and "POSIX" in line
            for line in Path("/proc/locks").read_text().splitlines()
        )
        assert before and after, "the reader still has its lock"
        assert reader.latest_ms() == 2


def test_handles_are_closed_with_the_last_connection(path):
    def handles() -> int:
        return len(list(Path("/proc/self/fd").iterdir()))

    before = handles()
    for _ in range(5):
        with Store.open(path), Store.open(path, "w"):
            refused(path)
    assert handles() == before
