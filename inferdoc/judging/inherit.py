"""Settings that a newborn has from its predecessor, or has not: what a rollout changed.

A setting that moved is told by comparing the labels of an info metric with those that the pod showed first. A pod that
took another's place showed nothing before: its settings are held against those of its predecessor.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from inferdoc.catalogue.signal import Signal
from inferdoc.fleet.lineage import Lineage
from inferdoc.judging.settings import Settings, newest_settings
from inferdoc.source.base import InfoSeries
from inferdoc.source.frame import Entity, SignalFrame


def compare_settings(
    frame: SignalFrame, signals: Mapping[str, Signal], infos: Mapping[str, Sequence[InfoSeries]], lineage: Lineage
) -> None:
    """Rewrite the rows of newborns in every signal that counts moved labels. infos: by current name, on the grid."""
    if not lineage.predecessor:
        return
    for name, signal in signals.items():
        for reading in signal.readings:
            if reading.moved and name in frame:
                newest = newest_settings(infos.get(str(reading.info), ()))
                for row, entity in enumerate(frame[name].entities):
                    own, before = newest.get((entity.member, entity.engine)), _former(newest, lineage, entity)
                    if own is not None and before is not None:
                        values, moved = frame[name].values[row], _moved(reading.moved, before, own)
                        frame[name].values[row] = np.where(np.isfinite(values), float(moved), np.nan)


def _moved(labels: Sequence[str], before: Mapping[str, str], own: Mapping[str, str]) -> int:
    return sum(bool(before.get(name)) and bool(own.get(name)) and before[name] != own[name] for name in labels)


def _former(newest: Settings, lineage: Lineage, entity: Entity) -> Mapping[str, str] | None:
    before = lineage.predecessor.get(entity.member)
    return None if before is None else newest.get((before.key, entity.engine))
