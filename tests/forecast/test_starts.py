"""Cold starts of each pool's own replicas: from the first scrape or the process to the first page."""

from __future__ import annotations

import numpy as np
import pytest
from fake_source import FakeSource
from made import DAY, MONDAY

from inferdoc.fleet.members import Member, Pool
from inferdoc.forecast.fromsource import STARTED, Gathered
from inferdoc.forecast.starts import START_DAYS, STEP, TOKENS, UP, Start, Starts, cold_start, pool_starts
from inferdoc.source.frame import Entity

NAN = np.nan
BEGIN = MONDAY
END = BEGIN + 5 * DAY
TIMES = np.arange(BEGIN, END + 1, STEP)
FAST, SLOW = Pool("", "ns", "m", "decode", "h100"), Pool("", "ns", "m", "decode", "a100")


def life(born: float, load: float, *, scraped: float | None = None, asked: float = 0.0, tells: bool = True) -> dict:
    """A pod's signals. born: its process, in seconds of the week; load: until its first page; scraped: its first
    scrape, seconds before its process (None = only once it is ready); asked: until the first token after that."""
    since = TIMES - BEGIN - born
    page = since >= load
    first = since >= (load if scraped is None else -scraped)
    return {
        UP: np.where(first, page.astype(float), NAN),
        STARTED: np.where(page & tells, BEGIN + born, NAN),
        TOKENS: np.where(page, (since >= load + asked) * 50.0, NAN),
    }


class Lives(FakeSource):
    """A source that holds lives of pods, minute by minute."""

    def __init__(self, lives: dict[str, dict[str, np.ndarray]]) -> None:
        super().__init__(END)
        self.lives = lives

    def rows(self, signal: str, times: np.ndarray) -> dict[Entity, np.ndarray]:
        at = np.searchsorted(TIMES, np.round(times))
        return {Entity.of(("pod", "namespace"), (pod, "ns")): life[signal][at] for pod, life in self.lives.items()}


def gathered(lives: dict[str, dict[str, np.ndarray]], pools: dict[str, Pool]) -> Gathered:
    """What a plan has read of them before: a value for each quarter of an hour."""
    made = Gathered(BEGIN, 900, (END - BEGIN) // 900)
    for pod, signals in lives.items():
        key = ("", "ns", pod)
        made.members[key] = Member(key, pod, "", pools.get(pod.partition("-")[0], FAST))
        made.rows.setdefault(STARTED, {})[key] = signals[STARTED][15::15]
    return made


def found_in(lives: dict[str, dict[str, np.ndarray]], **pools: Pool) -> dict[Pool, Starts]:
    return pool_starts(Lives(lives), gathered(lives, pools))


def starts_of(lives: dict[str, dict[str, np.ndarray]]) -> dict[Pool, tuple[Start, ...]]:
    return {pool: found.seen for pool, found in found_in(lives).items()}


def test_a_start_lasts_from_the_process_to_the_first_page_and_the_token_comes_later() -> None:
    assert starts_of({"a": life(3600, 240, asked=120)}) == {FAST: (Start(240, 360),)}


def test_what_came_before_the_process_counts_where_the_target_was_scraped_in_vain() -> None:
    """An image that is pulled for three minutes: the target has an address and does not answer."""
    assert starts_of({"a": life(3600, 240, scraped=180)})[FAST][0].ready == 420
    assert starts_of({"a": life(4 * DAY + 3600, 240, scraped=0, tells=False)})[FAST][0].ready == 240


def test_a_pod_that_was_there_before_or_says_nothing_is_no_start() -> None:
    assert starts_of({"a": life(-7200, 240)}) == {}
    assert starts_of({"a": life(3600, 240, tells=False)}) == {}


def test_a_restart_counts_from_its_own_process() -> None:
    before, after = life(-7200, 240), life(36000, 300)
    seen = after[UP] > 0
    dead = ~seen & (TIMES - BEGIN > 35000)
    both = {s: np.where(seen, after[s], np.where(dead, 0.0 if s == UP else NAN, before[s])) for s in before}
    assert [start.ready for start in starts_of({"a": both})[FAST]] == [300]


@pytest.mark.parametrize(("later", "ready"), [(0.0, [240.0]), (1.0, [240.0]), (1.5, [240.0, 478.5])])
def test_a_page_that_comes_back_is_a_start_where_its_process_is_another(later: float, ready: list[float]) -> None:
    """An exporter that reckons its start time from its age is off by up to a second."""
    made = life(3600, 240)
    since = TIMES - BEGIN
    away = (since > 3900) & (since < 4080)
    made = {signal: np.where(away, NAN, row) for signal, row in made.items()}
    made[STARTED] += np.where(since >= 4080, later, 0.0)
    assert [start.ready for start in starts_of({"a": made})[FAST]] == ready


def test_each_pool_has_its_own_members_alone() -> None:
    lives = {f"fast-{i}": life(3600 * (i + 1), 60) for i in range(6)}
    lives |= {f"slow-{i}": life(3600 * (i + 1), 600 + 60 * i) for i in range(6)}
    found = found_in(lives, fast=FAST, slow=SLOW)
    assert cold_start(None, found[FAST], "h100", 300.0).seconds == 60
    slow = cold_start(None, found[SLOW], "a100", 300.0)
    assert slow.seconds == 870
    assert slow.basis.startswith("870 s: 6 starts of its own replicas took 630 s to 900 s, median 750 s, first token")


def test_few_starts_only_lengthen_what_is_known_of_the_tier() -> None:
    found = found_in({"a": life(3600, 480)})
    assert cold_start(None, found[FAST], "h100", 300.0).seconds == 480
    assert cold_start(None, found[FAST], "h100", 900.0).seconds == 900
    assert (
        cold_start(None, None, "h100", 900.0).basis
        == "no start of its replicas was seen, the 900 s of tier h100 are taken"
    )
    assert cold_start(None, None, "x", None).seconds == 300
    assert cold_start(77, found[FAST], "h100", 300.0).basis == "given"


def test_the_days_with_most_starts_are_read() -> None:
    """A rollout of six pods on the second day, one start on the fourth; of a third day nothing is read."""
    lives = {f"a-{i}": life(DAY + 3600 * (i + 1), 240) for i in range(6)} | {"b": life(3 * DAY + 3600, 300)}
    source = Lives(lives)
    found = pool_starts(source, gathered(lives, {}))
    assert sorted((begin - BEGIN) / DAY for begin in source.begins) == [1.0, 3.0]
    assert len(source.begins) == START_DAYS
    assert len(found[FAST].seen) == 7
