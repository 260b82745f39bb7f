"""A server that answers, hangs or refuses completions, as an engine does."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest


class Server(ThreadingHTTPServer):
    """status: of completions, 0 for one that never comes; seen: the requests, with their key."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Engine)
        self.status, self.models, self.released = 200, [{"id": "llama"}], threading.Event()
        self.seen: list[tuple[dict, str | None]] = []
        self.url = f"http://127.0.0.1:{self.server_port}"


class Engine(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self):
        self._answer(200, {"data": self.server.models})

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.seen.append((body, self.headers.get("Authorization")))
        if self.server.status == 0:
            self.server.released.wait(30)
        self._answer(self.server.status or 200, {"error": "overloaded"})

    def _answer(self, status, document):
        text = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *args):
        pass


@pytest.fixture
def engine():
    server = Server()
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.released.set()
    server.shutdown()
    server.server_close()
