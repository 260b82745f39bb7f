"""The HTTP application: the webhook of Alertmanager, routes and handlers."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import wraps
from typing import Any, Literal

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.routing import BaseRoute, Route

from inferdoc.catalogue.own_metrics import Families
from inferdoc.config_sections import TENANT, ServeSection
from inferdoc.errors import NOT_JSON, InferdocError
from inferdoc.escaping import is_web, one_line
from inferdoc.expose.rounds import Rounds
from inferdoc.forecast.result import Forecast
from inferdoc.incidents.intake import Merging, QueueFullError, take
from inferdoc.incidents.model import ReceivedAlert
from inferdoc.incidents.record import Record
from inferdoc.judging.model import Diagnosis
from inferdoc.serve.api_schema import (
    Accepted,
    ApiProblem,
    DescribedRoute,
    FleetShown,
    IncidentShown,
    IncidentsShown,
    Operation,
    describe_incident,
    openapi,
)
from inferdoc.serve.dispatch import Dispatcher
from inferdoc.serve.pages import MetricsPage, ServicePages, TextFiles
from inferdoc.serve.runner import TENANT_HEADER, Overview
from inferdoc.times import rfc3339

LONGEST_TEXT = 2_000
MOST_LABELS = 128
OLDEST_SECONDS = 366 * 86_400.0
"""An alert with an earlier start, or one in the future, has a wrong clock: its start is set to now."""


class MessageError(InferdocError):
    """The body is no webhook of Alertmanager."""


class WebhookAlert(msgspec.Struct):
    """One alert of a webhook; other keys are ignored."""

    status: Literal["firing", "resolved"]
    labels: dict[str, str]
    starts: datetime = msgspec.field(name="startsAt")
    annotations: dict[str, str] = {}
    ends: datetime | None = msgspec.field(name="endsAt", default=None)
    url: str = msgspec.field(name="generatorURL", default="")
    fingerprint: str = ""


class Webhook(msgspec.Struct):
    """The body that Alertmanager sends; other keys are ignored."""

    version: str
    alerts: list[WebhookAlert]


_DECODER = msgspec.json.Decoder(Webhook)


def read_alerts(body: bytes, now: float, ignore: Collection[str] = ()) -> tuple[list[ReceivedAlert], list[str]]:
    """The alerts of a message, and the names of those that are ignored. Raises MessageError: one line."""
    try:
        message = _DECODER.decode(body)
    except NOT_JSON as error:
        raise MessageError(f"not an Alertmanager webhook: {error}") from None
    if message.version != "4":
        raise MessageError(f"version {message.version[:20]!r} of the webhook is not supported; use version 4")
    every = [_received(alert, now) for alert in message.alerts]
    return [one for one in every if one.name not in ignore], [one.name for one in every if one.name in ignore]


def _received(alert: WebhookAlert, now: float) -> ReceivedAlert:
    labels = _short(alert.labels)
    starts = _seconds(alert.starts, now)
    ends = None
    if alert.status == "resolved":
        ends = max(starts, now if alert.ends is None else min(now, _seconds(alert.ends, now)))
    mark = alert.fingerprint[:64]
    if not mark:
        mark = hashlib.blake2b(msgspec.json.encode(labels, order="sorted"), digest_size=8).hexdigest()
    url = alert.url if is_web(alert.url) and len(alert.url) <= LONGEST_TEXT else ""
    name = labels.get("alertname", "(no alertname)")
    return ReceivedAlert(mark, name, labels, _short(alert.annotations), starts, ends, url)


def _short(texts: dict[str, str]) -> dict[str, str]:
    """Lone surrogates, which no file takes, are replaced; what is too long is cut."""
    return {_clean(name)[:200]: _clean(text)[:LONGEST_TEXT] for name, text in list(texts.items())[:MOST_LABELS]}


def _clean(text: str) -> str:
    return text.encode("utf-8", "replace").decode("utf-8")


def _seconds(moment: datetime, now: float) -> float:
    """Unix seconds; now where it cannot be."""
    try:
        seconds = moment.timestamp()
    except (OverflowError, ValueError, OSError):
        return now
    return seconds if now - OLDEST_SECONDS <= seconds <= now else now


WATCHDOGS = ("InferdocWatchdog", "Watchdog")
AGAIN_SECONDS = 30
READY_SECONDS = 5.0
"""For the incident record to be read: a record that is locked makes the service unready, and /readyz answers."""
Answered = Callable[[Request], Awaitable[Response]]


@dataclass
class Service:
    """State that the routes share."""

    section: ServeSection
    record: Record
    dispatcher: Dispatcher
    overview: Overview
    families: Families
    overlays: Sequence[str] = ()
    forecasts: Rounds[Sequence[Forecast]] | None = None
    clock: Callable[[], float] = time.time

    def __post_init__(self) -> None:
        self.pages = ServicePages(self.record, self.overview, self.dispatcher, self.overlays)
        files = TextFiles(self.section.textfiles, self.dispatcher.log)
        self.metrics = MetricsPage(self.families, self.record, self.dispatcher, self.overview, files, self.forecasts)
        self.rules = Merging(grace=self.section.grace, queue=self.section.queue)

    def application(self) -> Starlette:
        """The routes."""
        return Starlette(
            routes=self._routes(),
            exception_handlers={HTTPException: _not_here, Exception: _own_fault},  # type: ignore[dict-item]
            lifespan=self._living,
        )

    def _routes(self) -> list[BaseRoute]:
        unknown = {404: "The incident is unknown, or has no finished diagnosis yet."}
        refused = {
            400: "The body is no webhook of Alertmanager, version 4.",
            403: "The tenant is not in [serve] tenants.",
            415: "The content type is not application/json.",
            503: "The queue is full; retry after the seconds in Retry-After.",
        }
        webhook = Operation("Receive a webhook of Alertmanager.", Accepted, request=Webhook, problems=refused)
        routes: list[BaseRoute] = [DescribedRoute("/alertmanager", self._alertmanager, webhook, "POST")]
        for path, render, summary in (
            ("/", self.pages.fleet, "The fleet by pool and tier."),
            ("/incidents", self.pages.incidents, "The newest incidents."),
            ("/incidents/{id}", self.pages.incident, "One incident."),
            ("/incidents/{id}/report", self.pages.report, "The last report of an incident."),
            ("/runbooks/{id}", self.pages.runbook, "The runbook of a cause."),
            ("/health", self.pages.health, "The status of inferdoc itself."),
        ):
            lost = {404: "There is no such page."} if "{" in path else {}
            runbook = path.startswith("/runbooks/")
            routes.append(
                DescribedRoute(path, _page(render), Operation(summary, str, "text/html", problems=lost, open=runbook))
            )
        for path, work, summary, kind in (
            ("/api/v1/incidents", self._incidents, "The newest incidents.", IncidentsShown),
            ("/api/v1/incidents/{id}", self._incident, "One incident with its diagnosis runs.", IncidentShown),
            ("/api/v1/incidents/{id}/diagnosis", self._diagnosis, "The last diagnosis of the incident.", Diagnosis),
            ("/api/v1/fleet", self._fleet, "The last diagnosis of the whole fleet.", FleetShown),
        ):
            operation = Operation(summary, kind, problems=unknown if "{" in path else {})
            routes.append(DescribedRoute(path, _api(work), operation))
        plain = "text/plain"
        ready = Operation("Probe: the service can work.", str, plain, problems={503: "Why it cannot."}, open=True)
        return [
            *routes,
            DescribedRoute("/healthz", _alive, Operation("Probe: the process is up.", str, plain, open=True)),
            DescribedRoute("/readyz", self._ready, ready),
            DescribedRoute("/metrics", self._metrics, Operation("Metrics of inferdoc for Prometheus.", str, plain)),
            Route("/api/v1/openapi.json", _openapi),
        ]

    @contextlib.asynccontextmanager
    async def _living(self, _: Starlette) -> AsyncIterator[None]:
        """Run diagnoses and deliveries while the application runs; finish those in progress at the end."""
        self.dispatcher.start()
        if self.overview.on:
            self.dispatcher.tasks.start("fleet", self.overview.once, finish=False)
        if self.forecasts is not None:
            self.forecasts.start()
        try:
            yield
        finally:
            if self.forecasts is not None:
                self.forecasts.stop()
            await self.dispatcher.stop(self.section.deadline)

    async def _alertmanager(self, request: Request) -> Response:
        if not request.headers.get("content-type", "").lower().startswith("application/json"):
            return _problem(415, "content-type must be application/json")
        messages = self.dispatcher.counts.messages
        now = self.clock()
        tenant = self._tenant(request)
        if isinstance(tenant, Response):
            messages["invalid"] += 1
            return tenant
        try:
            alerts, ignored = read_alerts(await request.body(), now, self.section.ignore)
        except MessageError as error:
            messages["invalid"] += 1
            return _problem(400, one_line(str(error)))
        if any(name in WATCHDOGS for name in ignored):
            self.dispatcher.counts.watchdog = now
        try:
            outcome = await asyncio.to_thread(take, self.record, alerts, tenant, now, self.rules)
        except QueueFullError as error:
            messages["refused"] += 1
            # Alertmanager sends again what a server fault (5xx) refused, and drops what a client fault (4xx) did.
            return _problem(503, str(error), {"Retry-After": str(AGAIN_SECONDS)})
        except InferdocError as error:
            self.dispatcher.log(str(error))
            return _problem(
                503, "the incident database cannot be written; see the log", {"Retry-After": str(AGAIN_SECONDS)}
            )
        messages[outcome] += 1
        self.dispatcher.wake()
        return _json(Accepted(outcome))

    def _tenant(self, request: Request) -> str | Response:
        """Whose alerts these are, or why that is refused."""
        named = request.query_params.get("tenant") or request.headers.get(TENANT_HEADER) or ""
        if not named:
            return ""
        if not TENANT.fullmatch(named) or named not in self.section.tenants:
            return _problem(403, "unknown tenant; add it to [serve] tenants")
        return named

    async def _ready(self, _: Request) -> Response:
        try:
            async with asyncio.timeout(READY_SECONDS):
                await asyncio.to_thread(self.record.incidents, only_open=True, limit=1)
        except (InferdocError, TimeoutError):
            return PlainTextResponse("the incident database cannot be read\n", 503)
        failing = self.dispatcher.tasks.down
        if failing:
            lines = [f"task {name} fails: {why}\n" for name, why in failing.items()]
            return PlainTextResponse("".join(lines), 503)
        return PlainTextResponse("ready\n")

    async def _metrics(self, _: Request) -> Response:
        page = await asyncio.to_thread(self.metrics.text)
        return PlainTextResponse(page, media_type="text/plain; version=0.0.4; charset=utf-8")

    def _incidents(self) -> IncidentsShown:
        return IncidentsShown([describe_incident(incident) for incident in self.record.incidents(limit=200)])

    def _incident(self, name: str) -> Any:
        incident = self.record.incident(name)
        return describe_incident(incident, self.record.runs(incident.id))

    def _diagnosis(self, name: str) -> Any:
        run = self.record.newest_run(self.record.incident(name).id)
        if run is None:
            raise InferdocError(f"incident {name} has no finished diagnosis yet; retry in a minute")
        return self.record.diagnosis(run.number)

    def _fleet(self) -> FleetShown:
        seen = self.overview.newest()
        if seen is None:
            return FleetShown(None, None, None, [], self.overview.trouble)
        document = seen.result.document
        at = rfc3339(seen.at, "seconds")
        return FleetShown(at, document.verdict, document.summary, seen.result.pools, self.overview.trouble)


def _page(work: Callable[..., str | None]) -> Answered:
    """A handler that renders HTML in a thread."""

    @wraps(work)
    async def answered(request: Request) -> Response:
        try:
            page = await asyncio.to_thread(work, *request.path_params.values())
        except InferdocError as error:
            return PlainTextResponse(one_line(str(error)) + "\n", 404)
        return (
            PlainTextResponse("no finished diagnosis yet; retry in a minute\n", 404)
            if page is None
            else HTMLResponse(page)
        )

    return answered


def _api(work: Callable[..., Any]) -> Answered:
    """A handler that returns JSON from a thread."""

    @wraps(work)
    async def answered(request: Request) -> Response:
        try:
            return _json(await asyncio.to_thread(work, *request.path_params.values()))
        except InferdocError as error:
            return _problem(404, one_line(str(error)))

    return answered


async def _openapi(request: Request) -> Response:
    return _json(openapi(request.app.routes))


async def _alive(_: Request) -> Response:
    return PlainTextResponse("ok\n")


async def _not_here(_: Request, error: HTTPException) -> Response:
    words = {404: "not found", 405: "method not allowed"}
    return PlainTextResponse(words.get(error.status_code, "not possible") + "\n", error.status_code, error.headers)


async def _own_fault(_: Request, __: Exception) -> Response:
    return PlainTextResponse("internal error; see the log\n", 500)


def _json(value: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    return Response(msgspec.json.encode(value), status, headers, "application/json")


def _problem(status: int, line: str, headers: dict[str, str] | None = None) -> Response:
    return _json(ApiProblem(line), status, headers)
