"""Fetches one metrics page: bounded in time and size, never trusting the other side, never raising."""

from __future__ import annotations

import threading
import time
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import requests
from urllib3.exceptions import HTTPError
from urllib3.util.retry import Retry

from inferdoc.collect.discovery import Target
from inferdoc.collect.exposition import parse
from inferdoc.collect.samples import Page, ParseError
from inferdoc.collect.session import Deadline, DeadlineWatch, OriginSession, Room, describe, fitted
from inferdoc.origins import without_secrets

ACCEPT = "text/plain;version=0.0.4,*/*;q=0.1"
_BLOCK_BYTES = 1 << 16
_AUTODETECT_GZIP_OR_ZLIB = 47


@dataclass(frozen=True)
class ScrapeOptions:
    """How targets are scraped.

    Attributes:
        timeout: seconds for a whole scrape: name look-up to last byte.
        connect_timeout: seconds to establish a connection.
        body_limit: bytes of a page after decompression; a larger page is refused while it arrives.
        max_series: samples of a page; of a larger one the largest metrics are left out and named.
        bytes_at_once: of all pages that are under way; one that does not fit beside the others fails.
        series_at_once: of all pages that are read and not yet stored; others wait.
        ca_file: certificates to trust instead of the usual ones. Verification itself cannot be switched off.
        bearer_token_file: read before each scrape, so that a rotated token is picked up.
        username: for HTTP basic authentication, with `password` or `password_file` (read like the token).
        headers: sent with every request, such as a tenant id.
    """

    timeout: float = 10.0
    connect_timeout: float = 5.0
    body_limit: int = 128 << 20
    max_series: int = 250_000
    bytes_at_once: int = 512 << 20
    series_at_once: int = 1_000_000
    ca_file: Path | None = None
    bearer_token_file: Path | None = None
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    password_file: Path | None = None
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)


@dataclass(frozen=True)
class ScrapeResult:
    """What one scrape gave.

    Attributes:
        target: what was scraped.
        timestamp_ms: start of the scrape, milliseconds since 1970 UTC.
        page: the samples; None where there are none. A page whose body was cut short is kept
            as far as it goes, beside the `error`.
        error: why the scrape failed, one line without secrets; None where it succeeded.
        duration_seconds: how long it took.
        weight: what to give back with `Scraper.stored` when the page is not needed any more.
    """

    target: Target
    timestamp_ms: int
    page: Page | None
    error: str | None
    duration_seconds: float
    weight: int = 0

    @property
    def up(self) -> bool:
        """Whether the scrape succeeded as a whole."""
        return self.error is None


class _ScrapeError(Exception):
    """A failure already put in words."""


@dataclass
class Arrival:
    """What has arrived so far: `size` bytes in `blocks`, after decompression; `taken`: of the room for all pages."""

    content_type: str = ""
    redirected_to: str = ""
    blocks: list[bytes] = field(default_factory=list)
    size: int = 0
    taken: int = 0


