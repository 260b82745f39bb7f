"""Where a Prometheus server is and how to be let in; what of that may be shown."""

from __future__ import annotations

import base64
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote, unquote, urlsplit, urlunsplit

import requests
from requests.auth import AuthBase

from inferdoc.errors import ConfigError, SourceError

PASSWORD_VARIABLE = "INFERDOC_PROMETHEUS_PASSWORD"
SHORTEST_SECRET = 6
"""Shorter header values (tenant "1") are blotted out of messages where they stand as words of their own: anywhere, they
would take half the text along."""

_ENDINGS = ("/api/v1", "/graph", "/query", "/targets", "/alerts")


def split_url(url: str) -> tuple[str, str | None, str | None]:
    """The address without user, password, query and page of the web interface; the user; the password."""
    try:
        parts = urlsplit(url.strip())
    except ValueError:
        parts = urlsplit("")
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ConfigError(f"Prometheus address {_shown(url)!r} is not one: write http://host:9090 or https://host/path")
    try:
        port = f":{parts.port}" if parts.port else ""
    except ValueError:
        raise ConfigError(f"Prometheus address {_shown(url)!r} has an impossible port: use 1 to 65535") from None
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    path = parts.path.rstrip("/")
    for ending in _ENDINGS:
        path = path.removesuffix(ending)
    user = unquote(parts.username) if parts.username else None
    password = unquote(parts.password) if parts.password else None
    return urlunsplit((parts.scheme, host + port, path.rstrip("/"), "", "")), user, password


def _shown(url: str) -> str:
    """An address that may not parse, without what stands before an @."""
    scheme, mark, rest = url.strip().partition("://")
    return (scheme + mark + rest if mark else scheme).replace((rest if mark else scheme).rpartition("@")[0] + "@", "")


@dataclass
class Access(AuthBase):
    """Credentials of one server, and the headers sent along. Nothing of it shows in repr() or in messages.

    The token file is read again when it changes (projected service-account tokens are replaced every hour) and when the
    server answers 401.
    """

    url: str
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    bearer_token_file: Path | None = None
    username: str | None = None
    password_file: Path | None = None
    password: str | None = field(default=None, repr=False)
    ca_file: Path | None = None
    cert_file: Path | None = None
    key_file: Path | None = None
    insecure: bool = False
    _token: str | None = field(default=None, init=False, repr=False)
    _stamp: tuple[int, int] | None = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        self.url, user, password = split_url(self.url)
        self.username = self.username or user
        self.password = self.password or password
        for name in ("bearer_token_file", "password_file", "ca_file", "cert_file", "key_file"):
            path = getattr(self, name)
            if path is not None:
                path = Path(path).expanduser()
                setattr(self, name, path)
                _readable(path, name)
        if self.bearer_token_file and self.username:
            raise ConfigError(f"{self.url}: give either a bearer token file or a user name, not both")
        if self.username and self.password is None:
            self.password = self._find_password()
        _check_headers(self.headers, self.url)

    def _find_password(self) -> str:
        if self.password_file is not None:
            return _read(self.password_file, "password file")
        if PASSWORD_VARIABLE in os.environ:
            return os.environ[PASSWORD_VARIABLE]
        raise ConfigError(
            f"{self.url}: user {self.username!r} has no password: give a password file or set {PASSWORD_VARIABLE}"
        )

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        """Sign a request. (Signing through requests' auth hook also keeps it from sending what ~/.netrc says.)"""
        if self.bearer_token_file is not None:
            request.headers["Authorization"] = f"Bearer {self.token()}"
        elif self.username:
            request.headers["Authorization"] = f"Basic {self._basic()}"
        return request

    def token(self) -> str | None:
        """The bearer token, read again where its file has changed."""
        if self.bearer_token_file is None:
            return None
        try:
            stat = self.bearer_token_file.stat()
            stamp = (stat.st_mtime_ns, stat.st_ino)
        except OSError as error:
            raise SourceError(f"cannot read the token file {self.bearer_token_file}: {error.strerror}") from None
        if self._token is None or stamp != self._stamp:
            self._token, self._stamp = _read(self.bearer_token_file, "token file"), stamp
        return self._token

    def renewed(self, sent: str) -> bool:
        """Read the token file again, whatever its time says. True if a request sent with this header should be sent
        again, because the token is another one now (several threads may find that out at once)."""
        if self.bearer_token_file is None:
            return False
        self._token = None
        return f"Bearer {self.token()}" != sent

    def _basic(self) -> str:
        return base64.b64encode(f"{self.username}:{self.password or ''}".encode()).decode()

    @property
    def signed(self) -> bool:
        """Whether requests carry anything to be recognised by."""
        return bool(self.bearer_token_file or self.username or any(k.lower() == "authorization" for k in self.headers))

    @property
    def verify(self) -> bool | str:
        """What requests checks the server's certificate against."""
        if self.insecure:
            return False
        return str(self.ca_file) if self.ca_file else True

    @property
    def certificate(self) -> tuple[str, str] | str | None:
        """The client's own certificate."""
        if self.cert_file is None:
            return None
        return (str(self.cert_file), str(self.key_file)) if self.key_file else str(self.cert_file)

    def redact(self, text: str) -> str:
        """The text without any secret of ours that a server or proxy may have echoed."""
        secrets = [self._token, self.password, self._basic() if self.username else None]
        for value in self.headers.values():
            secrets += [value, *(word for word in value.split()[1:])]  # "Bearer TOKEN": servers echo the token alone
        for secret in sorted(set(filter(None, secrets)), key=len, reverse=True):
            for form in {secret, quote(secret, safe="")}:
                own_word = rf"(?<!\w){re.escape(form)}(?!\w)"
                text = re.sub(re.escape(form) if len(form) >= SHORTEST_SECRET else own_word, "***", text)
        return text


def _readable(path: Path, name: str) -> None:
    if not path.is_file():
        raise ConfigError(f"{name.replace('_', ' ')} {path} is not there: correct the path")


def _read(path: Path, what: str) -> str:
    try:
        text = path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
        raise SourceError(f"cannot read the {what} {path}: {reason}") from None
    if not text or any(c in text for c in "\r\n"):
        raise SourceError(f"the {what} {path} must hold one line: it is empty or has several")
    return text


def _check_headers(headers: Mapping[str, str], url: str) -> None:
    for name, value in headers.items():
        if not name or any(c in name + value for c in "\r\n") or any(c in name for c in ": "):
            raise ConfigError(f"{url}: extra header {name!r} is malformed: write a name and a value on one line")
