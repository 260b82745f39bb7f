"""Hand-made fleets for audits: pods with constant or chosen signals, on a grid of any length."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from inferdoc.audit.evaluate import Verdicts, judge
from inferdoc.audit.window_data import Watched
from inferdoc.catalogue.slo_file import load_objectives
from inferdoc.config_sections import PodSection, SloSection
from inferdoc.fleet.members import resolve
from inferdoc.judging.view import make_view
from inferdoc.source.frame import Entity, SignalFrame, SignalMatrix
from inferdoc.source.reads import Grid
from tests.judging.frames import catalogue

START_MS = 1_700_000_000_000
BUSY = {"running": 20.0, "request_rate": 2.0, "generation_tokens_rate": 400.0, "prompt_tokens_rate": 2000.0}
"""What every pod shows unless told otherwise: enough traffic to judge it."""

Level = float | Sequence[float] | np.ndarray
Pods = Mapping[str, Mapping[str, Level]]


def watched(
    pods: Pods,
    hours: float = 24.0,
    step_s: float = 90.0,
    tier: str = "h100-80",
    settings: Mapping[str, str] | None = None,
    gpus: int | Mapping[str, int] = 1,
    labels: Mapping[str, Mapping[str, str]] | None = None,
    slo: Sequence[SloSection] = (),
) -> Watched:
    """A fleet of one pool. pods: name -> signal -> one number, or one per step."""
    count = round(hours * 3600 / step_s) + 1
    grid = Grid(START_MS, round(step_s * 1000), count, 15_000, 75_000, 37_500)
    frame = SignalFrame(grid)
    names = dict.fromkeys(name for signals in pods.values() for name in (*BUSY, *signals))
    for name in names:
        rows, entities = [], []
        for pod, signals in pods.items():
            level = signals.get(name, BUSY.get(name))
            if level is None:
                continue
            shown = {"namespace": "llm", "pod": pod, "model_name": "m", "engine": "0", "tier": tier}
            shown |= (labels or {}).get(pod, {})
            entities.append(Entity.of_labels(shown))
            rows.append(np.broadcast_to(np.asarray(level, dtype=float), (count,)))
        frame.signals[name] = SignalMatrix(entities, np.vstack(rows))
    content = catalogue()
    view = make_view(frame, resolve(frame, content.tiers), None, content.signals)
    shown_settings = {unit: {k: (v, 1.0) for k, v in (settings or {}).items()} for unit in view.units}
    own = [PodSection(pod=pod, gpus=count) for pod, count in ({".*": gpus} if isinstance(gpus, int) else gpus).items()]
    objectives = load_objectives((), [("[[slo]]", section) for section in slo], content.signals, content.tiers).slos
    return Watched(view, content.signals, content.tiers, shown_settings, own, objectives)


def verdicts(fleet: Watched) -> Verdicts:
    """What the shipped states say of a fleet."""
    return judge(fleet, catalogue().standing)


def standing(fleet: Watched) -> list[str]:
    """Ids of the states that stand."""
    return [entry.state.id for entry in verdicts(fleet).standing]


def doubts(fleet: Watched) -> dict[str, str]:
    """Ids of the states that cannot be told: too short a window, or what is missing."""
    found = {}
    for doubt in verdicts(fleet).doubts:
        missing = sorted({name for reading in doubt.readings for name in reading.missing})
        found[doubt.state.id] = "short" if doubt.short else ", ".join(missing) or "quiet"
    return found
