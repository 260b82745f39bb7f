"""The grid of a window whose scrape interval changes follows the longer interval."""

from __future__ import annotations

import numpy as np
import pytest

from inferdoc import open_source
from inferdoc.judging.reading import _grid, read_window
from inferdoc.source.base import Scrapes
from inferdoc.store import Store, import_file
from tests.judging.frames import catalogue

HOUR_MS = 3_600_000


def scraped(*parts: tuple[int, int, int]) -> list[Scrapes]:
    """Two targets. parts: begin, end and interval, seconds."""
    times = np.concatenate([np.arange(begin, end, every) for begin, end, every in parts]) * 1000
    return [
        Scrapes({"job": "vllm", "instance": f"{pod}:8000"}, times + 137 * pod, np.ones(len(times))) for pod in (0, 1)
    ]


def interval(scrapes, begin=0, until=3600, lead=0) -> int:
    grid, _ = _grid(scrapes, scrapes, begin * 1000, until * 1000, lead * 1000, False)
    return grid.interval_ms // 1000


@pytest.mark.parametrize(("before", "after"), [(15, 30), (30, 15), (15, 60), (60, 15)])
def test_the_longer_interval_of_a_window_counts(before, after):
    changed = scraped((0, 1500, before), (1500, 3600, after))
    assert interval(changed) == max(before, after)


def test_what_was_before_the_window_does_not_count():
    assert interval(scraped((0, 1500, 60), (1500, 3600, 15)), begin=1800, lead=1800) == 15


@pytest.mark.parametrize(
    "parts", [[(0, 3600, 15)], [(0, 900, 15), (2700, 3600, 15)], [(600, 640, 15), (2700, 3600, 15)]]
)
def test_an_absence_is_no_interval(parts):
    assert interval(scraped(*parts)) == 15


def test_lost_scrapes_and_jitter_leave_the_interval():
    chance = np.random.default_rng(4)
    whole = scraped((0, 3600, 15))
    for each in whole:
        kept = chance.random(len(each.times_ms)) >= 0.1
        each.times_ms, each.up = (each.times_ms + chance.integers(-900, 900, len(kept)))[kept], each.up[kept]
    assert interval(whole) == pytest.approx(15, abs=1)


def test_of_a_long_window_only_the_last_hour_tells():
    """The rest has one entry for each step of a minute or more (`scrape_times`), whatever the interval was."""
    assert interval(scraped((0, 9 * 3600, 60), (9 * 3600, 10 * 3600, 15)), until=36_000) == 15


@pytest.mark.parametrize("every", [15, 30])
def test_the_step_of_a_query_over_old_data_is_no_interval(every, tmp_path):
    """The data end three hours before a window of nine: no scrape of it is read one by one."""
    begin = 1_795_000_000
    lines = [f'up{{job="vllm",instance="10.0.0.1:8000"}} 1 {begin + at}' for at in range(0, 7200, every)]
    text = tmp_path / "up.om"
    text.write_text("\n".join(["# TYPE up gauge", *lines, "# EOF", ""]))
    with Store.open(tmp_path / "fleet.db", mode="w") as store:
        import_file(store, text)
    source = open_source(store=tmp_path / "fleet.db")
    frame, _ = read_window(source, ["running"], catalogue(), None, str(begin - 3600), str(begin + 8 * 3600))
    source.close()
    assert frame.grid.interval_ms == every * 1000
