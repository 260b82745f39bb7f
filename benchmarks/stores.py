"""Make scenarios without a fault, and fill the stores that benchmarks read."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from inferdoc.collect.openmetrics_file import SampleColumns
from inferdoc.simulate.output import write_store
from inferdoc.simulate.scenario import Expect, PoolSpec, Scenario, Stream
from inferdoc.simulate.scrape import Scraped
from inferdoc.store import Store, import_file
from inferdoc.store.importer import import_columns

Content = Path | SampleColumns | Iterable[Scraped]
"""An OpenMetrics file, its samples, or the targets of a simulation."""


def without_fault(name: str, pools: tuple[PoolSpec, ...], traffic: tuple[Stream, ...], **settings: Any) -> Scenario:
    """A scenario that expects no finding. settings: further fields of Scenario."""
    return Scenario(id=name, title=name, expect=Expect(cause=None), pools=pools, traffic=traffic, **settings)


def fill_store(path: Path, content: Content) -> Path:
    """Write the content into a new store."""
    with Store.open(path, "w") as store:
        if isinstance(content, Path):
            import_file(store, content)
        elif isinstance(content, SampleColumns):
            import_columns(store, content, path.name)
        else:
            write_store(content, store)
    return path


@contextmanager
def temporary_store(content: Content) -> Iterator[Path]:
    """A store with the content, deleted after the block."""
    with tempfile.TemporaryDirectory(prefix="inferdoc-benchmark-") as folder:
        yield fill_store(Path(folder) / "fleet.db", content)
