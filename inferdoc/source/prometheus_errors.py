"""What can go wrong with a Prometheus-compatible server, in one line each."""

from __future__ import annotations

import re
from dataclasses import dataclass

import requests

from inferdoc.collect.session import redirect_text
from inferdoc.errors import SourceError, TooSlowError

LONGEST_MESSAGE = 240
RETRIED = frozenset({429, 502, 503, 504})
"""Busy, starting up, or a proxy that lost its server for a moment."""

_SIZE = re.compile(
    # Prometheus: 11,000 points per series; --query.max-samples
    r"maximum resolution|too many (samples|points|chunks|series|bytes|data)|load too many"
    # Mimir (pkg/util/limiter/errors.go, pkg/querier/errors.go) and Cortex; its store-gateway names no id
    r"|err-mimir-max|query (time range|length)|exceed(s|ed)? (the )?(limit|maximum)|limit (exceeded|reached)"
    r"|hit the (max number|aggregated)|exceeded (series|chunks|bytes|samples) limit"
    # Thanos --store.limits.*, --query.* limits and gRPC message size
    r"|limit \d+ violated|resource ?exhausted|larger than max"
    # VictoriaMetrics -search.max*
    r"|-search\.max",
    re.IGNORECASE,
)

_SERIES = re.compile(r"number of (matching )?(time ?)?series|series limit|maxUniqueTimeseries", re.IGNORECASE)
"""Limits on how many series a query may touch: as many in a shorter time range."""
_STORE_AWAY = re.compile(r"code = (Aborted|Unavailable)|No StoreAPIs|(fetch|receive) series (for|from)")
"""Thanos, of a store that does not answer (pkg/store/proxy.go)."""
_NO_TENANT = re.compile(r"no org id", re.IGNORECASE)
"""Mimir and Cortex (dskit user.ErrNoOrgID)."""


class PrometheusError(SourceError):
    """The server could not be queried, or refused. status: HTTP status, 0 where there was none; wait_seconds: for how
    long the server demands a pause."""

    def __init__(self, text: str, status: int = 0) -> None:
        super().__init__(text)
        self.status = status
        self.wait_seconds = 0.0


class TooMuchError(PrometheusError):
    """More than the server gives in one answer; a shorter time range may do."""


class TooManySeriesError(TooMuchError):
    """More series than the server touches for one query; a part of the targets may do."""


class StoreAwayError(PrometheusError):
    """A server that queries others lacks the answer of one."""


class DeadlineError(PrometheusError, TooSlowError):
    """The time for the whole operation is up, or it was called off."""


class UnreachableError(PrometheusError):
    """No connection."""


@dataclass(frozen=True)
class Refusal:
    """An answer that is not a success. message: what the server says, however long; html: it sent a web page; kind:
    Prometheus' errorType (bad_data, execution, timeout, ...), "" where it says none."""

    status: int
    message: str
    kind: str = ""
    html: bool = False

    @property
    def of_size(self) -> bool:
        """Whether asking for less may help. errorType `timeout` is a query that ran too long, not a busy server."""
        if self.status == 413 or self.kind == "timeout":
            return True
        return self.status in (400, 422, 429, 500, 503) and _SIZE.search(self.message) is not None

    @property
    def shown(self) -> str:
        """What of the message is shown: of a long chain of errors the one that names a limit."""
        limit = _SIZE.search(self.message) if len(self.message) > LONGEST_MESSAGE else None
        begin = 0 if limit is None else self.message.rfind(": ", 0, limit.start()) + 2
        return shorten(self.message[begin:] if begin > 1 else self.message)


def shorten(text: str, limit: int = LONGEST_MESSAGE) -> str:
    """One printable line."""
    line = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return line if len(line) <= limit else line[: limit - 1].rstrip() + "…"


