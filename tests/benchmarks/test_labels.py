"""When an answer to a labelled recording is right."""

from __future__ import annotations

import json

import pytest

from benchmarks.labels import (
    Label,
    blamed,
    judge_cut,
    judge_late,
    judge_silent,
    judge_whole,
    leaves,
    read_labels,
    unix,
)
from inferdoc import diagnose, open_source
from inferdoc.judging.model import Diagnosis


@pytest.fixture(scope="module")
def hung(store_of) -> Diagnosis:
    return diagnose(open_source(store=store_of("engine-hung")), since="10m", until="latest")


@pytest.fixture(scope="module")
def steady(store_of) -> Diagnosis:
    return diagnose(open_source(store=store_of("control-steady")), since="10m", until="latest")


def fault(answer: Diagnosis, **other) -> Label:
    given = {
        "file": "x.om.gz",
        "control": False,
        "expected": ("engine-hung",),
        "affected_pods": ("vllm-0",),
        "onset": unix(answer.findings[0].onset),
    }
    return Label(**(given | other))


def test_a_fault_needs_cause_pods_and_onset(hung):
    right = fault(hung)
    assert judge_whole(right, hung) == []
    assert judge_whole(fault(hung, expected=("slow-gpu",)), hung) == ["first is engine-hung"]
    assert judge_whole(fault(hung, affected_pods=("other",)), hung) == ["pods ['vllm-0']"]
    assert judge_whole(fault(hung, healthy_pods=("vllm-0",)), hung) == ["blames healthy ['vllm-0']"]
    assert judge_whole(fault(hung, onset=right.onset - 60), hung) == ["onset +60 s"]
    assert judge_whole(fault(hung, onset=right.onset - 60, onset_latest=right.onset - 10), hung) == []
    assert judge_whole(fault(hung, onset=right.onset - 60, onset_tolerance=90), hung) == []
    assert judge_whole(fault(hung, also_expected=("slow-gpu",)), hung) == ["slow-gpu is no root"]


def test_a_debatable_one_is_judged_by_its_first_finding(hung, steady):
    label = fault(hung, affected_pods=("other",), edge="why", edge_accepts=("none", "slow-gpu"))
    assert judge_whole(label, steady) == []
    assert judge_whole(label, hung) == ["first is engine-hung"]


def test_silence_about_a_fault_is_wrong_but_for_one_who_sees_too_little(hung, steady):
    label = fault(hung)
    assert judge_whole(label, steady) == judge_late(label, steady) == ["verdict healthy"]
    assert judge_cut(label, steady) == [] == judge_cut(label, hung)
    assert judge_cut(fault(hung, expected=("slow-gpu",)), hung) == ["first is engine-hung"]
    assert judge_late(fault(hung, expected=("slow-gpu",), edge_accepts=("engine-hung",)), hung) == []


def test_nothing_may_be_found_in_a_control(hung, steady):
    label = Label(file="c.om.gz", control=True, healthy_pods=("vllm-0",))
    for judge in (judge_whole, judge_late, judge_cut, judge_silent):
        assert judge(label, steady) == []
        assert judge(label, hung)
    assert blamed(label, hung) == ["engine-hung"] and blamed(label, steady) == []
    assert judge_silent(fault(hung), hung) == ["first is engine-hung"], "before its onset a fault is a control"
    assert judge_silent(Label(file="c", control=True, edge_accepts=("none", "engine-hung")), hung) == []


def test_a_late_look_needs_some_of_the_fault():
    label = Label(file="x", control=False, onset=100.0, fault_end=150.0)
    assert leaves(label, 300.0, 130.0) and not leaves(label, 300.0, 131.0)
    assert leaves(Label(file="x", control=False, onset=100.0), 300.0, 280.0)


def test_labels_are_read_with_what_is_for_people_left_out(tmp_path):
    given = {"file": "a.om.gz", "control": False, "expected": ["x"], "note": "for people", "edge_accepts": None}
    (tmp_path / "labels.json").write_text(json.dumps({"ids": {}, "recordings": [given]}))
    (label,) = read_labels(tmp_path)
    assert (label.name, label.expected, label.accepted, label.since) == ("a", ("x",), ("x",), "10m")
