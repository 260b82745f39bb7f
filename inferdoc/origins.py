"""The origin of a URL: scheme, host and port (RFC 6454, section 4). Credentials belong to one origin."""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import urlsplit

_DEFAULT_PORTS = {"http": 80, "https": 443}


class WebOrigin(NamedTuple):
    """Where a URL is served."""

    scheme: str
    host: str
    port: int


def origin_of(url: str) -> WebOrigin:
    """The origin of an http or https URL. Raises ValueError if the URL has none."""
    parts = urlsplit(url.strip())
    port = parts.port if parts.port is not None else _DEFAULT_PORTS.get(parts.scheme)
    if not parts.hostname or port is None:
        raise ValueError("not an http or https URL")
    return WebOrigin(parts.scheme, parts.hostname, port)


def without_secrets(url: str) -> str:
    """The URL without user, query and fragment, which can contain secrets; at most 200 characters."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"[:200]
