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
from functools import partial

from inferdoc.config_sections import OutputSection
from inferdoc.errors import InferdocError
from inferdoc.escaping import one_line
from inferdoc.incidents import looks, posts
from inferdoc.incidents.database import RecordError
from inferdoc.incidents.runs import RunOutcome, PostDue
from inferdoc.incidents.model import Incident, Look
from inferdoc.incidents.record import Record
from inferdoc.serve.runner import Runner, RunFailedError
from inferdoc.serve.note import note
from inferdoc.serve.outputs.sending import PostError
from inferdoc.serve.outputs.delivery import tell
from inferdoc.serve.supervisor import Supervisor

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
    """outputs: who is told; say: gets a line for the log; retry_seconds: how long a message that is not taken is tried;
    clock: Unix seconds."""

    record: Record
    looker: Runner
    outputs: Sequence[OutputSection]
    say: Callable[[str], None]
    concurrency: int = 1
    public_url: str | None = None
    keep_seconds: float = 400 * 86_400.0
    retry_seconds: float = 48 * 3600.0
    clock: Callable[[], float] = time.time
    counts: SinceStart = field(default_factory=SinceStart)
    _news: asyncio.Event = field(default_factory=asyncio.Event)
    _prune_at: float = 0.0

    def __post_init__(self) -> None:
        self.tasks = Supervisor(self.say)
        self.say = self.tasks.say
        self._lookers = [f"looks {number}" for number in range(1, self.concurrency + 1)]

    @property
    def names(self) -> list[str]:
        """The labels of the outputs."""
        return [section.label for section in self.outputs]

    def start(self) -> None:
        """Begin, with what a process before has left."""
        if self.outputs:
            self.say(f"a message that an output does not take is tried again for {self.retry_seconds / 3600:g} h")
        self.tasks.start("resume", self._resume)

    def wake(self) -> None:
        """Something new is in the record."""
        news, self._news = self._news, asyncio.Event()
        news.set()

    async def stop(self, patience: float) -> None:
        """Finish what is under way, for so many seconds at most; what waits is kept for the next start."""
        self.wake()
        await self.tasks.stop(patience)

    async def _resume(self) -> bool:
        left = await asyncio.to_thread(looks.resume, self.record)
        await asyncio.to_thread(posts.dropped, self.record, set(self.names))
        if left:
            self.say(f"{left} looks wait from before")
        for name in self._lookers:
            self.tasks.start(name, partial(self._look_on, name))
        for section in self.outputs:
            self.tasks.start(f"output {section.label}", partial(self._post_on, section))
        self.tasks.start("prune", self._prune)
        return True

    async def _look_on(self, task: str) -> bool:
        if self.tasks.ending:
            return True
        news = self._news
        begun = await asyncio.to_thread(looks.begin, self.record, self.clock())
        if begun is None:
            await self._nap(news, looks.next_due)
        else:
            await self._look(task, *begun)
        return False

    async def _look(self, task: str, look: Look, incident: Incident) -> None:
        try:
            told = await self.looker.look(self.looker.asked(look, incident, self.clock()))
        except asyncio.CancelledError:
            await asyncio.shield(asyncio.to_thread(looks.give_back, self.record, look))
            raise
        except Exception as error:  # a look that neither ended nor failed would be under way for ever
            await self._fail(task, look, str(error) if isinstance(error, RunFailedError) else _fault(error))
        else:
            kept = RunOutcome(told.document, told.page, told.ended_by)
            try:
                await self.tasks.insist(task, looks.finish, self.record, look, kept, self.clock(), self.names)
            except RecordError:
                raise
            except Exception as error:
                await self._fail(
                    task, look, f"its result cannot be stored: {one_line(f'{type(error).__name__}: {error}')}"
                )
            else:
                self.counts.looks["ok"] += 1
                self.say(f"incident {incident.id}: {one_line(told.document.summary)}")
        self.wake()

    async def _fail(self, task: str, look: Look, why: str) -> None:
        self.counts.looks["failed"] += 1
        self.say(f"incident {look.incident}: could not look, because {why}")
        await self.tasks.insist(task, looks.fail, self.record, look, why, self.clock(), self.names)

    async def _post_on(self, section: OutputSection) -> bool:
        news, is_last = self._news, self.tasks.ending and not self.tasks.running(self._lookers)
        post = await asyncio.to_thread(posts.due, self.record, section.label, self.clock())
        if post is None:
            if not is_last:
                await self._nap(news, posts.next_due, section.label)
            return is_last
        look, incident = await asyncio.to_thread(posts.about, self.record, post)
        try:
            if section.kind != "grafana" or look.why != "repeat":
                await asyncio.to_thread(self._tell, section, look, incident)
        except RecordError:
            raise
        except Exception as error:
            await self._missed(post, error)
        else:
            await self.tasks.insist(f"output {section.label}", posts.sent, self.record, post)
            self.counts.posts[post.output, "sent"] += 1
        return False

    def _tell(self, section: OutputSection, look: Look, incident: Incident) -> None:
        shown = look if look.state == "done" else None
        answer = self.record.diagnosis(look.number) if shown else None
        page = self.record.page(look.number) if shown and section.kind == "file" else None
        tell(note(incident, look, answer, self.record.like(incident), self.public_url), section, answer, page)

    async def _missed(self, post: PostDue, error: Exception) -> None:
        final = isinstance(error, PostError) and error.final
        ours = isinstance(error, InferdocError)
        why = one_line(str(error)) if ours else f"a fault in inferdoc itself: {_fault(error)}"
        last = await self.tasks.insist(
            f"output {post.output}",
            partial(posts.missed, self.record, post, why, self.clock(), self.retry_seconds, final=final),
        )
        self.counts.posts[post.output, "failed" if last else "again"] += 1
        self.say(f"output {post.output}: {why}{'; given up' if last else ''}")

    async def _prune(self) -> bool:
        if self.clock() >= self._prune_at:
            gone = await asyncio.to_thread(looks.prune, self.record, self.clock() - self.keep_seconds)
            self._prune_at = self.clock() + PRUNE_SECONDS
            if gone:
                self.say(f"{gone} incidents older than {self.keep_seconds / 86_400:g} days are forgotten")
        await self._until(self._news, LONGEST_NAP)
        return self.tasks.ending

    async def _nap(self, news: asyncio.Event, due: Callable[..., float | None], *given: object) -> None:
        """Until there is news, or something is due. news: taken before the record was read."""
        at = await asyncio.to_thread(due, self.record, *given)
        await self._until(news, LONGEST_NAP if at is None else min(max(0.05, at - self.clock()), LONGEST_NAP))

    async def _until(self, news: asyncio.Event, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(news.wait(), seconds)


def _fault(error: Exception) -> str:
    return one_line(f"{type(error).__name__}: {error}")
