"""Retention leaves alone what was imported, says what it takes, and is not fooled by clocks."""

from __future__ import annotations

import io
import json
import re
import shutil

import pytest
from click.testing import CliRunner

from inferdoc.cli.main import cli, run
from inferdoc.store import (
    Keeper,
    Store,
    StoreError,
    Verified,
    compact,
    import_file,
    inventory,
    prune,
    verify,
    would_prune,
)
from inferdoc.store.schema import FORMAT
from tests.store.pages import POD, held_by, layout_of, page_of
from tests.store.test_format import DATA, expected

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
NOW_MS = 1_700_000_400_000 // HOUR_MS * HOUR_MS
LAYOUT = layout_of("up", "a")


def text_of(first_ms: int, scrapes: int, every_ms: int = 60_000) -> bytes:
    labels = ",".join(f'{name}="{value}"' for name, value in POD.items())
    lines = [f"a{{{labels}}} {n} {(first_ms + n * every_ms) / 1000:.3f}" for n in range(scrapes)]
    return "\n".join(["# TYPE a gauge", *lines, "# EOF", ""]).encode()


def collect(store: Store, first_ms: int, scrapes: int, every_ms: int = 60_000, labels=POD) -> None:
    with store.writer.round() as writer:
        for number in range(scrapes):
            writer.append(labels, first_ms + number * every_ms, page_of(LAYOUT, [1, number]))