def refused(where: str, refusal: Refusal, signed: bool) -> PrometheusError:
    """The error for an HTTP status. where: the server's address; signed: whether credentials were sent."""
    status, wording = refusal.status, refusal.shown
    wording = f": {wording}" if wording and not refusal.html else ""
    if status == 401 and _NO_TENANT.search(refusal.message):
        todo = "it has several tenants, name one: --header 'X-Scope-OrgID: TENANT'"
        return PrometheusError(f"{where} answers 401 Unauthorized{wording}; {todo}", status)
    if status == 401:
        todo = (
            "the token or password is not accepted, renew it" if signed else "give a bearer token file or a user name"
        )
        return PrometheusError(f"{where} answers 401 Unauthorized{wording}; {todo}", status)
    if status == 403:
        todo = "ask for the right to query, or give the tenant header that the server wants"
        return PrometheusError(f"{where} answers 403 Forbidden{wording}; {todo}", status)
    if status == 404:
        todo = "try the address with /prometheus (Mimir) or /select/0/prometheus (VictoriaMetrics), without /api/v1"
        return PrometheusError(f"{where} has no Prometheus API (404 Not Found); {todo}; {page(where)}", status)
    if status in (405, 501):
        return PrometheusError(f"{where} has no Prometheus API ({status}); {page(where)}", status)
    if refusal.of_size:
        too_many = _SERIES.search(refusal.message) is not None
        return (TooManySeriesError if too_many else TooMuchError)(f"{where} answers {status}{wording}", status)
    if status in (422, 500, 503) and _STORE_AWAY.search(refusal.message):
        return StoreAwayError(f"{where} answers {status}{wording}", status)
    if status in (400, 422):
        todo = "check the label matchers, and that it is a Prometheus-compatible server"
        return PrometheusError(f"{where} refuses the query ({status}){wording}; {todo}", status)
    if status in RETRIED:
        return PrometheusError(f"{where} is not available ({status}){wording}; try again later", status)
    return PrometheusError(f"{where} answers {status}{wording}; see the server's log", status)


def page(where: str) -> str:
    """What to say of an address that may be an engine's own."""
    return f"an engine or a router is looked at with `inferdoc diagnose {where}`"


def redirected(where: str, location: str) -> PrometheusError:
    """A redirect is not followed: it could carry credentials to another origin, and turns POST into GET."""
    return PrometheusError(f"{where} {redirect_text(where, location)}", 302)


def login_page(where: str) -> PrometheusError:
    """A web page where data was requested."""
    return PrometheusError(
        f"{where} sent a web page instead of data; is this a login page? Check address and credentials"
    )


def not_json(where: str, size: int, text: str) -> PrometheusError:
    """text: how the decoder puts it."""
    if "truncated" in text:
        return PrometheusError(
            f"{where} sent JSON that ends in the middle (after {size} bytes); check any proxy between"
        )
    return PrometheusError(
        f"{where} sent {size} bytes that are not a Prometheus answer ({shorten(text, 120)}); check the address"
    )


def unreachable(where: str, error: requests.exceptions.RequestException) -> PrometheusError:
    """Why no answer came. The text of the exception is not repeated: it can hold proxy credentials."""
    text = str(error)
    if isinstance(error, requests.exceptions.SSLError):
        if "CERTIFICATE_VERIFY_FAILED" in text:
            reason = _between(text, "certificate verify failed: ", " (_ssl") or "not trusted"
            return PrometheusError(
                f"the certificate of {where} is not accepted ({reason}); give the CA file of its issuer"
            )
        return PrometheusError(f"no TLS connection to {where}; does it speak plain http, or want a client certificate?")
    if isinstance(error, requests.exceptions.ProxyError):
        return UnreachableError(
            f"the proxy on the way to {where} does not work; check HTTP_PROXY, HTTPS_PROXY and NO_PROXY"
        )
    if isinstance(error, requests.exceptions.ConnectTimeout):
        return UnreachableError(f"{where} cannot be reached (no connection in time); check address and firewall")
    for sign, reason in _REASONS.items():
        if sign in text:
            return UnreachableError(f"{where} cannot be reached ({reason}); check the address and that it is up")
    if isinstance(error, requests.exceptions.ConnectionError | requests.exceptions.ChunkedEncodingError):
        return UnreachableError(f"{where} broke the connection off; check the server and any proxy between")
    return PrometheusError(f"{where} could not be queried ({type(error).__name__}); check the address")


_REASONS = {
    "NameResolutionError": "its name does not resolve",
    "Connection refused": "connection refused",
    "No route to host": "no route to host",
    "Network is unreachable": "network is unreachable",
}


def _between(text: str, left: str, right: str) -> str:
    found = text.partition(left)[2]
    return found.partition(right)[0] if right in found else ""
