"""Flags in advice: they exist, they are marked where the engines are too old for them, and traps are not advised."""

from __future__ import annotations

import re

import pytest

from inferdoc.catalogue.recipe import Step
from inferdoc.catalogue.tables import Flag, Flags, version
from inferdoc.cli.main import cli
from tests.cli.command import call
from tests.judging.frames import catalogue
from tests.runbooks.test_pages import NEGATION, NEVER_NAMED, ONLY_FORBIDDEN
from tests.vllm_flags import serve_flags

TABLE = catalogue().flags
STEPS = [(recipe.id, step) for recipe in catalogue().recipes.values() for step in recipe.next_steps]
NAMES = [f"{cause}-{number}" for number, (cause, _) in enumerate(STEPS)]
OTHER_TOOLS = re.compile(r"\b(kubectl|inferdoc|curl|nvidia-smi|dcgmi|py-spy|numactl|ethtool)\b[^,;.]*")
"""From a tool's name to the end of the clause: the flags there are that tool's."""

OWN = {word for parameter in cli.params for word in parameter.opts} - serve_flags()
"""inferdoc's own flags that a step may name."""


def named(step: Step) -> set[str]:
    """The engine's flags in the words of a step."""
    words = " ; ".join((step.do, step.why, step.cost, step.undo))
    return set(re.findall(r"(?<![\w-])--[a-z][a-z0-9-]+", OTHER_TOOLS.sub("", words))) - OWN


@pytest.mark.parametrize(("cause", "step"), STEPS, ids=NAMES)
def test_every_flag_of_a_step_is_in_the_table_and_in_vllm(cause: str, step: Step) -> None:
    flags = named(step) | set(step.flags)
    assert flags <= TABLE.flags.keys(), f"collectors/vllm-flags.yaml lacks {sorted(flags - TABLE.flags.keys())}"
    assert flags <= serve_flags()
    assert not [flag for flag in flags if TABLE.flags[flag].until], "a flag that is gone"


@pytest.mark.parametrize(("cause", "step"), STEPS, ids=NAMES)
def test_flags_to_set_are_declared_so_that_they_can_be_marked(cause: str, step: Step) -> None:
    to_set = set(re.findall(r"(?<![\w-])--[a-z][a-z0-9-]+", OTHER_TOOLS.sub("", step.do)))
    recent = {flag for flag in to_set if flag in TABLE.flags and TABLE.flags[flag].since}
    assert recent <= set(step.flags), f"{cause}: name {sorted(recent - set(step.flags))} in `flags:` of the step"


@pytest.mark.parametrize(("cause", "step"), STEPS, ids=NAMES)
def test_no_step_advises_what_does_not_exist_or_does_harm(cause: str, step: Step) -> None:
    for words in (step.do, step.why, step.cost, step.undo, step.command or ""):
        assert not [pattern for pattern in NEVER_NAMED if re.search(pattern, words, re.IGNORECASE)]
    for pattern in ONLY_FORBIDDEN:
        if re.search(pattern, step.do, re.IGNORECASE):
            assert NEGATION.search(step.do), f"{cause} advises {pattern}: {step.do}"


def test_the_table_agrees_with_vllm() -> None:
    present = serve_flags()
    assert not TABLE.problems()
    for name, flag in TABLE.flags.items():
        assert (name in present) == (flag.until is None), name
    assert any(flag.until for flag in TABLE.flags.values()) and any(flag.since for flag in TABLE.flags.values())


def test_landmarks_came_when_the_exporter_says_so() -> None:
    metrics = catalogue().exporters["vllm"].metrics
    for family, release in TABLE.landmarks.items():
        declared = metrics.get(family) or metrics[f"{family}_total"]
        assert version(str(declared.since))[:2] == version(release)[:2], family


@pytest.mark.parametrize(
    ("names", "release"),
    [
        ({"up", "DCGM_FI_DEV_GPU_UTIL"}, None),
        ({"vllm:new_count", "vllm:newer_total"}, None),
        ({"vllm:new_count", "vllm:new_bucket"}, "0.20"),
        ({"vllm:num_requests_running"}, "0.9.2"),
    ],
)
def test_engines_are_older_than_the_first_landmark_that_is_missing(names: set[str], release: str | None) -> None:
    table = Flags(landmarks={"vllm:newer": "0.20", "vllm:new": "0.9.2"})
    assert table.older_than(names) == release


def test_releases_are_compared_as_numbers() -> None:
    table = Flags(
        flags={"--a": Flag(since="0.9"), "--b": Flag(since="0.20"), "--c": Flag(since="0.11.1"), "--d": Flag()}
    )
    assert set(table.too_new(["--a", "--b", "--c", "--d", "--unknown"], "0.11.1")) == {"--b", "--c"}


def test_mistakes_in_the_table_are_told() -> None:
    found = Flags(flags={"--a": Flag(until="0.9"), "--b": Flag(since="new")}, landmarks={"vllm:x": ""}).problems()
    assert len(found) == 3 and "--a" in found[0] and '"new"' in found[1] and "vllm:x" in found[2]


@pytest.mark.parametrize(("release", "marked"), [("0.15", True), ("0.32", False)])
def test_a_flag_is_marked_where_the_pages_are_of_an_older_release(tmp_path, release: str, marked: bool) -> None:
    path = tmp_path / "fleet.db"
    simulated = ("simulate", "--scenario", "demand-beyond-capacity", "--vllm", release, "--store", path)
    assert call(*simulated).code == 0
    said = call("diagnose", "--store", path, "--since", "1h", "--until", "latest", "-v").out
    assert "--max-num-queued-reqs" in said
    words = " ".join(said.split())
    assert (
        "--max-num-queued-reqs needs vLLM 0.29 or later; these pages are of a release before 0.16" in words
    ) == marked
    assert "--max-num-seqs needs" not in said
