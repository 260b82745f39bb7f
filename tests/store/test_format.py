"""A store of every released format stays readable. `python -m tests.store.test_format PATH` writes one of today's."""

from __future__ import annotations

import math
import shutil
import sqlite3
import sys
from pathlib import Path

import pytest

from inferdoc.store import Store, StoreError, compact, schema
from inferdoc.store.schema import FORMAT
from inferdoc.store.segments import HOUR_MS
from tests.store.pages import Samples, bits_of, held_by, layout_of, page_of

DATA = Path(__file__).parent / "data"
TYPES = {"up": "gauge", "tokens": "counter", "latency": "histogram"}
START_MS = 1_700_000_000_000


def scrapes():
    """Two pods, 70 scrapes: from the 40th on pod b has an adapter more; every 9th fails."""
    for number in range(70):
        for pod in "ab":
            series = ["up", ("tokens_total", {"engine": "0"})]
            series += [("latency_bucket", {"engine": "0", "le": str(bound)}) for bound in range(40)]
            if pod == "b" and number >= 40:
                series.insert(2, ("lora_info", {"adapter": 'é "1"'}))
            if number % 9 == 8:
                series = ["up"]
            layout = layout_of(*series, types=TYPES)
            values = [math.nan if number == 30 else number * place / 7 for place in range(len(layout))]
            yield {"job": "vllm", "pod": pod}, START_MS + number * 15_000, page_of(layout, values)


def write(path: Path) -> None:
    """Most of it in column chunks; the last scrapes and one that came late in pages, in the same hour."""
    every = list(scrapes())
    late = every.pop(31)
    with Store.open(path, "w") as store:
        append(store, every[:100])
        compact(store, START_MS + HOUR_MS)
        append(store, [*every[100:], late])


def append(store: Store, some) -> None:
    with store.writer.round() as writer:
        for target, ts_ms, page in some:
            writer.append(target, ts_ms, page)


def expected() -> Samples:
    held: Samples = {}
    for target, ts_ms, page in scrapes():
        for series, value in zip(page.layout.series, page.values.tolist(), strict=True):
            labels = tuple(sorted({**target, **dict(series.labels)}.items()))
            held[series.name, labels, ts_ms] = bits_of(value)
    return held


@pytest.mark.parametrize("version", range(1, FORMAT + 1))
def test_read_a_store_of_each_format(version, tmp_path):
    path = Path(shutil.copy(DATA / f"v{version}.db", tmp_path))
    assert held_by(path) == expected()
    with Store.open(path) as store:
        assert store.types() == TYPES
    with Store.open(path, "w") as store:
        assert not any(store.writer.append(*scrape) for scrape in scrapes())


def test_the_tables_are_those_of_the_kept_store(tmp_path):
    """Another table, column or index is another format: raise FORMAT and keep a store of it here."""
    write(tmp_path / "new.db")
    assert held_by(tmp_path / "new.db") == expected()
    assert tables(tmp_path / "new.db") == tables(Path(shutil.copy(DATA / f"v{FORMAT}.db", tmp_path)))


@pytest.mark.parametrize("version", range(1, FORMAT))
def test_a_writer_upgrades_in_place(version, tmp_path):
    path = Path(shutil.copy(DATA / f"v{version}.db", tmp_path))
    before = path.read_bytes()
    assert held_by(path) == expected() and path.read_bytes() == before, "reading changes nothing"
    with Store.open(path) as reader:
        (old, _) = reader.blocks(0, 2**60)
        for _ in range(2):
            Store.open(path, "w").close()
        with Store.open(path, "w") as store:
            assert compact(store).pages == {1: 140, 2: 40, 3: 40}[version], "what was in pages"
        (new, _) = reader.blocks(0, 2**60)
    assert (old.values.view("u8") == new.values.view("u8")).all() and old.names == new.names
    assert held_by(path) == expected()
    assert tables(path) == tables(Path(shutil.copy(DATA / f"v{FORMAT}.db", tmp_path)))


def test_an_upgrade_cut_short_is_no_upgrade(tmp_path, monkeypatch):
    path = Path(shutil.copy(DATA / "v1.db", tmp_path))
    monkeypatch.setitem(schema._TABLES_OF, 2, (*schema._ADDED_BY_2, "CREATE TABLE page (x)"))
    with pytest.raises(StoreError):
        Store.open(path, "w")
    assert held_by(path) == expected()
    with sqlite3.connect(path) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (1,)
    monkeypatch.undo()
    Store.open(path, "w").close()
    assert held_by(path) == expected()


def tables(path: Path) -> list[tuple[str, str, str]]:
    with sqlite3.connect(path) as connection:
        found = connection.execute("SELECT type, name, sql FROM sqlite_master ORDER BY name").fetchall()
        header = [connection.execute(f"PRAGMA {name}").fetchone() for name in ("application_id", "auto_vacuum")]
    return [*found, *header]


if __name__ == "__main__":
    write(Path(sys.argv[1]))
