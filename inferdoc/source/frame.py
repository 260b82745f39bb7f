"""The aligned table that every judgement, forecast and dashboard number comes from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from inferdoc.extras import needed

if TYPE_CHECKING:
    import pandas as pd

    from inferdoc.source.reads import Grid

TARGET_LABELS = ("cluster", "namespace", "pod", "instance", "job")


@dataclass(frozen=True)
class Entity:
    """Who a row is about: label names and values, sorted, empty labels left out."""

    labels: tuple[tuple[str, str], ...]

    @classmethod
    def of(cls, names: tuple[str, ...], values: tuple[str, ...]) -> Entity:
        """An entity from label names and their values."""
        named = ((n, v) for n, v in zip(names, values, strict=True) if v)
        return cls(tuple(sorted(named)))

    def __hash__(self) -> int:
        return self._hash

    def __reduce__(self) -> tuple[type[Entity], tuple[tuple[tuple[str, str], ...]]]:
        return Entity, (self.labels,)  # without what is cached: hashes of texts differ between processes

    @cached_property
    def _hash(self) -> int:
        return hash(self.labels)

    @cached_property
    def _named(self) -> dict[str, str]:
        return dict(self.labels)

    @classmethod
    def of_labels(cls, labels: Mapping[str, str]) -> Entity:
        """The entity that a series or a target with these labels is about."""
        return cls.of(tuple(labels), tuple(labels.values()))

    @classmethod
    def of_target(cls, labels: Mapping[str, str]) -> Entity:
        """The same, by the labels alone that distinguish targets."""
        return cls.of(TARGET_LABELS, tuple(labels.get(name, "") for name in TARGET_LABELS))

    def get(self, name: str, default: str = "") -> str:
        """The value of a label."""
        return self._named.get(name, default)

    @cached_property
    def pod(self) -> str:
        """The `pod` label, or `instance` where there is no pod label (the contract's name of a pod)."""
        return self.get("pod") or self.get("instance")

    @cached_property
    def member(self) -> tuple[str, str, str]:
        """What series of one pod share, whatever else they are labelled with: cluster, namespace, pod."""
        return self.get("cluster"), self.get("namespace"), self.pod

    @cached_property
    def engine(self) -> str:
        """The data-parallel rank, as its label says it; empty without one."""
        return self.get("engine")

    @cached_property
    def device(self) -> str:
        """The GPU, and the slice of it (MIG) where it is divided."""
        return "/".join(part for part in (self.get("gpu") or self.get("UUID"), self.get("GPU_I_ID")) if part)

    def __str__(self) -> str:
        rest = [
            f"{n}={self.device if n == 'gpu' else v}"
            for n, v in self.labels
            if n in ("engine", "gpu", "adapter") and not (n == "engine" and v == "0")
        ]
        return " ".join([self.pod or "?", *rest])


@dataclass
class SignalMatrix:
    """One signal. values: float64[entities, times], NaN for gaps; counts: observations inside the window of each
    value (same shape) where the signal is a quantile or a mean of observations, else None; bounds: the bucket
    bounds of a quantile (ascending, without +Inf), those of the row with the fewest, else None."""

    entities: list[Entity]
    values: np.ndarray
    counts: np.ndarray | None = None
    bounds: np.ndarray | None = None

    @property
    def present(self) -> bool:
        """Whether there is any value."""
        return bool(self.entities) and bool(np.isfinite(self.values).any())


OWN = frozenset(["pod", "instance", "node", "Hostname", "hostname", "gpu", "UUID", "GPU_I_ID"])
"""Labels that distinguish a pod or device from its peers."""


class Earlier:
    """The rows of an earlier frame by entity, or by what pods of one pool share."""

    def __init__(self, entities: list[Entity], values: np.ndarray) -> None:
        self._rows = dict(zip(entities, values, strict=True))
        self._shared: dict[tuple[tuple[str, str], ...], list[np.ndarray]] = {}
        for entity, row in self._rows.items():
            self._shared.setdefault(_shared(entity), []).append(row)

    def own(self, entity: Entity, gap: np.ndarray) -> np.ndarray:
        """float64[T] of an entity itself, else the gap."""
        row: np.ndarray | None = self._rows.get(entity)
        return gap if row is None else row

    def of(self, entity: Entity, gap: np.ndarray) -> np.ndarray:
        """float64[T] of an entity, of its peers where it was not there, else the gap."""
        own: np.ndarray | None = self._rows.get(entity)
        if own is not None:
            return own
        peers = [row for row in self._shared.get(_shared(entity), []) if np.isfinite(row).any()]
        if not peers:
            return gap
        stacked = np.vstack(peers)
        there = np.isfinite(stacked).any(axis=0)
        usual = gap.copy()
        usual[there] = np.nanmedian(stacked[:, there], axis=0)
        return usual


def _shared(entity: Entity) -> tuple[tuple[str, str], ...]:
    return tuple((name, value) for name, value in entity.labels if name not in OWN)


@dataclass
class SignalFrame:
    """grid: the shared time grid; signals: id -> matrix (a signal that nothing supplies is absent, never zero);
    widths: rate windows used per signal; aliases: id -> the metric names that supplied it; begin: the step at which the
    window begins (what lies before it is history); until_ms: the end of the window, after the grid where nothing was
    scraped at the end."""

    grid: Grid
    signals: dict[str, SignalMatrix] = field(default_factory=dict)
    aliases: dict[str, tuple[str, ...]] = field(default_factory=dict)
    widths: dict[str, int] = field(default_factory=dict)
    begin: int = 0
    until_ms: int = 0

    @property
    def times(self) -> np.ndarray:
        """float64[times], seconds since the epoch."""
        return self.grid.times_ms / 1000.0

    def __contains__(self, signal: str) -> bool:
        return signal in self.signals

    def __getitem__(self, signal: str) -> SignalMatrix:
        return self.signals[signal]

    def prepend(self, earlier: SignalFrame) -> None:
        """Put another frame of the same step in front: a baseline from elsewhere. The values grow, the grid stays. A
        pod that was not there then gets the median of the pods that served the same model."""
        for name, matrix in self.signals.items():
            before = earlier.signals.get(name) or SignalMatrix([], np.empty((0, earlier.grid.count)))
            gap = np.full(earlier.grid.count, np.nan)
            rows = Earlier(before.entities, before.values)
            matrix.values = np.hstack([np.vstack([rows.of(e, gap) for e in matrix.entities]), matrix.values])
            if matrix.counts is not None:
                seen = ([], before.values[:0]) if before.counts is None else (before.entities, before.counts)
                counts = Earlier(*seen)
                matrix.counts = np.hstack([np.vstack([counts.of(e, gap) for e in matrix.entities]), matrix.counts])

    def to_pandas(self) -> pd.DataFrame:
        """Long table: time (UTC), signal, pod, engine and the other labels of the entity, value."""
        with needed("pandas", "a data frame"):
            import pandas as pd

        stamps = pd.to_datetime(self.grid.times_ms, unit="ms", utc=True)
        parts = []
        for name, matrix in self.signals.items():
            for entity, row in zip(matrix.entities, matrix.values, strict=True):
                parts.append(pd.DataFrame({"time": stamps, "signal": name, **dict(entity.labels), "value": row}))
        columns = ["time", "signal", "value"]
        return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=columns)
