"""From the command line to a running service."""

from __future__ import annotations

import asyncio
import errno
import ipaddress
import signal
import socket
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from inferdoc.catalogue.load import Catalogue
from inferdoc.catalogue.own_metrics import Families
from inferdoc.config import Config, record_file
from inferdoc.errors import ConfigError
from inferdoc.expose.exporter import address_of
from inferdoc.expose.rounds import FORECAST_SECONDS, Rounds, forecasts
from inferdoc.extras import needed
from inferdoc.fleet.members import assignments_of
from inferdoc.forecast.command import Origin
from inferdoc.forecast.result import Forecast
from inferdoc.incidents.intake import own_rules
from inferdoc.incidents.record import Record
from inferdoc.serve.dispatch import Dispatcher
from inferdoc.serve.gate import App, Gate, callers_of, known_hosts
from inferdoc.serve.outputs.sending import address
from inferdoc.serve.runner import Overview, Runner
from inferdoc.source.configured import open_configured
from inferdoc.times import seconds_of

HEADER_SECONDS = 10.0
"""For the head of a request, from the connection or from its first byte on."""
IDLE_SECONDS = 75
ANSWER_SECONDS = 60.0
"""For the rest of a request and its response."""
MOST_CONNECTIONS, MOST_PER_CLIENT = 512, 256
ACCEPTED_TOGETHER = 64
"""Connections that are opened in one turn of the loop: a new one is read before as many others as a client may have."""
HEAD_BYTES = 32 << 10


