"""The golden answers: complete, equal to what inferdoc answers now, and compared in words that a person can review."""

from __future__ import annotations

import copy
import lzma
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from inferdoc.catalogue.load import Catalogue, load_catalogue
from inferdoc.store import Store, import_file
from tests.cli.command import call
from tools.golden import commands
from tools.golden.cases import COLUMNS, FIXTURES, answers_of, case_names, find_case, rounded
from tools.golden.changes import answers_in, changes_between, report, text_diff
from tools.golden.files import GOLDEN, GoldenFolder, pack, stored_at, stored_now, unpack

STORED = GoldenFolder()
QUICK = (
    "demos/decode-batch-saturation",
    "fleets/answers-grow",
    "fleets/prompts-grow",
    "heldout/ho-control-sparse",
    "recordings/control-unique",
    "recordings/engine-down",
)
"""Cases of every folder, with and without a fault, that take about a second each."""
CASE = "recordings/engine-down"
THRASH = "recordings/kv-preemption-thrash"
ENDED_EARLY = "heldout/ho-demand-burst-recovered"
"""Its fault ends before a late window could start."""


def stored(name: str) -> dict[str, Any]:
    found = STORED.read(name)
    assert found is not None, f"{name} has no golden answers; run `make golden ONLY={name}`"
    return found


def words(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """The lines of the report on one case, without its summary."""
    found = changes_between({before["case"]: before}, {after["case"]: after})
    _, *lines = report(found, len(answers_in(after)), 1).splitlines()
    return [line.strip() for line in lines[lines.index("") :]]


def assert_answers_are_stored(name: str) -> None:
    """Compute a case and compare it with its file; a failure prints the report of `make golden-diff`."""
    before, after = stored(name), answers_of(find_case(name))
    found = changes_between({name: before}, {name: after})
    assert not found, report(found, len(answers_in(after)), 1)
    assert before == after


# ---- the stored answers ---------------------------------------------------------------------------------------------


def test_every_fixture_has_golden_answers_and_no_file_is_obsolete() -> None:
    assert STORED.names() == case_names()
    recordings = [
        path for folder in ("recordings", "heldout", "fleets") for path in (FIXTURES / folder).glob("*.om.gz")
    ]
    assert len(case_names()) == len(recordings) + len(list((FIXTURES / "incidents").glob("*.yaml")))


def test_every_fault_is_answered_in_both_windows_and_a_control_in_one() -> None:
    controls = {name for name in case_names() if name.partition("/")[2].removeprefix("ho-").startswith("control-")}
    for name, document in stored_now(STORED).items():
        once = name in controls or name == ENDED_EARLY
        assert document["case"] == name and [*document["windows"]] == (["whole"] if once else ["whole", "late"])
        for title, answer in answers_in(document).items():
            assert answer["text"] and answer["json"], (name, title)


def test_the_golden_answers_are_small() -> None:
    sizes = [path.stat().st_size for path in STORED.path.rglob("*") if path.is_file()]
    assert sum(sizes) < 3_000_000 and max(sizes) < 60_000


@pytest.mark.parametrize("name", QUICK)
def test_quick_cases_have_the_stored_answers(name: str) -> None:
    assert_answers_are_stored(name)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in case_names() if name not in QUICK])
def test_all_cases_have_the_stored_answers(name: str) -> None:
    assert_answers_are_stored(name)


