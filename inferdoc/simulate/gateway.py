"""What a request passes before an engine gets it: the proxy with its time limit, the endpoint picker's own processor,
flow control."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from inferdoc.simulate.pod import Pod
from inferdoc.simulate.request import EngineRequest
from inferdoc.simulate.router import REFRESH, Router
from inferdoc.simulate.scenario import RouterSpec
from inferdoc.simulate.stats import Histogram
from inferdoc.simulate.surroundings import FlowSpec
from inferdoc.simulate.workload import Draft, Traffic


@dataclass(slots=True)
class Attempt:
    """One sending of a draft. legs: the engine requests of it (two where prefill and decode are apart); processing,
    queued_seconds: seconds in the router's processor and in its queue."""

    draft: Draft
    sent: float
    traffic: Traffic
    over: bool = False
    processing: float = 0.0
    queued_seconds: float = 0.0
    first_leg: EngineRequest | None = None
    leg: EngineRequest | None = None
    pod: Pod | None = None


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


CORE_PER_REQUEST = 0.0005
"""Core-seconds of one request whatever its length (own choice: 2000 small requests/s per core)."""
CORE_PER_TOKEN = 0.75 / 100_000
"""Core-seconds per prompt token: 0.5 to 1 core per request/s at 100,000 tokens (sizing guide of the llm-d router)."""
CORE_PER_POLL = 7.5 / 100 * 0.05
"""Core-seconds of reading one endpoint once: 7.5 cores for 100 pods every 50 ms (same guide)."""
DECISION = 1e-4
"""Seconds of one scheduling decision on an idle picker (llm-d router: median about 0.1 ms)."""
BACKLOG = 600.0
"""Seconds of work that may wait for the picker before it counts as lost: streams are cut long before."""
SCHEDULING = (0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1)
PROCESSING = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.015, 0.025, 0.04, 0.06, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Buckets of llm_d_epp_scheduler_e2e_duration_seconds and llm_d_epp_request_processing_duration_seconds."""


class Gateway:
    """receive() takes a request in, `place` is called once it may go to a pod, `refuse` (with an error code) where it
    may not. cores: that the picker may use, 0 for as many as it wants."""

    def __init__(
        self,
        spec: RouterSpec,
        router: Router,
        place: Callable[[Attempt, float], None],
        refuse: Callable[[Attempt, float, str], None],
        ready: Callable[[], list[Pod]],
    ) -> None:
        self.cores = spec.cores
        self.timeout = spec.timeout
        self.flow = None if spec.flow is None else FlowControl(spec.flow, router)
        self.scheduling = Histogram(SCHEDULING)
        self.processing = Histogram(PROCESSING)
        self.used = 0.0
        self._router = router
        self._place, self._refuse, self._ready = place, refuse, ready
        self._free = float("-inf")
        self._coming: list[tuple[float, int, Attempt]] = []
        self._serial = 0

    def receive(self, attempt: Attempt, now: float) -> None:
        """A request arrives at the router."""
        leaves = self._processed(attempt, now)
        if leaves <= now:
            self._admit(attempt, now)
        else:
            self._serial += 1
            heapq.heappush(self._coming, (leaves, self._serial, attempt))

    def move(self, now: float, end: float) -> None:
        """What leaves the picker's processor before `end`, and what flow control lets go or gives up."""
        while self._coming and self._coming[0][0] < end:
            moment, _, attempt = heapq.heappop(self._coming)
            if not attempt.over:
                self._admit(attempt, max(moment, now))
        flow = self.flow
        if flow is None:
            return
        for attempt in flow.release(self._ready, now):
            self._go(attempt, now)
        for attempt in list(flow.expire(now)):
            self._refuse(attempt, now, "ResourceExhausted")
        flow.observe(self._ready(), now)

    def gone(self, attempt: Attempt, now: float) -> None:
        """The client, or the proxy, gave up on a request that no pod has yet."""
        if self.flow is not None:
            self.flow.gone(attempt, now)

    def _processed(self, attempt: Attempt, now: float) -> float:
        """When the picker is done with a request: its cores share the work that is there, first come first served; one
        request uses one core."""
        work = CORE_PER_REQUEST + CORE_PER_TOKEN * attempt.draft.prompt
        self.used += work
        if not self.cores:
            self.scheduling.observe(DECISION)
            attempt.processing = work
            return now
        polls = CORE_PER_POLL * self._router.polls_per_second
        free = max(self.cores - polls, 0.05 * self.cores)
        self._free = min(max(self._free, now), now + BACKLOG) + work / free
        leaves = max(self._free, now + work)
        attempt.processing = leaves - now
        self.scheduling.observe(DECISION * (leaves - now) / work)
        return leaves

    def _admit(self, attempt: Attempt, now: float) -> None:
        flow = self.flow
        if flow is None:
            self._go(attempt, now)
        elif not self._ready():
            flow.refuse(attempt)
            self._refuse(attempt, now, "ServiceUnavailable")
        elif not flow.offer(attempt, now):
            self._refuse(attempt, now, "ResourceExhausted")
        else:
            for free in flow.release(self._ready, now):
                self._go(free, now)

    def _go(self, attempt: Attempt, now: float) -> None:
        self.processing.observe(attempt.processing + attempt.queued_seconds)
        self._place(attempt, now)
