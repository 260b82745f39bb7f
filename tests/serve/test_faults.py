"""Each read, write, post, diagnosis and log line of the service fails: what was accepted is told, and told once."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from inferdoc.config_sections import OutputSection
from inferdoc.errors import InferdocError
from inferdoc.incidents import runs
from inferdoc.incidents.intake import Merging, take
from inferdoc.incidents.record import Record
from inferdoc.judging.model import Diagnosis
from inferdoc.serve import dispatch
from inferdoc.serve.dispatch import Dispatcher
from inferdoc.serve.note import Note
from inferdoc.serve.outputs.sending import PostError
from inferdoc.serve.run_process import RunRequest, RunResult
from inferdoc.serve.runner import RunFailedError, Runner
from tests.incidents.alerts import NOW, alert, entered
from tests.serve.running import GivenRunner, Hook, firing, running, webhook

OUTPUTS = (OutputSection(kind="slack", url="http://127.0.0.1:9/"), OutputSection(kind="file", folder="unused"))
MODELS = ("a", "b")
PATIENCE = 20.0
SPEED = 1000.0
"""The clock of the service runs so much faster than ours."""


@dataclass
class Faults:
    """Counts every call of the outside and fails some: from the `first` on, `length` of them; 0: none. kind: counts
    only such calls."""

    first: int = 0
    length: int = 1
    calls: int = 0
    kinds: Counter[str] = field(default_factory=Counter)
    kind: str = ""

    def call(self, kind: str, errors: tuple[Exception, ...]) -> None:
        if self.kind not in ("", kind):
            return
        self.calls += 1
        if self.first <= self.calls < self.first + self.length and self.first:
            self.kinds[kind] += 1
            raise errors[self.calls % len(errors)]


class FailingConnection:
    """A connection to SQLite whose statements fail as those of a locked, full or broken disk do."""

    ERRORS = tuple(
        sqlite3.OperationalError(words)
        for words in ("database is locked", "database or disk is full", "disk I/O error", "attempt to write a readonly")
    )

    def __init__(self, connection: sqlite3.Connection, faults: Faults) -> None:
        self._connection, self._faults = connection, faults

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)

    def execute(self, statement: str, *given: Any) -> sqlite3.Cursor:
        self._faults.call("statement", self.ERRORS)
        return self._connection.execute(statement, *given)

    def executemany(self, statement: str, *given: Any) -> sqlite3.Cursor:
        self._faults.call("statement", self.ERRORS)
        return self._connection.executemany(statement, *given)


@dataclass
class FailingRunner(Runner):
    """Answers with a document, unless it fails."""

    answer: Diagnosis | None = None
    faults: Faults = field(default_factory=Faults)

    async def run(self, request: RunRequest) -> RunResult:
        self.faults.call("diagnosis", (RunFailedError("no answer"), OSError(11, "no process"), RuntimeError("odd")))
        assert self.answer is not None
        return RunResult(self.answer, None, None)


@pytest.fixture
def quick(monkeypatch):
    monkeypatch.setattr(dispatch, "FIRST_PAUSE", 0.002)
    monkeypatch.setattr(dispatch, "LONGEST_PAUSE", 0.01)
    monkeypatch.setattr(dispatch, "LONGEST_NAP", 0.02)


@contextmanager
def faulty(folder: Path, faults: Faults, answer: Diagnosis, monkeypatch: Any) -> Iterator[tuple[Dispatcher, Counter]]:
    """A dispatcher over a record of its own, and what its outputs have got: (output, incident, title)."""
    record, got, started = Record(folder / "incidents.db", writing=True), Counter(), time.time()

    def deliver(note: Note, section: OutputSection, *_: object) -> None:
        faults.call("post", (PostError("503"), OSError(104, "reset"), RuntimeError("odd"), PostError("401")))
        got[section.label, note.incident, note.title] += 1

    def log(line: str) -> None:
        faults.call("log", (BrokenPipeError(32, "nobody reads"),))

    monkeypatch.setattr(dispatch, "deliver", deliver)
    record._database.connection = FailingConnection(record._database.connection, faults)
    runner = FailingRunner({}, {}, answer=answer, faults=faults)
    clock = lambda: started + SPEED * (time.time() - started)  # noqa: E731
    try:
        yield Dispatcher(record, runner, OUTPUTS, log, clock=clock), got
    finally:
        record.close()


async def _until(true: Callable[[], bool], what: Callable[[], object]) -> None:
    end = time.monotonic() + PATIENCE
    while not true():
        assert time.monotonic() < end, f"mute: {what()}"
        await asyncio.sleep(0.002)


async def served(service: Dispatcher, got: Counter, title: str, faults: Faults) -> int:
    """Send alerts as Alertmanager does, again until they are accepted, and wait for all of them to be told. How many
    calls that took."""
    service.start()
    try:
        for model in MODELS:
            while True:
                try:
                    take(
                        service.record,
                        [alert(model_name=model, starts=service.clock())],
                        "",
                        service.clock(),
                        Merging(),
                    )
                    break
                except InferdocError:
                    await asyncio.sleep(0.002)
            service.wake()

        def result() -> bool:
            return len([key for key in got if key[2].startswith(title)]) == len(MODELS) * len(OUTPUTS)

        await _until(result, lambda: (got, service.tasks.down, service.tasks.failures))
        needed, faults.first = faults.calls, 0  # what follows is read by this test itself
        await _until(lambda: not runs.pending(service.record), lambda: runs.pending(service.record))
        await _until(lambda: not service.tasks.down, lambda: service.tasks.down)
        assert len(service.record.incidents()) == len(MODELS)
        return needed
    finally:
        await service.stop(5.0)


@pytest.mark.parametrize(("begin", "step", "length"), [(1, 3, 1), (2, 3, 1), (3, 3, 1), (1, 4, 7)])
def test_whatever_call_fails_all_that_was_accepted_is_reported_once(
    tmp_path, sick, quick, monkeypatch, begin, step, length
):
    title = sick.findings[0].title
    clean = Faults()
    with faulty(tmp_path, clean, sick, monkeypatch) as (service, got):
        calls = asyncio.run(served(service, got, title, clean))
    assert calls > 40 and set(got.values()) == {1}
    kinds: Counter[str] = Counter()
    for first in range(begin, calls, step):
        folder = tmp_path / f"{first}"
        folder.mkdir()
        faults = Faults(first, length)
        with faulty(folder, faults, sick, monkeypatch) as (service, got):
            asyncio.run(served(service, got, title, faults))
        assert set(got.values()) == {1}, f"call {first} ({dict(faults.kinds)}): {got}"
        kinds += faults.kinds
    assert kinds.total() >= 0.9 * length * len(range(begin, calls, step))


@pytest.mark.parametrize(("kind", "first"), [(kind, n) for kind in ("post", "diagnosis", "log") for n in (1, 2)])
def test_whatever_kind_of_call_fails_the_rest_goes_on(tmp_path, sick, quick, monkeypatch, kind, first):
    faults = Faults(first, kind=kind)
    with faulty(tmp_path, faults, sick, monkeypatch) as (service, got):
        asyncio.run(served(service, got, sick.findings[0].title, faults))
    assert set(got.values()) == {1} and dict(faults.kinds) == {kind: 1}


def test_a_record_that_fails_makes_the_service_unready_and_a_metric_and_is_healed(tmp_path, sick, quick):
    hook, faults = Hook(), Faults()
    outputs = (OutputSection(kind="slack", url=f"{hook.address}/services/T0"),)
    with running(tmp_path, GivenRunner({}, {}, answer=sick, seconds=1.5), outputs) as service:
        database = service.record._database
        database.connection = FailingConnection(database.connection, faults)
        assert service.post(webhook(firing())).status_code == 200
        service.until(lambda: not service.service.dispatcher.tasks.running(["resume"]))  # it starts the others
        faults.first, faults.length = faults.calls + 1, 1 << 30
        service.until(lambda: len(service.service.dispatcher.tasks.down) >= 2)
        assert service.get("/healthz").status_code == 200
        answer = service.get("/readyz")
        assert answer.status_code == 503
        assert service.post(webhook(firing(mark="f2", model_name="n"))).status_code == 503
        faults.length = 0
        service.until(lambda: service.get("/readyz").status_code == 200)
        service.until(lambda: hook.bodies)
        text = service.get("/metrics").text
        assert 'inferdoc_task_up{task="output slack"} 1.0' in text and 'inferdoc_posts_waiting{output="slack"}' in text
        failures = [line for line in text.splitlines() if line.startswith("inferdoc_task_failures_total")]
        assert any(not line.endswith(" 0.0") for line in failures)
        assert any("works again" in line for line in service.logged)
    assert len(hook.bodies) == 1
    hook.stop()


def test_readyz_names_a_task_that_is_down(tmp_path, sick, quick):
    with running(tmp_path, GivenRunner({}, {}, answer=sick)) as service:
        tasks = service.service.dispatcher.tasks
        service.until(lambda: "prune" in tasks.names)
        broken = True

        async def odd() -> bool:
            if broken:
                raise ZeroDivisionError("odd")
            await asyncio.sleep(0.01)
            return tasks.ending

        service.loop().call_soon_threadsafe(tasks.start, "odd", odd)
        service.until(lambda: service.get("/readyz").status_code == 503)
        assert "task odd fails: ZeroDivisionError: odd" in service.get("/readyz").text
        assert 'inferdoc_task_up{task="odd"} 0.0' in service.get("/metrics").text
        assert "ZeroDivisionError" in service.get("/health").text
        broken = False
        service.until(lambda: service.get("/readyz").status_code == 200)


def test_an_output_that_is_down_leaves_what_it_did_not_take_in_sight(tmp_path, sick):
    hook = Hook(status=503)
    outputs = (OutputSection(kind="slack", url=f"{hook.address}/services/T0"),)
    with running(tmp_path, GivenRunner({}, {}, answer=sick), outputs) as service:
        service.post(webhook(firing()))
        service.until(lambda: any("HTTP 503" in line for line in service.logged))
        assert 'inferdoc_posts_waiting{output="slack"} 1.0' in service.get("/metrics").text
        assert "1 waiting" in service.get("/health").text and service.get("/readyz").status_code == 200
        assert any("retried for 48 h" in line for line in service.logged)
    hook.stop()


@pytest.mark.parametrize(("newest", "ahead", "kept"), [(0.0, 1e8, 1), (1e8, 1e8, 0), (1e8, -1e8, 1)])
def test_a_clock_that_jumps_deletes_no_incident(tmp_path, quick, newest, ahead, kept):
    """An incident that ended long ago goes only where a later run shows that time has passed."""
    record = Record(tmp_path / "incidents.db", writing=True)
    for starts, name in ((NOW, "a"), (NOW + newest, "b")):
        entered(record, alert(starts=starts, model_name=name), now=starts)
    entered(record, alert(starts=NOW, ends=NOW + 60, model_name="a"), now=NOW + 60)

    async def pruned() -> None:
        service = Dispatcher(record, Runner({}, {}), (), lambda _: None, clock=lambda: NOW + ahead)
        await service._prune()
        await service.stop(1.0)

    asyncio.run(pruned())
    assert len(record.incidents()) == 1 + kept
    record.close()
