"""YAML of the catalogue as it was parsed before, by the hash of its text.

Parsing ninety files of YAML takes longer than judging a small fleet. What a text parses to never changes, so it is kept
in the user's cache folder and looked up by the SHA-256 of the text: a file that is edited is another text. Only what
MessagePack gives back as it was is kept. A cache that cannot be read or written is none; to delete it costs a fifth of
a second.
"""

from __future__ import annotations

import atexit
import hashlib
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

import msgspec

from inferdoc.errors import NOT_JSON
from inferdoc.replacing import PRIVATE, replace_file
from inferdoc.version import __version__

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
