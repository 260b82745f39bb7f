"""The public benchmark: labels that follow the fixtures, a scorer that gives what an answer is worth, and its doors."""

from __future__ import annotations

import json
import shutil
import sys
from dataclasses import replace
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PUBLIC = ROOT / "benchmarks" / "public"
sys.path.insert(0, str(PUBLIC))

import rule_answers  # noqa: E402
import score  # noqa: E402
import unpack  # noqa: E402
from cases import LABELS, Case, labels_text, read_cases  # noqa: E402

FAULT = Case(
    "f", "recordings/x.om.gz", 0.0, 600.0, False, ("kv-preemption-thrash", "kv-capacity-bound"), False, ("a", "b"),
    ("c",), 300.0, 330.0,
)  # fmt: skip
CONTROL = Case("c", "incidents/control-x.yaml", 0.0, 600.0, True)
RIGHT = {"cause": "kv-preemption-thrash", "pods": ["a", "b"], "onset": 310.0}


def scored(case: Case, answer, names=None):
    return score.score(case, score.findings_of(answer, names or {}))


def test_labels_are_those_of_the_fixtures():
    assert LABELS.read_text("utf-8") == labels_text(unpack.cases())
    assert labels_text(read_cases()) == LABELS.read_text("utf-8")


def test_files_and_questions_do_not_tell_the_answer():
    cases = read_cases()
    assert len({case.id for case in cases}) == len(cases) > 100
    assert sum(case.control for case in cases) > 25
    for case in cases:
        told = json.dumps(case.question())
        assert not any(cause in told for cause in case.accepts) and "control" not in told
        assert set(case.question()) == {"id", "file", "from", "until"}
        assert case.begin < case.end
        assert case.control or case.accepts or case.silence
        assert case.onset is None or case.begin < case.onset < case.end


def test_every_cause_of_a_label_is_in_the_catalogue():
    known = {path.stem for path in (ROOT / "diagnostics").glob("*.yaml")}
    assert {cause for case in read_cases() for cause in case.accepts} <= known


def test_a_right_answer_is_first_with_its_pods_and_onset():
    one = scored(FAULT, [RIGHT, {"cause": "slow-gpu"}])
    assert (one.first, one.named, one.noticed, one.overlap, one.off, one.blamed) == (True, True, True, 1.0, 0.0, False)


@pytest.mark.parametrize(
    ("answer", "first", "named", "noticed", "overlap", "off"),
    [
        ([{"cause": "slow-gpu"}, {**RIGHT, "pods": ["a"], "onset": 345}], False, True, True, 0.5, 15.0),
        ([{"cause": "slow-gpu", "onset": 400}], False, False, True, None, None),
        ([{"cause": "slow-gpu", "onset": 100}], False, False, False, None, None),
        ([{"cause": "kv-capacity-bound"}], True, True, True, None, None),
        ([{**RIGHT, "onset": "1970-01-01T00:04:50Z"}], True, True, True, 1.0, 10.0),
        ([], False, False, False, None, None),
    ],
)
def test_what_an_answer_is_worth(answer, first, named, noticed, overlap, off):
    one = scored(FAULT, answer)
    assert (one.answered, one.first, one.named, one.noticed) == (True, first, named, noticed)
    assert (one.overlap, one.off) == (overlap, off)


def test_silence_is_right_in_a_control_and_where_the_label_says_so():
    assert scored(CONTROL, []).first
    assert not scored(CONTROL, [{"cause": "slow-gpu"}]).first
    debatable = replace(CONTROL, accepts=("engine-down",))
    assert scored(debatable, [{"cause": "engine-down"}]).first and scored(debatable, []).first
    assert not scored(debatable, [{"cause": "engine-down"}, {"cause": "slow-gpu"}]).first
    assert scored(replace(FAULT, silence=True), []).first
    assert not scored(FAULT, None).answered and not scored(CONTROL, None).first


def test_names_of_another_tool_are_translated_and_healthy_pods_are_not_named():
    names = {"KvFull": ["kv-capacity-bound", "kv-pool-shrunk"]}
    assert scored(FAULT, [{"cause": "KvFull"}], names).first
    assert not scored(FAULT, [{"cause": "KvFull"}]).first
    assert scored(FAULT, [{"cause": "KvFull", "pods": ["c"]}]).blamed


@pytest.mark.parametrize("wrong", [{}, [1], [{"cause": 3}], [{"pods": []}], [{"cause": "x", "onset": "noon"}]])
def test_what_is_no_answer_is_refused(wrong):
    with pytest.raises(ValueError):
        score.findings_of(wrong, {})


