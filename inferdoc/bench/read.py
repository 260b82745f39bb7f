"""Result files as levels: which tool wrote a file is seen by its keys."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from inferdoc.bench import aiperf, guidellm, vllm_serve
from inferdoc.bench.fields import Fields
from inferdoc.bench.level import LoadLevel
from inferdoc.errors import InferdocError

Recognises = Callable[[Mapping[str, Any]], bool]
TOOLS: tuple[tuple[Recognises, Callable[[Fields], list[LoadLevel]]], ...] = (
    (guidellm.recognises, guidellm.levels),
    (aiperf.recognises, aiperf.levels),
    (vllm_serve.recognises, vllm_serve.levels),
)
AT_ONCE = 0.01
"""Share of a run in which all of its requests came (own choice)."""
MOST_BYTES = 512 * 1024 * 1024
"""Of a file: with each request of an hour in it (own choice)."""


def levels_of(paths: Iterable[str]) -> list[LoadLevel]:
    """The levels of all files, in their order. Raises InferdocError with the first fault."""
    return [level for path in paths for fields in _documents(path) for level in _levels(fields)]


def _levels(fields: Fields) -> list[LoadLevel]:
    for recognises, levels in TOOLS:
        if recognises(fields.values):
            return [_as_sent(level) for level in levels(fields)]
    raise InferdocError(
        f"{fields.file}: no result file: GuideLLM's benchmarks.json, AIPerf's profile_export_aiperf.json and what "
        "vllm bench serve --save-result writes are known"
    )


def _as_sent(level: LoadLevel) -> LoadLevel:
    """A rate at which all requests come in no time is a burst, whatever it was called."""
    if level.drive != "rate" or level.asked is None or level.completed / level.asked > AT_ONCE * level.seconds:
        return level
    return replace(level, drive="burst", asked=None)


def _documents(path: str) -> Iterator[Fields]:
    """The objects of a file: one, or one a line as --append-result leaves them."""
    try:
        if Path(path).stat().st_size > MOST_BYTES:
            raise InferdocError(f"{path}: more than {MOST_BYTES >> 20} MiB; leave the requests out of the file")
        text = Path(path).read_text("utf-8")
    except OSError as error:
        raise InferdocError(f"{path}: cannot be read: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise InferdocError(f"{path}: no JSON: the file is not UTF-8") from None
    try:
        yield _object(path, json.loads(text))
        return
    except (json.JSONDecodeError, RecursionError) as error:
        lines = [line for line in text.splitlines() if line.strip()]
        if len(lines) < 2 or not lines[0].lstrip().startswith("{") or not lines[0].rstrip().endswith("}"):
            raise InferdocError(f"{path}: no JSON ({error!s:.80}); is the file cut?") from None
    for number, line in enumerate(lines, 1):
        try:
            yield _object(f"{path} line {number}", json.loads(line))
        except (json.JSONDecodeError, RecursionError):
            raise InferdocError(f"{path} line {number}: no JSON; is the file cut?") from None


def _object(name: str, document: Any) -> Fields:
    if not isinstance(document, Mapping):
        raise InferdocError(f"{name}: no result file: an object is expected")
    return Fields(name, document)
