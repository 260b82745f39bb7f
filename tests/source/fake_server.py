"""An HTTP server that misbehaves on demand."""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit


class QuietServer(ThreadingHTTPServer):
    """Writes nothing where a client closes its connection: standard error is that of the command under test."""

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


@dataclass
class Asked:
    method: str
    path: str
    params: dict[str, str]
    headers: dict[str, str]


@dataclass
class Answer:
    """cut: close the connection after so many bytes of the body; drip: seconds between single bytes; delay: seconds
    before anything is sent."""

    status: int = 200
    body: bytes | str | dict = b""
    headers: dict[str, str] = field(default_factory=dict)
    cut: int | None = None
    drip: float = 0.0
    delay: float = 0.0


@dataclass
class Fake:
    url: str
    asked: list[Asked] = field(default_factory=list)
    most_at_once: int = 0

    def count(self, method: str) -> int:
        return sum(a.method == method for a in self.asked)


def matrix(*series: tuple[dict[str, str], list[tuple[float, str]]], **more) -> dict:
    rows = [{"metric": labels, "values": [[t, v] for t, v in points]} for labels, points in series]
    return {"status": "success", "data": {"resultType": "matrix", "result": rows}, **more}


def vector(*series: tuple[dict[str, str], float, str], **more) -> dict:
    rows = [{"metric": labels, "value": [t, v]} for labels, t, v in series]
    return {"status": "success", "data": {"resultType": "vector", "result": rows}, **more}


def refusal(status: int, kind: str, text: str, **headers: str) -> Answer:
    return Answer(status, {"status": "error", "errorType": kind, "error": text}, headers)


@contextmanager
def serving(respond: Callable[[Asked], Answer | dict], ssl_context=None) -> Iterator[Fake]:
    lock = threading.Lock()
    busy = 0
    over = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def handle_one(self) -> None:
            nonlocal busy
            parts = urlsplit(self.path)
            length = int(self.headers.get("Content-Length") or 0)
            query = self.rfile.read(length).decode() if length else parts.query
            params = {k: v[0] for k, v in parse_qs(query, keep_blank_values=True).items()}
            asked = Asked(self.command, parts.path, params, dict(self.headers))
            with lock:
                fake.asked.append(asked)
                busy += 1
                fake.most_at_once = max(fake.most_at_once, busy)
            try:
                self.answer(respond(asked))
            except OSError:
                self.close_connection = True
            finally:
                with lock:
                    busy -= 1

        do_GET = do_POST = handle_one  # noqa: N815

        def answer(self, answer: Answer | dict) -> None:
            if isinstance(answer, dict):
                answer = Answer(body=answer)
            body, kind = answer.body, "text/plain"
            if isinstance(body, dict):
                body, kind = json.dumps(body), "application/json"
            data = body.encode() if isinstance(body, str) else body
            over.wait(answer.delay)
            self.send_response(answer.status)
            self.send_header("Content-Type", answer.headers.pop("Content-Type", kind))
            for name, value in answer.headers.items():
                self.send_header(name.replace("_", "-"), value)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            if answer.drip:
                for i in range(len(data)):
                    if over.wait(answer.drip):
                        break
                    self.wfile.write(data[i : i + 1])
                    self.wfile.flush()
            else:
                self.wfile.write(data[: answer.cut])
            if answer.cut is not None:
                self.wfile.flush()
                self.close_connection = True

        def log_message(self, *args: object) -> None:
            pass

    server = QuietServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    scheme = "http"
    if ssl_context is not None:
        server.socket = ssl_context.wrap_socket(server.socket, server_side=True)
        scheme = "https"
    fake = Fake(f"{scheme}://127.0.0.1:{server.server_port}")
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield fake
    finally:
        over.set()
        server.shutdown()
        server.server_close()
        thread.join(5)


def in_turn(*answers: Answer | dict) -> Callable[[Asked], Answer | dict]:
    """Each answer once, then the last one for ever."""
    left = list(answers)
    lock = threading.Lock()

    def respond(asked: Asked) -> Answer | dict:
        with lock:
            return left.pop(0) if len(left) > 1 else left[0]

    return respond


def sleeper(seconds: float, answer: dict) -> Callable[[Asked], dict]:
    def respond(asked: Asked) -> dict:
        time.sleep(seconds)
        return answer

    return respond
