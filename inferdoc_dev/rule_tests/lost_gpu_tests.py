"""promtool unit tests of GPUs that are gone: courses of what exporters and engines show. Telemetry has no readings from
which cases could be solved for; the judge is compared on the same courses."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from inferdoc.escaping import label_pairs

MINUTES, FAULT = 40, 20
"""A sample a minute; the fault begins at FAULT."""
ALL, GONE, CAME = (0, MINUTES), (0, FAULT), (FAULT, MINUTES)
"""From which minute on a series is there, and until when."""
AT = MINUTES - 2
SIGNAL = "lost_gpus"
Labels = tuple[tuple[str, str], ...]


def gpu(number: str, pod: str | None = "p0", node: str = "a", **other: str) -> Labels:
    """The labels of a GPU of a pod, or of none."""
    owner = {} if pod is None else {"namespace": "n", "pod": pod}
    where = {"job": "dcgm", "instance": f"{node}:9400", "Hostname": node}
    return tuple({"gpu": number, "UUID": f"GPU-{node}-{number}", **where, **owner, **other}.items())


@dataclass(frozen=True)
class LostCourse:
    """gpus: what exporters show, and when; pods: when engines are scraped; lost: GPUs by pod at the end; name: of the
    series of a GPU; sign: how a pod shows that it is scraped, by both of its series or by one of them."""

    gpus: Mapping[Labels, tuple[int, int]]
    pods: Mapping[str, tuple[int, int]] = field(default_factory=lambda: {"p0": ALL})
    lost: Mapping[str, int] = field(default_factory=dict)
    name: str = "DCGM_FI_DEV_GPU_UTIL"
    sign: tuple[str, ...] = ("up", "vllm:num_requests_running")


COURSES = {
    "one-of-two": LostCourse({gpu("0"): GONE, gpu("1"): ALL}, lost={"p0": 1}),
    "one-of-two-without-up": LostCourse(
        {gpu("0"): GONE, gpu("1"): ALL}, lost={"p0": 1}, sign=("vllm:num_requests_running",)
    ),
    "two-of-three": LostCourse({gpu("0"): GONE, gpu("1"): GONE, gpu("2"): ALL}, lost={"p0": 2}),
    "the-only-one-beside-those-of-others": LostCourse({gpu("0"): GONE, gpu("1", "other"): ALL}, lost={"p0": 1}),
    "the-only-one-beside-idle-ones": LostCourse({gpu("0"): GONE, gpu("1", None): ALL}, lost={"p0": 1}),
    "of-an-exporter-of-amd": LostCourse({gpu("0"): GONE, gpu("1"): ALL}, lost={"p0": 1}, name="gpu_gfx_activity"),
    "after-another-pod-had-it": LostCourse(
        {gpu("0", "old"): (0, 8), gpu("0"): (8, FAULT), gpu("1"): ALL},
        pods={"old": (0, 8), "p0": (8, MINUTES)},
        lost={"p0": 1},
    ),
    "none": LostCourse({gpu("0"): ALL, gpu("1"): ALL}),
    "the-exporter": LostCourse({gpu("0"): GONE, gpu("1"): GONE, gpu("0", "other", "b"): ALL}),
    "the-exporter-at-another-address": LostCourse(
        {
            **{gpu(number): GONE for number in "01"},
            **{gpu(number, instance="c:9400"): CAME for number in "01"},
        }
    ),
    "the-pod": LostCourse({gpu("0"): GONE, gpu("1", "other"): ALL}, pods={"p0": GONE}),
    "the-pod-which-leaves-it-idle": LostCourse({gpu("0"): GONE, gpu("0", None): CAME, gpu("1"): ALL}),
    "the-pod-for-another": LostCourse({gpu("0"): GONE, gpu("0", "other"): CAME, gpu("1"): ALL}),
    "the-pod-to-another-node": LostCourse({gpu("0"): GONE, gpu("1", "other"): ALL, gpu("0", "p0", "b"): CAME}),
    "the-pod-to-another-gpu": LostCourse({gpu("0"): GONE, gpu("2"): CAME, gpu("1", "other"): ALL}),
}


def lost_gpu_test(records: Iterable[str], rule_files: list[str], groups: list[str]) -> dict[str, Any]:
    """The test file: every course in a cluster and a namespace of its own. records: those whose value is the number of
    lost GPUs."""
    checks = [
        {
            "expr": f'sum by (namespace, pod) ({record}{{namespace=~"{"|".join(COURSES)}"}})',
            "eval_time": f"{AT}m",
            "exp_samples": [
                {"labels": f'{{namespace="{name}", pod="{pod}"}}', "value": lost}
                for name, course in COURSES.items()
                for pod, lost in course.lost.items()
            ],
        }
        for record in records
    ]
    series = [line for name, course in COURSES.items() for line in _series(name, course)]
    return {
        "rule_files": rule_files,
        "evaluation_interval": "1m",
        "group_eval_order": groups,
        "tests": [{"interval": "1m", "input_series": series, "promql_expr_test": checks}],
    }


def _series(name: str, course: LostCourse) -> Iterator[dict[str, str]]:
    for labels, span in course.gpus.items():
        renamed = {key: name if key == "namespace" else value for key, value in labels}
        if course.name.startswith("gpu_"):
            renamed["gpu_id"] = renamed.pop("gpu")
        yield _line(course.name, {"cluster": name, **renamed}, span)
    for pod, span in course.pods.items():
        scraped = {"cluster": name, "namespace": name, "pod": pod, "job": "vllm", "instance": f"{pod}:8000"}
        for sign in course.sign:
            yield _line(sign, scraped if sign == "up" else {**scraped, "model_name": "m"}, span)


def _line(metric: str, labels: Mapping[str, str], span: tuple[int, int]) -> dict[str, str]:
    begin, end = span
    values = (f"_x{begin} " if begin else "") + f"1x{end - begin - 1}" + (" stale" if end < MINUTES else "")
    return {"series": f"{metric}{{{label_pairs(labels)}}}", "values": values}
