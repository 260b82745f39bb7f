"""Rollouts and scale-outs as a Deployment does them: every new pod has a name, a process and an address of its own."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import ceil

from inferdoc.simulate.handle import FleetHandle
from inferdoc.simulate.pod import Pod
from inferdoc.simulate.scenario import FaultSpec


@dataclass
class Rollout:
    """One pool on its way from old pods to new ones. old: still to be replaced; starting: (when it is ready, the new
    pod, the one it replaces, None where it replaces none)."""

    fault: FaultSpec
    old: list[Pod]
    at_a_time: int
    starting: list[tuple[float, Pod, Pod | None]] = field(default_factory=list)


class Rollouts:
    """tick(now) moves every rollout. A new pod loads for `after` seconds, then gets traffic; the pod that it replaces
    leaves the rotation, is drained for at most `seconds`, and gone. So the pool never has fewer ready pods."""

    def __init__(self, fleet: FleetHandle) -> None:
        self._fleet = fleet
        self._at_work: list[Rollout] = []

    def begin(self, now: float, fault: FaultSpec, pods: list[Pod]) -> None:
        """rollout: replace these pods, pool by pool; grow: one pod more in the pool of each."""
        for pool in dict.fromkeys(pod.spec.name for pod in pods):
            members = [pod for pod in pods if pod.spec.name == pool and pod.scraped]
            if fault.kind == "grow":
                work = Rollout(fault, [], 0)
                self._start(work, pool, None, now)
            else:
                work = Rollout(fault, members, max(1, ceil(fault.surge * len(members))))
                generation = 1 + max(pod.generation for pod in members)
                self._fleet.renew(pool, generation, fault.flags, fault.version)
                self._next(work, now)
            self._at_work.append(work)

    def tick(self, now: float) -> None:
        """What is due at `now`."""
        for work in list(self._at_work):
            for entry in [e for e in work.starting if e[0] <= now]:
                work.starting.remove(entry)
                self._ready(work, entry[1], entry[2], now)
            if not work.starting:
                self._next(work, now)
            if not work.starting:
                self._at_work.remove(work)

    def _next(self, work: Rollout, now: float) -> None:
        for _ in range(min(work.at_a_time, len(work.old))):
            old = work.old.pop(0)
            if old.scraped:
                self._start(work, old.spec.name, old, now)

    def _start(self, work: Rollout, pool: str, old: Pod | None, now: float) -> None:
        fault = work.fault
        pod = self._fleet.add_pod(pool, ready=False)
        pod.alive, pod.scraped = False, fault.early
        pod.created = now
        work.starting.append((now + (pod.spec.cold_start if fault.after is None else fault.after), pod, old))

    def _ready(self, work: Rollout, pod: Pod, old: Pod | None, now: float) -> None:
        pod.restart(now)
        pod.in_rotation = pod.scraped = True
        if old is not None and old.scraped:
            self._fleet.replace(old, pod)
            self._fleet.stop(old, now, work.fault.seconds)
