"""Where to scrape: from flags, from the configuration, from Prometheus file_sd files and http_sd endpoints."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol
from urllib.parse import urlencode, urlsplit, urlunsplit

from inferdoc.collect.problems import ProblemList
from inferdoc.errors import ConfigError

DEFAULT_JOB = "inferdoc"
_WILDCARD = re.compile(r"[*?\[]")
_LABEL_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*\Z")
_ENTRY_KEYS = frozenset({"url", "targets", "labels", "job"})


@dataclass(frozen=True)
class Target:
    """One page to scrape.

    Attributes:
        url: with scheme and path; carries no user name or password.
        labels: set on every series of the page; always holds `job` and `instance`, and what is known
            of `pod`, `namespace`, `node`, `role`, `tier` and so on.
    """

    url: str
    labels: Mapping[str, str] = field(hash=False)


def make_target(address: str, labels: Mapping[str, str] | None = None) -> Target:
    """A target from an address as people write it: `host:8000`, `http://host:8000` or a whole URL.

    `http` and `/metrics` are filled in; `instance` is `host:port` and `job` is `inferdoc` unless given.

    Raises:
        ConfigError: no usable URL, credentials inside it, or an invalid label name.
    """
    text = address.strip()
    try:
        parts = urlsplit(text if "://" in text else f"http://{text}")
    except ValueError as error:  # of an IPv6 address
        host = repr(_host(text)[:100])
        raise ConfigError(f"target {host} is not a URL such as http://[::1]:8000/metrics ({error})") from None
    try:
        port = parts.port
    except ValueError:
        raise ConfigError(f"target {_host(parts.netloc)}: the port is not a number") from None
    if parts.username is not None or parts.password is not None:
        raise ConfigError(
            f"target {_host(parts.netloc)}: credentials do not belong in the URL; use a bearer token file or basic auth"
        )
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ConfigError(f"target {text[:100]!r} is not a URL such as http://host:8000/metrics")
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    netloc = host if port is None else f"{host}:{port}"
    url = urlunsplit((parts.scheme, netloc, "/metrics" if parts.path in ("", "/") else parts.path, parts.query, ""))
    given = {name: value for name, value in (labels or {}).items() if value}
    for name in given:
        if not _LABEL_NAME.match(name):
            raise ConfigError(f"target {netloc}: {name!r} is not a label name")
    return Target(url, {"job": DEFAULT_JOB, "instance": netloc, **given})


def target_from_flag(text: str) -> Target:
    """`URL[,label=value]...`, as `--target` takes it: `http://10.0.0.7:8000,pod=vllm-0,role=decode`.

    Raises:
        ConfigError: see `make_target`.
    """
    address, *labels = text.split(",")
    return make_target(address, pairs_from_flags(labels, f"target {_host(address)[:100]}"))


def pairs_from_flags(pairs: Iterable[str], what: str) -> dict[str, str]:
    """`name=value` texts as a dict.

    Raises:
        ConfigError: says for `what` which number of the pairs is wrong, but not its text, which may be a secret.
    """
    found = {}
    for number, pair in enumerate(pairs, 1):
        name, equals, value = pair.partition("=")
        if not equals or not name.strip():
            raise ConfigError(f"{what}: expected name=value, number {number} is not")
        found[name.strip()] = value.strip()
    return found


def targets_from_config(entries: Sequence[Mapping[str, object]], where: str = "targets") -> list[Target]:
    """Targets of a configuration section.

    Args:
        entries: each `{url = "...", labels = {...}}`, or, for several pages with the same labels,
            `{targets = ["host:port", ...], labels = {...}}`; both may have `job`.
        where: how the section is called in errors.

    Raises:
        ConfigError: names the entry and what was expected.
    """
    found: list[Target] = []
    for number, entry in enumerate(entries):
        path = f"{where}[{number}]"
        if not isinstance(entry, Mapping):
            raise ConfigError(f"{path}: expected a table with url or targets, found {type(entry).__name__}")
        unknown = sorted(set(entry) - _ENTRY_KEYS)
        if unknown:
            raise ConfigError(f"{path}: unknown key {unknown[0]!r}; known are {', '.join(sorted(_ENTRY_KEYS))}")
        listed = _list(entry.get("targets", []), f"{path}.targets")
        addresses = [_text(item, f"{path}.targets[{place}]") for place, item in enumerate(listed)]
        if "url" in entry:
            addresses = [_text(entry["url"], f"{path}.url"), *addresses]
        if not addresses:
            raise ConfigError(f"{path}: expected url or targets")
        labels = _labels(entry.get("labels", {}), f"{path}.labels")
        if "job" in entry:
            labels["job"] = _text(entry["job"], f"{path}.job")
        found += [make_target(address, labels) for address in addresses]
    return found


@dataclass(frozen=True)
class TargetDocument:
    """What a list of targets says. problems: one line for each target or group that was left out."""

    targets: list[Target]
    problems: list[str]


def targets_from_file_sd(document: object, where: str) -> TargetDocument:
    """Targets of a Prometheus file_sd document: a list of `{targets: [host:port], labels: {...}}`.

    `__scheme__`, `__metrics_path__` and `__param_NAME` are honoured, other `__` labels dropped. A target that is no use
    is left out and named, and so is a group: the others stay.

    Raises:
        ConfigError: it is no such document, or holds no good target beside bad ones; names the place and what was
            expected.
    """
    if not isinstance(document, list):
        raise ConfigError(f"{where}: expected a list of target groups, found {type(document).__name__}")
    found: list[Target] = []
    problems = ProblemList()
    for number, group in enumerate(document):
        path = f"{where}: [{number}]"
        try:
            address_of = _group(group, path)
            addresses = _list(group.get("targets", []), f"{path}.targets")
        except ConfigError as error:
            problems.add(str(error))
            continue
        for place, address in enumerate(addresses):
            try:
                found.append(address_of(_text(address, f"{path}.targets[{place}]")))
            except ConfigError as error:
                problems.add(str(error))
    if problems and not found:
        raise ConfigError(problems.lines()[0])
    return TargetDocument(found, problems.lines())


def _group(group: object, path: str) -> Callable[[str], Target]:
    """Makes the targets of a group from their addresses."""
    if not isinstance(group, dict):
        raise ConfigError(f"{path}: expected a target group, found {type(group).__name__}")
    labels = _labels(group.get("labels") or {}, f"{path}.labels")
    scheme = labels.get("__scheme__", "http")
    metrics_path = "/" + labels.get("__metrics_path__", "/metrics").lstrip("/")
    query = urlencode([(name[8:], value) for name, value in labels.items() if name.startswith("__param_")])
    kept = {name: value for name, value in labels.items() if not name.startswith("__")}

    def target(address: str) -> Target:
        if "/" in address:
            raise ConfigError(f"{path}.targets: expected host:port, found {address[:100]!r}")
        try:
            return make_target(f"{scheme}://{address}{metrics_path}{'?' + query if query else ''}", kept)
        except ConfigError as error:
            raise ConfigError(f"{path}.targets: {error}") from None

    return target


class FileDiscovery:
    """Reads file_sd files (JSON or YAML) and reads them again when they change.

    The last part of `pattern` may hold wildcards, as in Prometheus. A file that turns bad keeps its last good
    targets and is named in `problems` until it is good again. A file that is gone has no targets.
    """

    def __init__(self, pattern: str | Path) -> None:
        self._pattern = Path(pattern)
        self._seen: dict[Path, tuple[int, int, int]] = {}
        self._targets: dict[Path, list[Target]] = {}
        self._faults: dict[Path, str] = {}

    @property
    def problems(self) -> list[str]:
        """What is wrong with the files now, one line each."""
        return list(self._faults.values())

    def targets(self) -> list[Target]:
        """The targets of all files as they stand now."""
        pattern = self._pattern
        paths = [pattern] if not _WILDCARD.search(pattern.name) else sorted(pattern.parent.glob(pattern.name))
        for gone in (self._seen.keys() | self._faults.keys()) - set(paths):
            self._seen.pop(gone, None)
            self._targets.pop(gone, None)
            self._faults.pop(gone, None)
        for path in paths:
            self._refresh(path)
        return [target for path in paths for target in self._targets.get(path, [])]

    def _refresh(self, path: Path) -> None:
        try:
            status = path.stat()
            version = (status.st_mtime_ns, status.st_size, status.st_ino)
            if self._seen.get(path) == version:
                return
            text = path.read_text(encoding="utf-8")
        except FileNotFoundError:
            self._seen.pop(path, None)
            self._targets.pop(path, None)
            self._faults[path] = f"{path}: no such file"
            return
        except (OSError, UnicodeDecodeError) as error:
            self._seen.pop(path, None)
            self._faults[path] = f"{path}: {error.strerror if isinstance(error, OSError) else 'not UTF-8'}"
            return
        self._seen[path] = version
        try:
            listed = targets_from_file_sd(_load(text, str(path)), str(path))
            self._targets[path] = listed.targets
            self._faults.pop(path, None)
            if listed.problems:
                self._faults[path] = left_out(listed)
        except ConfigError as error:
            kept = len(self._targets.get(path, []))
            self._faults[path] = f"{error}; its last {kept} good targets stay" if kept else str(error)


def left_out(listed: TargetDocument) -> str:
    """What was left out of a list of targets, on one line."""
    more = f" (and {len(listed.problems) - 1} more)" if len(listed.problems) > 1 else ""
    return f"{listed.problems[0]}{more}; left out, the other {len(listed.targets)} targets are scraped"


class TargetProvider(Protocol):
    """Lists what to scrape: `FileDiscovery`, `HttpDiscovery`, or several of them in a `Discovery`."""

    @property
    def problems(self) -> Sequence[str]:
        """What is wrong with it now, one line each."""

    def targets(self) -> Sequence[Target]:
        """Its targets as they stand now. Read every few seconds."""


class Discovery:
    """All sources of targets together. Call `targets()` as often as you like; it is cheap when nothing changed."""

    def __init__(
        self,
        fixed: Iterable[Target] = (),
        file_sd: Iterable[str | Path] = (),
        others: Iterable[TargetProvider] = (),
    ) -> None:
        self._fixed = list(fixed)
        self._lists: list[TargetProvider] = [*(FileDiscovery(pattern) for pattern in file_sd), *others]

    @property
    def problems(self) -> list[str]:
        """What is wrong with the sources of targets now, one line each."""
        return [problem for listed in self._lists for problem in listed.problems]

    def targets(self) -> list[Target]:
        """Every target once."""
        found: dict[tuple[str, tuple[tuple[str, str], ...]], Target] = {}
        for target in [*self._fixed, *(target for listed in self._lists for target in listed.targets())]:
            found.setdefault((target.url, tuple(sorted(target.labels.items()))), target)
        return list(found.values())


def _load(text: str, path: str) -> object:
    import yaml

    from inferdoc.catalogue.yaml_text import load_yaml

    try:
        return load_yaml(text, yaml.SafeLoader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f", line {mark.line + 1}" if mark is not None else ""
        raise ConfigError(f"{path}{line}: neither JSON nor YAML ({getattr(error, 'problem', None)})") from None


def _text(value: object, path: str) -> str:
    if not isinstance(value, str):
        raise ConfigError(f"{path}: expected text, found {type(value).__name__}")
    return value


def _list(value: object, path: str) -> Sequence[object]:
    if not isinstance(value, Sequence) or isinstance(value, str):
        raise ConfigError(f"{path}: expected a list of addresses, found {type(value).__name__}")
    return value


def _labels(value: object, path: str) -> dict[str, str]:
    if not isinstance(value, Mapping):
        raise ConfigError(f"{path}: expected label names and values, found {type(value).__name__}")
    return {_text(name, path): _text(text, f"{path}.{name}") for name, text in value.items()}


def _host(netloc: str) -> str:
    return netloc.rpartition("@")[2]
