"""Label matchers as Prometheus applies them: an absent label is an empty one, expressions match the whole value."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache

from inferdoc.errors import InferdocError
from inferdoc.source.reads import Matcher


@lru_cache(maxsize=512)
def _expression(pattern: str) -> re.Pattern[str]:
    try:
        return re.compile(pattern, re.ASCII)  # in RE2, which Prometheus uses, classes are ASCII
    except re.error as error:
        raise InferdocError(
            f"label matcher {pattern!r} is not a valid regular expression ({error}): correct it, or use = for a value"
        ) from None


def matches(labels: Mapping[str, str], match: tuple[Matcher, ...]) -> bool:
    """Whether a series with these labels passes every matcher."""
    return all(passes(labels.get(label, ""), op, wanted) for label, op, wanted in match)


def passes(value: str, op: str, wanted: str) -> bool:
    """One matcher on one label value."""
    if op == "=":
        return value == wanted
    if op == "!=":
        return value != wanted
    found = _expression(wanted).fullmatch(value) is not None
    return found if op == "=~" else not found
