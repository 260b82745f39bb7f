"""Clients that are slow, many, or do not read shut nobody out."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import suppress

import pytest
import requests

import inferdoc.serve.command as serving
import inferdoc.serve.gate as gate
from tests.serve.running import GivenRunner, Running, firing, running, webhook

REQUEST = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
POST = b"POST /alertmanager HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n{"


@pytest.fixture
def service(tmp_path, sick) -> Iterator[Running]:
    with running(tmp_path, GivenRunner({}, {}, answer=sick)) as opened:
        yield opened


def connect(service: Running, sends: bytes = b"", *, reads: bool = True) -> socket.socket:
    """A connection that sends something and waits for the response if it is a whole request."""
    raw = socket.create_connection(("127.0.0.1", int(service.address.rpartition(":")[2])), 10)
    raw.settimeout(10)
    with suppress(OSError):
        raw.sendall(sends)
        if reads and sends == REQUEST:
            response(raw)
    return raw


def response(raw: socket.socket) -> bytes:
    """What /healthz answers, as a whole."""
    received = b""
    while not received.endswith(b"ok\n") and (part := raw.recv(4096)):
        received += part
    return received


def closed(raw: socket.socket) -> bool:
    """Whether the service has closed a connection, waiting for that."""
    try:
        while raw.recv(1 << 16):
            pass
    except ConnectionResetError:
        return True
    except TimeoutError:
        return False
    return True


@pytest.mark.parametrize("begin", [b"", b"G", REQUEST[:-2], POST])
def test_many_connections_that_wait_for_their_client_shut_nobody_out(service, begin):
    """Each has made a request, and begins a second one that does not end; without a token, by one client."""
    raws: list[socket.socket] = []
    try:
        for number in range(700):
            raw = connect(service, REQUEST)
            with suppress(OSError):
                raw.sendall(begin)
            raws.append(raw)
            if number % 50 == 49:
                assert service.get("/healthz").text == "ok\n", f"after {number + 1} connections"
        assert service.get("/readyz").status_code == 200
        assert service.post(webhook(firing())).status_code == 200
    finally:
        for raw in raws:
            raw.close()


@pytest.mark.parametrize("begin", [b"G", REQUEST[:-2]])
def test_the_head_of_every_request_is_timed(service, monkeypatch, begin):
    monkeypatch.setattr(serving, "HEADER_SECONDS", 0.3)
    for before in (b"", REQUEST):
        with connect(service, before) as raw:
            raw.sendall(begin)
            assert closed(raw), "a head that does not end"
    with connect(service) as raw:
        assert closed(raw), "a connection without a request"


def test_an_idle_connection_is_closed_and_one_in_use_is_not(service, monkeypatch):
    monkeypatch.setattr(serving, "HEADER_SECONDS", 0.5)
    with connect(service, REQUEST) as raw:
        for _ in range(8):  # longer than the head of one request may take
            raw.sendall(REQUEST[:5])
            service.get("/healthz")
            raw.sendall(REQUEST[5:])
            assert b"200 OK" in response(raw)


def test_a_response_that_is_not_read_is_let_go(service, monkeypatch):
    monkeypatch.setattr(serving, "ANSWER_SECONDS", 3.0)
    connections = service.server.server_state.connections
    with connect(service, b"GET /api/v1/openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n" * 3000, reads=False) as raw:
        service.until(lambda: any(other.transport.get_write_buffer_size() for other in connections))
        service.until(lambda: not connections)
        assert closed(raw)


def test_a_client_that_is_one_of_many_keeps_its_connection(service, monkeypatch):
    """Past the limit of all clients the client with the most connections loses its oldest."""
    monkeypatch.setattr(serving, "MOST_CONNECTIONS", 5)
    monkeypatch.setattr(
        serving, "_network", lambda _: "many" if len(service.server.server_state.connections) > 1 else "one"
    )
    with connect(service, REQUEST) as one:
        raws = [connect(service, REQUEST) for _ in range(10)]
        assert closed(raws[0]) and service.get("/healthz").status_code == 200
        one.sendall(REQUEST)
        assert b"200 OK" in response(one)
        for raw in raws:
            raw.close()


def test_a_client_that_keeps_all_connections_busy_shuts_no_other_out(service, monkeypatch):
    """As by thousands of requests that are sent without reading a response."""
    monkeypatch.setattr(serving, "MOST_CONNECTIONS", 4)
    monkeypatch.setattr(serving.LimitedProtocol, "_waits_for_client", False)
    port = int(service.address.rpartition(":")[2])
    raws = [socket.create_connection(("127.0.0.1", port), 10, ("127.0.0.2", 0)) for _ in range(4)]
    for raw in raws:
        raw.sendall(REQUEST)
        response(raw)
    assert service.get("/healthz").status_code == 200
    assert closed(raws[0])
    for raw in raws:
        raw.close()


def test_requests_that_are_worked_on_leave_room_for_health_and_webhooks(service, monkeypatch):
    monkeypatch.setattr(gate, "MOST_REQUESTS", 0)
    assert service.get("/api/v1/incidents").status_code == 503 and service.get("/").status_code == 503
    assert [service.get(path).status_code for path in ("/healthz", "/readyz", "/metrics")] == [200] * 3
    assert service.post(webhook(firing())).status_code == 200


def test_no_body_is_awaited_where_no_credentials_are_required(service):
    with connect(service, POST.replace(b"/alertmanager", b"/healthz")) as raw:
        assert b" 405 " in raw.recv(4096)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("10.0.0.1", "10.0.0.2", False),
        ("2001:db8::1", "2001:db8::ffff", True),
        ("2001:db8::1", "2001:db8:0:1::1", False),
        ("", "", True),
    ],
)
def test_whose_connections_are_counted_together(one, other, same):
    assert (serving._network(one) == serving._network(other)) is same


def test_requests_after_all_that_are_answered(service):
    with requests.Session() as session:
        assert [session.get(f"{service.address}/healthz", timeout=5).status_code for _ in range(5)] == [200] * 5
