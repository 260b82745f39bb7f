"""Run due diagnoses and deliver notifications.

The incident database is the queue: waiting runs survive a crash, and interrupted runs wait again.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

from inferdoc.config_sections import OutputSection
from inferdoc.errors import InferdocError
from inferdoc.escaping import one_line
from inferdoc.incidents import runs
from inferdoc.incidents.model import DiagnosisRun, Incident
from inferdoc.incidents.record import Record, RecordError
from inferdoc.incidents.runs import PostDue, RunOutcome
from inferdoc.judging.model import Diagnosis
from inferdoc.serve.note import Note, note
from inferdoc.serve.outputs import file, grafana, pagerduty, slack, teams, webhook
from inferdoc.serve.outputs.sending import Outgoing, PostError, send
from inferdoc.serve.runner import RunFailedError, Runner

T = TypeVar("T")
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 60.0
"""Seconds between two attempts: doubled after each, up to the longest."""


class Supervisor:
    """down: why, by the name of a task that fails now; failures: of each task since the start. log: gets a line for the
    log, and may fail."""

    def __init__(self, log: Callable[[str], None]) -> None:
        self._log = log
        self._ending = asyncio.Event()
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._idle: set[str] = set()
        self.down: dict[str, str] = {}
        self.failures: Counter[str] = Counter()

    @property
    def ending(self) -> bool:
        """Whether the tasks are to end."""
        return self._ending.is_set()

    @property
    def names(self) -> list[str]:
        """The tasks."""
        return list(self._tasks)

    def log(self, line: str) -> None:
        """Log a line. A log that cannot be written stops no task."""
        with contextlib.suppress(Exception):
            self._log(line)

    def start(self, name: str, work: Callable[[], Awaitable[bool]], *, finish: bool = True) -> None:
        """Run a task: `work` again and again until it returns True. A failure makes it wait, never end. finish: whether
        `stop` waits for it."""
        self._tasks[name] = asyncio.create_task(self._keep(name, work), name=name)
        if not finish:
            self._idle.add(name)

    def running(self, names: Iterable[str]) -> bool:
        """Whether one of these tasks has not ended."""
        return any(name in self._tasks and not self._tasks[name].done() for name in names)

    async def stop(self, patience: float) -> None:
        """Let the tasks finish, for so many seconds at most."""
        self._ending.set()
        for name in self._idle:
            self._tasks[name].cancel()
        if self._tasks:
            _, late = await asyncio.wait(self._tasks.values(), timeout=patience)
            for task in late:
                task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    async def insist(self, name: str, write: Callable[..., T], *given: object) -> T:
        """The value of a write to the incident record, in a thread: tried again while the record fails (locked, full).
        Raises RecordError once the tasks are to end."""
        return await self._tried(name, partial(asyncio.to_thread, write, *given), RecordError)

    async def _keep(self, name: str, work: Callable[[], Awaitable[bool]]) -> None:
        with contextlib.suppress(Exception):  # whatever it is: a task that ended would leave the service mute
            while not await self._tried(name, work, Exception):
                pass

    async def _tried(self, name: str, work: Callable[[], Awaitable[T]], failure: type[Exception]) -> T:
        """The value of the work, tried again while it fails. Raises the failure once the tasks are to end."""
        pause = FIRST_PAUSE
        while True:
            try:
                value = await work()
            except failure as error:
                self._failed(name, error)
                if self.ending:
                    raise
                pause = await self._wait(pause)
            else:
                self._well(name)
                return value

    async def _wait(self, pause: float) -> float:
        """Sleep, until the tasks are to end. The next pause."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._ending.wait(), pause)
        return min(2 * pause, LONGEST_PAUSE)

    def _failed(self, name: str, error: Exception) -> None:
        line = one_line(str(error) if isinstance(error, InferdocError) else f"{type(error).__name__}: {error}")
        self.failures[name] += 1
        if self.down.get(name) != line:
            self.log(f"task {name} fails and is tried again: {line}")
        self.down[name] = line

    def _well(self, name: str) -> None:
        if self.down.pop(name, None) is not None:
            self.log(f"task {name} works again")


SIMPLE: dict[str, Callable[[Note, OutputSection], Outgoing]] = {
    "slack": slack.outgoing,
    "teams": teams.outgoing,
    "pagerduty": pagerduty.outgoing,
}


def deliver(
    note: Note, section: OutputSection, answer: Diagnosis | None, page: str | None, reference: str | None = None
) -> str | None:
    """Send it. reference: of the message about the same incident that the output sent before.

    Returns the reference for the next call, None for outputs that update nothing. Raises PostError, and ConfigError
    where the output is not set up.
    """
    if section.kind == "grafana":
        return grafana.annotate(note, section, reference)
    if section.channel is not None:
        return slack.post(note, section, reference)
    if section.kind == "file":
        file.write(note, section, answer, page)
        return None
    made = webhook.outgoing(note, section, answer) if section.kind == "webhook" else SIMPLE[section.kind](note, section)
    send(made, section.ca_file)
    return None


LONGEST_NAP = 5.0
PRUNE_SECONDS = 3600.0


@dataclass
class SinceStart:
    """Since the start. runs: by result (ok, failed); posts: by output and result (sent, again, failed); messages: by
    result; watchdog: when the last message that all is well came, Unix seconds."""

    runs: Counter[str] = field(default_factory=Counter)
    posts: Counter[tuple[str, str]] = field(default_factory=Counter)
    messages: Counter[str] = field(default_factory=Counter)
    watchdog: float | None = None


