"""GPUs that are gone: the rule and the judge see the same loss, and neither takes anything else for one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import pytest
import yaml

from inferdoc.generate import promtool
from inferdoc.generate.pack import RECORDING, RULES
from inferdoc.judging.telemetry import add_telemetry
from inferdoc.source.frame import Entity, SignalFrame, SignalMatrix
from inferdoc.source.reads import Grid
from tests.generate.conftest import needs_promtool

MINUTES, FAULT = 40, 20
"""A sample a minute; the fault begins at FAULT."""
ALL, GONE, CAME = (0, MINUTES), (0, FAULT), (FAULT, MINUTES)
"""From which minute on a series is there, and until when."""
Labels = tuple[tuple[str, str], ...]


def gpu(number: str, pod: str | None = "p0", node: str = "a", **other: str) -> Labels:
    owner = {} if pod is None else {"namespace": "n", "pod": pod}
    where = {"job": "dcgm", "instance": f"{node}:9400", "Hostname": node}
    return tuple({"gpu": number, "UUID": f"GPU-{node}-{number}", **where, **owner, **other}.items())


@dataclass(frozen=True)
class Course:
    """gpus: what exporters show, and when; pods: when engines are scraped; lost: GPUs by pod at the end; name: of the
    series of a GPU."""

    gpus: Mapping[Labels, tuple[int, int]]
    pods: Mapping[str, tuple[int, int]] = field(default_factory=lambda: {"p0": ALL})
    lost: Mapping[str, int] = field(default_factory=dict)
    name: str = "DCGM_FI_DEV_GPU_UTIL"


COURSES = {
    "one-of-two": Course({gpu("0"): GONE, gpu("1"): ALL}, lost={"p0": 1}),
    "two-of-three": Course({gpu("0"): GONE, gpu("1"): GONE, gpu("2"): ALL}, lost={"p0": 2}),
    "the-only-one-beside-those-of-others": Course({gpu("0"): GONE, gpu("1", "other"): ALL}, lost={"p0": 1}),
    "the-only-one-beside-idle-ones": Course({gpu("0"): GONE, gpu("1", None): ALL}, lost={"p0": 1}),
    "of-an-exporter-of-amd": Course({gpu("0"): GONE, gpu("1"): ALL}, lost={"p0": 1}, name="gpu_gfx_activity"),
    "after-another-pod-had-it": Course(
        {gpu("0", "old"): (0, 8), gpu("0"): (8, FAULT), gpu("1"): ALL},
        pods={"old": (0, 8), "p0": (8, MINUTES)},
        lost={"p0": 1},
    ),
    "none": Course({gpu("0"): ALL, gpu("1"): ALL}),
    "the-exporter": Course({gpu("0"): GONE, gpu("1"): GONE, gpu("0", "other", "b"): ALL}),
    "the-exporter-at-another-address": Course(
        {
            **{gpu(number): GONE for number in "01"},
            **{gpu(number, instance="c:9400"): CAME for number in "01"},
        }
    ),
    "the-pod": Course({gpu("0"): GONE, gpu("1", "other"): ALL}, pods={"p0": GONE}),
    "the-pod-which-leaves-it-idle": Course({gpu("0"): GONE, gpu("0", None): CAME, gpu("1"): ALL}),
    "the-pod-for-another": Course({gpu("0"): GONE, gpu("0", "other"): CAME, gpu("1"): ALL}),
    "the-pod-to-another-node": Course({gpu("0"): GONE, gpu("1", "other"): ALL, gpu("0", "p0", "b"): CAME}),
    "the-pod-to-another-gpu": Course({gpu("0"): GONE, gpu("2"): CAME, gpu("1", "other"): ALL}),
}


def values(span: tuple[int, int]) -> str:
    begin, end = span
    before = f"_x{begin} " if begin else ""
    return f"{before}1x{end - begin - 1}" + (" stale" if end < MINUTES else "")


def series(name: str, course: Course) -> list[dict[str, str]]:
    """What is scraped of a course, in a cluster of its own."""

    def line(metric: str, labels: Mapping[str, str], span: tuple[int, int]) -> dict[str, str]:
        inside = ", ".join(f'{key}="{value}"' for key, value in {"cluster": name, **labels}.items())
        return {"series": f"{metric}{{{inside}}}", "values": values(span)}

    amd = course.name.startswith("gpu_")
    found = []
    for labels, span in course.gpus.items():
        told = dict(labels)
        if amd:
            told["gpu_id"] = told.pop("gpu")
        found.append(line(course.name, told, span))
    for pod, span in course.pods.items():
        scraped = {"namespace": "n", "pod": pod, "job": "vllm", "instance": f"{pod}:8000"}
        found += [line("up", scraped, span), line("vllm:num_requests_running", {**scraped, "model_name": "m"}, span)]
    return found


@needs_promtool
def test_the_rule_counts_what_is_lost_and_nothing_else(pack, tmp_path):
    files = [tmp_path / name for name in (RECORDING, RULES)]
    for path in files:
        path.write_text(pack.files[path.relative_to(tmp_path)], "utf-8")
    asked = {
        "expr": "sum by (cluster, pod) (target:inferdoc_gpu_lost:holds)",
        "eval_time": f"{MINUTES - 2}m",
        "exp_samples": [
            {"labels": f'{{cluster="{name}", pod="{pod}"}}', "value": lost}
            for name, course in COURSES.items()
            for pod, lost in course.lost.items()
        ],
    }
    lines = [line for name, course in COURSES.items() for line in series(name, course)]
    groups = [group["name"] for path in files for group in yaml.safe_load(path.read_text("utf-8"))["groups"]]
    test = {
        "rule_files": [path.name for path in files],
        "evaluation_interval": "1m",
        "group_eval_order": groups,
        "tests": [{"interval": "1m", "input_series": lines, "promql_expr_test": [asked]}],
    }
    path = tmp_path / "lost_test.yaml"
    path.write_text(yaml.safe_dump(test), "utf-8")
    assert promtool.test([path]).problems == []


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
