"""YAML as values, within bounds: what would crash or stall a reader is refused with its line.

The C parser calls itself for every level of nesting and ends the process where the stack does; aliases that name
aliases expand without end when the values are walked (the "billion laughs"). Both are counted in the stream of events,
which needs no recursion, before anything is built.
"""

from __future__ import annotations

import atexit
import hashlib
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

import msgspec
import yaml

from inferdoc.errors import NOT_JSON
from inferdoc.replacing import PRIVATE, replace_file
from inferdoc.version import __version__

MAX_DEPTH = 60
"""Levels of nesting; the deepest file of the catalogue has some ten."""
MAX_VALUES = 200_000
"""Values of a document with every alias written out; the largest file of the catalogue has some ten thousand."""

SURELY_FLAT = 2_000
"""A document cannot be nested deeper than it has opening brackets and columns of indentation. Up to so many the C
parser is safe, and counting, which takes a third of the time of reading, is spared."""

_INDENT = re.compile(rb"^[ \-?]*", re.MULTILINE)
_ANCHOR = re.compile(rb"[&*]\w")


class BoundsError(yaml.MarkedYAMLError):
    """YAML that is well formed and still not read. mark: where, as the parser has it."""

    def __init__(self, problem: str, mark: Any = None) -> None:
        super().__init__(problem=problem, problem_mark=mark)


def load_yaml(text: str | bytes, loader: type[Any] = yaml.CSafeLoader) -> Any:
    """The value of a document. Raises yaml.YAMLError, with the line where it is known, for whatever cannot be read."""
    _check(text)
    return _built(lambda: yaml.load(text, loader))


TOO_DEEP = "maximum nesting depth"
"""What PyYAML says since 6.0.4, which has a limit of its own."""


def load_all_yaml(text: str | bytes, loader: type[Any] = yaml.CSafeLoader) -> list[Any]:
    """The values of all documents of a stream; as `load_yaml`."""
    _check(text)
    return list(_built(lambda: list(yaml.load_all(text, loader))))


def _built(build: Any) -> Any:
    try:
        return build()
    except yaml.YAMLError as error:
        if TOO_DEEP not in str(error):
            raise
        raise BoundsError(f"it is nested more than {MAX_DEPTH} levels deep") from None
    except UnicodeDecodeError:
        raise BoundsError("it is not UTF-8") from None
    except RecursionError:
        raise BoundsError(f"it is nested more than {MAX_DEPTH} levels deep") from None
    except (ValueError, TypeError, AttributeError, KeyError, OverflowError) as error:
        # a scalar that is not what its tag or form says: 2026-13-45, !!bool maybe, a number of five thousand digits
        raise BoundsError(f"a value is not of its kind ({' '.join(str(error).split())[:100]})") from None


def _check(text: str | bytes) -> None:
    raw = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
    if raw[:2] in (b"\xff\xfe", b"\xfe\xff"):
        raise BoundsError("it is UTF-16, not UTF-8")
    brackets = raw.count(b"[") + raw.count(b"{")
    block = max((len(lead) for lead in _INDENT.findall(raw)), default=0)
    if _ANCHOR.search(raw) or brackets + block > SURELY_FLAT:
        _built(lambda: _count(yaml.parse(text, yaml.CSafeLoader)))


def _count(events: Iterator[yaml.Event]) -> None:
    sizes: dict[str, int] = {}
    stack: list[tuple[str | None, int]] = []
    for event in events:
        size = 0
        if isinstance(event, yaml.AliasEvent):
            if any(anchor == event.anchor for anchor, _ in stack):
                raise BoundsError(f"*{event.anchor} stands within what it names", mark=event.start_mark)
            size = sizes.get(event.anchor or "", 1)
        elif isinstance(event, yaml.ScalarEvent):
            size = 1
            if event.anchor:
                sizes[event.anchor] = size
        elif isinstance(event, yaml.CollectionStartEvent):
            stack.append((event.anchor, 1))
            if len(stack) > MAX_DEPTH:
                where = event.start_mark
                raise BoundsError(f"it is nested more than {MAX_DEPTH} levels deep", mark=where)
        elif isinstance(event, yaml.CollectionEndEvent):
            anchor, size = stack.pop()
            if anchor:
                sizes[anchor] = size
        if stack and size:
            stack[-1] = stack[-1][0], stack[-1][1] + size
        if size > MAX_VALUES:
            raise BoundsError(problem=f"its aliases stand for more than {MAX_VALUES:,} values", mark=event.start_mark)


MOST_KEPT = 1_000
"""Texts: ten catalogues; those used longest ago go first."""
MOST_BYTES = 64 << 20


class ParsedTexts:
    """What texts parsed to, kept in a file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._kept = _read(path)
        self._used: dict[bytes, bytes] = {}
        self._is_new = False

    def of(self, text: bytes, parse: Callable[[], Any]) -> Any:
        """What `parse` makes of the text, from what is kept if it can be. Raises what `parse` raises."""
        key = hashlib.sha256(text).digest()
        body = self._used.get(key) or self._kept.get(key)
        with suppress(*NOT_JSON):
            if body is not None:
                data = msgspec.msgpack.decode(body)
                self._used[key] = body
                return data
        data = parse()
        body = _packed(data)
        if body is not None:
            self._used[key] = body
            self._is_new = True
        return data

    def save(self) -> None:
        """Keep what was parsed for the next process, if there is anything new."""
        if not self._is_new:
            return
        older = {key: body for key, body in self._kept.items() if key not in self._used}
        kept = dict([*older.items(), *self._used.items()][-MOST_KEPT:])
        with suppress(OSError):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            replace_file(self._path, msgspec.msgpack.encode((__version__, kept)), PRIVATE)
            self._is_new = False


@lru_cache(maxsize=1)
def parsed_texts() -> ParsedTexts:
    """Those of this user, saved when the process ends."""
    from platformdirs import user_cache_dir

    texts = ParsedTexts(Path(user_cache_dir("inferdoc")) / "parsed.msgpack")
    atexit.register(texts.save)
    return texts


def _read(path: Path) -> dict[bytes, bytes]:
    try:
        if path.stat().st_size > MOST_BYTES:
            return {}
        version, kept = msgspec.msgpack.decode(path.read_bytes(), type=tuple[str, dict[bytes, bytes]])
    except (OSError, *NOT_JSON):
        return {}
    return kept if version == __version__ else {}


def _packed(data: Any) -> bytes | None:
    """The value as bytes; None where they would not give back the very same (a date, a number that is none)."""
    try:
        body = msgspec.msgpack.encode(data)
    except (TypeError, ValueError, OverflowError, RecursionError):
        return None
    return body if _same(msgspec.msgpack.decode(body), data) else None


def _same(one: Any, other: Any) -> bool:
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return list(one) == list(other) and all(_same(one[key], other[key]) for key in one)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(_same, one, other))
    return bool(one == other)
