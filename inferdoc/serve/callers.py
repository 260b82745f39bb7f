"""Who may call: a bearer token or a name and password, read from files each time, so that what is renewed counts."""

from __future__ import annotations

import base64
import binascii
import hmac
import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass

from inferdoc.config_sections import ServeSection
from inferdoc.errors import ConfigError
from inferdoc.serve.outputs.sending import secret


@dataclass(frozen=True)
class Callers:
    """token_file, username, password_file: as configured; none of them: anybody who reaches us."""

    token_file: str | None = None
    username: str | None = None
    password_file: str | None = None

    @property
    def needed(self) -> bool:
        """Whether callers must say who they are."""
        return self.token_file is not None or self.username is not None

    @property
    def challenge(self) -> str:
        """The header that makes a browser prompt for credentials."""
        return 'Basic realm="inferdoc", charset="UTF-8"' if self.username is not None else "Bearer"

    def check(self) -> None:
        """Read the files once, so that a fault shows at the start. Raises ConfigError."""
        if self.token_file is not None:
            secret(self.token_file, "bearer_token_file")
        if self.password_file is not None:
            secret(self.password_file, "password_file")

    def admits(self, header: str) -> bool:
        """Whether an Authorization header is accepted. Raises ConfigError if a file is missing."""
        if not self.needed:
            return True
        scheme, _, given = header.partition(" ")
        given = given.strip()
        if scheme.lower() == "bearer" and self.token_file is not None:
            return _same(given, secret(self.token_file, "bearer_token_file"))
        if scheme.lower() == "basic" and self.username is not None:
            try:
                name, colon, password = base64.b64decode(given, validate=True).decode().partition(":")
            except (binascii.Error, UnicodeDecodeError, ValueError):
                return False
            right = _same(password, secret(self.password_file, "password_file"))
            return _same(name, self.username) and bool(colon) and right
        return False


def _same(one: str, other: str) -> bool:
    return hmac.compare_digest(one.encode(), other.encode())


def callers_of(section: ServeSection, host: str) -> Callers:
    """As configured. Raises ConfigError if other hosts could connect without credentials."""
    access = Callers(section.bearer_token_file, section.username, section.password_file)
    if not access.needed and not is_loopback(host):
        raise ConfigError(
            f"[serve] listen = {section.listen}: others than this machine can reach it; set bearer_token_file, or"
            " username and password_file, or listen on 127.0.0.1"
        )
    access.check()
    return access


def is_loopback(host: str) -> bool:
    """Whether an address is reached from this machine alone."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def known_hosts(section: ServeSection, host: str) -> Sequence[str] | None:
    """The Host headers that are answered where nobody has to say who he is, so that no web page of somebody else can
    call in the name of a reader (DNS rebinding). None: any."""
    if not is_loopback(host):
        return None
    return ("localhost", "127.0.0.1", "::1", host, *section.hosts)
