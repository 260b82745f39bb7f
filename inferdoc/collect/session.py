"""HTTP sessions of one origin, their faults in words, and the limit on what one response may be."""

from __future__ import annotations

import heapq
import http.client
import itertools
import os
import re
import socket
import ssl
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cached_property
from http.cookiejar import DefaultCookiePolicy
from time import monotonic
from typing import Any
from urllib.parse import urljoin

import requests
from requests.adapters import HTTPAdapter
from requests.utils import get_auth_from_url
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.exceptions import ReadTimeoutError
from urllib3.response import HTTPResponse
from urllib3.util.retry import Retry

from inferdoc.origins import WebOrigin, origin_of, without_secrets

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
        self._numbers = itertools.count()
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


MOST_REDIRECTS = 5
_CHUNK_BYTES = 1 << 18


class RedirectError(requests.RequestException):
    """A redirect that is not followed: it leaves the origin, or one too many."""


class BodyTooLargeError(requests.RequestException):
    """A response with more bytes than it may have."""


class OriginSession(requests.Session):
    """A session that sends requests to one scheme, host and port only.

    Redirects are followed by `get_following` alone, and within the origin alone: bearer tokens, basic authentication,
    client certificates and extra headers reach no other server. Cookies and .netrc are not used.
    """

    def __init__(self, url: str, *, environment: bool, connections: int = 1, retries: int | Retry = 0) -> None:
        """url: any URL of the origin; environment: use the proxies and the CA bundle that environment variables name;
        connections: kept open."""
        super().__init__()
        self._url = url
        self.trust_env = environment
        user = get_auth_from_url(url)
        self.auth = user if any(user) else _unsigned  # requests reads .netrc where it finds no other authentication
        self.cookies.set_policy(DefaultCookiePolicy(allowed_domains=[]))
        adapter = DeadlineAdapter(pool_connections=1, pool_maxsize=connections, max_retries=retries)
        for scheme in ("http://", "https://"):
            self.mount(scheme, adapter)

    @cached_property
    def origin(self) -> WebOrigin:
        """Of the URL as requests writes it (punycode, for one). Raises RequestException if there is none."""
        return _origin(requests.Request("GET", self._url).prepare().url)

    def send(self, request: requests.PreparedRequest, **kwargs: Any) -> requests.Response:
        """Send a prepared request. Raises RedirectError, and sends nothing, if its address is of another origin."""
        if _origin(request.url) != self.origin:
            raise RedirectError(redirect_text(self._url, request.url or ""))
        return super().send(request, **kwargs)

    def get_redirect_target(self, _: requests.Response) -> None:
        """Nothing: requests follows no redirect here, and does not read the body of one."""

    def get_following(self, url: str, **options: Any) -> requests.Response:
        """GET, with redirects within the origin followed. Raises RedirectError at any other."""
        history: list[requests.Response] = []
        while len(history) <= MOST_REDIRECTS:
            response = self.get(url, **options)
            if not response.is_redirect:
                response.history = history
                return response
            response.close()
            history.append(response)
            location = response.headers["location"]
            try:
                url = urljoin(url, location)
                if origin_of(url) != self.origin:
                    raise RedirectError(redirect_text(url, location))
            except ValueError:
                raise RedirectError(redirect_text(url, location)) from None
        raise RedirectError(f"redirects more than {MOST_REDIRECTS} times: is this behind a login?")


def body_of(response: requests.Response, most: int) -> bytes:
    """The body of a streamed response. Raises BodyTooLargeError beyond so many bytes, after
    decompression: an endless one fills no memory."""
    parts, size = [], 0
    for part in response.iter_content(_CHUNK_BYTES):
        size += len(part)
        if size > most:
            raise BodyTooLargeError(f"sends more than {most >> 20} MiB")
        parts.append(part)
    return b"".join(parts)


def redirect_text(url: str, location: str) -> str:
    """Why a redirect is not followed. Without its query: login pages put tokens there."""
    try:
        to = without_secrets(urljoin(url, location))
    except ValueError:
        to = "an address that is no URL"
    return f"redirects to {to}, which is not followed: use that address, or is this behind a login?"


def _origin(url: str | None) -> WebOrigin:
    try:
        return origin_of(url or "")
    except ValueError:
        raise requests.exceptions.InvalidURL("not an http or https URL") from None


def _unsigned(request: requests.PreparedRequest) -> requests.PreparedRequest:
    return request


