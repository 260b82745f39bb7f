"""The HTTP side of a Prometheus-compatible API: one question, one answer, or one clear error.

Retries with growing, jittered pauses while a deadline lasts; POST with a form, GET where POST is not allowed; answers
limited in size; warnings of the server (Prometheus `warnings` and `infos`, Thanos and Mimir partial responses,
VictoriaMetrics `isPartial`) kept.
"""

from __future__ import annotations

import email.utils
import itertools
import random
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import NoReturn, TypeVar
from urllib.parse import urlsplit

import msgspec
import requests
import urllib3

from inferdoc.collect.session import BodyTooLargeError, Deadline, DeadlineWatch, OriginSession, body_of
from inferdoc.errors import NOT_JSON
from inferdoc.source import prometheus_errors as errors
from inferdoc.source.base import Incomplete
from inferdoc.source.prometheus_access import Access
from inferdoc.source.prometheus_errors import DeadlineError, PrometheusError, Refusal, TooMuchError, UnreachableError
from inferdoc.version import __version__

CONNECT_SECONDS = 10.0
ATTEMPTS = 5
FIRST_PAUSE_SECONDS = 0.25
ANNOTATIONS = ("PromQL info", "PromQL warning")
"""How Prometheus begins what it remarks on a query; any other warning is of storage that did not respond."""
MOST_WARNINGS = 20
LARGEST_ANSWER_BYTES = 256 << 20
_CHUNK_BYTES = 1 << 18

Params = Mapping[str, str | list[str]]
Take = Callable[[Iterator[bytes]], None]
T = TypeVar("T")


class Envelope(msgspec.Struct):
    """What every answer is wrapped in (https://prometheus.io/docs/prometheus/latest/querying/api/#format-overview)."""

    status: str
    data: msgspec.Raw = msgspec.Raw(b"null")
    errorType: str = ""  # noqa: N815
    error: str = ""
    warnings: list[str] | None = None
    infos: list[str] | None = None
    isPartial: bool = False  # noqa: N815


_DECODER = msgspec.json.Decoder(Envelope)


@dataclass
class ReadDeadline:
    """By when one operation, with all its questions and retries, must be done. It can also be called off, which cuts
    off the requests in flight."""

    seconds: float
    _end: float = field(init=False)
    _off: threading.Event = field(default_factory=threading.Event, init=False)
    _in_flight: set[Deadline] = field(default_factory=set, init=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False)

    def __post_init__(self) -> None:
        self._end = time.monotonic() + self.seconds

    @property
    def left(self) -> float:
        """Seconds left; 0 once called off."""
        return 0.0 if self._off.is_set() else self._end - time.monotonic()

    def call_off(self) -> None:
        """End the operation now: what is in flight is cut off."""
        self._off.set()
        with self._lock:
            for request in self._in_flight:
                request.expire()

    @contextmanager
    def carries(self, request: Deadline) -> Iterator[None]:
        """A request of the operation is in flight."""
        with self._lock:
            self._in_flight.add(request)
        try:
            if self._off.is_set():
                request.expire()
            yield
        finally:
            with self._lock:
                self._in_flight.discard(request)

    def pause(self, seconds: float) -> None:
        """Sleep, but not once called off."""
        self._off.wait(seconds)


