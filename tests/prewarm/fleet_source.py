"""A source of pods whose signals follow a function of time, for tests of plans from a source."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
from made import DAY, MONDAY

from inferdoc.catalogue.load import load_catalogue
from inferdoc.catalogue.slo import Slo
from inferdoc.forecast.command import Origin
from inferdoc.source.base import SourceKind
from inferdoc.source.frame import Entity, SignalFrame, SignalMatrix
from inferdoc.source.reads import Grid

Wave = Callable[[np.ndarray], np.ndarray]
LABELS = ("pod", "namespace", "model_name", "role", "tier")
DAYS = 14
END = MONDAY + DAYS * DAY


def working_day(times: np.ndarray) -> np.ndarray:
    """A share of the peak, 0.1 at night, 1 at noon, the same each day, with counting noise."""
    hour = times % DAY / 3600
    level = 0.1 + 0.9 * np.exp(-(((hour - 12) / 3) ** 2))
    return level * np.random.default_rng(3).normal(1.0, 0.03, len(times))


def steady(times: np.ndarray) -> np.ndarray:
    """Noise around one level."""
    return np.random.default_rng(4).lognormal(0.0, 0.6, len(times))


@dataclass
class Pods:
    """signals: pod -> signal -> its value over time; roles: pod -> (role, tier)."""

    roles: Mapping[str, tuple[str, str]]
    signals: Mapping[str, Mapping[str, Wave]]
    end: int = END
    kind: SourceKind = "prometheus"
    reads: list[tuple[str, ...]] = field(default_factory=list)

    def latest_ms(self) -> int | None:
        return self.end * 1000

    def read(
        self,
        signals: Iterable[str],
        start: float,
        end: float,
        step: float | None = None,
        match: object = (),
        window: float | None = None,
    ) -> SignalFrame:
        assert step is not None
        self.reads.append(tuple(signals))
        count = round((end - start) / step) + 1
        frame = SignalFrame(Grid(round(start * 1000), round(step * 1000), count, 15000, 75000, 37500))
        for signal in self.reads[-1]:
            rows = {pod: made[signal](frame.times) for pod, made in self.signals.items() if signal in made}
            if rows:
                entities = [Entity.of(LABELS, (pod, "ns", "m", *self.roles[pod])) for pod in rows]
                frame.signals[signal] = SignalMatrix(entities, np.stack(list(rows.values())))
        return frame


def served(work: str, peak: float, wave: Wave = working_day, late: float | None = 0.1) -> dict[str, Wave]:
    """A pod that serves `peak` of `work` per second at noon; late: its p99 to first token (None = not seen)."""
    made: dict[str, Wave] = {"running": lambda t: np.ones(len(t)), work: lambda t: peak * wave(t)}
    if late is not None:
        made["ttft_p99"] = lambda t: np.full(len(t), late)
    return made


def origin(source: Pods, promised: float | None = 1.0, **asked: object) -> Origin:
    """The origin that reads it. promised: the objective of the p99 to first token, seconds."""
    slos = () if promised is None else (Slo("t", "T", "ttft_p99", "latency", promised, 0.99, "30d"),)
    found = Origin(days=DAYS, open=lambda: (source, load_catalogue(()).tiers, (), slos))
    for name, value in asked.items():
        setattr(found, name, value)
    return found
