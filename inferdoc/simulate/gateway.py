"""What a request passes before an engine gets it: the proxy with its time limit, the endpoint picker's own processor,
flow control."""

from __future__ import annotations

import heapq
from collections.abc import Callable

from inferdoc.simulate.attempt import Attempt
from inferdoc.simulate.flow import FlowControl
from inferdoc.simulate.pod import Pod
from inferdoc.simulate.router import Router
from inferdoc.simulate.scenario import RouterSpec
from inferdoc.simulate.stats import Histogram

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
