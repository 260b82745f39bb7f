"""YAML as values, within bounds: what would crash or stall a reader is refused with its line.

The C parser calls itself for every level of nesting and ends the process where the stack does; aliases that name
aliases expand without end when the values are walked (the "billion laughs"). Both are counted in the stream of events,
which needs no recursion, before anything is built.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import yaml

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