class LimitedProtocol(H11Protocol):
    """uvicorn's own, with limits that it has no settings for: time for each head of a request and for each response,
    and connections of one client. One too many closes the oldest that waits for its client."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to count."""
        super().connection_made(transport)
        self._timer: asyncio.TimerHandle | None = None
        self._waits_since = self.loop.time()
        self._network = _network(self.client[0] if self.client else "")
        self._head_started = True
        self._allow(HEADER_SECONDS)
        self._make_room()

    def connection_lost(self, exc: Exception | None) -> None:
        """Nothing is waited for."""
        self._allow(None)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Time a head from its first byte on, and what follows it."""
        was_idle = self._is_idle
        super().data_received(data)
        if not self._is_idle:
            if was_idle:
                self._allow(ANSWER_SECONDS)
        elif not self._head_started:
            self._head_started = True
            self._allow(HEADER_SECONDS)

    def on_response_complete(self) -> None:
        """uvicorn closes a connection on which nothing comes; a byte starts the time of the next head."""
        self._waits_since = self.loop.time()
        self._head_started = False
        self._allow(None)
        super().on_response_complete()
        if not self._is_idle:  # a further request had arrived already
            self._allow(ANSWER_SECONDS)

    @property
    def _is_idle(self) -> bool:
        return self.cycle is None or self.cycle.response_complete

    @property
    def _waits_for_client(self) -> bool:
        """For a request, for the rest of one, or for the response to be read."""
        return self._is_idle or self.cycle.more_body or self.transport.get_write_buffer_size() > 0

    def _allow(self, seconds: float | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None if seconds is None else self.loop.call_later(seconds, self._drop)

    def _make_room(self) -> None:
        every = [other for other in self.connections if isinstance(other, LimitedProtocol)]
        of_client = [other for other in every if other._network == self._network]
        if len(of_client) <= MOST_PER_CLIENT:
            if len(every) <= MOST_CONNECTIONS:
                return
            largest = Counter(other._network for other in every).most_common(1)[0][0]
            of_client = [other for other in every if other._network == largest]
        # A client with fewer connections than another one is not refused, even where all of those are worked on.
        busy = [] if self in of_client else of_client
        waiting = [other for other in of_client if other._waits_for_client and other is not self]
        min(waiting or busy, key=lambda other: other._waits_since, default=self)._drop()

    def _drop(self) -> None:
        self.connections.discard(self)
        if self.transport.get_write_buffer_size():
            self.transport.abort()  # closing would wait until the client reads
        else:
            self.transport.close()


def _network(address: str) -> str:
    """Whose connections are counted together: an IPv4 address, or the 64 bits of IPv6 that one host usually has."""
    try:
        one = ipaddress.ip_address(address)
    except ValueError:
        return address
    return str(ipaddress.ip_network((one, 64), strict=False)) if one.version == 6 else address


def bound(host: str, port: int) -> socket.socket:
    """The socket to listen on. Raises ConfigError where it is not to be had."""
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host, port), family=family, backlog=256)
    except (OSError, UnicodeError) as error:
        known = {errno.EADDRINUSE: "is taken", errno.EACCES: "may not be opened"}
        number = error.errno if isinstance(error, OSError) else None
        why = known.get(number or 0, getattr(error, "strerror", None) or str(error))
        raise ConfigError(f"[serve] listen: {host}:{port} {why}; choose another address") from None


def server(app: App, patience: float) -> uvicorn.Server:
    """A server with a graceful shutdown of limited seconds."""
    config = uvicorn.Config(
        app,
        http=LimitedProtocol,
        backlog=ACCEPTED_TOGETHER,
        loop="asyncio",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=True,
        proxy_headers=False,
        timeout_keep_alive=IDLE_SECONDS,
        timeout_graceful_shutdown=int(patience),
        h11_max_incomplete_event_size=HEAD_BYTES,
    )
    return uvicorn.Server(config)


def shown_address(listening: socket.socket) -> str:
    """Where a socket is reached."""
    host, port = listening.getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


def serve(
    config: Config,
    catalogue: Catalogue,
    params: Mapping[str, Any],
    headers: Mapping[str, str],
    log: Callable[[str], None],
    config_file: str | None = None,
    overlays: Sequence[str] = (),
) -> None:
    """Run until stopped. params: the options of the command line by name. Raises ConfigError, RecordError."""
    with needed("starlette", "inferdoc serve"):
        import starlette  # noqa: F401
    with needed("uvicorn", "inferdoc serve"):
        import uvicorn  # noqa: F401
    from inferdoc.serve.app import Service

    section = config.serve
    if params.get("listen"):
        section = msgspec.structs.replace(section, listen=params["listen"])
    if params.get("record"):
        section = msgspec.structs.replace(section, record=params["record"])
    host, port = address_of(section.listen, "[serve] listen =")
    access = callers_of(section, host)
    for output in section.outputs:
        if output.kind not in ("file", "pagerduty") and output.channel is None:
            address(output)
    every = float(seconds_of(params["judge_every"], "--judge-every")) if params.get("judge_every") else None
    source = {name: params.get(name) for name in SOURCE if params.get(name)}
    runner = Runner(source, own_rules(), config_file, tuple(overlays), headers, section.deadline)
    listening = bound(host, port)
    record = Record(record_file(msgspec.structs.replace(config, serve=section)), writing=True)
    try:
        dispatcher = Dispatcher(
            record,
            runner,
            section.outputs,
            log,
            section.concurrency,
            section.public_url,
            section.record_days * 86_400,
            section.retry_hours * 3600,
        )
        overview = Overview(runner, every, log)
        families = Families(catalogue.exporters["inferdoc"])
        ahead = _forecasts(config, catalogue, params, headers, overlays, log)
        service = Service(section, record, dispatcher, overview, families, overlays, ahead)
        app = Gate(service.application(), access, known_hosts(section, host) if not access.needed else None)
        # uvicorn hands the signal on when it is done: without a handler that would end the process before the record
        # is closed, and with another exit code than 0.
        signal.signal(signal.SIGTERM, lambda *_: None)
        log(f"listening on {shown_address(listening)}")
        server(app, section.deadline).run(sockets=[listening])
    finally:
        record.close()
        listening.close()


def _forecasts(
    config: Config,
    catalogue: Catalogue,
    params: Mapping[str, Any],
    headers: Mapping[str, str],
    overlays: Sequence[str],
    log: Callable[[str], None],
) -> Rounds[Sequence[Forecast]] | None:
    """Repeated forecasts of the next day of every pool; None without --forecast-every."""
    if not params.get("forecast_every"):
        return None

    def opened() -> tuple[Any, Any, Any, Any]:
        source = open_configured(config, params, overlays, headers)
        return source, catalogue.tiers, assignments_of(config.pods), catalogue.slos

    work = forecasts(Origin(open=opened), FORECAST_SECONDS)
    return Rounds("forecast", work, seconds_of(params["forecast_every"], "--forecast-every"), log)


SOURCE = ("prometheus", "store", "bearer_token_file", "username", "password_file", "ca_file", "timeout")
"""Options of the source, which every run opens again."""
