"""The scraper against a real loopback server, well-behaved and not."""

from __future__ import annotations

import gzip
import os
import resource
import socket
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from inferdoc.collect.discovery import Target, make_target
from inferdoc.collect.samples import Series
from inferdoc.collect.scrape import ScrapeOptions, Scraper, ScrapeResult
from inferdoc.collect.scrape_series import page_to_store

from .conftest import PageServer, respond

PAGE = b'# TYPE a gauge\na{x="1"} 1\nb 2\n'


@pytest.fixture
def scraper() -> Iterator[Scraper]:
    with Scraper(ScrapeOptions(timeout=5)) as scraper:
        yield scraper


def scrape(server: PageServer, scraper: Scraper) -> ScrapeResult:
    return scraper.scrape(make_target(server.url))


def test_a_good_page(server: PageServer, scraper: Scraper) -> None:
    server.pages["/metrics"] = respond(PAGE)
    before = time.time() * 1000
    result = scrape(server, scraper)
    assert result.error is None
    assert result.up
    assert result.page is not None
    assert result.page.values.tolist() == [1.0, 2.0]
    assert before - 1 <= result.timestamp_ms <= time.time() * 1000
    assert 0 < result.duration_seconds < 5
    path, headers = server.requests[0]
    assert path == "/metrics"
    assert headers["Accept-Encoding"] == "gzip"
    assert headers["User-Agent"].startswith("inferdoc")


def test_the_connection_is_kept_alive(server: PageServer, scraper: Scraper) -> None:
    server.pages["/metrics"] = respond(PAGE)
    target = make_target(server.url)
    results = [scraper.scrape(target) for _ in range(5)]
    assert all(result.up for result in results)
    assert server.connections == 1
    assert len({id(result.page.layout) for result in results if result.page}) == 1


def test_a_connection_that_went_stale_is_replaced(server: PageServer, scraper: Scraper) -> None:
    def answer_then_hang_up(handler: BaseHTTPRequestHandler) -> None:
        respond(PAGE)(handler)
        handler.close_connection = True

    server.pages["/metrics"] = answer_then_hang_up
    target = make_target(server.url)
    assert [scraper.scrape(target).error for _ in range(3)] == [None, None, None]


def test_gzip(server: PageServer, scraper: Scraper) -> None:
    server.pages["/metrics"] = respond(gzip.compress(PAGE), Content_Encoding="gzip")
    result = scrape(server, scraper)
    assert result.error is None


def test_gzip_of_an_empty_page_and_of_two_members(server: PageServer, scraper: Scraper) -> None:
    for body, size in ((gzip.compress(b""), 0), (gzip.compress(PAGE) + gzip.compress(b"c 3\n"), 3)):
        server.pages["/metrics"] = respond(body, Content_Encoding="gzip")
        result = scrape(server, scraper)
        assert result.error is None
        assert result.page is not None
        assert len(result.page) == size


