"""A cause that comes again: every episode is named, and the severity is one higher."""

from __future__ import annotations

import numpy as np
import pytest

from inferdoc import diagnose, open_source
from inferdoc.judging.fold import Cause
from inferdoc.judging.judge import judge
from inferdoc.judging.judged import Judged
from inferdoc.judging.model import Occurrence
from inferdoc.judging.references.lifetime import Lifetime
from inferdoc.judging.verdict import Verdict
from inferdoc.report.brief import brief, clock
from tests.judging.frames import CALM, N, catalogue, recipe, scene, step, when
from tests.judging.made import Engine, recorded, stored, then

BUSY, SLOW = when("load", above=5.0), when("latency", above=0.5)
STALLED = when("speed", stalls="queue")


def above(before: float, after: float, *begins: int) -> np.ndarray:
    """Another level for twelve steps from each of these on."""
    steps = np.arange(N)
    inside = [(steps >= begin) & (steps < begin + 12) for begin in begins]
    return np.where(np.any(inside, axis=0), after, before)


@pytest.mark.parametrize(
    ("begins", "severity", "others"),
    [((CALM,), "warning", []), ((CALM, 60), "warning", []), ((CALM, 78), "critical", [78])],
)
def test_a_second_episode_after_a_healthy_time_raises_the_severity(begins, severity: str, others: list[int]):
    rows = {"load": {"p0": above(1.0, 9.0, *begins)}, "latency": {"p0": above(0.1, 0.9, *begins)}}
    known = recipe("one", [BUSY], [SLOW])
    (root,) = judge(scene(rows), {known.id: known}).roots
    assert (root.severity, [match.onset for match in root.again]) == (severity, others)


def test_an_earlier_stop_is_an_episode_of_the_newest():
    stops = np.where((np.arange(200) >= 40) & (np.arange(200) < 110) | (np.arange(200) >= 150), 0.0, 9.0)
    known = recipe("hung", [STALLED], [STALLED])
    rows = {"speed": {"p0": stops}, "queue": {"p0": np.ones(200)}}
    (root,) = judge(scene(rows), {known.id: known}).roots
    (earlier,) = root.again
    assert earlier.last == 109 < root.onset <= 150


def test_the_first_screen_names_every_episode(tmp_path):
    made = recorded(Engine("a", hit=then(0.74, 0.45), ttft=then(0.15, 0.5), prefill=then(0.1, 0.45)))
    answer = diagnose(open_source(store=stored(made.text(), tmp_path)), since="6m")
    (found,) = answer.findings
    (only,) = found.episodes
    assert only.from_ == found.onset and ", again " not in "\n".join(brief(answer))
    found.episodes = [*found.episodes, Occurrence("2026-09-21T15:30:00.000Z", answer.window.until)]
    (since,) = [line for line in brief(answer) if line.startswith("since")]
    assert since.endswith(f", again {clock(found.episodes[1].from_)[11:19]}; ongoing at the newest sample")


@pytest.mark.parametrize("excluded", [True, False])
def test_the_life_of_a_process_names_no_cause_that_the_history_excludes(excluded: bool):
    """On one of its pods; the other shows nothing of it."""
    pods = ("p0", "p1")
    rows = {"load": dict.fromkeys(pods, step(1.0, 9.0)), "latency": dict.fromkeys(pods, step(0.1, 0.9))}
    known, odd = recipe("one", [BUSY], [SLOW]), catalogue().recipes["unexplained-anomaly"]
    named = judge(scene(rows), {known.id: known})
    (root,) = named.roots
    history = judge(scene(rows), {})
    history.roots = [Cause(odd, root.pool, root.matches)]
    first, second = (match.unit for match in root.matches)
    history.verdicts = {known.id: {first: Verdict(known, first, excluded=excluded), second: Verdict(known, second)}}
    by_history, by_life = (Judged(None, one, None, None) for one in (history, named))  # type: ignore[arg-type]
    assert by_life.explains_more(by_history, Lifetime()) != excluded
