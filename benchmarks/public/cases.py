"""The cases of the public benchmark: what is asked of a tool, and what is right. Standard library only."""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
LABELS = HERE / "labels.json"
QUESTIONS = "questions.json"
FORMAT = "inferdoc.public-benchmark/v1"


@dataclass(frozen=True)
class Case:
    """id: of the file <id>.om.gz, which tells nothing; origin: where it comes from; begin, end: of the window that is
    asked about, Unix seconds; control: nothing is wrong; accepts: causes that are right, the preferred one first;
    silence: saying nothing is right as well; pods: those it hits, empty where the label does not say; healthy: pods
    that must not be named; onset: Unix seconds, None where it is not known; onset_latest: when harm is first seen."""

    id: str
    origin: str
    begin: float
    end: float
    control: bool
    accepts: tuple[str, ...] = ()
    silence: bool = False
    pods: tuple[str, ...] = ()
    healthy: tuple[str, ...] = ()
    onset: float | None = None
    onset_latest: float | None = None

    @property
    def file(self) -> str:
        """The recording, OpenMetrics text with timestamps."""
        return f"{self.id}.om.gz"

    def question(self) -> dict[str, Any]:
        """What a tool may know."""
        return {"id": self.id, "file": self.file, "from": self.begin, "until": self.end}


def read_cases(path: Path = LABELS, only: Collection[str] | None = None) -> list[Case]:
    """The labels. only: ids of cases, all by default. Raises OSError and ValueError where they cannot be read."""
    document = json.loads(path.read_text("utf-8"))
    if document.get("format") != FORMAT:
        raise ValueError(f"{path}: format {document.get('format')!r}, expected {FORMAT!r}")
    lists = ("accepts", "pods", "healthy")
    return [
        Case(**{name: tuple(value) if name in lists else value for name, value in row.items()})
        for row in document["cases"]
        if only is None or row["id"] in only
    ]


def labels_text(cases: list[Case]) -> str:
    """labels.json, one case a line."""
    rows = ",\n".join(f"  {json.dumps(asdict(case))}" for case in cases)
    return f'{{\n "format": "{FORMAT}",\n "cases": [\n{rows}\n ]\n}}\n'
