"""What has to be right of a diagnosis and of doctor under every layout."""

from __future__ import annotations

import numpy as np
import pytest

from inferdoc.judging.document import DiagnosisWithSeries
from tests.identity.layouts import PODS, Shape, tokens_per_second

CAUSE = "slow-gpu"
OTHER_SICK = "vllm-3"
"""Of the fleet whose names are exchanged."""


def assert_identified(shape: Shape, answer: DiagnosisWithSeries) -> None:
    """The right cause on the right pod, once for each cluster, and nothing counted twice or left out."""
    found = [f for f in answer.findings if f.id not in shape.beside]
    assert [f.id for f in found] == [CAUSE] * len(shape.clusters), answer.summary
    assert sorted(f.scope.cluster for f in found) == sorted(shape.clusters)
    for finding in found:
        expected = OTHER_SICK if finding.scope.cluster == "west" else shape.pod
        assert finding.scope.pods == [expected] and finding.scope.of_pods == len(PODS)
        assert finding.scope.namespace == shape.namespace
    assert {f.id for f in answer.findings} - {CAUSE} <= set(shape.beside)
    view = answer.view
    assert view is not None
    assert len(view.units) == len(PODS) * len(shape.clusters)
    assert {len(view.gpus(unit, "gpu_util")) for unit in view.units} == {shape.gpus}
    rows = [view.get(unit, "generation_tokens_rate") for unit in view.units]
    total = sum(float(np.nanmean(row.values)) for row in rows if row is not None)
    assert total == pytest.approx(tokens_per_second() * len(shape.clusters), rel=0.05)


def assert_lines(shape: Shape, lines: list[str]) -> None:
    """Doctor says what is hard to tell, and nothing where the labels are ordinary."""
    printed: list[str] = []
    for before, line in zip(["", *lines], lines, strict=False):
        if line.startswith("labels "):
            printed.append(line.removeprefix("labels").strip())
        elif printed and line.startswith(" " * 12) and before.startswith(("labels ", " " * 12)):
            printed[-1] += f" {line.strip()}"
    assert len(printed) == len(shape.doctor), printed
    for line, words in zip(printed, shape.doctor, strict=True):
        assert words in line, printed
    assert all(";" in line for line in printed), "a line without a cure"
