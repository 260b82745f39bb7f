"""Flow control of the router: requests are queued while the pool counts as saturated, the highest priority goes
first."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from inferdoc.simulate.attempt import Attempt
from inferdoc.simulate.controllers import FlowSpec
from inferdoc.simulate.pod import Pod
from inferdoc.simulate.router import REFRESH, Router
from inferdoc.simulate.stats import Histogram

QUEUE_WAIT = (0.0001, 0.0005, 0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
"""Buckets of llm_d_epp_flow_control_request_queue_duration_seconds."""
STALE = 1.0
"""What an endpoint without fresh figures counts for: full, no more."""
Class = tuple[str, int]
"""Fairness id and priority of a request."""


def class_of(attempt: Attempt) -> Class:
    spec = attempt.traffic.spec
    return spec.tenant, spec.priority


@dataclass
class FlowControl:
    """queues: queued requests of each class, oldest first; outcomes: by (outcome, priority); waits: time in the queue
    by (class, outcome); saturation, stale: as last worked out."""

    spec: FlowSpec
    router: Router
    queues: dict[Class, deque[tuple[float, Attempt]]] = field(default_factory=dict)
    outcomes: dict[tuple[str, int], int] = field(default_factory=dict)
    waits: dict[tuple[Class, str], Histogram] = field(default_factory=dict)
    saturation: float = 0.0
    stale: int = 0

    @property
    def queued(self) -> int:
        """Requests in the queue."""
        return sum(map(len, self.queues.values()))

    def observe(self, ready: Sequence[Pod], now: float) -> None:
        """Saturation of the pool as the utilisation detector has it: the mean over endpoints of the fuller of queue and
        KV cache against their limits. An empty pool is full. Where readings come faster than the simulation observes,
        what was sent meanwhile counts as waiting; slower ones show it late, as in the detector."""
        shares, self.stale = [], 0
        quick = self.router.refresh <= REFRESH
        for pod in ready:
            seen = self.router.seen.get(pod.name)
            if seen is None or self.router.age(pod.name, now) > self.spec.staleness:
                self.stale += 1
                shares.append(STALE)
                continue
            queue = seen.waiting + (self.router.sent.get(pod.name, 0) if quick else 0)
            shares.append(max(queue / self.spec.queue_limit, seen.usage / self.spec.kv_limit))
        self.saturation = sum(shares) / len(shares) if shares else STALE

    @property
    def open(self) -> bool:
        return self.saturation < STALE

    def offer(self, attempt: Attempt, now: float) -> bool:
        """Hold a request; False where its priority holds as many as it may."""
        kind = class_of(attempt)
        queue = self.queues.setdefault(kind, deque())
        band = sum(len(q) for (_, priority), q in self.queues.items() if priority == kind[1])
        if self.spec.capacity and band >= self.spec.capacity:
            self._ended(kind, "RejectedCapacity", 0.0)
            return False
        queue.append((now, attempt))
        return True

    def release(self, ready: Callable[[], Sequence[Pod]], now: float) -> Iterator[Attempt]:
        """Requests that may go, while the gate is open: the highest priority first, in it the oldest."""
        while self.queued:
            self.observe(ready(), now)
            if not self.open:
                return
            kind = max((k for k, q in self.queues.items() if q), key=lambda k: (k[1], -self.queues[k][0][0]))
            since, attempt = self.queues[kind].popleft()
            if attempt.over:
                continue
            self._ended(kind, "Dispatched", now - since)
            attempt.queued_seconds = now - since
            yield attempt

    def expire(self, now: float) -> Iterator[Attempt]:
        """Drop requests that are queued for longer than their time to live."""
        for kind, queue in self.queues.items():
            while queue and (queue[0][1].over or now - queue[0][0] >= self.spec.ttl):
                since, attempt = queue.popleft()
                if not attempt.over:
                    self._ended(kind, "EvictedTTL", now - since)
                    yield attempt

    def gone(self, attempt: Attempt, now: float) -> None:
        """The client of a queued request hung up; the queue drops it when its turn comes."""
        kind = class_of(attempt)
        since = next((at for at, queued in self.queues.get(kind, ()) if queued is attempt), None)
        if since is not None:
            self._ended(kind, "EvictedContextCancelled", now - since)

    def refuse(self, attempt: Attempt) -> None:
        """No endpoint at all: the request is not queued."""
        self._ended(class_of(attempt), "RejectedNoEndpoints", 0.0)

    def _ended(self, kind: Class, outcome: str, waited: float) -> None:
        key = outcome, kind[1]
        self.outcomes[key] = self.outcomes.get(key, 0) + 1
        self.waits.setdefault((kind, outcome), Histogram(QUEUE_WAIT)).observe(waited)
