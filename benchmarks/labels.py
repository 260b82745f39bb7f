"""Labelled recordings: what labels.json says of each, and when an answer to it is right."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

import msgspec

from inferdoc.judging.model import Diagnosis

TOLERANCE_SECONDS = 20.0
LEAST_SECONDS = 20.0
"""A look that leaves less of a fault than this is no question."""


class Label(msgspec.Struct, frozen=True):
    """What was done in a recording, and what may be said of it.

    expected: ids acceptable as the first finding, the preferred one first; edge: why the call is debatable;
    edge_accepts: first findings right there ("none": silence); onset: seconds since the epoch, of the mechanism;
    onset_latest: when the harm is first seen, where the mechanism changed earlier; end, fault_end: when the recording
    and the fault end; also_expected: further causes that must be among the findings; onset_tolerance: seconds.
    """

    file: str
    control: bool
    expected: tuple[str, ...] = ()
    affected_pods: tuple[str, ...] = ()
    healthy_pods: tuple[str, ...] = ()
    onset: float | None = None
    onset_latest: float | None = None
    end: float | None = None
    fault_end: float | None = None
    since: str = "10m"
    onset_tolerance: float = TOLERANCE_SECONDS
    edge: str | None = None
    edge_accepts: tuple[str, ...] | None = None
    also_expected: tuple[str, ...] | None = None

    @property
    def name(self) -> str:
        """The file without its endings."""
        return self.file.removesuffix(".om.gz")

    @property
    def accepted(self) -> tuple[str, ...]:
        """Ids acceptable first when pods and onset are not asked for."""
        return (*self.expected, *(self.edge_accepts or ()))


class _Labels(msgspec.Struct):
    recordings: tuple[Label, ...]


def read_labels(folder: Path) -> tuple[Label, ...]:
    """The labels of a folder; what else its labels.json holds is for people."""
    return msgspec.json.decode((folder / "labels.json").read_bytes(), type=_Labels).recordings


def unix(stamp: str) -> float:
    """Seconds since the epoch of an RFC 3339 stamp."""
    return datetime.fromisoformat(stamp).timestamp()


def first_of(answer: Diagnosis) -> str:
    """The id of the first finding, or "none"."""
    return answer.findings[0].id if answer.findings else "none"


def judge_whole(label: Label, answer: Diagnosis) -> list[str]:
    """What is wrong with the answer to the whole window; empty when it is right. A debatable one is judged by its first
    finding alone, a control must be called healthy, a fault needs cause, pods and onset."""
    name = first_of(answer)
    if label.edge_accepts:
        return [] if name in label.edge_accepts else [f"first is {name}"]
    if label.control:
        return [] if name == "none" and answer.verdict == "healthy" else [f"verdict {answer.verdict}, first is {name}"]
    if not answer.findings:
        return [f"verdict {answer.verdict}"]
    wrong = [] if name in label.expected else [f"first is {name}"]
    first = answer.findings[0]
    pods, sick, healthy = set(first.scope.pods), set(label.affected_pods), set(label.healthy_pods)
    if sick and not pods & sick:
        wrong.append(f"pods {sorted(pods)[:4]}")
    if pods & healthy:
        wrong.append(f"blames healthy {sorted(pods & healthy)[:4]}")
    if label.onset is not None:
        off, lag = unix(first.onset) - label.onset, max(0.0, (label.onset_latest or label.onset) - label.onset)
        if not -label.onset_tolerance <= off <= lag + label.onset_tolerance:
            wrong.append(f"onset {off:+.0f} s")
    roots = {finding.id for finding in answer.findings}
    return wrong + [f"{cause} is no root" for cause in label.also_expected or () if cause not in roots]


def judge_late(label: Label, answer: Diagnosis) -> list[str]:
    """What is wrong with the answer to one who looks after the fault began. Nothing must be found in a control."""
    name = first_of(answer)
    if label.control:
        return judge_silent(label, answer)
    if not answer.findings:
        return [f"verdict {answer.verdict}"]
    return [] if name in label.accepted else [f"first is {name}"]


def judge_cut(label: Label, answer: Diagnosis) -> list[str]:
    """What is wrong with the answer to one who looks soon after the onset: silence is right, too."""
    return [] if not answer.findings else judge_late(label, answer)


def judge_silent(label: Label, answer: Diagnosis) -> list[str]:
    """What is wrong with the answer where nothing is to be found (a control may have findings of its own to accept)."""
    accepted = (label.edge_accepts or ()) if label.control else ()
    found = [finding.id for finding in answer.findings if finding.id not in accepted]
    return [f"first is {found[0]}"] if found else []


def blamed(label: Label, answer: Diagnosis) -> list[str]:
    """Findings of any place that stand on pods labelled healthy."""
    healthy = set(label.healthy_pods)
    return [finding.id for finding in answer.findings if healthy & set(finding.scope.pods)]


def leaves(label: Label, last: float, begin: float) -> bool:
    """Whether a window that begins then still holds enough of the fault. last: the newest sample, seconds."""
    ends: Sequence[float] = [each for each in (label.end, label.fault_end) if each] or [last]
    return begin <= min(ends) - LEAST_SECONDS
