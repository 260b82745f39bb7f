"""Labelled recordings as outcomes of the scoreboard: folders with a labels.json and the OpenMetrics files it names."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from looks import Look, ask, look_of
from scoreboard_tables import Outcome
from stores import temporary_store

from inferdoc import open_source
from inferdoc.times import length_of

LATE = (180.0, 60.0)
"""Seconds after the onset at which the late look begins: the first after which LEAST seconds are left."""
LEAST = 240.0
"""Seconds that a late look should have; recordings that have less are looked at 60 s late, if 20 s are left."""


def outcomes_of(folder: Path) -> list[tuple[Path, dict[str, Any]]]:
    """The recordings of a folder with their labels."""
    labels = json.loads((folder / "labels.json").read_text("utf-8"))["recordings"]
    return [(folder, label) for label in labels if (folder / label["file"]).is_file()]


def judge(task: tuple[Path, dict[str, Any]]) -> Outcome:
    """One recording, looked at in time and late."""
    folder, label = task
    control, edge = bool(label.get("control")), tuple(label.get("edge_accepts") or ())
    expected = tuple(dict.fromkeys((*label.get("expected", ()), *edge)))
    with temporary_store(folder / label["file"]) as path:
        end = _latest(path)
        begin = end - length_of(label.get("since", "10m"), "since")
        healthy = label.get("healthy_pods") or ()
        whole = look_of(ask(path, begin, end), healthy)
        late = _late(path, label, end, healthy)
    hurts = not control and "none" not in edge
    return Outcome(
        label["expected"][0] if label.get("expected") else Path(label["file"]).name.split(".")[0],
        0,
        None if control else _called(whole, expected),
        expected,
        whole.causes,
        hurts,
        (end - begin) / 3600,
        float(label.get("scrape_interval_s") or (label.get("fleet") or {}).get("interval_seconds") or 15.0),
        whole.sure,
        load_changes=whole.load_changes,
        group="control" if control else "cause",
        where=label["file"].removesuffix(".om.gz"),
        whole=whole,
        late=late,
        late_hurts=hurts and late is not None,
        source=folder.name,
    )


def _called(whole: Look, expected: tuple[str, ...]) -> str:
    """The cause of a recording: of several that its label accepts the one that came first, else the preferred one."""
    return whole.causes[0] if whole.right(expected) else expected[0] if expected else ""


def _latest(path: Path) -> float:
    """Unix seconds of the newest sample."""
    latest = open_source(store=path).latest_ms()
    assert latest is not None, "an empty recording"
    return latest / 1000


def _late(path: Path, label: dict[str, Any], end: float, healthy: Any) -> Look | None:
    """The late look, where the fault lasts long enough for one."""
    if label.get("control") or not label.get("onset"):
        return None
    over = float(label.get("end") or end)
    waits = [s for s, least in zip(LATE, (LEAST, 20.0), strict=True) if over - label["onset"] - s >= least]
    return look_of(ask(path, label["onset"] + waits[0], end), healthy) if waits else None