class Client:
    """One server. warnings: what it warned of, each line once; headers: of its newest answer. Used by many threads at
    once."""

    def __init__(
        self,
        access: Access,
        *,
        parallel: int = 6,
        request_seconds: float = 30.0,
        attempts: int = ATTEMPTS,
        largest_answer: int = LARGEST_ANSWER_BYTES,
    ) -> None:
        self.access = access
        self.where = access.url
        self.request_seconds = request_seconds
        self.attempts = attempts
        self.largest_answer = largest_answer
        self.warnings: list[str] = []
        self.questions = 0
        self._lock = threading.Lock()
        self._post = True
        self.headers: Mapping[str, str] = {}
        self._session = OriginSession(access.url, environment=True, connections=parallel)
        self._watch = DeadlineWatch()
        self._session.headers.update({"User-Agent": f"inferdoc/{__version__}", "Accept": "application/json"})
        self._session.headers.update(access.headers)
        if access.insecure:
            urllib3.disable_warnings(urllib3.exceptions.InsecureRequestWarning)
            self.warn("the server's certificate is not checked (insecure): anybody on the way can read and change data")
        elif access.signed and urlsplit(access.url).scheme == "http" and not _is_local(access.url):
            self.warn("credentials are sent over plain http: anybody on the way can read them")

    def __repr__(self) -> str:
        return f"Client({self.where!r})"

    def close(self) -> None:
        """Close the connections."""
        self._session.close()
        self._watch.close()

    def warn(self, line: str, kind: type[str] = str) -> None:
        """Keep a warning for the report. kind: `Incomplete` where part of the data is missing."""
        line = kind(errors.shorten(self.access.redact(line)))
        with self._lock:
            if not line or line in self.warnings or len(self.warnings) > MOST_WARNINGS:
                return
            self.warnings.append(line if len(self.warnings) < MOST_WARNINGS else "further warnings are left out")

    def ask(self, path: str, params: Params, deadline: ReadDeadline, *, form: bool = True) -> msgspec.Raw:
        """The `data` of an answer. path: below /api/v1/; form: whether the endpoint takes POST."""
        return self._patiently(deadline, lambda: self._open(self._ask_once(path, params, deadline, form)))

    def stream(self, path: str, params: Params, deadline: ReadDeadline, take: Callable[[Iterator[bytes]], T]) -> T:
        """What `take` makes of the body of a success, which it is given in chunks while they arrive. It is called anew
        where the server is queried again."""

        def once() -> T:
            taken: list[T] = []

            def keep(chunks: Iterator[bytes]) -> None:
                taken.append(take(chunks))

            reply = self._ask_once(path, params, deadline, True, keep)
            return taken[0] if taken else self._refuse(reply)

        return self._patiently(deadline, once)

    def _patiently(self, deadline: ReadDeadline, once: Callable[[], T]) -> T:
        """Ask until there is an answer, or until it makes no sense to ask again."""
        for attempt in itertools.count(1):
            try:
                return once()
            except PrometheusError as error:
                pause = self._pause(error, attempt, deadline)
                if pause is None:
                    raise
            deadline.pause(pause)
        raise AssertionError("unreachable")

    def _pause(self, error: PrometheusError, attempt: int, deadline: ReadDeadline) -> float | None:
        """How long to wait before asking again, in seconds; None: do not."""
        busy = error.status in errors.RETRIED and not isinstance(error, TooMuchError)
        if attempt >= self.attempts or not (busy or isinstance(error, UnreachableError)):
            return None
        pause = FIRST_PAUSE_SECONDS * 2 ** (attempt - 1) * random.uniform(0.75, 1.25)
        pause = max(pause, error.wait_seconds)
        return pause if pause < deadline.left else None

    def _ask_once(
        self, path: str, params: Params, deadline: ReadDeadline, form: bool, take: Take | None = None
    ) -> Reply:
        posted = form and self._post
        reply = self._send(path, params, deadline, posted, take)
        if posted and reply.status in (403, 405):
            reply = self._send(path, params, deadline, False, take)
            if reply.status not in (403, 405):
                self._post = False  # a proxy that lets only GET through (405; kube-rbac-proxy of OpenShift: 403)
        if reply.status == 401 and self.access.renewed(reply.authorization):
            reply = self._send(path, params, deadline, form and self._post, take)
        return reply

    def _send(self, path: str, params: Params, deadline: ReadDeadline, posted: bool, take: Take | None) -> Reply:
        """take: called with the chunks of a success; the reply has no body then."""
        if deadline.left <= 0:
            raise self._late(deadline, 0.0)
        wait = min(self.request_seconds, deadline.left)
        with self._lock:
            self.questions += 1
        with self._watch.within(wait) as limit, deadline.carries(limit):
            try:
                response = self._session.request(
                    "POST" if posted else "GET",
                    f"{self.where}/api/v1/{path}",
                    data=params if posted else None,
                    params=None if posted else params,
                    auth=self.access,
                    verify=self.access.verify,
                    cert=self.access.certificate,
                    timeout=(min(CONNECT_SECONDS, wait), wait),
                    stream=True,
                )
                self.headers = response.headers
                with response:
                    if take is not None and response.status_code == 200 and not _is_page(response.headers):
                        take(response.iter_content(_CHUNK_BYTES))
                        body = b""
                    else:
                        body = self._body(response)
            except requests.exceptions.RequestException as error:
                if limit.expired or limit.remaining() < 0.01 or isinstance(error, requests.exceptions.ReadTimeout):
                    raise self._late(deadline, wait) from None
                raise errors.unreachable(self.where, error) from None
        sent = response.request.headers.get("Authorization", "")
        return Reply(response.status_code, response.headers, body, sent if isinstance(sent, str) else "")

    def _late(self, deadline: ReadDeadline, waited: float) -> PrometheusError:
        """waited: seconds that this question was given."""
        if waited < self.request_seconds or deadline.left <= 0:
            return DeadlineError(f"{self.where} was not done within {deadline.seconds:g} s; {_PATIENCE}")
        return TooMuchError(f"{self.where} did not answer within {waited:g} s; {_PATIENCE}")

    def _body(self, response: requests.Response) -> bytes:
        try:
            return body_of(response, self.largest_answer)
        except BodyTooLargeError as error:
            raise TooMuchError(f"{self.where} {error}; {_PATIENCE}") from None

    def _open(self, reply: Reply) -> msgspec.Raw:
        """The data of a success; anything else is raised."""
        envelope, html = self._envelope(reply)
        if reply.status == 200 and envelope.status == "success":
            return envelope.data
        raise self._refusal(reply, envelope, html)

    def _refuse(self, reply: Reply) -> NoReturn:
        """Raise what is wrong with a reply that is no stream."""
        envelope, html = self._envelope(reply)
        raise self._refusal(reply, envelope, html)

    def _envelope(self, reply: Reply) -> tuple[Envelope, bool]:
        """What the data is wrapped in, or what else was sent in its place; whether that is a web page."""
        if 300 <= reply.status < 400:
            raise errors.redirected(self.where, reply.headers.get("Location", ""))
        html = _is_page(reply.headers) or reply.body[:64].lstrip()[:1] == b"<"
        try:
            envelope = _DECODER.decode(reply.body)
        except NOT_JSON as error:
            if reply.status == 200:
                raise (
                    errors.login_page(self.where) if html else errors.not_json(self.where, len(reply.body), str(error))
                ) from None
            text = reply.body[:2000].decode("utf-8", "replace")
            envelope = Envelope("error", error=text)
        for line in (*(envelope.warnings or ()), *(envelope.infos or ())):
            is_annotation = line.startswith(ANNOTATIONS)
            self.warn(f"the server warns: {line}", str if is_annotation else Incomplete)
        if envelope.isPartial:
            self.warn("the server warns: the response is partial, some storage nodes did not respond", Incomplete)
        return envelope, html

    def _refusal(self, reply: Reply, envelope: Envelope, html: bool) -> PrometheusError:
        message = self.access.redact(envelope.error)
        refusal = Refusal(422 if reply.status == 200 else reply.status, message, envelope.errorType, html)
        failure = errors.refused(self.where, refusal, self.access.signed)
        failure.wait_seconds = _retry_after(reply.headers.get("Retry-After", ""))
        return failure


@dataclass(frozen=True)
class Reply:
    """An HTTP response. authorization: the header the request was sent with."""

    status: int
    headers: Mapping[str, str]
    body: bytes = field(repr=False)
    authorization: str = field(repr=False)


def _is_page(headers: Mapping[str, str]) -> bool:
    return "html" in headers.get("Content-Type", "")


_PATIENCE = "raise the timeout, or ask for a shorter window"


def _retry_after(value: str) -> float:
    """Seconds that a Retry-After header demands: a number or an HTTP date; 0 for none."""
    try:
        if value.isdecimal():
            return float(value)
        return max(0.0, email.utils.parsedate_to_datetime(value).timestamp() - time.time())
    except (TypeError, ValueError):
        return 0.0


def _is_local(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    return host in ("localhost", "::1") or host.startswith("127.")
