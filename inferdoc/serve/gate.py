"""In front of every page: who calls, how much and how slowly, and what a browser may do with the answer. Pure ASGI."""

from __future__ import annotations

import asyncio
import base64
import binascii
import hmac
import ipaddress
from collections.abc import Awaitable, Callable, Iterator, MutableMapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from inferdoc.config_sections import ServeSection
from inferdoc.errors import ConfigError
from inferdoc.serve.outputs.sending import secret


@dataclass(frozen=True)
class Callers:
    """token_file, username, password_file: as configured; none of them: anybody who reaches us."""

    token_file: str | None = None
    username: str | None = None
    password_file: str | None = None

    @property
    def needed(self) -> bool:
        """Whether callers must say who they are."""
        return self.token_file is not None or self.username is not None

    @property
    def challenge(self) -> str:
        """The header that makes a browser prompt for credentials."""
        return 'Basic realm="inferdoc", charset="UTF-8"' if self.username is not None else "Bearer"

    def check(self) -> None:
        """Read the files once, so that a fault shows at the start. Raises ConfigError."""
        if self.token_file is not None:
            secret(self.token_file, "bearer_token_file")
        if self.password_file is not None:
            secret(self.password_file, "password_file")

    def admits(self, header: str) -> bool:
        """Whether an Authorization header is accepted. Raises ConfigError if a file is missing."""
        if not self.needed:
            return True
        scheme, _, given = header.partition(" ")
        given = given.strip()
        if scheme.lower() == "bearer" and self.token_file is not None:
            return _same(given, secret(self.token_file, "bearer_token_file"))
        if scheme.lower() == "basic" and self.username is not None:
            try:
                name, colon, password = base64.b64decode(given, validate=True).decode().partition(":")
            except (binascii.Error, UnicodeDecodeError, ValueError):
                return False
            right = _same(password, secret(self.password_file, "password_file"))
            return _same(name, self.username) and bool(colon) and right
        return False


def _same(one: str, other: str) -> bool:
    return hmac.compare_digest(one.encode(), other.encode())


def callers_of(section: ServeSection, host: str) -> Callers:
    """As configured. Raises ConfigError if other hosts could connect without credentials."""
    access = Callers(section.bearer_token_file, section.username, section.password_file)
    if not access.needed and not is_loopback(host):
        raise ConfigError(
            f"[serve] listen = {section.listen}: others than this machine can reach it; set bearer_token_file, or"
            " username and password_file, or listen on 127.0.0.1"
        )
    access.check()
    return access


def is_loopback(host: str) -> bool:
    """Whether an address is reached from this machine alone."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def known_hosts(section: ServeSection, host: str) -> Sequence[str] | None:
    """The Host headers that are answered where nobody has to say who he is, so that no web page of somebody else can
    call in the name of a reader (DNS rebinding). None: any."""
    if not is_loopback(host):
        return None
    return ("localhost", "127.0.0.1", "::1", host, *section.hosts)


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
