"""HTTP sessions of one origin: credentials never leave it. All requests of inferdoc go through one."""

from __future__ import annotations

from functools import cached_property
from http.cookiejar import DefaultCookiePolicy
from typing import Any
from urllib.parse import urljoin

import requests
from requests.utils import get_auth_from_url
from urllib3.util.retry import Retry

from inferdoc.collect.deadline import DeadlineAdapter
from inferdoc.origins import WebOrigin, origin_of, without_secrets

MOST_REDIRECTS = 5
_CHUNK_BYTES = 1 << 18


class RedirectError(requests.RequestException):
    """A redirect that is not followed: it leaves the origin, or one too many."""


class BodyTooLargeError(requests.RequestException):
    """A response with more bytes than it may have."""


class OriginSession(requests.Session):
    """A session that sends requests to one scheme, host and port only.

    Redirects are followed by `get_following` alone, and within the origin alone: bearer tokens, basic authentication,
    client certificates and extra headers reach no other server. Cookies and .netrc are not used.
    """

    def __init__(self, url: str, *, environment: bool, connections: int = 1, retries: int | Retry = 0) -> None:
        """url: any URL of the origin; environment: use the proxies and the CA bundle that environment variables name;
        connections: kept open."""
        super().__init__()
        self._url = url
        self.trust_env = environment
        user = get_auth_from_url(url)
        self.auth = user if any(user) else _unsigned  # requests reads .netrc where it finds no other authentication
        self.cookies.set_policy(DefaultCookiePolicy(allowed_domains=[]))
        adapter = DeadlineAdapter(pool_connections=1, pool_maxsize=connections, max_retries=retries)
        for scheme in ("http://", "https://"):
            self.mount(scheme, adapter)

    @cached_property
    def origin(self) -> WebOrigin:
        """Of the URL as requests writes it (punycode, for one). Raises RequestException if there is none."""
        return _origin(requests.Request("GET", self._url).prepare().url)

    def send(self, request: requests.PreparedRequest, **kwargs: Any) -> requests.Response:
        """Send a prepared request. Raises RedirectError, and sends nothing, if its address is of another origin."""
        if _origin(request.url) != self.origin:
            raise RedirectError(redirect_text(self._url, request.url or ""))
        return super().send(request, **kwargs)

    def get_redirect_target(self, _: requests.Response) -> None:
        """Nothing: requests follows no redirect here, and does not read the body of one."""

    def get_following(self, url: str, **options: Any) -> requests.Response:
        """GET, with redirects within the origin followed. Raises RedirectError at any other."""
        history: list[requests.Response] = []
        while len(history) <= MOST_REDIRECTS:
            response = self.get(url, **options)
            if not response.is_redirect:
                response.history = history
                return response
            response.close()
            history.append(response)
            location = response.headers["location"]
            try:
                url = urljoin(url, location)
                if origin_of(url) != self.origin:
                    raise RedirectError(redirect_text(url, location))
            except ValueError:
                raise RedirectError(redirect_text(url, location)) from None
        raise RedirectError(f"redirects more than {MOST_REDIRECTS} times: is this behind a login?")


def body_of(response: requests.Response, most: int) -> bytes:
    """The body of a streamed response. Raises BodyTooLargeError beyond so many bytes, after
    decompression: an endless one fills no memory."""
    parts, size = [], 0
    for part in response.iter_content(_CHUNK_BYTES):
        size += len(part)
        if size > most:
            raise BodyTooLargeError(f"sends more than {most >> 20} MiB")
        parts.append(part)
    return b"".join(parts)


def redirect_text(url: str, location: str) -> str:
    """Why a redirect is not followed. Without its query: login pages put tokens there."""
    try:
        to = without_secrets(urljoin(url, location))
    except ValueError:
        to = "an address that is no URL"
    return f"redirects to {to}, which is not followed: use that address, or is this behind a login?"


def _origin(url: str | None) -> WebOrigin:
    try:
        return origin_of(url or "")
    except ValueError:
        raise requests.exceptions.InvalidURL("not an http or https URL") from None


def _unsigned(request: requests.PreparedRequest) -> requests.PreparedRequest:
    return request
