"""A server of texts on loopback."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

TEXT = "text/plain; version=0.0.4"


@contextmanager
def answering(page: Callable[[str], str | None], content_type: str = TEXT) -> Iterator[str]:
    """Answers each path with its page, or 404 where it has none; the address."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = page(self.path)
            if body is None:
                self.send_error(404)
                return
            self.send_response(200)
            self.send_header("Content-Type", content_type)
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, *_) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
