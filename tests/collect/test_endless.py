"""Servers whose response has no end, is slow or is not of their own making hold no request up and fill no memory."""

from __future__ import annotations

import gzip
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field

import pytest

from inferdoc.collect import probe as probing
from inferdoc.collect.discovery import make_target
from inferdoc.collect.probe import probe
from inferdoc.collect.scrape import ScrapeOptions, Scraper
from inferdoc.collect.targets import HttpDiscovery
from inferdoc.errors import InferdocError
from inferdoc.serve.outputs import sending
from inferdoc.serve.outputs.sending import Outgoing, send
from inferdoc.source import find_server
from inferdoc.source.prometheus_access import Access
from inferdoc.source.prometheus_http import Client, ReadDeadline

MOST = 1 << 20
"""What the test allows of a response; a server may have sent as much again into the buffers of both sockets."""
BUFFERS = 8 << 20
SECONDS, PATIENCE = 0.4, 30.0
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
BLOCK = b" " * 65_536
ZIPPED = gzip.compress(b" " * (64 << 20))
"""64 MiB in 64 KiB."""

Send = Callable[[bytes], None]


def endless(send: Send, begin: bytes, part: bytes, pause: float = 0.0) -> None:
    send(begin)
    while True:
        send(part)
        time.sleep(pause)


def chunk(body: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(body), body)


CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
KINDS: dict[str, Callable[[Send], None]] = {
    "body": lambda send: endless(send, HEAD + b"\r\n", BLOCK),
    "chunks": lambda send: endless(send, CHUNKED, chunk(BLOCK)),
    "compressed body": lambda send: endless(send, HEAD + b"Content-Encoding: gzip\r\n\r\n", ZIPPED),
    "slow body": lambda send: endless(send, HEAD + b"\r\n", b" ", 0.02),
    "slow head": lambda send: endless(send, HEAD, b"X: y\r\n", 0.02),
    "line of a head": lambda send: endless(send, HEAD + b"X: ", BLOCK),
    "heads to continue": lambda send: endless(send, b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
    "slow size of a chunk": lambda send: endless(send, CHUNKED, b"0", 0.02),
    "nothing": lambda send: endless(send, b"", b"", 0.02),
}


@dataclass
class Server:
    """sent: bytes, over all connections; threads: one a connection, that end when the client has gone; accepted:
    set with the first of them."""

    url: str = ""
    sent: int = 0
    threads: list[threading.Thread] = field(default_factory=list)
    accepted: threading.Event = field(default_factory=threading.Event)


@contextmanager
def serving_endlessly(kind: str) -> Iterator[Server]:
    server, over = Server(), threading.Event()

    def one(connection: socket.socket) -> None:
        def send(part: bytes) -> None:
            if over.is_set():
                raise OSError
            connection.sendall(part)
            server.sent += len(part)

        with connection, suppress(OSError):
            connection.settimeout(PATIENCE)
            connection.recv(65_536)
            if kind == "nothing":
                connection.recv(1)  # until the client goes
            else:
                KINDS[kind](send)

    def accept() -> None:
        with suppress(OSError):
            while True:
                thread = threading.Thread(target=one, args=(listening.accept()[0],), daemon=True)
                thread.start()
                server.threads.append(thread)
                server.accepted.set()

    with socket.create_server(("127.0.0.1", 0)) as listening:
        server.url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        threading.Thread(target=accept, daemon=True).start()
        try:
            yield server
        finally:
            over.set()
            with suppress(OSError):
                listening.shutdown(socket.SHUT_RDWR)


def _client(url: str, ask: Callable[[Client, ReadDeadline], object]) -> None:
    with closing(Client(Access(url), largest_answer=MOST, request_seconds=SECONDS, attempts=1)) as client:
        ask(client, ReadDeadline(SECONDS))


def _scraped(url: str) -> None:
    with Scraper(ScrapeOptions(timeout=SECONDS, body_limit=MOST)) as scraper:
        result = scraper.scrape(make_target(url))
    assert not result.up and result.error


def _listed(url: str) -> None:
    found = HttpDiscovery(url, ScrapeOptions(timeout=SECONDS, body_limit=MOST))
    assert not found.targets() and found.problems


CALLERS: dict[str, Callable[[str], object]] = {
    "scrape": _scraped,
    "http_sd": _listed,
    "query": lambda url: _client(url, lambda client, end: client.ask("query", {"query": "up"}, end)),
    "probe": lambda url: probe(url, SECONDS),
    "probe of a model": lambda url: probe(url, SECONDS, model="m"),
    "search for a server": lambda url: find_server.responding([url], SECONDS),
    "output": lambda url: send(Outgoing(url, b"{}")),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("caller", CALLERS)
def test_a_response_without_an_end_is_left(caller, kind, monkeypatch):
    monkeypatch.setattr(probing, "MOST_BYTES", MOST)
    monkeypatch.setattr(sending, "SECONDS", SECONDS)
    with serving_endlessly(kind) as server:
        with suppress(InferdocError):
            CALLERS[caller](server.url)
        assert server.accepted.wait(PATIENCE), "a client may be gone before its thread is in the list"
        for thread in server.threads:
            thread.join(PATIENCE)
            assert not thread.is_alive(), "the connection is still open"
        assert server.sent < MOST + BUFFERS
