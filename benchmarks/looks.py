"""One look at a store: the diagnosis of a window, as the scoreboard counts it."""

from __future__ import annotations

import os
from collections.abc import Collection
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from inferdoc import diagnose, open_source
from inferdoc.catalogue.load import Catalogue, load_catalogue
from inferdoc.judging.api import Options
from inferdoc.judging.model import Diagnosis

OVERLAY = "INFERDOC_SCOREBOARD_CATALOGUE"


@lru_cache(maxsize=1)
def catalogue() -> Catalogue:
    """The catalogue that is judged, with the overlay of a comparison."""
    overlay = os.environ.get(OVERLAY)
    return load_catalogue([overlay] if overlay else [])


@dataclass
class Look:
    """What one diagnosis said. causes: ids, best first; sure, chance: certainty and probability of each (chance: None
    where the document has none); load_changes: the load change that stands as the change of each; baseline: what the
    window was compared with; blamed: findings on pods that are healthy."""

    verdict: str
    causes: list[str] = field(default_factory=list)
    sure: list[str] = field(default_factory=list)
    chance: list[float | None] = field(default_factory=list)
    load_changes: list[str | None] = field(default_factory=list)
    baseline: str = "none"
    blamed: list[str] = field(default_factory=list)

    def right(self, expected: Collection[str]) -> bool:
        """Whether the first finding is one that the label accepts."""
        return bool(self.causes) and self.causes[0] in expected


def ask(path: Path, from_: float, until: float | str = "latest") -> Diagnosis:
    """The diagnosis of a window, in Unix seconds."""
    return diagnose(open_source(store=path), from_=from_, until=until, options=Options(catalogue=catalogue()))


def look_of(answer: Diagnosis, healthy: Collection[str] = ()) -> Look:
    """What a diagnosis said. healthy: names of pods that nothing is wrong with."""
    findings = answer.findings
    return Look(
        answer.verdict,
        [f.id for f in findings],
        [f.certainty for f in findings],
        [getattr(f, "probability", None) for f in findings],
        [f.change.cause if f.change else None for f in findings],
        answer.window.baseline.kind,
        [f.id for f in findings if set(f.scope.pods) & set(healthy)],
    )
