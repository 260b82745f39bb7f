"""The service on a free port, with looks that are given instead of taken, and an output that remembers."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import requests
import uvicorn

from inferdoc.catalogue.own_metrics import Families
from inferdoc.config_sections import OutputSection, ServeSection
from inferdoc.incidents.record import Record
from inferdoc.judging.model import Diagnosis
from inferdoc.serve.app import Service
from inferdoc.serve.command import bound, server, shown_address
from inferdoc.serve.dispatch import Dispatcher
from inferdoc.serve.gate import Gate, callers_of, known_hosts
from inferdoc.serve.run_process import RunRequest, RunResult
from inferdoc.serve.runner import Overview, RunFailedError, Runner
from tests.judging.frames import catalogue

PATIENCE = 120.0


class Hook:
    """Takes what is posted. status: what it answers; times: when each came, Unix seconds."""

    def __init__(self, status: int = 200, location: str | None = None) -> None:
        self.received: list[tuple[str, dict[str, str], Any]] = []
        self.times: list[float] = []
        hook = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                hook.times.append(time.time())
                hook.received.append((self.path, dict(self.headers), json.loads(body)))
                self.send_response(status)
                if location:
                    self.send_header("Location", location)
                self.end_headers()

            def log_message(self, *args: Any) -> None:
                """Nobody reads it."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    @property
    def bodies(self) -> list[Any]:
        return [body for _, _, body in self.received]

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@dataclass
class GivenRunner(Runner):
    """Answers at once with a document, or with why there is none."""

    answer: Diagnosis | str = ""
    page: str | None = None
    seconds: float = 0.0
    taken: list[RunRequest] = field(default_factory=list)

    async def run(self, request: RunRequest) -> RunResult:
        self.taken.append(request)
        await asyncio.sleep(self.seconds)
        if isinstance(self.answer, str):
            raise RunFailedError(self.answer)
        return RunResult(self.answer, self.page, "rollout of vllm: 2 pods" if request.ended else None)


@dataclass
class Running:
    """address: of the service; logged: the lines of its log."""

    address: str
    record: Record
    service: Service
    logged: list[str]
    server: uvicorn.Server

    def loop(self) -> asyncio.AbstractEventLoop:
        """The loop that the service runs in."""
        (task, *_) = self.service.dispatcher.tasks._tasks.values()
        return task.get_loop()

    def get(self, path: str, **more: Any) -> requests.Response:
        return requests.get(self.address + path, timeout=10, allow_redirects=False, **more)

    def post(self, body: Any, path: str = "/alertmanager", **more: Any) -> requests.Response:
        return requests.post(self.address + path, json=body, timeout=15, **more)

    def until(self, result: Callable[[], Any]) -> Any:
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            if value := result():
                return value
            time.sleep(0.02)
        raise AssertionError(f"not within {PATIENCE:g} s; the log: {self.logged}")


@contextmanager
def running(
    folder: Path, runner: Runner, outputs: tuple[OutputSection, ...] = (), every: float | None = None, **section: Any
) -> Iterator[Running]:
    """The service; it is stopped at the end."""
    chosen = ServeSection(listen="127.0.0.1:0", outputs=outputs, deadline=20.0, **section)
    callers = callers_of(chosen, "127.0.0.1")
    record = Record(folder / "incidents.db", writing=True)
    logged: list[str] = []
    dispatcher = Dispatcher(record, runner, outputs, logged.append, public_url="https://inferdoc.example.org")
    service = Service(
        chosen, record, dispatcher, Overview(runner, every, logged.append), Families(catalogue().exporters["inferdoc"])
    )
    app = Gate(service.application(), callers, None if callers.needed else known_hosts(chosen, "127.0.0.1"))
    listening = bound("127.0.0.1", 0)
    run = server(app, 20.0)
    thread = threading.Thread(target=run.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    try:
        yield Running(shown_address(listening), record, service, logged, run)
    finally:
        run.should_exit = True
        thread.join(30)
        record.close()
        listening.close()


def webhook(*alerts: dict[str, Any]) -> dict[str, Any]:
    """A message as Alertmanager 0.27 sends it."""
    return {
        "version": "4",
        "groupKey": '{}:{alertname="x"}',
        "truncatedAlerts": 0,
        "status": "firing",
        "receiver": "inferdoc",
        "groupLabels": {},
        "commonLabels": {},
        "commonAnnotations": {},
        "externalURL": "http://alertmanager:9093",
        "alerts": list(alerts),
    }


def firing(name: str = "TtftHigh", *, mark: str = "f1", starts: str = "", ended: bool = False, **labels: str) -> dict:
    """An alert of a message that began a minute ago."""
    started = starts or time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() - 60))
    return {
        "status": "resolved" if ended else "firing",
        "labels": {"alertname": name, "namespace": "llm", "model_name": "m"} | labels,
        "annotations": {"summary": f"{name} fires", "runbook_url": "https://runbooks.example.org/x"},
        "startsAt": started,
        "endsAt": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()) if ended else "0001-01-01T00:00:00Z",
        "generatorURL": "http://prometheus:9090/graph?g0.expr=x",
        "fingerprint": mark,
    }
