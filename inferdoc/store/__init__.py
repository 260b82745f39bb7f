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
    from inferdoc.store.info import Inventory as Inventory
    from inferdoc.store.info import Verified as Verified
    from inferdoc.store.info import inventory as inventory
    from inferdoc.store.info import verify as verify
    from inferdoc.store.parquet_export import export_parquet as export_parquet
    from inferdoc.store.retention import Keeper as Keeper
    from inferdoc.store.retention import Pruned as Pruned
    from inferdoc.store.retention import prune as prune
    from inferdoc.store.retention import would_prune as would_prune
    from inferdoc.store.store import Store as Store
    from inferdoc.store.writer import Writer as Writer

_HOMES = {
    "STALE": "block",
    "Block": "block",
    "absent": "block",
    "Compacted": "compaction",
    "compact": "compaction",
    "export": "exporter",
    "export_parquet": "parquet_export",
    "Imported": "importer",
    "import_columns": "importer",
    "import_file": "importer",
    "Inventory": "info",
    "inventory": "info",
    "Keeper": "retention",
    "Pruned": "retention",
    "prune": "retention",
    "would_prune": "retention",
    "StoreError": "faults",
    "Store": "store",
    "Verified": "info",
    "verify": "info",
    "Writer": "writer",
}

__all__ = [
    "STALE",
    "Block",
    "Compacted",
    "Imported",
    "Inventory",
    "Keeper",
    "Pruned",
    "Store",
    "StoreError",
    "Verified",
    "Writer",
    "absent",
    "compact",
    "export",
    "export_parquet",
    "import_columns",
    "import_file",
    "inventory",
    "prune",
    "verify",
    "would_prune",
]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{home}"), name)
    globals()[name] = value
    return value
