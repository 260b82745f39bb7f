"""Runs the application: one process, with an end to everything that a caller could draw out."""

from __future__ import annotations

import asyncio
import errno
import socket

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from inferdoc.errors import ConfigError
from inferdoc.serve.gate import App

HEADER_SECONDS = 10.0
"""For the head of a request, from the connection on."""
IDLE_SECONDS = 75
MOST_CONNECTIONS = 512
HEAD_BYTES = 32 << 10


class TimedProtocol(H11Protocol):
    """uvicorn's own, which waits for ever for a first request; here the connection is closed."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to count."""
        super().connection_made(transport)
        self._head = asyncio.get_running_loop().call_later(HEADER_SECONDS, self._late)

    def connection_lost(self, exc: Exception | None) -> None:
        """Nothing is waited for."""
        self._head.cancel()
        super().connection_lost(exc)

    def _late(self) -> None:
        if self.cycle is None and not self.transport.is_closing():
            self.transport.close()


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
    """A server that finishes what is in flight when it is told to end, for so many seconds at most."""
    config = uvicorn.Config(
        app,
        http=TimedProtocol,
        loop="asyncio",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=True,
        proxy_headers=False,
        limit_concurrency=MOST_CONNECTIONS,
        timeout_keep_alive=IDLE_SECONDS,
        timeout_graceful_shutdown=int(patience),
        h11_max_incomplete_event_size=HEAD_BYTES,
    )
    return uvicorn.Server(config)


def shown_address(listening: socket.socket) -> str:
    """Where a socket is reached."""
    host, port = listening.getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"
