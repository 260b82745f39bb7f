"""A source of pods whose signals follow a function of time, for tests of plans from a source."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from fake_source import FakeSource
from made import DAY, MONDAY

from inferdoc.catalogue.load import load_catalogue
from inferdoc.catalogue.slo import Slo
from inferdoc.forecast.command import Origin
from inferdoc.source.base import SourceKind
from inferdoc.source.frame import Entity

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


class Pods(FakeSource):
    """signals: pod -> signal -> its value over time; roles: pod -> (role, tier); places: pod -> (namespace, model), of
    pods that are elsewhere than the others."""

    kind: SourceKind = "prometheus"

    def __init__(
        self,
        roles: Mapping[str, tuple[str, str]],
        signals: Mapping[str, Mapping[str, Wave]],
        end: int = END,
        places: Mapping[str, tuple[str, str]] | None = None,
    ) -> None:
        super().__init__(end)
        self.roles, self.signals, self.places = roles, signals, places or {}

    def rows(self, signal: str, times: np.ndarray) -> dict[Entity, np.ndarray]:
        return {
            Entity.of(LABELS, (pod, *self.places.get(pod, ("ns", "m")), *self.roles[pod])): made[signal](times)
            for pod, made in self.signals.items()
            if signal in made
        }


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
