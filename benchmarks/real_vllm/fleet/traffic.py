"""Clients and the router in front of the pods: arrivals, prompts, policies, time-outs and retries."""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from benchmarks.real_vllm.fleet.pods import MODEL, Pod
from benchmarks.real_vllm.fleet.tokens import FIRST_TOKEN, TOKENS
from benchmarks.real_vllm.load import MOST_OPEN, streamed

PROBE_SECONDS = 5.0
PROBES_FAILED = 2
"""A pod is taken out of rotation after so many failed probes, as by a readiness probe."""
REFUSED_SECONDS = 0.5
"""A client waits so long after a refusal before it tries again."""


@dataclass(frozen=True)
class Load:
    """One kind of request.

    rate: (second, requests/s) points, joined by straight lines; prompt, output: tokens, from and to; prefixes: how many
    beginnings the prompts share, of prefix_tokens each, the first ones more often where skewed; unstable: some fresh
    tokens stand before the shared beginning; adapters: LoRA adapters that requests are spread over; timeout: seconds
    after which a client hangs up; retries: how often it then sends the same request again, at once.
    """

    rate: Sequence[tuple[float, float]]
    prompt: tuple[int, int] = (150, 450)
    output: tuple[int, int] = (80, 180)
    prefixes: int = 0
    prefix_tokens: int = 0
    skewed: bool = False
    unstable: bool = False
    adapters: int = 0
    timeout: float = 60.0
    retries: int = 0

    def rate_at(self, second: float) -> float:
        before, *rest = self.rate
        for after in rest:
            if second < after[0]:
                share = max(0.0, second - before[0]) / (after[0] - before[0])
                return before[1] + share * (after[1] - before[1])
            before = after
        return before[1]


BROKEN, HUNG_UP, NO_POD = 0, -1, -2


class Attempt(NamedTuple):
    """begin, end: seconds of the recording; first: seconds to the first token; status: 200, another HTTP status, or
    one of BROKEN (connection), HUNG_UP (client), NO_POD (in rotation)."""

    begin: float
    end: float
    pod: str
    status: int
    first: float | None
    tokens: int


class Router:
    """Chooses a pod. policy: turn (round robin), least (fewest in flight), prefix (the same beginning to the same pod),
    or hot (most of it to one pod)."""

    HOT_SHARE = 0.8

    def __init__(self, policy: str, seed: str) -> None:
        self.policy = policy
        self._dice = random.Random(seed)
        self._turn = 0

    def pick(self, pods: Sequence[Pod], prefix: int | None) -> Pod | None:
        ready = [pod for pod in pods if pod.ready]
        if not ready:
            return None
        self._turn += 1
        if self.policy == "least":
            return min(ready, key=lambda pod: (pod.in_flight, self._dice.random()))
        if self.policy == "prefix" and prefix is not None:
            return ready[prefix % len(ready)]
        if self.policy == "hot" and self._dice.random() < self.HOT_SHARE:
            return ready[0]
        return ready[self._turn % len(ready)]

    async def probe(self, pods: Sequence[Pod]) -> None:
        """Take pods out of rotation and back, for as long as the task lives. Pods that are draining stay out."""
        failed: dict[str, int] = {}
        while True:
            await asyncio.sleep(PROBE_SECONDS)
            for pod in list(pods):
                good = await pod.answers()
                failed[pod.name] = 0 if good else failed.get(pod.name, 0) + 1
                if failed[pod.name] >= PROBES_FAILED:
                    pod.ready = False
                elif good and not pod.draining:
                    pod.ready = True


class Clients:
    """All loads against one fleet. begin: time.monotonic at second 0 of the recording."""

    def __init__(self, pods: Sequence[Pod], router: Router, seed: str) -> None:
        self.attempts: list[Attempt] = []
        self.begin = time.monotonic()
        self._pods, self._router = pods, router
        self._dice = random.Random(seed)
        self._prefixes: dict[tuple[int, int], list[int]] = {}
        self._open: set[asyncio.Task[None]] = set()

    async def drive(self, load: Load, until: float) -> None:
        """Poisson arrivals until a second of the recording, whether answers keep up or not."""
        while (second := time.monotonic() - self.begin) < until:
            rate = load.rate_at(second)
            gap = self._dice.expovariate(rate) if rate > 0 else 1.0
            await asyncio.sleep(min(gap, 0.5))
            # A gap longer than half a second is drawn anew: the exponential has no memory, and the rate may change.
            if gap <= 0.5 and rate > 0 and len(self._open) < MOST_OPEN:
                task = asyncio.create_task(self._work(load))
                self._open.add(task)
                task.add_done_callback(self._open.discard)

    async def hang_up(self) -> None:
        for task in list(self._open):
            task.cancel()
        await asyncio.gather(*self._open, return_exceptions=True)

    def _prompt(self, load: Load) -> tuple[int | None, list[int]]:
        """Which shared beginning, if any, and the token ids."""
        fresh = self._tokens(self._dice.randint(*load.prompt))
        if not load.prefixes:
            return None, fresh
        number = self._dice.randrange(load.prefixes)
        if load.skewed:
            number = min(number, self._dice.randrange(load.prefixes), self._dice.randrange(load.prefixes))
        key = (number, load.prefix_tokens)
        if key not in self._prefixes:
            self._prefixes[key] = self._tokens(load.prefix_tokens)
        ahead = self._tokens(8) if load.unstable else []
        return number, ahead + self._prefixes[key] + fresh

    def _as_sent(self, prompt: list[int]) -> list[int] | str:
        """The prompt in the body of the request."""
        return prompt

    def _tokens(self, number: int) -> list[int]:
        return self._dice.choices(range(FIRST_TOKEN, TOKENS), k=number)

    async def _work(self, load: Load) -> None:
        """One piece of work: a request, and its retries."""
        prefix, prompt = self._prompt(load)
        body = {
            "model": f"adapter-{self._dice.randrange(load.adapters)}" if load.adapters else MODEL,
            "prompt": self._as_sent(prompt),
            "max_tokens": self._dice.randint(*load.output),
            "ignore_eos": True,
            "stream": True,
        }
        text = json.dumps(body).encode()
        for _ in range(load.retries + 1):
            status = await self._attempt(prefix, text, int(str(body["max_tokens"])), load.timeout)
            if status == 200:
                return
            if status != HUNG_UP:
                await asyncio.sleep(REFUSED_SECONDS)

    async def _attempt(self, prefix: int | None, text: bytes, tokens: int, timeout: float) -> int:
        pod = self._router.pick(self._pods, prefix)
        begin = time.monotonic()
        status, first = NO_POD, None
        if pod is not None:
            pod.in_flight += 1
            try:
                answer = await asyncio.wait_for(streamed(pod.url, "/v1/completions", text), timeout)
                status = answer.status
                first = answer.first - begin if answer.first is not None else None
            except TimeoutError:
                status = HUNG_UP
            except (OSError, asyncio.IncompleteReadError, ValueError):
                status = BROKEN
            finally:
                pod.in_flight -= 1
        ended = time.monotonic()
        name = pod.name if pod is not None else ""
        self.attempts.append(Attempt(begin - self.begin, ended - self.begin, name, status, first, tokens))
        return status
