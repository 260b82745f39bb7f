"""In front of every page: who calls, how much and how slowly, and what a browser may do with the answer. Pure ASGI."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, MutableMapping, Sequence
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

from inferdoc.errors import ConfigError
from inferdoc.serve.callers import Callers

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

OPEN_PATHS = ("/healthz", "/readyz")
RUNBOOKS = "/runbooks/"
"""Pages that hold nothing of the fleet: a link in an alert opens them without a token."""
RESERVED_PATHS = (*OPEN_PATHS, "/alertmanager", "/metrics")
MOST_REQUESTS = 64
"""Requests to other paths that are worked on; past it these are answered 503, and the reserved ones go through."""
LARGEST_BODY = 4 << 20
"""Alertmanager sends a kilobyte for an alert; a group of a thousand is a megabyte."""
BODY_SECONDS = 10.0
POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
"""What a page may load, run, send and be framed by: nothing but its own style."""
HEADERS = (
    (b"content-security-policy", POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cache-control", b"no-store"),
    (b"cross-origin-resource-policy", b"same-origin"),
)


class Refused(Exception):  # noqa: N818  (an answer, not an error)
    """A request that is answered with a status and one line."""

    def __init__(self, status: int, line: str, *headers: tuple[bytes, bytes]) -> None:
        super().__init__(line)
        self.status, self.line, self.headers = status, line, headers


class Gate:
    """Wraps an application. hosts: names that it is called by (None: any)."""

    def __init__(self, app: App, access: Callers, hosts: Sequence[str] | None) -> None:
        self._app, self._access, self._hosts = app, access, hosts
        self._working = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = False

        async def sealed(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                kept = [pair for pair in message.get("headers", ()) if pair[0].lower() not in dict(HEADERS)]
                message = {**message, "headers": [*kept, *HEADERS]}
            await send(message)

        try:
            self._admit(scope)
            with self._counted(scope["path"]):
                reads = scope["method"] == "POST" and scope["path"] not in OPEN_PATHS
                body = await _body(scope, receive) if reads else b""
                await self._app(scope, _replayed(body, receive), sealed)
        except Refused as answer:
            if not started:
                await refuse(answer, sealed)

    @contextmanager
    def _counted(self, path: str) -> Iterator[None]:
        """Raises Refused where too many requests are worked on."""
        if path in RESERVED_PATHS:
            yield
            return
        if self._working >= MOST_REQUESTS:
            raise Refused(503, f"{MOST_REQUESTS} requests are worked on; retry later", (b"retry-after", b"5"))
        self._working += 1
        try:
            yield
        finally:
            self._working -= 1

    def _admit(self, scope: Scope) -> None:
        """Raises Refused."""
        headers = {name.lower(): value for name, value in scope["headers"]}
        if self._hosts is not None:
            named = headers.get(b"host", b"").decode("latin-1")
            try:
                host = urlsplit(f"//{named}").hostname or ""
            except ValueError:
                host = ""
            if host not in self._hosts:
                raise Refused(421, "called by a name that is not ours; add it to [serve] hosts")
        if scope["path"] in OPEN_PATHS or (scope["path"].startswith(RUNBOOKS) and scope["method"] in ("GET", "HEAD")):
            return
        try:
            admitted = self._access.admits(headers.get(b"authorization", b"").decode("latin-1"))
        except ConfigError:
            raise Refused(503, "the file of the credentials cannot be read; see the log") from None
        if not admitted:
            raise Refused(401, "say who you are", (b"www-authenticate", self._access.challenge.encode()))


async def _body(scope: Scope, receive: Receive) -> bytes:
    """The body, in time and not too large. Raises Refused."""
    length = dict(scope["headers"]).get(b"content-length", b"0")
    if length.isdigit() and int(length) > LARGEST_BODY:
        raise Refused(413, f"more than {LARGEST_BODY >> 20} MiB", (b"connection", b"close"))
    parts, size = [], 0
    try:
        async with asyncio.timeout(BODY_SECONDS):
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise Refused(400, "the body ends before it is whole")
                parts.append(message.get("body", b""))
                size += len(parts[-1])
                if size > LARGEST_BODY:
                    raise Refused(413, f"more than {LARGEST_BODY >> 20} MiB", (b"connection", b"close"))
                if not message.get("more_body", False):
                    return b"".join(parts)
    except TimeoutError:
        line = f"the body did not come within {BODY_SECONDS:g} s"
        raise Refused(408, line, (b"connection", b"close")) from None


def _replayed(body: bytes, receive: Receive) -> Receive:
    given = False

    async def once() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return once


async def refuse(answer: Refused, send: Send) -> None:
    """Send the status and the line."""
    body = (answer.line + "\n").encode()
    headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": answer.status, "headers": [*headers, *answer.headers]})
    await send({"type": "http.response.body", "body": body})
