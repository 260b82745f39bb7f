"""What is known about the recordings among the fixtures: the fault, when it began, which pods it hit."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from inferdoc.judging.model import Finding
from tests.conftest import RECORDINGS

ONSET_TOLERANCE_S = 20.0


@dataclass(frozen=True)
class Label:
    """expected: ids that may come first; edge_accepts: where the call is debatable, what else may ("none": silence)."""

    name: str
    control: bool
    expected: tuple[str, ...]
    edge_accepts: tuple[str, ...]
    affected: frozenset[str]
    healthy: frozenset[str]
    since: str
    onset: float | None
    onset_latest: float | None

    @classmethod
    def of(cls, entry: dict[str, Any]) -> Label:
        return cls(
            entry["file"].removesuffix(".om.gz"),
            entry["control"],
            tuple(entry["expected"]),
            tuple(entry.get("edge_accepts") or ()),
            frozenset(entry["affected_pods"]),
            frozenset(entry["healthy_pods"]),
            entry["since"],
            entry["onset"],
            entry.get("onset_latest"),
        )

    def assert_onset(self, finding: Finding) -> None:
        """The onset lies within the tolerance of the change, or of the first harm where that came later."""
        assert self.onset is not None
        assert self.onset - ONSET_TOLERANCE_S <= seconds(finding.onset), finding.onset
        assert seconds(finding.onset) <= (self.onset_latest or self.onset) + ONSET_TOLERANCE_S, finding.onset


def seconds(stamp: str) -> float:
    return datetime.fromisoformat(stamp).timestamp()


LABELS = [Label.of(entry) for entry in json.loads((RECORDINGS / "labels.json").read_text("utf-8"))["recordings"]]
