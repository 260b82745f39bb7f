"""What stood there at the same hour of an earlier day is the rhythm of the traffic: a change, not a finding."""

from __future__ import annotations

import gzip
from collections.abc import Sequence
from pathlib import Path

import pytest

from inferdoc import diagnose, open_source
from inferdoc.catalogue.load import Catalogue
from inferdoc.judging.api import Options
from inferdoc.judging.judge import judge
from inferdoc.judging.references.rhythm import _on_change_alone
from inferdoc.store import Store, import_file
from tests.judging.frames import catalogue, recipe, scene, step, when, wobble

RECORDINGS = Path(__file__).parents[2] / "fixtures" / "recordings"
DAY, WEEK = 86_400, 7 * 86_400
UNKNOWN = "spec-acceptance-decay"
NAMED = (UNKNOWN, "prompt-growth")
"""A cause whose recipes are taken out (its prompts grew as well), so that only a change without a name is left."""


def earlier(recording: Path, seconds: int) -> str:
    """The text of a recording as if it had happened so much earlier."""

    def moved(line: str) -> str:
        head, _, stamp = line.rpartition(" ")
        return f"{head} {float(stamp) - seconds:.3f}" if line and not line.startswith("#") else line

    return "\n".join(moved(line) for line in gzip.decompress(recording.read_bytes()).decode().split("\n"))


@pytest.fixture
def judged(tmp_path):
    """A recording with the same day some time earlier -> its diagnosis, without the recipes named."""

    def of(name: str, seconds: int, without: Sequence[str] = ()):
        recording = RECORDINGS / f"{name}.om.gz"
        (tmp_path / "earlier.om").write_text(earlier(recording, seconds))
        with Store.open(tmp_path / "s.db", "w") as store:
            import_file(store, str(tmp_path / "earlier.om"))
            import_file(store, str(recording))
        less = Catalogue()
        less.__dict__["recipes"] = {key: one for key, one in catalogue().recipes.items() if key not in without}
        source = open_source(store=tmp_path / "s.db")
        return diagnose(source, since="10m", until="latest", options=Options(catalogue=less))

    return of


@pytest.mark.parametrize(("back", "kind"), [(DAY, "same-hour-yesterday"), (WEEK, "last-week")])
def test_the_same_change_at_the_same_hour_is_rhythm(judged, back, kind):
    answer = judged(UNKNOWN, back, without=NAMED)
    assert (answer.verdict, answer.findings) == ("healthy", [])
    assert answer.window.baseline.kind == kind
    (told,) = [change for change in answer.changes if change.kind == "rhythm"]
    assert "no incident" in told.detail and told.entity == "vllm-0"


def test_so_is_a_change_that_has_a_name(judged):
    """What is told is what it rests on: the conditions that hold on their own, and those parts of others that hold."""
    answer = judged(UNKNOWN, DAY, without=(UNKNOWN,))
    assert (answer.verdict, answer.findings) == ("healthy", [])
    (told,) = [change for change in answer.changes if change.kind == "rhythm"]
    assert told.detail.startswith("Prompts became longer: no incident")
    for signal in (
        "Prompt tokens per first token rose",
        "Time to first token, mean rose",
        "Inter-token latency, p99 rose",
    ):
        assert signal in told.detail


@pytest.mark.parametrize(
    "back", [DAY - 600, DAY + 1800, 2 * DAY], ids=["calm then", "not scraped then", "two days ago"]
)
def test_otherwise_it_stays_a_finding(judged, back):
    answer = judged(UNKNOWN, back, without=NAMED)
    assert [f.id for f in answer.findings] == ["speculation"], "the mechanism that shows"
    assert answer.window.baseline.kind == "calm-before"
    assert not [change for change in answer.changes if change.kind == "rhythm"]


@pytest.mark.parametrize("name", ["demand-beyond-capacity", "kv-preemption-thrash", "prefix-unstable-prompt"])
def test_what_is_critical_or_has_a_mechanism_of_its_own_hurts_every_day(judged, name):
    answer = judged(name, DAY)
    assert [f.id for f in answer.findings][:1] == [name]
    assert answer.window.baseline.kind == "calm-before"


RISES, SLOWER = when("load", rises=1.5), when("latency", rises=1.5)


@pytest.mark.parametrize(
    ("symptoms", "harm", "kind", "alone"),
    [
        ([RISES], [SLOWER], "load", True),
        ([RISES], [SLOWER], "unexplained", True),
        ([RISES], [SLOWER], "local", False),
        ([RISES, when("queue", above=5)], [SLOWER], "load", False),
        ([RISES], [when("latency", above=1.0)], "load", False),
    ],
)
def test_only_what_rests_on_change_alone_is_held_against_earlier_days(symptoms, harm, kind, alone):
    rows = {"load": step(10, 30), "queue": step(1, 9), "latency": step(0.5, 2.0)}
    context = scene({name: {"p0": wobble(values)} for name, values in rows.items()})
    made = recipe(symptoms=symptoms, harm=harm, kind=kind)
    (root,) = judge(context, {made.id: made}).roots
    assert _on_change_alone(root, context) == alone
