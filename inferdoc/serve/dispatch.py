"""Takes the looks that are due and tells the outputs, until it is to end.

The record is the queue: what waits in it survives a crash, and what is under way at a crash waits again.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from inferdoc.config_sections import OutputSection
from inferdoc.errors import InferdocError
from inferdoc.escaping import one_line
from inferdoc.incidents import looks, posts
from inferdoc.incidents.looks import LookResult, PostDue
from inferdoc.incidents.model import Incident, Look
from inferdoc.incidents.record import Record
from inferdoc.serve.looker import Looker, LookFailedError
from inferdoc.serve.note import note
from inferdoc.serve.outputs.sending import PostError
from inferdoc.serve.outputs.told import tell

T = TypeVar("T")
LONGEST_NAP = 5.0
PRUNE_SECONDS = 3600.0


@dataclass
class SinceStart:
    """Since the start. looks: by result (ok, failed); posts: by output and result (sent, again, failed); messages: by
    result; watchdog: when the last message that all is well came, Unix seconds."""

    looks: Counter[str] = field(default_factory=Counter)
    posts: Counter[tuple[str, str]] = field(default_factory=Counter)
    messages: Counter[str] = field(default_factory=Counter)
    watchdog: float | None = None


@dataclass
class Dispatcher:
    """outputs: who is told; say: gets a line for the log; clock: Unix seconds."""

    record: Record
    looker: Looker
    outputs: Sequence[OutputSection]
    say: Callable[[str], None]
    concurrency: int = 1
    public_url: str | None = None
    keep_seconds: float = 400 * 86_400.0
    clock: Callable[[], float] = time.time
    counts: SinceStart = field(default_factory=SinceStart)
    _news: asyncio.Event = field(default_factory=asyncio.Event)
    _ending: bool = False
    _tasks: list[asyncio.Task[None]] = field(default_factory=list)

    @property
    def names(self) -> list[str]:
        """The labels of the outputs."""
        return [section.label for section in self.outputs]

    async def start(self) -> None:
        """Begin, with what a process before has left."""
        left = await asyncio.to_thread(looks.resume, self.record)
        await asyncio.to_thread(posts.dropped, self.record, set(self.names))
        if left:
            self.say(f"{left} looks wait from before")
        self._tasks = [asyncio.create_task(self._look_on()) for _ in range(self.concurrency)]
        self._tasks += [asyncio.create_task(self._post_on()), asyncio.create_task(self._prune_on())]

    def wake(self) -> None:
        """Something new is in the record."""
        self._news.set()

    async def stop(self, patience: float) -> None:
        """Finish what is under way, for so many seconds at most; what waits is kept for the next start."""
        self._ending = True
        self._news.set()
        _, late = await asyncio.wait(self._tasks, timeout=patience) if self._tasks else (set(), set())
        for task in late:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _look_on(self) -> None:
        while not self._ending:
            begun = await self._guarded(looks.begin, self.record, self.clock())
            if begun is None:
                await self._nap(looks.next_due)
                continue
            await self._look(*begun)

    async def _look(self, look: Look, incident: Incident) -> None:
        try:
            told = await self.looker.look(self.looker.asked(look, incident, self.clock()))
        except asyncio.CancelledError:
            await asyncio.shield(asyncio.to_thread(looks.give_back, self.record, look))
            raise
        except (InferdocError, OSError) as error:
            why = str(error) if isinstance(error, LookFailedError) else one_line(f"{type(error).__name__}: {error}")
            self.counts.looks["failed"] += 1
            self.say(f"incident {incident.id}: could not look, because {why}")
            await self._guarded(looks.fail, self.record, look, why, self.clock(), self.names)
        else:
            self.counts.looks["ok"] += 1
            kept = LookResult(told.document, told.page, told.ended_by)
            await self._guarded(looks.finish, self.record, look, kept, self.clock(), self.names)
            self.say(f"incident {incident.id}: {one_line(told.document.summary)}")
        self.wake()

    async def _post_on(self) -> None:
        while True:
            waiting: list[PostDue] = await self._guarded(posts.due, self.record, self.clock()) or []
            await asyncio.gather(*(asyncio.to_thread(self._post, post) for post in waiting))
            if not waiting:
                if self._ending and not any(not task.done() for task in self._tasks[: self.concurrency]):
                    return
                await self._nap(posts.next_due)

    def _post(self, post: PostDue) -> None:
        section = next(section for section in self.outputs if section.label == post.output)
        try:
            look, incident = posts.about(self.record, post)
            if section.kind == "grafana" and look.why == "repeat":
                posts.sent(self.record, post)
                return
            shown = look if look.state == "done" else None
            answer = self.record.diagnosis(look.number) if shown else None
            page = self.record.page(look.number) if shown and section.kind == "file" else None
            like = self.record.like(incident)
            tell(note(incident, look, answer, like, self.public_url), section, answer, page)
            posts.sent(self.record, post)
            self.counts.posts[post.output, "sent"] += 1
        except InferdocError as error:
            self._missed(post, error)
        except Exception as error:  # a fault of ours in one output is told, and stops no other
            self._missed(post, PostError(f"a fault in inferdoc itself: {type(error).__name__}: {error}", final=True))

    def _missed(self, post: PostDue, error: InferdocError) -> None:
        final = isinstance(error, PostError) and error.final
        last = posts.missed(self.record, post, str(error), self.clock(), final=final)
        self.counts.posts[post.output, "failed" if last else "again"] += 1
        self.say(f"output {post.output}: {one_line(str(error))}{'; given up' if last else ''}")

    async def _prune_on(self) -> None:
        while not self._ending:
            gone = await self._guarded(looks.prune, self.record, self.clock() - self.keep_seconds)
            if gone:
                self.say(f"{gone} incidents older than {self.keep_seconds / 86_400:g} days are forgotten")
            end = self.clock() + PRUNE_SECONDS
            while not self._ending and self.clock() < end:
                await asyncio.sleep(1.0)

    async def _guarded(self, work: Callable[..., T], *given: object) -> T | None:
        """Work on the record in a thread. A record that fails is told and tried again: nothing else would do better."""
        try:
            return await asyncio.to_thread(work, *given)
        except InferdocError as error:
            self.say(str(error))
            await asyncio.sleep(1.0)
            return None

    async def _nap(self, due: Callable[[Record], float | None]) -> None:
        """Until there is news, or something is due."""
        at = await self._guarded(due, self.record)
        seconds = LONGEST_NAP if at is None else min(max(0.05, at - self.clock()), LONGEST_NAP)
        self._news.clear()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._news.wait()
