"""What was not read, and what that does to a verdict: healthy needs all of it, proven what could have spoken against.

A server that answers in part, a store that is damaged, a window that was cut and a pod that is scraped without its
metrics look like a healthy fleet with fewer pods.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from inferdoc.catalogue.calibration import Calibration
from inferdoc.fleet.workloads import workload
from inferdoc.judging.model import Diagnosis, UnreadNames, seconds
from inferdoc.judging.view import View
from inferdoc.source.base import Incomplete, Scrapes
from inferdoc.source.frame import Entity
from inferdoc.words import how_many, lasting, some

SIGNS = ("running", "waiting", "generation_tokens_rate", "prompt_tokens_rate", "request_rate")
"""Every engine shows one of them from its start, with traffic or without."""
NAMED = 3
LATEST_SECONDS = 300.0
"""Prometheus shows a series for five minutes after its last sample: older data are no picture of the present."""


def without_metrics(view: View, scrapes: Sequence[Scrapes]) -> list[str]:
    """The pods that answer scrapes in the window, and show none of the metrics of an engine: those that did before, and
    those of a workload of which others do. scrapes: of the window."""
    frame = view.frame
    shown = {
        entity.member
        for matrix in (frame[name] for name in SIGNS if name in frame)
        for entity, values in zip(matrix.entities, matrix.values, strict=True)
        if np.isfinite(values[frame.begin :]).any()
    }
    engines = {(*member.key[:2], workload(member.pod)[0]) for member in view.fleet.members}
    silent = []
    for target in scrapes:
        entity = Entity.of_labels(target.labels)
        belongs = (*entity.member[:2], workload(entity.pod)[0]) in engines
        if belongs and entity.member not in shown and len(target.up) and target.up[-1] >= 0.5:
            silent.append(view.fleet.called(entity))
    return sorted(set(silent))


def silent_pods(names: Sequence[str]) -> str:
    """What is said of pods without metrics."""
    return f"no engine metrics from {some(names, NAMED)}, although scrapes succeed"


def unread_engine(names: UnreadNames) -> str:
    """What is reported of an engine whose names nobody declared."""
    near = f" (nearest known: {names.nearest})" if names.nearest else ""
    return (
        f"{how_many(names.families, 'metric')} of an engine are not read, such as {names.example}{near}; declare the "
        "names in collectors/"
    )


def qualify(answer: Diagnosis, warnings: Iterable[str], calibration: Calibration) -> None:
    """Put what was not read into the document; nothing is healthy or proven where something is missing."""
    silent = answer.coverage.pods_without_metrics
    missing = [str(line) for line in warnings if isinstance(line, Incomplete)]
    if silent:
        missing.append(silent_pods(silent))
    missing += [unread_engine(names) for names in answer.coverage.not_understood if names.hidden]
    window = answer.window
    if window.newest is not None:
        age = seconds(window.until) - seconds(window.newest)
        if age > max(LATEST_SECONDS, 5 * window.step_seconds):
            missing.append(f"no samples after {window.newest}: the last {lasting(age)} of the window were not seen")
    answer.source.incomplete = missing
    if not missing:
        return
    for finding in answer.findings:
        if finding.certainty == "proven":
            finding.regrade("likely", calibration.probability("likely"))
    if answer.verdict == "healthy":
        answer.verdict = "unknown"
        answer.summary = f"No cause found in what was read, but the data is incomplete: {missing[0]}."
