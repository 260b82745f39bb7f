"""Faults of the network in plain words."""

from __future__ import annotations

import http.client
import socket
import ssl
from collections.abc import Iterator

import requests
from urllib3.exceptions import ReadTimeoutError

from inferdoc.collect.session import RedirectError


def describe(fault: BaseException) -> str:
    """A network fault in plain words, without the URL (which may carry secrets)."""
    chain = list(_chain(fault))
    for cause in chain:
        if isinstance(cause, RedirectError):
            return str(cause)
        if isinstance(cause, ssl.SSLCertVerificationError):
            return f"TLS certificate is not trusted ({cause.verify_message}): give the CA that signed it"
        if isinstance(cause, socket.gaierror):
            return "host name not found"
        if isinstance(cause, ConnectionRefusedError):
            return "connection refused"
    for cause in chain:
        if isinstance(cause, ssl.SSLError):
            return f"TLS fails ({(cause.reason or 'no reason given').replace('_', ' ').lower()})"
        if isinstance(cause, requests.ConnectTimeout):
            return "no connection: timed out"
        if isinstance(cause, (requests.ReadTimeout, ReadTimeoutError, TimeoutError)):
            return "no answer: timed out"
        if isinstance(cause, (requests.exceptions.InvalidURL, requests.exceptions.InvalidHeader)):
            return "invalid URL" if isinstance(cause, requests.exceptions.InvalidURL) else "invalid request header"
    for cause in chain:
        if isinstance(cause, ConnectionError):
            return "connection closed by the target"
        if isinstance(cause, http.client.IncompleteRead):
            return "body is cut: connection closed by the target"
        if isinstance(cause, http.client.HTTPException):
            return "does not speak HTTP"
        if isinstance(cause, OSError) and not isinstance(cause, requests.RequestException) and cause.strerror:
            return f"connection failed: {cause.strerror}"
    return f"connection failed ({type(chain[-1]).__name__})"


def _chain(fault: BaseException) -> Iterator[BaseException]:
    seen: set[int] = set()
    waiting: list[object] = [fault]
    while waiting:
        cause = waiting.pop(0)
        if isinstance(cause, BaseException) and id(cause) not in seen:
            seen.add(id(cause))
            yield cause
            waiting += [getattr(cause, "reason", None), cause.__cause__, cause.__context__, *cause.args]
