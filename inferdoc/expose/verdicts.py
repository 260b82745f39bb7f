"""A diagnosis as metrics."""

from __future__ import annotations

from collections.abc import Iterator
from typing import get_args

from inferdoc.catalogue.own_metrics import Row
from inferdoc.expose.rounds import Rounds
from inferdoc.judging.model import AbsenceKind, Diagnosis, Finding, VerdictWord
from inferdoc.times import moment_of


def verdict_rows(rounds: Rounds[Diagnosis]) -> dict[str, list[Row]]:
    """The newest diagnosis by metric name, and how many were made. Without a recent one only the numbers."""
    counts = {"ok": rounds.done, "failed": rounds.failed}
    rows: dict[str, list[Row]] = {
        "inferdoc_diagnoses_total": [({"result": result}, float(count)) for result, count in counts.items()]
    }
    newest = rounds.newest()
    if newest is None:
        return rows
    return rows | answer_rows(newest.value, newest.at, newest.seconds)


def answer_rows(answer: Diagnosis, at: float, seconds: float) -> dict[str, list[Row]]:
    """A diagnosis by metric name. at: when it was made, Unix seconds; seconds: how long it took."""
    unjudged = [entry.kind for entry in answer.not_judged]
    return {
        "inferdoc_diagnosis_timestamp_seconds": [({}, at)],
        "inferdoc_diagnosis_duration_seconds": [({}, seconds)],
        "inferdoc_verdict": [({"verdict": word}, float(word == answer.verdict)) for word in get_args(VerdictWord)],
        "inferdoc_finding": [row for finding in answer.findings for row in _pods(finding)],
        "inferdoc_finding_onset_timestamp_seconds": [
            (_labels(finding), float(moment_of(finding.onset, "onset"))) for finding in answer.findings
        ],
        "inferdoc_causes_not_judged": [({"kind": kind}, float(unjudged.count(kind))) for kind in get_args(AbsenceKind)],
    }


def _pods(finding: Finding) -> Iterator[Row]:
    for pod in dict.fromkeys(finding.scope.pods or [""]):
        yield {**_labels(finding), "severity": finding.severity, "certainty": finding.certainty, "pod": pod}, 1.0


def _labels(finding: Finding) -> dict[str, str]:
    scope = finding.scope
    return {
        "cause": finding.id,
        "cluster": scope.cluster,
        "namespace": scope.namespace,
        "model_name": scope.model,
        "role": scope.role,
        "tier": scope.tier,
    }
