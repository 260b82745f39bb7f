"""Targets of a collector: from http_sd endpoints, and the share that one of several collectors takes."""

from __future__ import annotations

import json
import re
import threading
import time
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from urllib.parse import urlsplit, urlunsplit

from inferdoc.collect.discovery import (
    Target,
    TargetDocument,
    TargetProvider,
    left_out,
    make_target,
    targets_from_file_sd,
)
from inferdoc.collect.scrape import Arrival, ScrapeOptions, Scraper
from inferdoc.errors import NOT_JSON, ConfigError
from inferdoc.origins import without_secrets

_SHARD = re.compile(r"(\d+)/(\d+)\Z")


@dataclass(frozen=True)
class Shard:
    """One of several collectors. number: from 1 to `of`."""

    number: int
    of: int

    @classmethod
    def from_flag(cls, text: str) -> Shard:
        """`2/4`, as `--shard` takes it. Raises ConfigError."""
        numbers = _SHARD.match(text)
        number, of = (int(each) for each in numbers.groups()) if numbers else (0, 0)
        if not 1 <= number <= of:
            raise ConfigError(f"--shard {text}: expected which of how many, such as 2/4")
        return cls(number, of)

    def has(self, target: Target) -> bool:
        """Whether this collector takes a target."""
        labels = target.labels
        host = labels["instance"].rpartition(":")[0] or labels["instance"]
        together = (labels.get("cluster", ""), labels["namespace"]) if labels.get("namespace") else (host,)
        return zlib.crc32("\0".join(together).encode()) % self.of == self.number - 1


class Sharded:
    """The targets of a provider that one of several collectors takes."""

    def __init__(self, provider: TargetProvider, shard: Shard) -> None:
        self._provider, self._shard = provider, shard

    @property
    def problems(self) -> Sequence[str]:
        """What is wrong with the sources of targets now, one line each."""
        return self._provider.problems

    def targets(self) -> Sequence[Target]:
        """The targets of this collector as they stand now."""
        return [target for target in self._provider.targets() if self._shard.has(target)]


REFRESH_SECONDS = 60.0
"""The default of Prometheus."""
ACCEPT = "application/json"
LIST_LIMIT = 32 << 20
"""Bytes of a list after decompression: a quarter of a million targets."""


class HttpDiscovery:
    """Reads the targets of an http_sd endpoint every `refresh` seconds.

    The first call of `targets()` waits for the first answer. Later answers are fetched in a thread of their own, so
    that a slow endpoint delays nobody, and stand in the call after they came. An endpoint that fails keeps its last
    good targets and is named in `problems` until it is well again; an empty list is an answer: no targets.
    """

    def __init__(self, url: str, options: ScrapeOptions | None = None, refresh: float = REFRESH_SECONDS) -> None:
        """url: http or https, without credentials in it; options: credentials, certificates and time limit, as for
        scraping; refresh: seconds between two requests. Raises ConfigError where the URL or the time is no use."""
        self._endpoint = _endpoint(url)
        self._name = f"http_sd {without_secrets(self._endpoint.url)}"
        if refresh <= 0:
            raise ConfigError(f"{self._name}: the refresh time must be above 0 s, not {refresh:g} s")
        self._refresh = refresh
        chosen = options or ScrapeOptions()
        headers = {**chosen.headers, "X-Prometheus-Refresh-Interval-Seconds": f"{refresh:g}"}
        self._options = replace(chosen, headers=headers, body_limit=min(chosen.body_limit, LIST_LIMIT))
        self._lock = threading.Lock()
        self._asking: threading.Thread | None = None
        self._due = float("-inf")
        self._found: list[Target] = []
        self._problem: str | None = None

    @property
    def problems(self) -> list[str]:
        """What is wrong with the endpoint now: no line or one."""
        with self._lock:
            return [] if self._problem is None else [self._problem]

    def targets(self) -> list[Target]:
        """The targets of the last good answer."""
        with self._lock:
            idle = self._asking is None or not self._asking.is_alive()
            if idle and time.monotonic() >= self._due:
                first = self._asking is None
                self._due = time.monotonic() + self._refresh
                self._asking = threading.Thread(target=self._ask, name="http-sd", daemon=True)
                self._asking.start()
            else:
                first = False
            asking = self._asking
        if first and asking is not None:
            asking.join()
        with self._lock:
            return list(self._found)

    def _ask(self) -> None:
        with Scraper(self._options) as scraper:
            answer, error = scraper.fetch(self._endpoint, accept=ACCEPT)
        try:
            found = None if error is not None else self._read(answer)
        except ConfigError as fault:
            found, error = None, str(fault)
        with self._lock:
            if found is not None:
                self._found = found.targets
                self._problem = f"{self._name}: {left_out(found)}" if found.problems else None
                return
            kept = f"; its last {len(self._found)} good targets stay" if self._found else ""
            self._problem = f"{self._name}: {error}{kept}"

    def _read(self, answer: Arrival) -> TargetDocument:
        kind = answer.content_type.partition(";")[0].strip().lower()
        if kind != ACCEPT:
            raise ConfigError(f"sends {kind[:40] or 'no Content-Type'}, not {ACCEPT}: is this an http_sd endpoint?")
        try:
            document = json.loads(b"".join(answer.blocks))
        except NOT_JSON as fault:
            where = f"line {fault.lineno}: {fault.msg}" if isinstance(fault, json.JSONDecodeError) else f"{fault}"
            raise ConfigError(f"the list is not JSON ({where})") from None
        return targets_from_file_sd(document, "the list")


def _endpoint(url: str) -> Target:
    """The endpoint as something to fetch; the path stays as it was given."""
    checked = urlsplit(make_target(url).url)
    text = url.strip()
    path = urlsplit(text if "://" in text else f"http://{text}").path or "/"
    return Target(urlunsplit((checked.scheme, checked.netloc, path, checked.query, "")), {})