def describe(fault: BaseException) -> str:
    """A network fault in plain words, without the URL (which may carry secrets)."""
    chain = list(_chain(fault))
    for cause in chain:
        if isinstance(cause, RedirectError):
            return str(cause)
        if isinstance(cause, ssl.SSLCertVerificationError):
            return f"TLS certificate is not trusted ({cause.verify_message}): give the CA that signed it"
        if isinstance(cause, socket.gaierror):
            return "host name not found"
        if isinstance(cause, ConnectionRefusedError):
            return "connection refused"
    for cause in chain:
        if isinstance(cause, ssl.SSLError):
            return f"TLS fails ({(cause.reason or 'no reason given').replace('_', ' ').lower()})"
        if isinstance(cause, requests.ConnectTimeout):
            return "no connection: timed out"
        if isinstance(cause, (requests.ReadTimeout, ReadTimeoutError, TimeoutError)):
            return "no answer: timed out"
        if isinstance(cause, (requests.exceptions.InvalidURL, requests.exceptions.InvalidHeader)):
            return "invalid URL" if isinstance(cause, requests.exceptions.InvalidURL) else "invalid request header"
    for cause in chain:
        if isinstance(cause, ConnectionError):
            return "connection closed by the target"
        if isinstance(cause, http.client.IncompleteRead):
            return "body is cut: connection closed by the target"
        if isinstance(cause, http.client.HTTPException):
            return "does not speak HTTP"
        if isinstance(cause, OSError) and not isinstance(cause, requests.RequestException) and cause.strerror:
            return f"connection failed: {cause.strerror}"
    return f"connection failed ({type(chain[-1]).__name__})"


def _chain(fault: BaseException) -> Iterator[BaseException]:
    seen: set[int] = set()
    waiting: list[object] = [fault]
    while waiting:
        cause = waiting.pop(0)
        if isinstance(cause, BaseException) and id(cause) not in seen:
            seen.add(id(cause))
            yield cause
            waiting += [getattr(cause, "reason", None), cause.__cause__, cause.__context__, *cause.args]


_NAME = re.compile(rb'^(?:\{\s*"[^"\n]*"|[^\s#{][^\s{\n]*)', re.MULTILINE)
"""The metric at the beginning of a sample line: plain, or in quotes inside the braces."""


def fitted(body: bytes, most: int) -> tuple[bytes, str | None]:
    """A page of at most so many samples, and what was left out of it in words; None where all of it fits.

    Metrics are left out whole, those with the most samples first: a sum over a part of one would be a wrong number.
    """
    if body.count(b"\n") <= most:
        return body, None
    counts = Counter(found.group() for found in _NAME.finditer(body))
    total = kept = sum(counts.values())
    gone: dict[bytes, int] = {}
    for name, count in counts.most_common():
        if kept <= most:
            break
        gone[name] = count
        kept -= count
    if not gone:
        return body, None
    parts = []
    begin: int | None = 0
    for found in _NAME.finditer(body):
        if found.group() in gone:
            if begin is not None:
                parts.append(body[begin : found.start()])
                begin = None
        elif begin is None:
            begin = found.start()
    if begin is not None:
        parts.append(body[begin:])
    elif body.rstrip().endswith(b"# EOF"):
        parts.append(b"# EOF\n")
    names = ", ".join(f"{_text(name)} ({count:,})" for name, count in list(gone.items())[:3])
    more = f" and {len(gone) - 3} more metrics" if len(gone) > 3 else ""
    return b"".join(parts), (
        f"{total:,} samples, more than {most:,}: {names}{more} left out; raise --max-series, or drop them at the target"
    )


class Room:
    """So much of something at once, for all threads together. What is larger than all of it goes alone."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._taken = 0
        self._changed = threading.Condition()

    def take(self, amount: int) -> None:
        """Wait until there is room for so much, and take it."""
        with self._changed:
            self._changed.wait_for(lambda: not self._taken or self._taken + amount <= self._size)
            self._taken += amount

    def try_take(self, amount: int) -> bool:
        """Take so much if there is room for it."""
        with self._changed:
            if self._taken + amount > self._size:
                return False
            self._taken += amount
            return True

    def give(self, amount: int) -> None:
        """Give so much back."""
        with self._changed:
            self._taken -= amount
            self._changed.notify_all()


def _text(name: bytes) -> str:
    return name.lstrip(b'{ "').rstrip(b'"').decode("utf-8", "replace")[:100]
