"""A hard end for an HTTP request, however slowly the other side answers.

Timeouts of sockets begin anew with every byte received, so a target that sends one byte a second holds a
request for ever. Here one thread watches all requests in flight and shuts a connection down when its time is up.
"""

from __future__ import annotations

import heapq
import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count
from time import monotonic
from typing import Any

from requests.adapters import HTTPAdapter
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.response import HTTPResponse

_current = threading.local()


class Deadline:
    """When one request has to be over. `expired` turns true when it was cut off."""

    def __init__(self, seconds: float) -> None:
        self.at = monotonic() + seconds
        self.expired = False
        self._lock = threading.Lock()
        self._over = False
        self._handles: list[socket.socket] = []

    def remaining(self) -> float:
        """Seconds left, never below a millisecond, as socket timeouts want it."""
        return max(0.001, self.at - monotonic())

    def watch(self, connection: socket.socket) -> None:
        """Shut this connection down when the time is up."""
        with self._lock:
            # A second handle on the connection stays valid while TLS or the pool replace the first.
            handle = socket.socket(fileno=os.dup(connection.fileno()))
            self._handles.append(handle)
            if self.expired:
                _shut_down(handle)

    def expire(self) -> None:
        """Cut the request off, unless it is over."""
        with self._lock:
            if self._over:
                return
            self.expired = True
            for handle in self._handles:
                _shut_down(handle)

    def close(self) -> None:
        """The request is over."""
        with self._lock:
            self._over = True
            for handle in self._handles:
                handle.close()
            self._handles.clear()


def _shut_down(connection: socket.socket) -> None:
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)


class DeadlineWatch:
    """One thread that expires deadlines. Ends with `close()`; safe to use from many threads."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._heap: list[tuple[float, int, Deadline]] = []
        self._numbers = count()
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="scrape-deadlines", daemon=True)
        self._thread.start()

    @contextmanager
    def within(self, seconds: float) -> Iterator[Deadline]:
        """Requests that this thread makes inside the block, on a `DeadlineAdapter`, end after `seconds`."""
        deadline = Deadline(seconds)
        with self._changed:
            heapq.heappush(self._heap, (deadline.at, next(self._numbers), deadline))
            self._changed.notify()
        _current.deadline = deadline
        try:
            yield deadline
        finally:
            _current.deadline = None
            deadline.close()

    def close(self) -> None:
        """End the thread."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._thread.join()

    def _run(self) -> None:
        with self._changed:
            while not self._closed:
                now = monotonic()
                while self._heap and self._heap[0][0] <= now:
                    heapq.heappop(self._heap)[2].expire()
                self._changed.wait(self._heap[0][0] - now if self._heap else None)


def _watch_current(connection: Any) -> None:
    deadline: Deadline | None = getattr(_current, "deadline", None)
    if deadline is not None and connection.sock is not None:
        deadline.watch(connection.sock)


class _Connection(HTTPConnection):
    def getresponse(self) -> HTTPResponse:  # type: ignore[override]
        _watch_current(self)
        return super().getresponse()


class _SecureConnection(HTTPSConnection):
    def getresponse(self) -> HTTPResponse:  # type: ignore[override]
        _watch_current(self)
        return super().getresponse()


class _Pool(HTTPConnectionPool):
    ConnectionCls = _Connection


class _SecurePool(HTTPSConnectionPool):
    ConnectionCls = _SecureConnection


class DeadlineAdapter(HTTPAdapter):
    """A requests adapter whose connections obey `DeadlineWatch.within`."""

    def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
        super().init_poolmanager(*args, **kwargs)
        self.poolmanager.pool_classes_by_scheme = {"http": _Pool, "https": _SecurePool}
