"""Collecting metrics: the exposition parser, the scraper, target discovery and the log reader.

Names are loaded when first used, so that importing this package costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from inferdoc.collect.exposition import parse as parse
    from inferdoc.collect.openmetrics_file import read_openmetrics as read_openmetrics
    from inferdoc.collect.samples import NO_TIMESTAMP as NO_TIMESTAMP
    from inferdoc.collect.samples import Layout as Layout
    from inferdoc.collect.samples import LayoutCache as LayoutCache
    from inferdoc.collect.samples import Page as Page
    from inferdoc.collect.samples import ParseError as ParseError
    from inferdoc.collect.samples import Sample as Sample
    from inferdoc.collect.samples import Series as Series

_NAMES = {
    "exposition": "parse",
    "openmetrics_file": "read_openmetrics",
    "samples": "NO_TIMESTAMP Layout LayoutCache Page ParseError Sample Series",
}
_HOMES = {name: home for home, names in _NAMES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{home}"), name)
    globals()[name] = value
    return value
