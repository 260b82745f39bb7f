"""The router in front of the engines: which pod gets a request, from what it last heard of each."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from inferdoc.simulate.pod import Pod
from inferdoc.simulate.scenario import Policy
from inferdoc.simulate.stats import Histogram
from inferdoc.simulate.workload import Draft

REFRESH = 0.05
"""Seconds between two readings of an endpoint where nothing else is set (default of the llm-d router)."""
DURATION = (
    0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2, 3, 4, 5, 6, 8, 10, 15, 20, 30, 45, 60, 120,
    180, 240, 300, 360, 480, 600, 900, 1200, 1800, 2700, 3600,
)  # fmt: skip
FIRST_TOKEN = DURATION[:24]
"""Buckets of llm_d_epp_request_duration_seconds and llm_d_epp_request_ttft_seconds."""


TENTHS = tuple(i / 10 for i in range(11))
"""Buckets of llm_d_epp_prefix_indexer_hit_ratio."""


@dataclass
class ClassStats:
    """What the router counts of one class of requests (fairness id, priority). errors: by error code."""

    requests: int = 0
    running: int = 0
    errors: dict[str, int] = field(default_factory=dict)
    duration: Histogram = field(default_factory=lambda: Histogram(DURATION))
    ttft: Histogram = field(default_factory=lambda: Histogram(FIRST_TOKEN))

    def failed(self, code: str) -> None:
        self.errors[code] = self.errors.get(code, 0) + 1


@dataclass
class RouterStats:
    """What the router counts of the requests that passed through it."""

    classes: dict[tuple[str, int], ClassStats] = field(default_factory=dict)
    split: int = 0
    chosen: dict[str, int] = field(default_factory=dict)
    unplaced: int = 0
    poll_errors: float = 0.0
    expected_hits: Histogram = field(default_factory=lambda: Histogram(TENTHS))

    def for_class(self, tenant: str, priority: int) -> ClassStats:
        return self.classes.setdefault((tenant, priority), ClassStats())


@dataclass(slots=True)
class EndpointReading:
    """An endpoint when the router last read it, at `at` seconds."""

    at: float
    waiting: int = 0
    running: int = 0
    usage: float = 0.0


@dataclass
class Router:
    """spill: a prefix's home is left for the least loaded pod when its load is so many times the mean, plus a few;
    polled: load of each pod when last polled, plus what was sent there since; pinned: share of the requests that a
    wrong configuration sends to one pod whatever its load; refresh, in_flight: see RouterSpec; careful: what it read
    of each pod is kept (seen), and what was sent there since (sent); blocked: share of the readings of a pod that
    fail."""

    policy: Policy
    rng: np.random.Generator
    spill: float = 1.5
    stats: RouterStats = field(default_factory=RouterStats)
    polled: dict[str, float] = field(default_factory=dict)
    pinned: tuple[str, float] | None = None
    refresh: float = 0.0
    in_flight: bool = True
    careful: bool = False
    seen: dict[str, EndpointReading] = field(default_factory=dict)
    sent: dict[str, int] = field(default_factory=dict)
    blocked: dict[str, float] = field(default_factory=dict)
    polls_per_second: float = 0.0
    _turn: dict[str, int] = field(default_factory=dict)
    _homes: dict[tuple[int, int, str], str] = field(default_factory=dict)
    _index: set[tuple[int, int]] = field(default_factory=set)

    def poll(self, pods: list[Pod], now: float, passed: float) -> None:
        """Read each pod's load; a hung engine still shows its last one. passed: seconds since the last call."""
        period = max(self.refresh, REFRESH)
        self.polls_per_second = len(pods) / period
        if not (self.careful or self.blocked or self.refresh > passed):
            self.polled = {pod.name: float(pod.load()) for pod in pods}
            return
        self.careful = True
        for pod in pods:
            if self._reads(pod, now, passed, period):
                self.polled[pod.name] = float(pod.load())
                engine = pod.engine
                self.seen[pod.name] = EndpointReading(now, len(engine.waiting), len(engine.running), engine.usage)
                self.sent[pod.name] = 0

    def _reads(self, pod: Pod, now: float, passed: float, period: float) -> bool:
        """Whether a reading of the pod succeeds in the time that has passed. A router that starts reads all pods at
        once, so their readings keep in step."""
        seen = self.seen.get(pod.name)
        share = self.blocked.get(pod.name, 0.0)
        if share:
            tries = passed / period
            self.stats.poll_errors += tries * share
            known = seen is not None or pod.name not in self.polled
            if known and self.rng.random() < share ** max(tries, 1e-9):
                return False
        return seen is None or now - seen.at >= self.refresh - 1e-9

    def age(self, pod: str, now: float) -> float:
        """Seconds since the last good reading; between two of the usual ones none has passed that matters."""
        seen = self.seen.get(pod)
        if seen is None:
            return float("inf")
        fresh = self.refresh <= REFRESH and not self.blocked.get(pod)
        return 0.0 if fresh else now - seen.at

    def choose(self, pods: list[Pod], draft: Draft, role: str) -> Pod | None:
        """A ready pod of the role, None where there is none."""
        ready = [p for p in pods if p.spec.role == role and p.in_rotation]
        if not ready:
            self.stats.unplaced += 1
            return None
        pod = self._pinned(ready) or self._pick(ready, draft, role)
        if self.in_flight:
            self.polled[pod.name] = self.polled.get(pod.name, 0.0) + 1.0
        if self.careful:
            self.sent[pod.name] = self.sent.get(pod.name, 0) + 1
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
        if self.policy == "prefix":
            self._look_up(draft)
        if self.policy == "prefix" and draft.group >= 0:
            key = (draft.stream, draft.group, role)
            home = self._homes.get(key)
            place = next((i for i, p in enumerate(ready) if p.name == home), None)
            if place is None:
                place = self._new_home(ready, loads)
                self._homes[key] = ready[place].name
            if loads[place] <= self.spill * sum(loads) / len(loads) + 4:
                return ready[place]
        return ready[least]

    def _look_up(self, draft: Draft) -> None:
        """The approximate index takes every prompt that it has routed for cached."""
        known = (draft.stream, draft.group)
        self.stats.expected_hits.observe(draft.expected / draft.prompt if known in self._index else 0.0)
        if draft.group >= 0:
            self._index.add(known)

    def _new_home(self, ready: list[Pod], loads: list[float]) -> int:
        """A prefix not seen before goes where the fewest live, the least loaded of those."""
        homes = list(self._homes.values())
        return min(range(len(ready)), key=lambda i: (homes.count(ready[i].name), loads[i]))
