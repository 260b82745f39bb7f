"""Run the application in one process, with limits on slow clients."""

from __future__ import annotations

import asyncio
import errno
import ipaddress
import socket
from collections import Counter

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from inferdoc.errors import ConfigError
from inferdoc.serve.gate import App

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