def test_rows_count_real_and_simulated_apart():
    rows = score.rows("mine", [scored(FAULT, [RIGHT]), scored(FAULT, None), scored(CONTROL, [])])
    assert [row[:4] for row in rows] == [
        ("mine", "real", "1 of 2", "1 of 2"),
        ("mine", "simulated", "-", "-"),
        ("mine", "all", "1 of 2", "1 of 2"),
    ]
    assert rows[2][4:] == ("1 of 2", "1.00", "0 s", "1 of 1", "0", "1")


@pytest.fixture
def two(tmp_path, monkeypatch) -> list[Case]:
    """A fault and a control with their recordings, as the whole benchmark."""
    wanted = [
        case for case in read_cases() if case.origin in ("recordings/engine-hung.om.gz", "fleets/control-steady.om.gz")
    ]
    for module in (score, unpack, rule_answers):
        monkeypatch.setattr(module, "read_cases", lambda only=None: wanted)
    monkeypatch.chdir(tmp_path)
    return wanted


def run(monkeypatch, *words: str) -> int:
    monkeypatch.setattr(sys, "argv", ["score.py", *words])
    return score.main()


def test_inferdoc_goes_through_the_door_that_everybody_takes(two, monkeypatch, capsys, tmp_path):
    adapter = f"{sys.executable} {PUBLIC / 'inferdoc_answers.py'} {{recording}} {{from}} {{until}}"
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    assert run(monkeypatch, "--run", adapter, "--tool", "inferdoc", "--folder", "cases", "--save", "answers.json") == 0
    first = capsys.readouterr().out
    assert "| inferdoc | all | 1 of 1 | 1 of 1 | 1 of 1 | 1.00 |" in first
    assert "| 1 of 1 | 0 | 0 |" in first.splitlines()[-1]
    assert sorted(path.name for path in Path("cases").iterdir()) == sorted([*(c.file for c in two), "questions.json"])
    assert run(monkeypatch, "answers.json") == 0
    assert capsys.readouterr().out == first


def test_a_tool_that_fails_has_no_answer(two, monkeypatch, capsys):
    assert run(monkeypatch, "--run", "sh -c 'echo broken >&2; exit 3'", "--folder", "cases", "--misses") == 0
    told = capsys.readouterr()
    assert "no JSON, exit 3: broken" in told.err
    assert told.out.splitlines()[3].endswith("| 0 | 2 |")
    assert "recordings/engine-hung.om.gz: engine-hung" in told.out


def test_answers_that_are_none_are_one_line(two, monkeypatch, capsys, tmp_path):
    (tmp_path / "answers.json").write_text(json.dumps({"tool": "x", "answers": {two[0].id: [{"pods": []}]}}))
    assert run(monkeypatch, "answers.json") == 2
    assert capsys.readouterr().err == 'answers.json: a finding without a cause: {"pods": []}\n'


def test_rules_answer_with_what_fires(two, monkeypatch, capsys, tmp_path):
    if shutil.which("promtool") is None:
        pytest.skip("promtool is not on the PATH: apt-get install prometheus")
    rule = {"alert": "Stuck", "expr": "rate(vllm:generation_tokens_total[30s]) == 0 and vllm:num_requests_running > 0"}
    cause = {**rule, "alert": "Named", "labels": {"cause": "engine-hung"}}
    never = {**rule, "alert": "Deadman", "expr": "vector(1)", "labels": {"severity": "none"}}
    (tmp_path / "r.yaml").write_text(
        json.dumps({"groups": [{"name": "g", "interval": "10s", "rules": [rule, cause, never]}]})
    )
    monkeypatch.setattr(sys, "argv", ["rule_answers.py", "r.yaml", "--folder", "cases"])
    assert rule_answers.main() == 0
    document = json.loads(capsys.readouterr().out)
    assert document["tool"] == "r"
    hung, steady = sorted(two, key=lambda case: case.control)
    assert {one["cause"] for one in document["answers"][hung.id]} == {"Stuck", "engine-hung"}
    assert all(one["pods"] == list(hung.pods) for one in document["answers"][hung.id])
    assert document["answers"][steady.id] == []


def test_names_of_public_rules_mean_causes_of_the_catalogue():
    names = json.loads((PUBLIC / "public-rules-names.json").read_text("utf-8"))
    known = {path.stem for path in (ROOT / "diagnostics").glob("*.yaml")}
    assert {cause for causes in names.values() for cause in causes} <= known


def test_the_page_counts_the_cases_as_they_are():
    text, cases = (PUBLIC / "README.md").read_text("utf-8"), read_cases()
    simulated = sum(case.origin.startswith("incidents/") for case in cases)
    controls = sum(case.control for case in cases)
    assert f"{len(cases)} recordings of vLLM fleets" in text
    assert f"{len(cases) - simulated} were\ntaken from real" in text and f"{simulated} are played" in text
    assert f"; {controls} of all" in text
