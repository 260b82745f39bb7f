"""The embedded store: open, append, read, import, export, compaction, retention."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from inferdoc.store.block import STALE as STALE
    from inferdoc.store.block import Block as Block
    from inferdoc.store.block import absent as absent
    from inferdoc.store.compaction import Compacted as Compacted
    from inferdoc.store.compaction import compact as compact
    from inferdoc.store.exporter import export as export
    from inferdoc.store.faults import StoreError as StoreError
    from inferdoc.store.importer import Imported as Imported
    from inferdoc.store.importer import import_columns as import_columns
    from inferdoc.store.importer import import_file as import_file
    from inferdoc.store.retention import Pruned as Pruned
    from inferdoc.store.retention import prune as prune
    from inferdoc.store.store import Store as Store
    from inferdoc.store.writer import Writer as Writer

_HOMES = {
    "STALE": "block",
    "Block": "block",
    "absent": "block",
    "Compacted": "compaction",
    "compact": "compaction",
    "export": "exporter",
    "Imported": "importer",
    "import_columns": "importer",
    "import_file": "importer",
    "Pruned": "retention",
    "prune": "retention",
    "StoreError": "faults",
    "Store": "store",
    "Writer": "writer",
}

__all__ = [
    "STALE",
    "Block",
    "Compacted",
    "Imported",
    "Pruned",
    "Store",
    "StoreError",
    "Writer",
    "absent",
    "compact",
    "export",
    "import_columns",
    "import_file",
    "prune",
]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{home}"), name)
    globals()[name] = value
    return value