@dataclass
class Dispatcher:
    """outputs: receivers; log: writes a log line; retry_seconds: how long a failed delivery is retried;
    clock: Unix seconds."""

    record: Record
    runner: Runner
    outputs: Sequence[OutputSection]
    log: Callable[[str], None]
    concurrency: int = 1
    public_url: str | None = None
    keep_seconds: float = 400 * 86_400.0
    retry_seconds: float = 48 * 3600.0
    clock: Callable[[], float] = time.time
    counts: SinceStart = field(default_factory=SinceStart)
    _news: asyncio.Event = field(default_factory=asyncio.Event)
    _prune_at: float = 0.0
    _age: float | None = None

    def __post_init__(self) -> None:
        self.tasks = Supervisor(self.log)
        self.log = self.tasks.log
        self._runners = [f"runs {number}" for number in range(1, self.concurrency + 1)]

    @property
    def names(self) -> list[str]:
        """The labels of the outputs."""
        return [section.label for section in self.outputs]

    def start(self) -> None:
        """Begin, with what a process before has left."""
        if self.outputs:
            self.log(f"failed deliveries are retried for {self.retry_seconds / 3600:g} h")
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
        left = await asyncio.to_thread(runs.resume, self.record)
        await asyncio.to_thread(runs.dropped, self.record, set(self.names))
        if left:
            self.log(f"{left} diagnosis runs are pending from the last start")
        for name in self._runners:
            self.tasks.start(name, partial(self._run_on, name))
        for section in self.outputs:
            self.tasks.start(f"output {section.label}", partial(self._post_on, section))
        self.tasks.start("prune", self._prune)
        return True

    async def _run_on(self, task: str) -> bool:
        if self.tasks.ending:
            return True
        news = self._news
        taken = await asyncio.to_thread(runs.begin, self.record, self.clock())
        if taken is None:
            await self._nap(news, runs.next_due)
        else:
            await self._run(task, *taken)
        return False

    async def _run(self, task: str, run: DiagnosisRun, incident: Incident) -> None:
        try:
            result = await self.runner.run(self.runner.request(run, incident, self.clock()))
        except asyncio.CancelledError:
            await asyncio.shield(asyncio.to_thread(runs.requeue, self.record, run))
            raise
        except Exception as error:  # a run without an end would stay in progress forever
            await self._fail(task, run, str(error) if isinstance(error, RunFailedError) else _fault(error))
        else:
            kept = RunOutcome(result.document, result.page, result.ended_by)
            try:
                await self.tasks.insist(task, runs.finish, self.record, run, kept, self.clock(), self.names)
            except RecordError:
                raise
            except Exception as error:
                await self._fail(
                    task, run, f"the result cannot be stored: {one_line(f'{type(error).__name__}: {error}')}"
                )
            else:
                self.counts.runs["ok"] += 1
                self.log(f"incident {incident.id}: {one_line(result.document.summary)}")
        self.wake()

    async def _fail(self, task: str, run: DiagnosisRun, why: str) -> None:
        self.counts.runs["failed"] += 1
        self.log(f"incident {run.incident}: diagnosis failed: {why}")
        await self.tasks.insist(task, runs.fail, self.record, run, why, self.clock(), self.names)

    async def _post_on(self, section: OutputSection) -> bool:
        news, is_last = self._news, self.tasks.ending and not self.tasks.running(self._runners)
        post = await asyncio.to_thread(runs.due, self.record, section.label, self.clock())
        if post is None:
            if not is_last:
                await self._nap(news, runs.next_post_due, section.label)
            return is_last
        run, incident = await asyncio.to_thread(runs.about, self.record, post)
        try:
            reference = await asyncio.to_thread(self._deliver, section, run, incident)
        except RecordError:
            raise
        except Exception as error:
            await self._missed(post, error)
        else:
            await self.tasks.insist(f"output {section.label}", runs.sent, self.record, post, reference)
            self.counts.posts[post.output, "sent"] += 1
        return False

    def _deliver(self, section: OutputSection, run: DiagnosisRun, incident: Incident) -> str | None:
        shown = run if run.state == "done" else None
        answer = self.record.diagnosis(run.number) if shown else None
        page = self.record.page(run.number) if shown and section.kind == "file" else None
        content = note(incident, run, answer, self.record.like(incident), self.public_url)
        before = runs.reference(self.record, incident.id, section.label)
        return deliver(content, section, answer, page, before)

    async def _missed(self, post: PostDue, error: Exception) -> None:
        final = isinstance(error, PostError) and error.final
        ours = isinstance(error, InferdocError)
        why = one_line(str(error)) if ours else f"internal error: {_fault(error)}"
        last = await self.tasks.insist(
            f"output {post.output}",
            partial(runs.missed, self.record, post, why, self.clock(), self.retry_seconds, final=final),
        )
        self.counts.posts[post.output, "failed" if last else "again"] += 1
        self.log(f"output {post.output}: {why}{'; given up' if last else ''}")

    async def _prune(self) -> bool:
        running = time.monotonic()
        if self._age is None:
            self._age = (await asyncio.to_thread(runs.newest, self.record) or self.clock()) - running
        if running >= self._prune_at:
            # A clock that jumps ahead makes nothing old: age counts from the newest run at the start.
            now = min(self.clock(), self._age + running)
            gone = await asyncio.to_thread(runs.prune, self.record, now - self.keep_seconds)
            self._prune_at = running + PRUNE_SECONDS
            if gone:
                self.log(f"{gone} incidents older than {self.keep_seconds / 86_400:g} days deleted")
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
