"""The router in front of the engines: which pod gets a request, from what it last heard of each."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from inferdoc.simulate.scenario import Policy
from inferdoc.simulate.stats import REQUEST, TTFT, Histogram
from inferdoc.simulate.workload import Draft

if TYPE_CHECKING:
    from inferdoc.simulate.pod import Pod

SPILL = 1.5
"""A prefix's home is left for the least loaded pod when its load is so many times the mean, plus a few."""


@dataclass
class RouterStats:
    """What the router counts of the requests that passed through it."""

    requests: int = 0
    errors: int = 0
    running: int = 0
    split: int = 0
    chosen: dict[str, int] = field(default_factory=dict)
    duration: Histogram = field(default_factory=lambda: Histogram(REQUEST))
    ttft: Histogram = field(default_factory=lambda: Histogram(TTFT))


@dataclass
class Router:
    """polled: load of each pod when last polled, plus what was sent there since; pinned: share of the requests that a
    wrong configuration sends to one pod whatever its load."""

    policy: Policy
    rng: np.random.Generator
    stats: RouterStats = field(default_factory=RouterStats)
    polled: dict[str, float] = field(default_factory=dict)
    pinned: tuple[str, float] | None = None
    _turn: dict[str, int] = field(default_factory=dict)
    _homes: dict[tuple[int, int, str], str] = field(default_factory=dict)

    def poll(self, pods: list[Pod]) -> None:
        """Read each pod's load; a hung engine still shows its last one."""
        self.polled = {pod.name: float(pod.load()) for pod in pods}

    def choose(self, pods: list[Pod], draft: Draft, role: str) -> Pod | None:
        """A ready pod of the role, None where there is none."""
        ready = [p for p in pods if p.spec.role == role and p.in_rotation]
        if not ready:
            return None
        pod = self._pinned(ready) or self._pick(ready, draft, role)
        self.polled[pod.name] = self.polled.get(pod.name, 0.0) + 1.0
        self.stats.chosen[pod.name] = self.stats.chosen.get(pod.name, 0) + 1
        return pod

    def _pinned(self, ready: list[Pod]) -> Pod | None:
        if self.pinned is None or self.rng.random() >= self.pinned[1]:
            return None
        return next((p for p in ready if p.name == self.pinned[0]), None)

    def _pick(self, ready: list[Pod], draft: Draft, role: str) -> Pod:
        if self.policy == "random":
            return ready[int(self.rng.integers(len(ready)))]
        if self.policy == "round-robin":
            turn = self._turn.get(role, 0)
            self._turn[role] = turn + 1
            return ready[turn % len(ready)]
        loads = [self.polled.get(p.name, 0.0) / p.weight for p in ready]
        least = min(range(len(ready)), key=lambda i: (loads[i], (self._turn.get(role, 0) + i) % len(ready)))
        self._turn[role] = self._turn.get(role, 0) + 1
        if self.policy == "prefix" and draft.group >= 0:
            key = (draft.stream, draft.group, role)
            home = self._homes.get(key)
            place = next((i for i, p in enumerate(ready) if p.name == home), None)
            if place is None:
                place = self._new_home(ready, loads)
                self._homes[key] = ready[place].name
            if loads[place] <= SPILL * sum(loads) / len(loads) + 4:
                return ready[place]
        return ready[least]

    def _new_home(self, ready: list[Pod], loads: list[float]) -> int:
        """A prefix not seen before goes where the fewest live, the least loaded of those."""
        homes = list(self._homes.values())
        return min(range(len(ready)), key=lambda i: (homes.count(ready[i].name), loads[i]))
