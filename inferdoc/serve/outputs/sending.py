"""Send one request to the configured URL, with a deadline and without redirects."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import requests
import urllib3

from inferdoc.collect.session import DeadlineWatch, OriginSession
from inferdoc.config_sections import OutputSection
from inferdoc.errors import ConfigError, InferdocError
from inferdoc.escaping import is_web, one_line
from inferdoc.version import __version__

SECONDS = 15.0
MOST_OF_ANSWER = 1 << 20
MOST_OF_FAULT = 200
"""Bytes that are read of a response, and of it shown in an error."""
FAULTS_OF_MESSAGE = (400, 413, 415, 422)
"""Answers that will not change. Others of 400 to 499 do: a token is renewed, an address is corrected."""


class PostError(InferdocError):
    """A delivery failed. final: a retry cannot succeed; status: of HTTP, None without a response."""

    def __init__(self, line: str, *, final: bool = False, status: int | None = None) -> None:
        super().__init__(line)
        self.final = final
        self.status = status


@dataclass(frozen=True)
class Outgoing:
    """A request with a body."""

    url: str
    body: bytes
    headers: Mapping[str, str] = field(default_factory=lambda: {"Content-Type": "application/json"}, repr=False)
    method: str = "POST"


def secret(path: str | None, what: str) -> str:
    """The one line of a file, read each time, so that what is renewed is picked up. Raises ConfigError; what the file
    holds is in no message."""
    if path is None:
        return ""
    try:
        text = Path(path).read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "not UTF-8"
        raise ConfigError(f"{what} {path}: cannot be read: {why}") from None
    if not text or not text.isprintable():
        raise ConfigError(f"{what} {path}: must contain one line of printable text")
    return text


def address(section: OutputSection, default: str | None = None) -> str:
    """Where an output is. Raises ConfigError where that is no address of the web."""
    url = section.url or (secret(section.url_file, "url_file") if section.url_file else default)
    if not url or not is_web(url):
        raise ConfigError(f"output {section.label}: url must be http or https")
    return url


def send(outgoing: Outgoing, ca_file: str | None = None) -> bytes:
    """The body of the response. Raises PostError: the line never holds the address, which may be a secret."""
    watch = DeadlineWatch()
    try:
        with OriginSession(outgoing.url, environment=True) as session, watch.within(SECONDS):
            answer = session.request(
                outgoing.method,
                outgoing.url,
                data=outgoing.body,
                headers={**outgoing.headers, "User-Agent": f"inferdoc/{__version__}"},
                timeout=SECONDS,
                verify=ca_file or True,
                stream=True,
            )
            body: bytes = answer.raw.read(MOST_OF_ANSWER, decode_content=False) or b""
    except (requests.RequestException, urllib3.exceptions.HTTPError, ValueError, OSError) as error:
        raise PostError(f"connection failed: {type(error).__name__}") from None
    finally:
        watch.close()
    if answer.is_redirect:
        line = f"HTTP {answer.status_code}: redirects are not followed; configure the final URL"
        raise PostError(line, status=answer.status_code)
    if answer.status_code >= 300:
        words = one_line(body[:MOST_OF_FAULT].decode("utf-8", "replace"))
        final = answer.status_code in FAULTS_OF_MESSAGE
        raise PostError(f"HTTP {answer.status_code}: {words}", final=final, status=answer.status_code)
    return body
