"""What has become worse in the last scrapes is said, with when to ask again, and is no health."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

import numpy as np
import pytest

from inferdoc import diagnose, open_source
from inferdoc.judging.completeness import rising
from tests.conftest import ROOT, store_of_file
from tests.judging.frames import START_MS, STEP_S, WINDOW, N, scene, wobble

FLEETS = ROOT / "fixtures" / "fleets"
ENTRIES: list[dict[str, Any]] = json.loads((FLEETS / "labels.json").read_text("utf-8"))["recordings"]
OUT = 10
"""Steps of a deviation: 20 s."""


def risen(steps: int, now: float = 3.0, gap: int = 0, **others: np.ndarray):
    values = wobble(np.full(N, 0.2))
    if steps:
        values[N - steps :] = now
    if gap:
        values[N - gap :] = np.nan
    context = scene({"ttft_mean": {"p0": values, "p1": np.full(N, 0.2)}, **{k: {"p1": v} for k, v in others.items()}})
    return rising(context, context.view.units)


def test_it_is_said_until_it_can_be_judged():
    assert risen(OUT + WINDOW - 1) is not None


def test_it_says_what_since_when_and_when_to_ask_again():
    one = risen(4)
    assert one is not None and (one.signal, one.entity, one.unit) == ("ttft_mean", "p0", "s")
    assert one.observed == 3.0 and one.baseline == pytest.approx(0.2, rel=0.1)
    began = START_MS / 1000 + STEP_S * (N - 4)
    assert datetime.fromisoformat(one.since).timestamp() == began
    assert datetime.fromisoformat(one.ask_again).timestamp() == began + STEP_S * (OUT + WINDOW)


@pytest.mark.parametrize(
    ("steps", "more"),
    [
        (0, {}),
        (1, {}),
        (OUT + WINDOW, {}),
        (OUT + WINDOW + 1, {}),
        (4, {"now": 0.35}),
        (4, {"now": 0.29}),
        (6, {"gap": 3}),
    ],
    ids=["calm", "a-spike", "just-judged", "judged", "less-than-twice", "what-nobody-notices", "over"],
)
def test_what_is_no_rise(steps: int, more: dict[str, Any]):
    assert risen(steps, **more) is None


def test_the_one_that_rose_most_is_told():
    slower = np.full(N, 1.0)
    slower[N - 4 :] = 60.0
    one = risen(4, e2e_mean=slower)
    assert one is not None and (one.signal, one.entity) == ("e2e_mean", "p1")


@pytest.mark.parametrize("name", ["hot-pod", "slow-replica"])
def test_who_asks_at_once_hears_no_all_clear(name: str) -> None:
    """Real engines: what rises is told before its cause can be, and from then on nothing is healthy."""
    (entry,) = (each for each in ENTRIES if each["file"] == f"{name}.om.gz")
    source = open_source(store=store_of_file(FLEETS / entry["file"]))
    answers = [diagnose(source, from_=entry["window"][0], until=entry["onset"] + after) for after in range(20, 80, 10)]
    told = [place for place, answer in enumerate(answers) if answer.rising is not None]
    named = [place for place, answer in enumerate(answers) if answer.findings]
    assert told and named and max(told) < min(named)
    for answer in answers[told[0] : named[0]]:
        assert answer.verdict == "unknown" and "ask again at" in answer.summary
    assert answers[-1].findings[0].id in entry["expected"]