def test_the_stored_text_is_what_the_command_line_prints(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", str(COLUMNS))
    file = "engine-down.om.gz"
    with Store.open(tmp_path / file, "w") as store:
        import_file(store, FIXTURES / "recordings" / file)
    document = stored(CASE)
    for window, begin in (("whole", ("--since", "10m")), ("late", ("--from", "1795255328"))):
        for name in ("diagnose", "audit"):
            done = call(name, "--store", file, *begin, "--until", "latest")
            answer = document["windows"][window][name]
            assert done.out.splitlines() == answer["text"] and done.code == answer["exit"]
    health = call("signals", "--health", "--store", file)
    assert health.out.splitlines() == document["signals"]["text"] and health.code == document["signals"]["exit"]


# ---- what a reviewer reads ------------------------------------------------------------------------------------------


@pytest.fixture
def edited() -> Iterator[dict[str, Any]]:
    """The answers to a recording, to be changed by a test."""
    yield copy.deepcopy(stored(THRASH))


def test_equal_answers_are_no_change(edited: dict[str, Any]) -> None:
    assert changes_between({THRASH: stored(THRASH)}, {THRASH: edited}) == []
    assert report([], 5, 1) == "5 answers of 1 case: none changed\n"


def test_a_changed_finding_is_told_by_certainty_pods_and_onset(edited: dict[str, Any]) -> None:
    answer = edited["windows"]["whole"]["diagnose"]["json"]
    answer["verdict"] = "degraded"
    first = answer["findings"][0]
    first["certainty"], first["probability"], first["onset"] = "likely", 0.7, "2026-11-21T09:19:27.393Z"
    first["scope"]["pods"].append("vllm-1")
    lines = words(stored(THRASH), edited)
    assert lines[:3] == ["", THRASH, "diagnose, whole window"]
    assert "verdict         critical -> degraded" in lines
    assert "certainty       proven -> likely" in lines
    assert "pods            added vllm-1" in lines
    assert "onset           09:19:13 -> 09:19:27  (14 s later)" in lines


def test_another_first_finding_is_compared_with_the_label(edited: dict[str, Any]) -> None:
    answer = edited["windows"]["late"]["diagnose"]["json"]
    answer["findings"][0]["id"] = "slow-gpu"
    lines = words(stored(THRASH), edited)
    assert "first finding   kv-preemption-thrash -> slow-gpu  (no longer as labelled: kv-preemption-thrash)" in lines, (
        lines
    )
    assert any(line.startswith("finding removed kv-preemption-thrash, proven, vllm-0 of 1 pod,") for line in lines)
    assert any(line.startswith("finding added   slow-gpu, proven, vllm-0 of 1 pod,") for line in lines)
    assert "first finding   slow-gpu -> kv-preemption-thrash  (now as labelled)" in words(edited, stored(THRASH))


def test_persistent_issues_are_named_with_their_cost() -> None:
    name = next(
        name for name, each in stored_now(STORED).items() if each["windows"]["whole"]["audit"]["json"]["states"]
    )
    before = stored(name)
    after = copy.deepcopy(before)
    state = after["windows"]["whole"]["audit"]["json"]["states"].pop(0)
    assert any(line.startswith(f"issue removed   {state['id']} on ") for line in words(before, after))
    assert any(line.startswith(f"issue added     {state['id']} on ") for line in words(after, before))


def test_rows_of_the_health_table_are_named_with_their_pods(edited: dict[str, Any]) -> None:
    row = next(row for row in edited["signals"]["json"] if row["signal"] == "kv_usage" and row["pod"])
    assert row["state"] == "bad"
    row["state"] = "good"
    assert "row             KV cache use, kv_usage: bad -> good  (vllm-0 unknown)" in words(stored(THRASH), edited)


def test_only_wording_is_a_text_change_and_printed_once(edited: dict[str, Any]) -> None:
    for window in ("whole", "late"):
        text = edited["windows"][window]["diagnose"]["text"]
        place = next(number for number, line in enumerate(text) if "runbook" in line)
        text[place] = "   runbook  elsewhere"
    found = changes_between({THRASH: stored(THRASH)}, {THRASH: edited})
    printed = report(found, 5, 1)
    assert printed.splitlines()[0] == "5 answers of 1 case: 2 changed, in 1 case"
    assert printed.splitlines()[1].split() == ["text", "2", THRASH]
    assert printed.count("+    runbook  elsewhere") == 1
    assert f"the same text change as in {THRASH}, diagnose, whole window" in printed


def test_a_number_that_no_text_shows_is_named_by_its_field(edited: dict[str, Any]) -> None:
    edited["windows"]["whole"]["diagnose"]["json"]["findings"][0]["score"] = 0.125
    lines = words(stored(THRASH), edited)
    assert any(line.startswith("only in JSON    findings[0].score: ") and line.endswith("-> 0.125") for line in lines)


def test_long_text_changes_are_cut_unless_all_of_it_is_requested(edited: dict[str, Any]) -> None:
    edited["signals"]["text"] = ["nothing"]
    found = changes_between({THRASH: stored(THRASH)}, {THRASH: edited})
    assert "more lines, with --full" in report(found, 5, 1)
    assert "more lines" not in report(found, 5, 1, full=True)


def test_text_is_compared_with_a_line_of_context() -> None:
    assert text_diff(["a", "b", "c", "d"], ["a", "b", "x", "d"]) == ("@@ line 2", "  b", "- c", "+ x", "  d")
    assert text_diff(["a"], ["a"]) == ()


def test_serious_changes_come_first(edited: dict[str, Any]) -> None:
    edited["windows"]["whole"]["diagnose"]["json"]["verdict"] = "healthy"
    wording = copy.deepcopy(stored(CASE))
    wording["signals"]["text"].append("one more line")
    before = {CASE: stored(CASE), THRASH: stored(THRASH), "fleets/gone": stored(CASE)}
    found = changes_between(before, {CASE: wording, THRASH: edited})
    assert [change.case for change in found] == ["fleets/gone", THRASH, CASE]


def test_a_changed_threshold_is_reported_as_another_cause(tmp_path: Path) -> None:
    before, after = stored(THRASH), answers_of(find_case(THRASH), with_threshold(tmp_path, "kv_usage_high", 0.999))
    lines = words(before, after)
    assert "verdict         critical -> degraded" in lines
    assert any(line.startswith("first finding   kv-preemption-thrash -> ") for line in lines)
    assert any(line.startswith("-    kv-preemption-thrash  critical, proven") for line in lines)


def with_threshold(folder: Path, name: str, value: float) -> Catalogue:
    """The catalogue with another value of a threshold."""
    (folder / "collectors").mkdir()
    document = {"thresholds": {name: {"value": value, "source": "this test"}}}
    (folder / "collectors" / "tiers.yaml").write_text(yaml.safe_dump(document), "utf-8")
    return load_catalogue([folder])


# ---- files and commands ---------------------------------------------------------------------------------------------


def test_a_document_comes_back_from_its_file() -> None:
    document = stored(CASE)
    assert unpack(pack(document)) == document
    assert pack(document) == pack(copy.deepcopy(document))


def test_an_unchanged_document_leaves_its_file_as_it_is(tmp_path: Path) -> None:
    folder, document = GoldenFolder(tmp_path), stored(CASE)
    assert folder.write(document)
    file = tmp_path / f"{CASE}.json.xz"
    other = lzma.compress(lzma.decompress(pack(document)), preset=0)  # as another release of liblzma may write it
    assert other != file.read_bytes()
    file.write_bytes(other)
    assert not folder.write(document) and file.read_bytes() == other
    document["expected"] = ["other"]
    assert folder.write(document) and folder.read(CASE) == document


def test_writing_removes_the_answers_of_cases_that_are_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = GoldenFolder(tmp_path)
    folder.write({**stored(CASE), "case": "recordings/gone"})
    monkeypatch.setattr(commands, "case_names", lambda: list(QUICK))
    monkeypatch.setattr(commands, "compute", lambda names, _: {name: stored(name) for name in names})
    assert commands.write(folder, ["heldout"], 1).endswith("0 removed") and "recordings/gone" in folder.names()
    assert commands.write(folder, [], 1).endswith("0 changed, 1 removed")
    assert folder.names() == [*QUICK]
    assert commands.write(folder, [], 1) == f"{len(QUICK)} cases: 0 new, 0 changed, 0 removed"
    assert commands.compare(folder, [], 1, None, False)[1] == 0


def test_two_revisions_are_compared_without_computing(tmp_path: Path) -> None:
    def git(*arguments: str) -> None:
        identity = ("-c", "user.name=test", "-c", "user.email=test@localhost", "-c", "commit.gpgsign=false")
        subprocess.run(["git", "-C", str(tmp_path), *identity, *arguments], check=True, capture_output=True)

    git("init", "--quiet")
    folder = GoldenFolder(tmp_path / GOLDEN)
    folder.write(stored(CASE))
    git("add", ".")
    git("commit", "--quiet", "--message", "one")
    folder.write({**stored(CASE), "expected": ["other"]})
    git("commit", "--quiet", "--all", "--message", "two")
    before, after = stored_at("HEAD~1", tmp_path), stored_at("HEAD", tmp_path)
    assert [*before] == [CASE] and before[CASE] == stored(CASE)
    assert "expected        engine-down -> other" in words(before[CASE], after[CASE])
    with pytest.raises(ValueError, match="no-such-revision: no golden answers"):
        stored_at("no-such-revision", tmp_path)


def test_patterns_choose_cases_by_a_part_of_the_name_or_as_globs() -> None:
    names = ["demos/slow-gpu", "fleets/hot-pod", "fleets/slow-replica"]
    assert commands.chosen(names, []) == names
    assert commands.chosen(names, ["slow"]) == [names[0], names[2]]
    assert commands.chosen(names, ["fleets/*", "gpu"]) == names
    with pytest.raises(SystemExit) as refused:
        commands.main(["diff", "--only", "no-such-case"])
    assert refused.value.code == 2


def test_numbers_are_rounded_to_six_digits_and_options_are_exact() -> None:
    assert rounded({"a": [0.1 + 0.2, 1234567.8, 3, True, None, "1.23456789"]}) == {
        "a": [0.3, 1234570.0, 3, True, None, "1.23456789"]
    }
    assert rounded({"options": {"begin": 1795489859.3}}) == {"options": {"begin": 1795489859.3}}
