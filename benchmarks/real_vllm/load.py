"""Clients of one server: streamed completions of exact lengths, in an open or a closed loop."""

from __future__ import annotations

import asyncio
import json
import random
import time
from dataclasses import dataclass, field
from typing import NamedTuple
from urllib.parse import urlsplit

from benchmarks.real_vllm.server import NAME

MOST_OPEN = 1500
"""Requests under way at most, whatever the server does."""


@dataclass(frozen=True)
class Stream:
    """One kind of request. prompt, output: tokens, from and to; repeat: the prompt is a pattern of so many tokens over
    and over; temperature 0 is greedy."""

    prompt: tuple[int, int]
    output: tuple[int, int]
    repeat: int = 0
    temperature: float = 0.0


class Answer(NamedTuple):
    """What came back. events: pieces of the stream; first: when the first one came, in seconds of time.monotonic."""

    status: int
    events: int
    first: float | None


async def streamed(url: str, path: str, body: bytes) -> Answer:
    """One request, read to the end of its stream. HTTP/1.1 with the connection closed at the end.

    Raises OSError, asyncio.IncompleteReadError or ValueError where the connection breaks or no answer comes."""
    parts = urlsplit(url)
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
    try:
        head = f"POST {path} HTTP/1.1\r\nHost: {parts.netloc}\r\nContent-Type: application/json\r\n"
        writer.write(f"{head}Content-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode() + body)
        await writer.drain()
        words = (await reader.readline()).split()
        if len(words) < 2:
            raise ConnectionResetError("closed without an answer")
        events, first, ended = 0, None, False
        while line := await reader.readline():
            if line.startswith(b"data: {"):
                events += 1
                first = first or time.monotonic()
            ended = ended or line.startswith(b"data: [DONE]")
        if int(words[1]) == 200 and not ended:
            raise ConnectionResetError("the stream broke off")
        return Answer(int(words[1]), events, first)
    finally:
        writer.close()


@dataclass
class Clients:
    """Clients of one server. ended: (moment of the end in Unix seconds, tokens) of every whole answer."""

    url: str
    vocabulary: int
    seed: int = 1
    ended: list[tuple[float, int]] = field(default_factory=list)
    failed: int = 0

    def __post_init__(self) -> None:
        self._dice = random.Random(self.seed)
        self._open: set[asyncio.Task[None]] = set()

    async def open_loop(self, stream: Stream, rate: float, seconds: float) -> None:
        """Poisson arrivals at a rate (requests/s), whether answers keep up or not."""
        end = time.monotonic() + seconds
        due = time.monotonic() + self._dice.expovariate(rate)
        while due < end:
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            if len(self._open) < MOST_OPEN:
                task = asyncio.create_task(self.request(stream))
                self._open.add(task)
                task.add_done_callback(self._open.discard)
            due += self._dice.expovariate(rate)
        await asyncio.sleep(max(0.0, end - time.monotonic()))

    async def closed_loop(self, stream: Stream, clients: int, seconds: float) -> None:
        """So many clients, each with one request under way."""

        async def client() -> None:
            while True:
                await self.request(stream)

        tasks = [asyncio.create_task(client()) for _ in range(clients)]
        await asyncio.sleep(seconds)
        await _cancel(tasks)

    async def hang_up(self) -> None:
        """Leave what is still under way."""
        await _cancel(list(self._open))

    def rate(self, since: float) -> float:
        """Whole answers per second from a moment (Unix seconds) to now."""
        return sum(moment >= since for moment, _ in self.ended) / max(time.time() - since, 1e-9)

    def _prompt(self, stream: Stream) -> list[int]:
        length = self._dice.randint(*stream.prompt)
        fresh = [self._dice.randrange(3, self.vocabulary) for _ in range(stream.repeat or length)]
        return (fresh * (length // len(fresh) + 1))[:length]

    async def request(self, stream: Stream) -> None:
        """One streamed completion, prompt as token ids so that its length is exact."""
        body = {
            "model": NAME,
            "prompt": self._prompt(stream),
            "max_tokens": self._dice.randint(*stream.output),
            "ignore_eos": True,
            "stream": True,
            "temperature": stream.temperature,
        }
        try:
            answer = await streamed(self.url, "/v1/completions", json.dumps(body).encode())
        except (OSError, asyncio.IncompleteReadError, ValueError):
            answer = Answer(0, 0, None)
        if answer.status == 200:
            self.ended.append((time.time(), answer.events))
        else:
            self.failed += 1
            await asyncio.sleep(1.0)


async def _cancel(tasks: list[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
