"""What an argument is: a server with the Prometheus API, a page of metrics, a store, a file or a folder of pages.

Nobody should have to know. A path is looked into; an address is requested the Prometheus API first, since a Prometheus
has a page of its own metrics as well, and then for the page.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit, urlunsplit

from inferdoc.collect.discovery import Target, make_target
from inferdoc.errors import NOT_JSON, InferdocError, SourceError

Kind = Literal["prometheus", "page", "store", "file", "folder"]
SQLITE = b"SQLite format 3\0"
"""How such a file begins (sqlite.org/fileformat2.html)."""
API = "/api/v1/query?query=1"
OPENAI = re.compile(r"/v1/?$")
"""What clients of the engine are configured with; its metrics lie beside it."""
ADDRESS = re.compile(r"https?://|[\w.-]+:\d+|\[[0-9a-fA-F:]+\]|localhost$|[\w-]+(\.[\w-]+)+(/|$)")

Fetch = Callable[[Target], tuple[bytes, str | None]]
"""Gets what a URL answers: the body, and why it failed (one line) or None."""


NEITHER = "neither the Prometheus API nor a page of metrics answers there"
TO_DO = {
    "HTTP 5": "the process responds and fails to write its metrics: read its log",
    "connection refused": "nothing listens there: check host and port, and that the engine runs",
}
"""What to do about a page that cannot be read, by what its error says."""


@dataclass(frozen=True)
class Recognised:
    """An argument and its kind. address: of the API, of the page, or the path; target: of a page."""

    text: str
    kind: Kind
    address: str
    target: Target | None = None


def recognise(text: str, fetch: Fetch) -> Recognised:
    """What `text` is. Raises InferdocError where it is neither a path that exists nor an address, SourceError where the
    address answers with neither."""
    path = Path(text).expanduser()
    if "://" not in text and path.exists():
        if path.is_dir():
            return Recognised(text, "folder", str(path))
        return Recognised(text, "store" if _is_sqlite(path) else "file", str(path))
    if not ADDRESS.match(text):
        raise InferdocError(f"{text}: no such file or folder, and no address such as http://vllm:8000; correct it")
    target = make_target(text)
    requested = urlsplit(text if "://" in text else f"http://{text}")
    if requested.path.rstrip("/").endswith("/metrics"):
        return _page(text, target, fetch)
    base = urlunsplit((requested.scheme, requested.netloc, requested.path.rstrip("/").removesuffix("/api/v1"), "", ""))
    body, _ = fetch(replace(target, url=base + API))
    if _speaks_prometheus(body):
        return Recognised(text, "prometheus", base)
    beside = OPENAI.sub("", base)
    return _page(text, make_target(f"{beside}/metrics"), fetch)


def _page(text: str, target: Target, fetch: Fetch) -> Recognised:
    body, error = fetch(target)
    if error is None and _looks_like_a_page(body):
        return Recognised(text, "page", target.url, target)
    why = error or "it sent no metrics"
    todo = next((text for sign, text in TO_DO.items() if sign in why), NEITHER)
    raise SourceError(f"{target.url}: {why}; {todo}")


def _is_sqlite(path: Path) -> bool:
    with path.open("rb") as stream:
        return stream.read(len(SQLITE)) == SQLITE


def _speaks_prometheus(body: bytes) -> bool:
    """Whether it is an answer of the API, be it a refusal: `status` is `success` or `error`."""
    try:
        answer = json.loads(body)
    except NOT_JSON:
        return False
    return isinstance(answer, dict) and answer.get("status") in ("success", "error")


def _looks_like_a_page(body: bytes) -> bool:
    """Whether there is a line `name{labels} value` or `name value`."""
    return re.search(rb"(?m)^[a-zA-Z_:][\w:]*(\{.*\})? +[-+0-9.eENaInf]+", body) is not None
