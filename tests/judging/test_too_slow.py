"""A window that cannot be read in time is read in part, and the answer says what it left out."""

from __future__ import annotations

from datetime import datetime

import pytest

from inferdoc import diagnose
from inferdoc.errors import TooSlowError
from inferdoc.judging import api
from inferdoc.source.store_source import StoreSource
from inferdoc.store.importer import import_file
from inferdoc.store.store import Store
from tests.recording_text import openmetrics

START_S, END_S = 1_700_000_000, 1_700_007_200
MINUTE_MS = 60_000


class Slow(StoreSource):
    """A store that reads a stretch of so many minutes in its time, and no longer one."""

    def __init__(self, path, most_minutes: float) -> None:
        super().__init__(path)
        self.most_ms = most_minutes * MINUTE_MS

    def scrapes(self, start_ms, end_ms):
        if end_ms - start_ms > self.most_ms:
            raise TooSlowError(f"{self.location} was not read within 5 s; raise --timeout")
        return super().scrapes(start_ms, end_ms)


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    folder = tmp_path_factory.mktemp("slow")
    text = folder / "fleet.om"
    text.write_text(openmetrics(("p0", "p1"), range(START_S, END_S, 15)))
    with Store.open(folder / "fleet.db", "w") as store:
        import_file(store, text)
    return folder / "fleet.db"


@pytest.mark.parametrize(
    ("most_minutes", "read_minutes", "left_out"),
    [
        (200, 60, []),
        (95, 60, ["less of the history before the window"]),
        (65, 60, ["less of the history before the window"] * 2),
        (20, 15, ["less of the history before the window"] * 2 + ["only the last 15 minutes of the window"]),
    ],
)
def test_the_newest_part_is_judged(path, most_minutes, read_minutes, left_out):
    answer = diagnose(Slow(path, most_minutes), since="1h")
    begin = datetime.fromisoformat(answer.window.from_).timestamp()
    assert begin == pytest.approx(END_S - 15 - read_minutes * 60, abs=0.01)
    told = [line.partition("; reading ")[2] for line in answer.source.warnings if "; reading " in line]
    assert told == left_out
    assert all("was not read within 5 s" in line for line in answer.source.warnings if "; reading " in line)


def test_a_comparison_that_takes_too_long_leaves_the_answer(path, monkeypatch):
    yesterday = (START_S * 1000, START_S * 1000 + 30 * MINUTE_MS)
    monkeypatch.setattr(api, "references", lambda *_, **__: iter([("same-hour-yesterday", yesterday)]))

    class SlowThen(StoreSource):
        def evaluate(self, reads, grid, match=()):
            if grid.start_ms == yesterday[0]:
                raise TooSlowError("the store was not read within 5 s")
            return super().evaluate(reads, grid, match)

    answer = diagnose(SlowThen(path), since="30m")
    assert "the store was not read within 5 s; the window is compared with its own history alone" in (
        answer.source.warnings
    )
    assert answer.window.baseline.kind == "history"


def test_what_is_too_slow_in_any_length_is_one_line(path):
    with pytest.raises(TooSlowError, match="was not read within 5 s"):
        diagnose(Slow(path, 5), since="1h")
