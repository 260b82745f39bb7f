"""PromQL in words: names, numbers, durations, strings and signs, each with its place in the text, whoever wrote it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from inferdoc.source.reads import Matcher

Selector = tuple[Matcher, ...]
Kind = Literal["string", "duration", "number", "name", "sign"]
COMPARATORS = ("==", "!=", ">=", "<=", ">", "<")
SETS = ("and", "or", "unless")
OPEN, CLOSE = "({[", ")}]"
WORD = re.compile(
    r"""(?P<comment>\#[^\n]*)
    |(?P<string>"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|`[^`]*`)
    |(?P<duration>\d+(?:ms|[smhdwy])(?:\d+(?:ms|[smhdwy]))*(?!\w))
    |(?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?(?![\w.]))
    |(?P<name>[a-zA-Z_:][\w:]*)
    |(?P<sign>=~|!~|==|!=|>=|<=|[-><=+*/%^(){}\[\],:@])
    |(?P<space>\s+)
    |(?P<other>.)""",
    re.VERBOSE,
)


@dataclass(frozen=True)
class Word:
    """One word of an expression. start, end: its place; inside: the brackets it stands in, outermost first."""

    kind: Kind
    text: str
    start: int
    end: int
    inside: str

    @property
    def in_selector(self) -> bool:
        """Whether it stands between the braces of a selector."""
        return self.inside.endswith("{")


def words(expr: str) -> list[Word]:
    """The words of an expression. Raises ValueError at what PromQL has no word for, or a bracket without its other."""
    found: list[Word] = []
    stack: list[str] = []
    for each in WORD.finditer(expr):
        kind, text = each.lastgroup, each.group()
        if kind in ("space", "comment"):
            continue
        if kind == "other":
            raise ValueError(f"no PromQL at {each.start()}: {expr[each.start() : each.start() + 20]!r}")
        if text in CLOSE and kind == "sign" and (not stack or OPEN.index(stack.pop()) != CLOSE.index(text)):
            raise ValueError(f"{text!r} at {each.start()} closes nothing")
        found.append(Word(kind, text, each.start(), each.end(), "".join(stack)))  # type: ignore[arg-type]
        if text in OPEN and kind == "sign":
            stack.append(text)
    if stack:
        raise ValueError(f"{stack[-1]!r} is not closed")
    return found


def closing(found: Sequence[Word], start: int) -> int:
    """The index of the word that closes the bracket at an index."""
    depth = found[start].inside
    return next(n for n in range(start + 1, len(found)) if found[n].inside == depth and found[n].text in CLOSE)


def selectors(exprs: Iterable[str]) -> dict[str, list[Selector]]:
    """By metric the selectors that name it; under "" those without a name."""
    found: dict[str, list[Selector]] = {}
    for expr in exprs:
        for metric, selector in selected(expr):
            found.setdefault(metric, []).append(selector)
    return found


@lru_cache(maxsize=4096)
def selected(expr: str) -> tuple[tuple[str, Selector], ...]:
    """The selectors of an expression in order, each with its metric name ("" for none). Functions count as metrics."""
    found, terms = [], words(expr)
    for number, word in enumerate(terms):
        if word.in_selector:
            continue
        if word.kind == "name":
            opens = number + 1 < len(terms) and terms[number + 1].text == "{"
            inside = terms[number + 2 : closing(terms, number + 1)] if opens else []
            found.append((word.text, tuple(_matchers(inside))))
        elif word.text == "{" and (number == 0 or terms[number - 1].kind != "name"):
            found.append(("", tuple(_matchers(terms[number + 1 : closing(terms, number)]))))
    return tuple(found)


def _matchers(inside: Sequence[Word]) -> Iterator[Matcher]:
    for name, op, value in zip(inside[0::4], inside[1::4], inside[2::4], strict=False):
        yield name.text, op.text, _unquoted(value.text)  # type: ignore[misc]


def _unquoted(text: str) -> str:
    return text[1:-1].replace('\\"', '"').replace("\\\\", "\\")


def clauses(found: Sequence[Word], sign: str) -> Iterator[tuple[int, int]]:
    """Where a set operator (`unless`) and what it takes begin and end, as indexes of words: [first, last]."""
    for number, word in enumerate(found):
        if word.kind == "name" and word.text == sign and not word.in_selector:
            yield number, _end(found, number)


def _end(found: Sequence[Word], number: int) -> int:
    """The last word of the operand on the right of a set operator."""
    depth = found[number].inside
    for later in range(number + 1, len(found)):
        word = found[later]
        if len(word.inside) < len(depth):
            return later - 1
        if word.inside == depth and ((word.kind == "name" and word.text in SETS) or word.text == ","):
            return later - 1
    return len(found) - 1
