"""The whole fleet in time: traffic in, faults as scheduled, engines onward, scrapes out."""

from __future__ import annotations

import heapq
from dataclasses import replace
from typing import Any

import msgspec
import numpy as np

from inferdoc.errors import InferdocError
from inferdoc.simulate.autoscaler import Autoscaler, sustainable
from inferdoc.simulate.faults import Schedule
from inferdoc.simulate.gateway import Attempt, Gateway
from inferdoc.simulate.pod import Pod
from inferdoc.simulate.request import EngineRequest, prepare
from inferdoc.simulate.router import ClassStats, Router
from inferdoc.simulate.scenario import EngineFlags, Scenario, Stream
from inferdoc.simulate.workload import Draft, Traffic, make_request

TICK = 0.25
"""Seconds between two moments at which router, clients and faults act; engines move exactly within them."""

AGENT_TRIES = 3
REMINDER = 60
"""Tokens with which an agent reports a missing call to the model (own choice)."""


class SimulatedFleet:
    """run(until) moves everything on. Times are seconds since the start of the simulation."""

    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario
        self.now = -scenario.warmup
        self.pods: list[Pod] = []
        self._numbers: dict[str, int] = {}
        self._specs = {pool.name: pool for pool in scenario.pools}
        self._generations: dict[str, int] = {}
        self.successors: dict[str, str] = {}
        for pool in scenario.pools:
            for _ in range(pool.pods):
                self.add_pod(pool.name)
            for _ in range(pool.late):
                self.add_pod(pool.name, ready=False)
        for pod in self.pods:
            pod.created = pod.started = self.now - (scenario.surroundings.age if scenario.surroundings else 0.0)
        seeds = np.random.SeedSequence(scenario.seed).spawn(len(scenario.traffic) + 2)
        spec = scenario.router
        careful = spec.flow is not None or spec.refresh > TICK
        rng = np.random.default_rng(seeds[-1])
        self.router = Router(
            spec.policy, rng, refresh=spec.refresh, in_flight=spec.in_flight, careful=careful, spill=spec.spill
        )
        self.gateway = Gateway(spec, self.router, self._place, self._failed, self._endpoints)
        self._rng = np.random.default_rng(seeds[-2])
        self.traffic = [
            Traffic(i, self._rated(spec), np.random.default_rng(seeds[i])) for i, spec in enumerate(scenario.traffic)
        ]
        self.handover = scenario.router.handover
        self.late_share, self.late_by = 0.0, 0.0
        self.hot_pods: list[Pod] = []
        self._schedule = Schedule(self)
        self._attempts: dict[int, Attempt] = {}
        self._timeouts: list[tuple[float, int, bool, Attempt]] = []
        self._again: list[tuple[float, Draft, Traffic]] = []
        self._legs: list[tuple[float, int, EngineRequest]] = []
        self._leaving: list[tuple[float, Pod]] = []
        self._draining: list[tuple[Pod, bool]] = []
        self._deadlines: list[tuple[float, Pod]] = []
        self.scalers = [Autoscaler(self, p) for p in scenario.pools if p.scaler is not None]
        self._serial = 0
        self._prompts = 0
        self.split = any(p.role == "prefill" for p in scenario.pools)

    def add_pod(self, pool: str, ready: bool = True) -> Pod:
        """One more pod of a pool."""
        spec = self._specs.get(pool)
        if spec is None:
            raise InferdocError(f"scenario {self.scenario.id}: no pool {pool!r}")
        number = self._numbers.get(pool, 0)
        self._numbers[pool] = number + 1
        index = sum(len(known.ranks) for known in self.pods)
        seed = self.scenario.seed * 1000 + index
        pod = Pod(spec, number, index, self.now, seed, self._finished, self._prefilled)
        pod.in_rotation = ready
        pod.generation = self._generations.get(pool, 0)
        pod.add_ranks(self.now)
        self.pods.append(pod)
        return pod

    def renew(self, pool: str, generation: int, flags: dict[str, Any], version: str | None) -> None:
        """Pods of a pool that are added from now on belong to another generation, with these settings changed."""
        spec = self._specs[pool]
        changed = msgspec.convert({**msgspec.to_builtins(spec.flags), **flags}, EngineFlags)
        self._specs[pool] = msgspec.structs.replace(spec, flags=changed, version=version or spec.version)
        self._generations[pool] = generation

    def replace(self, old: Pod, new: Pod) -> None:
        """The name of the old pod means the new one from now on, in faults and in labels of incidents."""
        self.successors[old.name] = new.name
        old.replaced = True

    def heir(self, name: str) -> str:
        """The name of the pod that has the place of this one now."""
        while name in self.successors:
            name = self.successors[name]
        return name

    def pod(self, name: str) -> Pod:
        """The pod of this name, or the one that replaced it."""
        name = self.heir(name)
        found = next((p for p in self.pods if p.name == name), None)
        if found is None:
            raise InferdocError(
                f"scenario {self.scenario.id}: no pod {name!r}; pods: {', '.join(p.name for p in self.pods)}"
            )
        return found

    def _rated(self, stream: Stream) -> Stream:
        if not stream.load:
            return stream
        return msgspec.structs.replace(stream, rate=stream.load * sustainable(self.scenario.pools, stream))

    # ---- time --------------------------------------------------------------------------------------------------

    def run(self, until: float) -> None:
        """Move on to `until` in ticks."""
        while self.now < until - 1e-9:
            end = min(self.now + TICK, until)
            self._schedule.apply(self.now)
            for scaler in self.scalers:
                scaler.move(self.now)
            self._leave()
            self._time_out(end)
            self._send(end)
            self.gateway.move(self.now, end)
            for pod in self.pods:
                if pod.alive and pod.spec.role == "prefill":
                    pod.engine.advance(end)
            for pod in self.hot_pods:
                pod.settle_clocks(end)
            self._hand_over(end)
            for pod in self.pods:
                if pod.alive and pod.spec.role != "prefill":
                    pod.engine.advance(end)
                    for rank in pod.ranks[1:]:
                        rank.engine.advance(end)
                        pod.rest()
            self.now = end
            self.router.poll([p for p in self.pods if p.in_rotation], end, TICK)

    def take_out(self, pod: Pod, when: float) -> None:
        """The router notices at `when` that the pod is dead."""
        self._leaving.append((when, pod))

    def stop_when_idle(self, pod: Pod, for_good: bool) -> None:
        """A drained pod stops once it has nothing left to do; one that is scaled in is not scraped any more."""
        self._draining.append((pod, for_good))

    def _leave(self) -> None:
        for when, pod in list(self._leaving):
            if when <= self.now:
                pod.in_rotation = pod.alive
                self._leaving.remove((when, pod))
        for pod, for_good in list(self._draining):
            if pod.idle:
                pod.alive = False
                pod.scraped = not for_good
                self._draining.remove((pod, for_good))
                self._deadlines = [(due, p) for due, p in self._deadlines if p is not pod]
        for when, pod in list(self._deadlines):
            if when <= self.now:
                self._deadlines.remove((when, pod))
                self._draining.remove((pod, True))
                self.lose(pod.kill(), self.now)
                pod.scraped = False

    def stop(self, pod: Pod, now: float, shutdown: float) -> None:
        """A planned end: no new requests, and what still runs after `shutdown` seconds is aborted. The target goes from
        the list with the pod."""
        pod.in_rotation = False
        self._draining.append((pod, True))
        self._deadlines.append((now + shutdown, pod))

    def _endpoints(self) -> list[Pod]:
        """Pods that the first leg of a request may go to."""
        role = "prefill" if self.split else "both"
        return [p for p in self.pods if p.spec.role == role and p.in_rotation]

    def _send(self, end: float) -> None:
        batch: list[tuple[float, Draft, Traffic]] = []
        for traffic in self.traffic:
            for moment in traffic.arrivals(self.now, end - self.now):
                self._prompts += 1
                batch.append((moment, traffic.draft(self._prompts), traffic))
        batch += [again for again in self._again if again[0] < end]
        self._again = [again for again in self._again if again[0] >= end]
        for moment, draft, traffic in sorted(batch, key=lambda entry: entry[0]):
            self._dispatch(max(moment, self.now), draft, traffic)

    def _dispatch(self, now: float, draft: Draft, traffic: Traffic) -> None:
        attempt = Attempt(draft, now, traffic)
        traffic.in_flight += 1
        stats = self._stats(attempt)
        stats.requests += 1
        stats.running += 1
        count = traffic.spec
        for wait, whole in ((count.timeout, True), (count.first_token_timeout, False), (self.gateway.timeout, True)):
            if wait:
                self._serial += 1
                heapq.heappush(self._timeouts, (now + wait, self._serial, whole, attempt))
        self.gateway.receive(attempt, now)

    def _stats(self, attempt: Attempt) -> ClassStats:
        return self.router.stats.for_class(attempt.traffic.spec.tenant, attempt.traffic.spec.priority)

    def _place(self, attempt: Attempt, now: float) -> None:
        """A request may go: to the pod that the router chooses."""
        router, draft = self.router, attempt.draft
        pod = router.choose(self.pods, draft, "prefill" if self.split else "both")
        if pod is None or not pod.alive:
            self._failed(attempt, now)
            return
        pod = pod.rank_for(self._rng)
        request = self._request(attempt, pod, now)
        if self.split:
            reader = self._request(attempt, pod, now)
            prepare(request, pod.engine, reader)
            request.output = request.max_tokens = 1
            attempt.first_leg = request
            attempt.leg = reader
            router.stats.split += 1
        else:
            attempt.leg = request
        attempt.pod = pod
        pod.engine.submit(request, now)

    def _request(self, attempt: Attempt, pod: Pod, now: float) -> EngineRequest:
        self._serial += 1
        flags = pod.spec.flags
        request = make_request(attempt.draft, self._serial, now, flags.block_size, flags.max_len)
        self._attempts[request.id] = attempt
        return request

    def _prefilled(self, request: EngineRequest, now: float) -> None:
        attempt = self._attempts.pop(request.id, None)
        if attempt is None or attempt.over or attempt.leg is None:
            return
        late = self.late_by if self.late_share and self._rng.random() < self.late_share else 0.0
        self._serial += 1
        heapq.heappush(self._legs, (now + self.handover + late, self._serial, attempt.leg))

    def _hand_over(self, end: float) -> None:
        while self._legs and self._legs[0][0] < end:
            now, _, request = heapq.heappop(self._legs)
            attempt = self._attempts.get(request.id)
            if attempt is None or attempt.over:
                continue
            pod = self.router.choose(self.pods, attempt.draft, "decode")
            if pod is None or not pod.alive:
                self._failed(attempt, now)
                continue
            request.arrival = request.sent = now
            attempt.pod = pod
            pod.engine.submit(request, now)

    # ---- ends of requests --------------------------------------------------------------------------------------

    def _finished(self, request: EngineRequest, now: float) -> None:
        """An engine is done with a request: finished, failed or aborted."""
        attempt = self._attempts.pop(request.id, None)
        if attempt is None or attempt.over:
            return
        self._end(attempt)
        stats = self._stats(attempt)
        stats.duration.observe(now - attempt.sent)
        if request.first >= 0:
            stats.ttft.observe(request.first - attempt.sent)
        if request.left or request.failed:
            if request.failed:
                stats.failed("ModelServerError")
            self._retry(attempt, now)
        elif request.missed:
            self._resend(attempt, request, now)
        elif attempt.draft.turns_left:
            self._answered(attempt, now)

    def _failed(self, attempt: Attempt, now: float, code: str = "ModelServerError") -> None:
        """No engine took or kept it, or the router turned it away."""
        self._end(attempt)
        self._stats(attempt).failed(code)
        self._retry(attempt, now + 1.0)

    def _end(self, attempt: Attempt) -> None:
        attempt.over = True
        attempt.traffic.in_flight -= 1
        self._stats(attempt).running -= 1

    def _retry(self, attempt: Attempt, now: float) -> None:
        draft = attempt.draft
        if draft.attempt < attempt.traffic.spec.retries:
            draft.attempt += 1
            self._again.append((now, draft, attempt.traffic))

    def _answered(self, attempt: Attempt, now: float) -> None:
        """The client reads the answer, thinks, and sends the next turn of the conversation."""
        self._prompts += 1
        following = attempt.traffic.next_turn(attempt.draft, self._prompts)
        if following is not None:
            self._again.append((now + following[0], following[1], attempt.traffic))

    def _resend(self, attempt: Attempt, request: EngineRequest, now: float) -> None:
        """An agent that got text instead of a tool call puts it into the history and retries, up to three
        times."""
        draft = attempt.draft
        if draft.attempt < AGENT_TRIES:
            self._prompts += 1
            longer = replace(draft, prompt_id=self._prompts, prompt=draft.prompt + request.output + REMINDER)
            longer.attempt += 1
            self._again.append((now, longer, attempt.traffic))

    def _time_out(self, end: float) -> None:
        while self._timeouts and self._timeouts[0][0] < end:
            now, _, whole, attempt = heapq.heappop(self._timeouts)
            request = attempt.leg
            if attempt.over:
                continue
            if request is None or attempt.pod is None:
                self.gateway.gone(attempt, now)
                self._end(attempt)
                self._retry(attempt, now)
                continue
            if not whole and request.first >= 0:
                continue
            leg = request if request.engine is not None else attempt.first_leg
            engine = leg.engine if leg is not None else None
            if leg is None or engine is None or engine.hung or not attempt.pod.alive:
                self._end(attempt)
                self._retry(attempt, now)
            else:
                self._attempts[leg.id] = attempt
                engine.abort(leg, now)

    def lose(self, requests: list[EngineRequest], now: float) -> None:
        """Requests that went down with their process: their clients see an error."""
        for request in requests:
            attempt = self._attempts.pop(request.id, None)
            if attempt is not None and not attempt.over:
                self._failed(attempt, now)
