"""Matchers of Alertmanager on labels."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from inferdoc.errors import InferdocError

MATCHER = re.compile(r'\s*([a-zA-Z_]\w*)\s*(=~|!~|!=|=)\s*"?((?:[^"\\]|\\.)*)"?\s*')


@dataclass(frozen=True)
class Matcher:
    """One matcher of Alertmanager on a label; a label that is not there is empty."""

    label: str
    sign: str
    value: str

    def fits(self, labels: Mapping[str, str]) -> bool:
        """Whether labels fit; patterns match the whole value."""
        own = labels.get(self.label, "")
        same = bool(re.fullmatch(self.value, own)) if "~" in self.sign else own == self.value
        return same != self.sign.startswith("!")


def read_matchers(texts: Iterable[str], path: Path) -> tuple[Matcher, ...]:
    """Matchers as written in a file. Raises InferdocError for one that cannot be read."""
    found = []
    for text in texts:
        read = MATCHER.fullmatch(text)
        if read is None:
            raise InferdocError(f'{path}: matcher {text!r} cannot be read; write label="value"')
        found.append(Matcher(read[1], read[2], read[3].replace('\\"', '"').replace("\\\\", "\\")))
    return tuple(found)