class Scraper:
    """Scrapes targets, with a connection kept alive for each. Safe to use from many threads.

    Proxies and `.netrc` of the environment are not used: a token must not leave for a host nobody named.
    """

    def __init__(self, options: ScrapeOptions | None = None) -> None:
        self.options = options or ScrapeOptions()
        self._watch = DeadlineWatch()
        self._lock = threading.Lock()
        self._sessions: dict[Target, OriginSession] = {}
        self._bytes = Room(self.options.bytes_at_once)
        self._series = Room(self.options.series_at_once)

    def __enter__(self) -> Scraper:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections."""
        with self._lock:
            sessions = list(self._sessions.values())
            self._sessions.clear()
        for session in sessions:
            session.close()
        self._watch.close()

    def forget(self, target: Target) -> None:
        """Close the connection of a target that is gone."""
        with self._lock:
            session = self._sessions.pop(target, None)
        if session is not None:
            session.close()

    def scrape(self, target: Target, timeout: float | None = None) -> ScrapeResult:
        """Scrape once. Whatever goes wrong stands in the result; nothing is raised.

        Args:
            target: what to scrape. Not twice at the same time.
            timeout: seconds for all of it; by default that of the options.
        """
        timestamp_ms = time.time_ns() // 1_000_000
        begin = time.perf_counter()
        answer, error = self.fetch(target, timeout)
        page = None
        weight = 0
        duration = time.perf_counter() - begin
        try:
            if error is None or answer.size:
                weight = min(sum(block.count(b"\n") for block in answer.blocks), self.options.max_series)
                self._series.take(weight)
                parse_start = time.perf_counter()
                page, error = _read(answer, error, self.options.max_series)
                duration += time.perf_counter() - parse_start
        finally:
            self._bytes.give(answer.taken)
        if error is not None:
            self.forget(target)
        return ScrapeResult(target, timestamp_ms, page, error, duration, weight)

    def stored(self, result: ScrapeResult) -> None:
        """The page of a result is not needed any more: there is room for others."""
        self._series.give(result.weight)

    def fetch(self, target: Target, timeout: float | None = None, accept: str = ACCEPT) -> tuple[Arrival, str | None]:
        """Fetch a page without reading it: what arrived, and why it failed (one line without secrets) or None.

        Time limit, size limit, credentials and certificates are those of scraping. Nothing is raised.
        """
        answer = Arrival()
        seconds = self.options.timeout if timeout is None else timeout
        error: str | None = None
        with self._watch.within(seconds) as deadline:
            try:
                self._fetch(target, deadline, answer, accept)
            except _ScrapeError as fault:
                error = str(fault)
            except (requests.RequestException, HTTPError, OSError, ValueError) as fault:
                error = describe(fault)
            if deadline.expired:
                error = f"took longer than {seconds:g} s"
        return answer, error

    def _session(self, target: Target) -> OriginSession:
        with self._lock:
            session = self._sessions.get(target)
            if session is None:
                session = self._sessions[target] = self._new_session(target)
            return session

    def _new_session(self, target: Target) -> OriginSession:
        # An idle connection may be closed by the target just as the next request leaves: try that once more.
        retry = Retry(total=1, connect=0, read=1, redirect=0, status=0, other=0)
        session = OriginSession(target.url, environment=False, retries=retry)
        session.verify = True if self.options.ca_file is None else str(self.options.ca_file)
        return session

    def _headers(self, accept: str) -> dict[str, str]:
        headers = {"User-Agent": _user_agent(), "Accept": accept, "Accept-Encoding": "gzip", **self.options.headers}
        if self.options.bearer_token_file is not None:
            headers["Authorization"] = f"Bearer {_read_secret(self.options.bearer_token_file, 'bearer token file')}"
        return headers

    def _basic(self) -> tuple[str, str] | None:
        options = self.options
        if options.username is None:
            return None
        if options.password_file is not None:
            return options.username, _read_secret(options.password_file, "password file")
        return options.username, options.password or ""

    def _fetch(self, target: Target, deadline: Deadline, answer: Arrival, accept: str) -> None:
        response = self._session(target).get_following(
            target.url,
            headers=self._headers(accept),
            auth=self._basic(),
            stream=True,
            timeout=(min(self.options.connect_timeout, deadline.remaining()), deadline.remaining() + 1),
        )
        with response:
            if response.history:
                answer.redirected_to = response.url
            self._receive(response, answer)

    def _receive(self, response: requests.Response, answer: Arrival) -> None:
        if response.status_code != 200:
            raise _ScrapeError(_status_text(response))
        limit = self.options.body_limit
        announced = response.headers.get("Content-Length", "")
        if announced.isdigit() and int(announced) > limit:
            raise _ScrapeError(_too_large(limit))
        answer.content_type = response.headers.get("Content-Type", "")
        coding = response.headers.get("Content-Encoding", "").strip().lower()
        blocks = _raw_blocks(response)
        if coding in ("gzip", "x-gzip", "deflate"):
            blocks = _decompressed(blocks)
        elif coding not in ("", "identity"):
            raise _ScrapeError(f"sends Content-Encoding {coding[:20]}, which was not requested")
        for block in blocks:
            answer.size += len(block)
            if self._bytes.try_take(len(block)):
                answer.taken += len(block)
            else:
                answer.blocks.clear()
                together = _size_text(self.options.bytes_at_once)
                raise _ScrapeError(f"left out: all pages under way are larger than {together} together")
            if answer.size > limit:
                answer.blocks.clear()
                answer.size = limit
                raise _ScrapeError(_too_large(limit))
            answer.blocks.append(block)


def _read_secret(path: Path, what: str) -> str:
    try:
        return path.read_text(encoding="utf-8").strip()
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not text"
        raise _ScrapeError(f"{what} {path}: {reason}") from None


def _raw_blocks(response: requests.Response) -> Iterator[bytes]:
    while block := response.raw.read(_BLOCK_BYTES, decode_content=False):
        yield block


def _decompressed(blocks: Iterator[bytes]) -> Iterator[bytes]:
    """Decompress in bounded pieces: a small body may blow up a thousandfold."""
    decoder = zlib.decompressobj(wbits=_AUTODETECT_GZIP_OR_ZLIB)
    received = 0
    for block in blocks:
        received += len(block)
        while block:
            try:
                yield decoder.decompress(block, _BLOCK_BYTES)
            except zlib.error:
                raise _ScrapeError(f"compressed body is damaged near byte {received}") from None
            block = decoder.unconsumed_tail
            if decoder.eof:
                block, decoder = decoder.unused_data, zlib.decompressobj(wbits=_AUTODETECT_GZIP_OR_ZLIB)
                if not block:
                    received = 0
    yield decoder.flush()
    if received and not decoder.eof:
        raise _ScrapeError(f"compressed body is cut after {received} bytes")


def _read(answer: Arrival, error: str | None, max_series: int) -> tuple[Page | None, str | None]:
    """The page, as far as it arrived and fits, and the error: that of fetching before that of parsing."""
    body, left_out = fitted(b"".join(answer.blocks), max_series)
    answer.blocks.clear()
    if error is not None and not body:
        return None, error
    try:
        page = parse(body, answer.content_type, strict=False)
        if left_out is not None:
            page.problems.insert(0, left_out)
        return page, error
    except ParseError as fault:
        where = f" (redirected to {without_secrets(answer.redirected_to)})" if answer.redirected_to else ""
        return None, error or f"{fault}{where}"


def _status_text(response: requests.Response) -> str:
    hints = {
        401: ": check the bearer token or the password",
        403: ": these credentials may not read it",
        404: ": is the path right?",
        429: ": it limits how often it is read",
    }
    reason = "".join(letter for letter in (response.reason or "")[:40] if letter.isprintable())
    return f"HTTP {response.status_code} {reason}".rstrip() + hints.get(response.status_code, "")


def _too_large(limit: int) -> str:
    return f"page is larger than {_size_text(limit)}: is this a metrics page?"


def _size_text(size: int) -> str:
    return f"{size / (1 << 20):g} MiB" if size >= 1 << 20 else f"{size} bytes"


def _user_agent() -> str:
    try:
        return f"inferdoc/{version('inferdoc-toolkit')}"
    except PackageNotFoundError:
        return "inferdoc"
