"""Metrics that other commands left in files, shown on our page: prewarm, forecasts, bills, headroom.

As the textfile collector of node_exporter does: `inferdoc prewarm apply`, `forecast`, `cost` and `headroom` write such
files, and a cluster without node_exporter on every node has no other place for them.
"""

from __future__ import annotations

import glob
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import Metric
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector

LARGEST_FILE = 4 << 20
MOST_FILES = 100


class TextFiles:
    """patterns: of paths; log: gets a line when a file cannot be read, once for each trouble."""

    def __init__(self, patterns: Sequence[str], log: Callable[[str], None]) -> None:
        self._patterns, self._log = patterns, log
        self._troubles: dict[str, str] = {}

    def text(self, own: Iterable[str]) -> str:
        """The families of all files in the classic text format; of a name that stands twice, or is one of `own`, the
        first counts."""
        seen, families = set(own), list[Metric]()
        for path in self._paths():
            for family in self._families(path):
                if family.name not in seen:
                    families.append(family)
            seen.update(family.name for family in families)
        registry = CollectorRegistry(auto_describe=False)
        registry.register(_Given(families))
        return generate_latest(registry).decode()

    def _paths(self) -> list[Path]:
        paths = sorted({path for pattern in self._patterns for path in glob.glob(pattern)})  # noqa: PTH207
        return [Path(path) for path in paths[:MOST_FILES]]

    def _families(self, path: Path) -> list[Metric]:
        try:
            if path.stat().st_size > LARGEST_FILE:
                raise ValueError(f"more than {LARGEST_FILE >> 20} MiB")
            families = list(text_string_to_metric_families(path.read_text("utf-8")))
        except (OSError, ValueError, KeyError, IndexError, TypeError) as error:
            line = f"{path}: its metrics are left out: {getattr(error, 'strerror', None) or error}"
            if self._troubles.get(str(path)) != line:
                self._log(line)
            self._troubles[str(path)] = line
            return []
        self._troubles.pop(str(path), None)
        return families


class _Given(Collector):
    def __init__(self, families: list[Metric]) -> None:
        self._families = families

    def collect(self) -> list[Metric]:
        return self._families
