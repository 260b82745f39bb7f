"""A short recording and rules on it, small enough to follow by hand."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from inferdoc.backtest.recording import ScrapedSeries, read_file
from inferdoc.backtest.replay import RuleSet

START = 1_790_000_010
INTERVAL = 15
SCRAPES = 60
"""A quarter of an hour."""
DOWN = range(20, 40)
"""Scrapes at which pod b does not answer: minutes 5 to 10."""


def text() -> str:
    """Two engines; the second is down for five minutes, and its series are gone meanwhile."""
    up, running = [], []
    for n in range(SCRAPES):
        at = START + INTERVAL * n
        for pod in "ab":
            labels = f'{{namespace="x",job="vllm",instance="{pod}:8000",pod="{pod}"}}'
            down = pod == "b" and n in DOWN
            up.append((pod, f"up{labels} {int(not down)} {at}"))
            if not down:
                running.append((pod, f"vllm:num_requests_running{labels} {n} {at}"))
    lines = ["# TYPE up gauge", *(line for _, line in sorted(up, key=lambda each: each[0]))]
    lines += [
        "# TYPE vllm:num_requests_running gauge",
        *(line for _, line in sorted(running, key=lambda each: each[0])),
    ]
    return "\n".join([*lines, "# EOF", ""])


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "two-pods.om"
    path.write_text(text(), "utf-8")
    return path


@pytest.fixture
def recording(file: Path) -> ScrapedSeries:
    return read_file(file)


@pytest.fixture
def rules(tmp_path: Path) -> RuleSet:
    """A recorded signal that an alert reads, an alert with both waits, and one on what a scrape no longer brings."""
    recording = [{"record": "pod:inferdoc_up:min", "expr": "min by (namespace, pod) (up)"}]
    alerts = [
        {
            "alert": "Down",
            "expr": "pod:inferdoc_up:min == 0",
            "for": "1m",
            "keep_firing_for": "2m",
            "labels": {"severity": "critical", "kind": "symptom", "cause": "engine-down"},
        },
        {
            "alert": "Gone",
            "expr": "group by (namespace, pod) (up) unless on (namespace, pod) vllm:num_requests_running",
            "labels": {"severity": "warning", "kind": "cause", "cause": "gpu-lost"},
        },
    ]
    paths = []
    for name, held in (("inferdoc-recording.yaml", recording), ("inferdoc-rules.yaml", alerts)):
        paths.append(tmp_path / name)
        paths[-1].write_text(yaml.safe_dump({"groups": [{"name": name, "interval": "30s", "rules": held}]}), "utf-8")
    return RuleSet("tiny", tuple(paths))