def test_a_cut_gzip_body_fails_but_keeps_what_came(server: PageServer, scraper: Scraper) -> None:
    lines = b"".join(b"m%d %d\n" % (n, n * 7919 % 10007) for n in range(5000))
    packed = gzip.compress(lines)
    server.pages["/metrics"] = respond(packed[: len(packed) // 2], Content_Encoding="gzip")
    result = scrape(server, scraper)
    assert result.error == f"compressed body is cut after {len(packed) // 2} bytes"
    assert not result.up
    assert result.page is not None
    assert 1000 < len(result.page) < 5000
    assert result.page.values.tolist() == [n * 7919 % 10007 for n in range(len(result.page))]
    assert "the page is cut; line dropped" in result.page.problems[-1]


def test_a_damaged_gzip_body(server: PageServer, scraper: Scraper) -> None:
    server.pages["/metrics"] = respond(b"this is no gzip at all", Content_Encoding="gzip")
    result = scrape(server, scraper)
    assert result.error is not None
    assert "compressed body is damaged" in result.error
    assert result.page is None


def test_a_body_shorter_than_announced_fails_but_keeps_what_came(server: PageServer, scraper: Scraper) -> None:
    def short(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Length", str(len(PAGE) + 10))
        handler.end_headers()
        handler.wfile.write(PAGE)
        handler.close_connection = True

    server.pages["/metrics"] = short
    result = scrape(server, scraper)
    assert result.error == "body is cut: connection closed by the target"
    assert result.page is not None
    assert result.page.values.tolist() == [1.0, 2.0]


def test_a_page_of_200_mb_is_refused_early_and_not_held(server: PageServer, scraper: Scraper) -> None:
    sent = 0

    def huge(handler: BaseHTTPRequestHandler) -> None:
        nonlocal sent
        handler.send_response(200)
        handler.end_headers()
        block = b"some_metric_with_a_long_name 1\n" * 32768
        while sent < 200 << 20:
            handler.wfile.write(block)
            sent += len(block)
        handler.close_connection = True

    server.pages["/metrics"] = huge
    small = Scraper(ScrapeOptions(timeout=30, body_limit=8 << 20))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with small:
        result = small.scrape(make_target(server.url))
    assert result.error == "page is larger than 8 MiB: is this a metrics page?"
    assert result.page is None
    assert sent < 100 << 20
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100 << 10


def test_an_announced_200_mb_is_refused_without_reading(server: PageServer, scraper: Scraper) -> None:
    def announce(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Length", str(200 << 20))
        handler.end_headers()
        handler.close_connection = True

    server.pages["/metrics"] = announce
    result = scrape(server, scraper)
    assert result.error == "page is larger than 128 MiB: is this a metrics page?"


def test_a_gzip_bomb_is_refused(server: PageServer) -> None:
    bomb = gzip.compress(b"a 1\n" * (8 << 20))
    server.pages["/metrics"] = respond(bomb, Content_Encoding="gzip")
    with Scraper(ScrapeOptions(timeout=20, body_limit=1 << 20)) as scraper:
        result = scraper.scrape(make_target(server.url))
    assert result.error == "page is larger than 1 MiB: is this a metrics page?"


@pytest.mark.parametrize("where", ["headers", "body", "announced body", "silence"])
def test_one_byte_a_second_ends_at_the_deadline(server: PageServer, where: str) -> None:
    def slow(handler: BaseHTTPRequestHandler) -> None:
        handler.close_connection = True
        if where == "silence":
            server.closing.wait(60)
        elif where == "headers":
            server.drip(handler, b"HTTP/1.1 200 OK\r\nX-Padding: " + b"x" * 500, 0.05)
        else:
            handler.send_response(200)
            if where == "announced body":
                handler.send_header("Content-Length", "500")
            handler.end_headers()
            server.drip(handler, b"a 1\n" * 125, 0.05)

    server.pages["/metrics"] = slow
    with Scraper(ScrapeOptions(timeout=0.7)) as scraper:
        begin = time.monotonic()
        result = scraper.scrape(make_target(server.url))
        took = time.monotonic() - begin
    assert result.error == "took longer than 0.7 s"
    assert not result.up
    assert 0.5 < took < 10
    assert 0.5 < result.duration_seconds < 10
    if "body" in where:
        assert result.page is not None
        assert result.page.values[:1].tolist() == [1.0]


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (401, "HTTP 401 Unauthorized: check the bearer token or the password"),
        (403, "HTTP 403 Forbidden: these credentials may not read it"),
        (404, "HTTP 404 Not Found: is the path right?"),
        (500, "HTTP 500 Internal Server Error"),
        (503, "HTTP 503 Service Unavailable"),
        (204, "HTTP 204 No Content"),
    ],
)
def test_status(server: PageServer, scraper: Scraper, status: int, expected: str) -> None:
    server.pages["/metrics"] = respond(PAGE if status != 204 else b"", status=status)
    result = scrape(server, scraper)
    assert result.error == expected
    assert result.page is None


def test_html(server: PageServer, scraper: Scraper) -> None:
    server.pages["/metrics"] = respond(b"<!DOCTYPE html><title>Sign in</title>", "text/html")
    assert scrape(server, scraper).error == "HTML page, not metrics: is this behind a login?"


def test_a_redirect_to_a_login_page_of_the_same_host(server: PageServer, scraper: Scraper) -> None:
    server.pages["/metrics"] = respond(b"", status=302, Location="/login?next=%2Fmetrics&state=SECRET")
    server.pages["/login"] = respond(b"<html>Sign in</html>", "text/html")
    error = scrape(server, scraper).error
    assert error == f"HTML page, not metrics: is this behind a login? (redirected to {server.url}/login)"


def test_a_redirect_to_another_host_is_not_followed(server: PageServer) -> None:
    server.pages["/metrics"] = respond(b"", status=302, Location="https://sso.example.com/auth?client=SECRET")
    with Scraper(ScrapeOptions(username="u", password="p")) as scraper:
        error = scraper.scrape(make_target(server.url)).error
    assert error == (
        "redirects to https://sso.example.com/auth, which is not followed: use that address, or is this behind a login?"
    )


def test_redirects_on_the_same_host_are_followed_to_a_limit(server: PageServer, scraper: Scraper) -> None:
    server.pages["/metrics"] = respond(b"", status=308, Location="/metrics/")
    server.pages["/metrics/"] = respond(PAGE)
    assert scrape(server, scraper).up
    server.pages["/metrics/"] = respond(b"", status=302, Location="/metrics")
    assert scrape(server, scraper).error == "redirects more than 5 times: is this behind a login?"


def test_nobody_listens(scraper: Scraper) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    assert scraper.scrape(make_target(f"127.0.0.1:{port}")).error == "connection refused"


def test_no_such_host(scraper: Scraper) -> None:
    assert scraper.scrape(make_target("no-such-host.invalid:8000")).error == "host name not found"


def test_what_is_no_http(scraper: Scraper) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer() -> None:
            for _ in range(2):
                connection, _ = listener.accept()
                with connection:
                    connection.recv(1000)
                    connection.sendall(b"SSH-2.0-OpenSSH_9.2\r\n")

        thread = threading.Thread(target=answer, daemon=True)
        thread.start()
        result = scraper.scrape(make_target(f"127.0.0.1:{listener.getsockname()[1]}"))
    assert result.error == "does not speak HTTP"


def test_non_utf8_labels_cost_only_their_line(server: PageServer, scraper: Scraper) -> None:
    server.pages["/metrics"] = respond(b'a 1\nb{x="\xff"} 2\nc 3\n')
    result = scrape(server, scraper)
    assert result.up
    assert result.page is not None
    assert result.page.values.tolist() == [1.0, 3.0]
    assert result.page.problems == ["line 2: not UTF-8"]


def test_an_empty_page_is_up_with_no_samples(server: PageServer, scraper: Scraper) -> None:
    server.pages["/metrics"] = respond(b"")
    result = scrape(server, scraper)
    assert result.up
    assert result.page is not None
    assert len(result.page) == 0


def test_an_unasked_encoding(server: PageServer, scraper: Scraper) -> None:
    server.pages["/metrics"] = respond(b"???", Content_Encoding="br")
    assert scrape(server, scraper).error == "sends Content-Encoding br, which was not requested"


def test_connections_and_handles_are_given_back(server: PageServer) -> None:
    server.pages["/metrics"] = respond(PAGE)
    handles = Path("/proc/self/fd")
    if not handles.exists():
        pytest.skip("needs /proc")
    before = len(os.listdir(handles))  # noqa: PTH208
    with Scraper() as scraper:
        targets = [make_target(server.url, {"pod": str(n)}) for n in range(20)]
        for target in targets:
            assert scraper.scrape(target).up
        for target in targets:
            scraper.forget(target)
    deadline = time.monotonic() + 5
    while len(os.listdir(handles)) > before + 2 and time.monotonic() < deadline:  # noqa: PTH208
        time.sleep(0.02)
    assert len(os.listdir(handles)) <= before + 2  # noqa: PTH208


def test_the_series_of_the_scrape_itself(server: PageServer, scraper: Scraper) -> None:
    server.pages["/metrics"] = respond(b"up 7\na 1 1000\n")
    good = page_to_store(scrape(server, scraper))
    names = [series.name for series in good.layout.series]
    assert names == ["up", "scrape_duration_seconds", "scrape_samples_scraped", "up", "a"]
    assert good.values[0] == 1.0
    assert good.values[2:].tolist() == [2.0, 7.0, 1.0]
    assert good.timestamps is not None
    assert good.timestamps[-1] == 1000
    assert good.layout.types["up"] == "gauge"
    assert page_to_store(scrape(server, scraper)).layout is good.layout

    bad = page_to_store(ScrapeResult(Target("u", {}), 1, None, "connection refused", 0.25))
    assert bad.layout.series == (
        Series("up", ()),
        Series("scrape_duration_seconds", ()),
        Series("scrape_samples_scraped", ()),
    )
    assert bad.values.tolist() == [0.0, 0.25, 0.0]