@pytest.fixture
def path(tmp_path):
    """A month-old import of three hours, then collected: two old hours of another pod, and the last half hour."""
    path = tmp_path / "fleet.db"
    with Store.open(path, "w") as store:
        import_file(store, io.BytesIO(text_of(NOW_MS - 30 * DAY_MS, 180)))
        collect(store, NOW_MS - 20 * DAY_MS, 120, labels={**POD, "pod": "vllm-1"})
        collect(store, NOW_MS - HOUR_MS // 2, 30)
        compact(store, NOW_MS)
    return path


def test_what_was_imported_stays(path):
    before = held_by(path)
    with Store.open(path, "w") as store:
        told = would_prune(store, 15 * DAY_MS, now_ms=NOW_MS)
        done = prune(store, 15 * DAY_MS, now_ms=NOW_MS)
    assert (done.scrapes, done.targets) == (told.scrapes, told.targets) == (120, 1)
    assert done.first_ms == told.first_ms == NOW_MS - 20 * DAY_MS and done.last_ms == told.last_ms
    assert held_by(path) == {
        key: bits
        for key, bits in before.items()
        if key[2] < NOW_MS - 29 * DAY_MS or (key[2] > 0 and key[2] > NOW_MS - 15 * DAY_MS)
    }


def test_what_was_imported_goes_when_asked(path):
    with Store.open(path, "w") as store:
        assert would_prune(store, 15 * DAY_MS, now_ms=NOW_MS, imported=True).scrapes == 300
        assert prune(store, 15 * DAY_MS, now_ms=NOW_MS, imported=True).scrapes == 300
        assert store.first_ms() == NOW_MS - HOUR_MS // 2
        assert store.connection.execute("SELECT count(*) FROM imported").fetchone() == (0,)


def test_the_size_limit_spares_it_too_and_says_that_it_cannot_hold(path):
    with Store.open(path, "w") as store:
        done = prune(store, max_bytes=1)
        assert done.scrapes == 120 and done.over == done.bytes - 1
        assert store.first_ms() == NOW_MS - 30 * DAY_MS
        assert prune(store, max_bytes=1).scrapes == 0
        assert prune(store, max_bytes=1, imported=True).scrapes == 180


def test_collected_scrapes_beside_an_import_go(tmp_path):
    """Those inside its span stay with it; an hour or more away they do not."""
    with Store.open(tmp_path / "a.db", "w") as store:
        collect(store, NOW_MS - 9 * HOUR_MS, 60)
        import_file(store, io.BytesIO(text_of(NOW_MS - 6 * HOUR_MS + 1, 120)))
        collect(store, NOW_MS - 6 * HOUR_MS + 30_000, 60)
        collect(store, NOW_MS, 1)
        compact(store, NOW_MS)
        done = prune(store, max_age_ms=1, now_ms=NOW_MS)
        assert (done.scrapes, done.first_ms) == (60, NOW_MS - 9 * HOUR_MS)
        assert len(store.blocks(NOW_MS - 7 * HOUR_MS, NOW_MS - 1)[0].times_ms) == 180


def test_what_an_import_did_not_add_is_not_its_own(tmp_path):
    with Store.open(tmp_path / "a.db", "w") as store:
        collect(store, NOW_MS - 9 * HOUR_MS, 60)
        assert import_file(store, io.BytesIO(text_of(NOW_MS - 9 * HOUR_MS, 60))).new_pages == 0
        collect(store, NOW_MS, 1)
        assert prune(store, max_age_ms=HOUR_MS, now_ms=NOW_MS).scrapes == 60


@pytest.mark.parametrize("version", [1, 2])
def test_a_store_that_does_not_tell_keeps_everything(version, tmp_path):
    path = shutil.copy(DATA / f"v{version}.db", tmp_path)
    with Store.open(path) as store:
        assert would_prune(store, 1000, 1).scrapes == 0
        found = inventory(store)
        assert (found.imported.scrapes, found.collected.scrapes, found.format) == (140, 0, version)
        assert verify(store) == Verified(140, [])
    with Store.open(path, "w") as store:
        assert prune(store, 1000).scrapes == 0
        collect(store, NOW_MS + DAY_MS, 60)
        collect(store, NOW_MS + 3 * DAY_MS, 1)
        assert prune(store, DAY_MS).scrapes == 60
        assert inventory(store).imported.scrapes == 140
        assert expected().items() <= held_by(path).items()


def test_a_damaged_span_takes_nothing(path):
    with Store.open(path, "w") as store:
        store.connection.execute("UPDATE imported SET end_ms = end_ms - 1")
        with pytest.raises(StoreError, match="imported scrapes is damaged"):
            prune(store, 1, now_ms=NOW_MS)


def test_a_clock_that_jumps_ahead_takes_nothing(tmp_path):
    """Scrapes and retention follow the same clock: only the time that passes while the collector runs tells."""
    keeper = Keeper(2 * DAY_MS)
    with Store.open(tmp_path / "a.db", "w") as store:
        collect(store, NOW_MS - DAY_MS, 60)
        assert keeper.prune(store, NOW_MS, 0.0).scrapes == 0
        jumped = NOW_MS + 365 * DAY_MS
        collect(store, jumped, 1)
        assert keeper.prune(store, jumped, 3600.0).scrapes == 0
        assert keeper.prune(store, jumped, 3600.0 * 24 * 2).scrapes == 60, "it has run for two days"


def test_a_clock_that_goes_back_takes_nothing(tmp_path):
    keeper = Keeper(DAY_MS)
    with Store.open(tmp_path / "a.db", "w") as store:
        collect(store, NOW_MS, 60)
        assert keeper.prune(store, NOW_MS + HOUR_MS, 0.0).scrapes == 0
        collect(store, NOW_MS - 5 * DAY_MS, 60)
        assert keeper.prune(store, NOW_MS - 5 * DAY_MS, 60.0).scrapes == 0
        assert len(store.blocks(0, 2 * NOW_MS)[0].times_ms) == 120


def command(*arguments: str) -> tuple[int, str, str]:
    done = CliRunner().invoke(cli, [*arguments], catch_exceptions=False)
    return done.exit_code, done.stdout, done.stderr


def test_info(path):
    _, text, _ = command("store", "info", "--store", str(path), "--check")
    lines = text.splitlines()
    assert lines[0].startswith(f"{path}: format {FORMAT}, 0.1 MB of data")
    assert lines[1:3] == [
        "  2 targets, 2 series, 480 samples",
        lines[2],
    ]
    assert lines[2].startswith("  collected: 150 scrapes of 2 targets, ")
    assert lines[3].startswith("  imported: 180 scrapes of 1 target, ") and "2023-10-15T22:00:00Z to" in lines[3]
    assert lines[4] == "  checked: 330 scrapes, none damaged"
    _, text, _ = command("store", "info", "--store", str(path), "-o", "json")
    found = json.loads(text)
    assert (found["collected"]["scrapes"], found["imported"]["first_ms"]) == (150, NOW_MS - 30 * DAY_MS)


def test_prune_command(path):
    before = held_by(path)
    store = ("--store", str(path))
    _, text, _ = command("store", "prune", *store, "--older-than", "10d", "--dry-run")
    assert text.startswith("retention: would drop 120 scrapes of 1 target from 2023-10-25T22:00:00Z to")
    assert held_by(path) == before
    _, text, _ = command("store", "prune", *store, "--older-than", "10d")
    assert text.startswith("retention: dropped 120 scrapes of 1 target from 2023-10-25T22:00:00Z to")
    assert command("store", "prune", *store, "--older-than", "10d")[1] == "retention: nothing to drop\n"
    assert "inferdoc store info" in command("store", "prune", *store, "--max-mb", "1")[1] or path.stat().st_size < 1e6


def test_what_cannot_be_pruned(path, capsys):
    assert run(["store", "prune", "--store", str(path)]) == 2
    assert run(["store", "prune", "--store", f"{path}.none", "--older-than", "1d"]) == 4
    assert not path.with_name("fleet.db.none").exists() and not path.with_name("fleet.db.none.lock").exists()
    with Store.open(path, "w"):
        assert run(["store", "prune", "--store", str(path), "--older-than", "1d"]) == 4
        assert run(["store", "prune", "--store", str(path), "--older-than", "1d", "--dry-run"]) == 0
    assert "is being written by process" in capsys.readouterr().err


def test_two_short_collects_leave_an_imported_history_alone(path):
    before = held_by(path)
    dropped = []
    for _ in range(2):
        _, _, said = command(
            "collect",
            "--target",
            "127.0.0.1:1",
            "--duration",
            "1s",
            "--interval",
            "0.2s",
            "--store",
            str(path),
            "--retention",
            "1d",
        )
        dropped += re.findall(r"^retention: dropped (\d+) scrapes", said, re.MULTILINE)
    kept = {key: bits for key, bits in before.items() if key[2] < NOW_MS - 29 * DAY_MS}
    assert dropped == ["120", "30"], "what was collected, told each time"
    assert len(kept) == 180 and kept.items() <= held_by(path).items()
