"""Containers that end and start again: out of memory, or by a fault that comes back with every start."""

from __future__ import annotations

from inferdoc.simulate.handle import FleetHandle
from inferdoc.simulate.pod import Pod
from inferdoc.simulate.scenario import FaultSpec

BACK_OFF, MOST_BACK_OFF, FORGIVEN = 10.0, 300.0, 600.0
"""Seconds the kubelet waits before it starts a container again: 10, doubled with every end up to 300, forgotten after
10 minutes of running (Kubernetes documentation, pod lifecycle)."""
SHORT = 0.99
"""Share of the free memory taken at which an allocation fails."""


class Crashes:
    """tick(now) moves every container that a fault has in its grip. seconds: of a fault `oom` how long memory takes to
    fill, of a fault `crash` how long each process lives."""

    def __init__(self, fleet: FleetHandle) -> None:
        self._fleet = fleet
        self._at_work: dict[str, tuple[FaultSpec, float]] = {}
        self._starts: dict[str, float] = {}
        self._ready: dict[str, float] = {}

    def begin(self, pod: Pod, now: float, fault: FaultSpec) -> None:
        """The fault takes hold: memory begins to fill, or the first process has its time to live."""
        self._at_work[pod.name] = (fault, now)

    def end(self, pod: Pod) -> None:
        """The fault is over; a container that is down still starts."""
        self._at_work.pop(pod.name, None)
        pod.memory_taken = 0.0

    def tick(self, now: float) -> None:
        for name, (fault, since) in list(self._at_work.items()):
            pod = self._fleet.pod(name)
            if not pod.alive:
                continue
            share = (now - since) / fault.seconds if fault.seconds else 1.0
            if fault.kind == "oom" and not fault.host:
                pod.memory_taken = min(1.0, max(0.0, share))
            if share >= (SHORT if fault.kind == "oom" else 1.0):
                self._die(pod, now, "OOMKilled" if fault.host else "Error")
        for name, when in list(self._starts.items()):
            if now >= when:
                del self._starts[name]
                pod = self._fleet.pod(name)
                pod.restarts += 1
                pod.waits = False
                pod.memory_taken = 0.0
                self._ready[name] = now + pod.spec.cold_start
        for name, when in list(self._ready.items()):
            if now >= when:
                del self._ready[name]
                pod = self._fleet.pod(name)
                pod.restart(now)
                pod.in_rotation = True
                if name in self._at_work:
                    self._at_work[name] = (self._at_work[name][0], now)

    def _die(self, pod: Pod, now: float, reason: str) -> None:
        fleet = self._fleet
        if now - pod.started > FORGIVEN:
            pod.crashes = 0
        fleet.lose(pod.kill(), now)
        fleet.take_out(pod, now + fleet.scenario.router.detect)
        wait = min(MOST_BACK_OFF, BACK_OFF * 2.0**pod.crashes) if pod.crashes else 1.0
        pod.crashes += 1
        pod.last_end, pod.waits = reason, pod.crashes > 1
        self._starts[pod.name] = now + wait
