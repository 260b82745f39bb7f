"""A loopback HTTP server whose pages each test writes itself."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

Answer = Callable[[BaseHTTPRequestHandler], None]


class PageServer:
    """Serves `pages[path]`, a function that writes the whole answer. `requests` holds (path, headers) as received."""

    def __init__(self) -> None:
        self.pages: dict[str, Answer] = {}
        self.requests: list[tuple[str, dict[str, str]]] = []
        self.connections = 0
        self.closing = threading.Event()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def setup(self) -> None:
                outer.connections += 1
                super().setup()

            def do_GET(self) -> None:
                outer.requests.append((self.path, dict(self.headers)))
                try:
                    outer.pages[self.path.partition("?")[0]](self)
                except (BrokenPipeError, ConnectionResetError):
                    self.close_connection = True

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02})
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def close(self) -> None:
        self.closing.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def drip(self, handler: BaseHTTPRequestHandler, data: bytes, pause: float) -> None:
        """Send one byte after another, as slowly as asked, until the test ends."""
        for byte in data:
            if self.closing.wait(pause):
                return
            handler.wfile.write(bytes([byte]))
            handler.wfile.flush()


def respond(body: bytes, content_type: str = "text/plain; version=0.0.4", status: int = 200, **headers: str) -> Answer:
    """A page with a correct Content-Length; header names are written with _ for -."""

    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(status)
        handler.send_header("Content-Type", content_type)
        handler.send_header("Content-Length", str(len(body)))
        for name, value in headers.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.end_headers()
        handler.wfile.write(body)

    return answer


@pytest.fixture
def server() -> Iterator[PageServer]:
    server = PageServer()
    yield server
    server.close()
