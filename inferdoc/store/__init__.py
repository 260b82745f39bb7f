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

_NAMES = {
    "block": "STALE Block absent",
    "compaction": "Compacted compact",
    "exporter": "export",
    "faults": "StoreError",
    "importer": "Imported import_columns import_file",
    "info": "Inventory Verified inventory verify",
    "parquet_export": "export_parquet",
    "retention": "Keeper Pruned prune would_prune",
    "store": "Store",
    "writer": "Writer",
}
_HOMES = {name: home for home, names in _NAMES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{home}"), name)
    globals()[name] = value
    return value
