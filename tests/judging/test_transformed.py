"""The same first finding comes out of a recording however its series were scraped, labelled and stored."""

from __future__ import annotations

import gzip
import re
from collections.abc import Callable

import pytest

from inferdoc import diagnose, open_source
from tests.judging.made import stored
from tests.prometheus_server import FIXTURES

Labels = dict[str, str]
LINE = re.compile(r"(?P<name>\w[\w:]*)\{(?P<labels>.*)\} (?P<value>\S+) (?P<at>\S+)")
LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


def renamed(label: str, name: str, **others: str) -> Callable[[Labels], Labels]:
    return lambda labels: {name if key == label else key: value for key, value in labels.items()} | others


def without(label: str) -> Callable[[Labels], Labels]:
    return lambda labels: {key: value for key, value in labels.items() if key != label}


def added(**others: str) -> Callable[[Labels], Labels]:
    return lambda labels: labels | others


COPIES = {
    "renamed job": [added(job="llm/prod-42")],
    "no job": [without("job")],
    "no pod": [without("pod")],
    "exported_pod": [renamed("pod", "exported_pod", pod="federate-0")],
    "kubernetes_pod_name": [renamed("pod", "kubernetes_pod_name")],
    "labels of an operator": [added(prometheus="monitoring/k8s", endpoint="metrics", service="vllm", container="vllm")],
    "HA pair": [added(prometheus_replica="a"), added(prometheus_replica="b")],
    "two jobs": [added(job="pods"), added(job="services", service="vllm")],
    "two jobs and exported_pod": [
        renamed("pod", "exported_pod", pod="federate-0", job="pods"),
        renamed("pod", "exported_pod", pod="federate-0", job="services"),
    ],
    "two clusters": [added(cluster="eu"), added(cluster="us")],
}
"""By name, what becomes of the labels of each series, once for each copy that is stored."""
SECOND_LATER = 0.7
"""The second server and the second job scrape at other times."""


def transformed(text: str, copies: list[Callable[[Labels], Labels]], every: int) -> str:
    """An exposition with timestamps, with each sample once for each copy, at one of `every` times."""
    times = sorted({float(line.rpartition(" ")[2]) for line in text.splitlines() if line.startswith("up{")})
    kept, lines = set(times[::every]), []
    family: dict[str, list[str]] = {}
    for line in text.splitlines():
        found = LINE.fullmatch(line)
        if found is None:
            lines += [one for series in family.values() for one in series]
            family = {}
            lines.append(line)
        elif every == 1 or float(found["at"]) in kept:
            labels = dict(LABEL.findall(found["labels"]))
            for number, change in enumerate(copies):
                inside = ",".join(f'{name}="{value}"' for name, value in change(labels).items())
                at = float(found["at"]) + number * SECOND_LATER
                sample = f"{found['name']}{{{inside}}} {found['value']} {at:.3f}"
                family.setdefault(re.sub(r',?le="[^"]*"', "", inside), []).append(sample)
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize(
    ("recording", "cause"),
    [
        ("slow-replica", "slow-gpu"),
        ("lora-thrash", "lora-thrash"),
        ("engine-hung", "engine-hung"),
        ("control-steady", None),
    ],
)
@pytest.mark.parametrize("kind", [*COPIES, "every second scrape"])
def test_the_first_finding_does_not_depend_on_scraping_and_labels(recording, cause, kind, tmp_path):
    with gzip.open(FIXTURES / "recordings" / f"{recording}.om.gz", "rt") as stream:
        text = transformed(stream.read(), COPIES.get(kind, [added()]), 1 if kind in COPIES else 2)
    answer = diagnose(open_source(store=stored(text, tmp_path)), since="10m")
    first = answer.findings[0] if answer.findings else None
    assert first is None or first.severity == "info" if cause is None else first is not None and first.id == cause
    assert answer.source.incomplete == []
