"""Which of several collectors takes a target.

What is judged together has to lie in one store: the pods of a pool, their router and the exporters of their nodes. So
targets of one namespace go together; those without one by their host, on which an engine and its exporters stand.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Sequence
from dataclasses import dataclass

from inferdoc.collect.discovery import Target
from inferdoc.collect.targets import TargetProvider
from inferdoc.errors import ConfigError

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
