"""GPUs that are gone: the rule and the judge see the same loss, and neither takes anything else for one."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest
import yaml

from inferdoc.generate import promtool
from inferdoc.generate.alerts import TESTS
from inferdoc.generate.pack import RECORDING, RULES
from inferdoc.judging.telemetry import add_telemetry
from inferdoc.source.frame import Entity, SignalFrame, SignalMatrix
from inferdoc.source.reads import Grid
from inferdoc_dev.rule_tests.lost_gpu_tests import COURSES, MINUTES, Labels
from tests.generate.conftest import needs_promtool

FILE = TESTS / "lost-gpus_test.yaml"


@needs_promtool
def test_the_rule_counts_what_is_lost_and_nothing_else(pack, unit_tests, tmp_path):
    files = {**pack.files, FILE: unit_tests.files[FILE]}
    for path in (RECORDING, RULES, FILE):
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text(files[path], "utf-8")
    asked = [each for test in yaml.load(files[FILE], yaml.CSafeLoader)["tests"] for each in test["promql_expr_test"]]
    assert asked and all(each["exp_samples"] for each in asked)
    assert promtool.test([tmp_path / FILE]).problems == []


@pytest.mark.parametrize("name", COURSES)
def test_the_judge_sees_the_same(catalogue, name):
    course = COURSES[name]
    grid = Grid(0, 60_000, MINUTES, interval_ms=60_000, rate_ms=120_000, gauge_ms=60_000)

    def matrix(rows: Mapping[Labels, tuple[int, int]]) -> SignalMatrix:
        minutes = np.arange(MINUTES)
        shown = [np.where((minutes >= begin) & (minutes < end), 1.0, np.nan) for begin, end in rows.values()]
        return SignalMatrix([Entity.of_labels(dict(labels)) for labels in rows], np.vstack(shown))

    pods = {(("namespace", "n"), ("pod", pod)): span for pod, span in course.pods.items()}
    frame = SignalFrame(grid, {"gpu_util": matrix(course.gpus), "target_up": matrix(pods)})
    add_telemetry(frame, catalogue.signals, [])
    told = frame["lost_gpus"]
    last = {entity.pod: row[-2] for entity, row in zip(told.entities, told.values, strict=True)}
    assert {pod: lost for pod, lost in last.items() if lost > 0} == dict(course.lost)
