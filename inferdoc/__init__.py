"""inferdoc: what is wrong with an LLM-inference fleet, since when, where, how sure, and what to do next.

The public Python surface is small: `diagnose`, `open_source` and the classes they return. Everything is imported
lazily, so that `import inferdoc` costs a few milliseconds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from inferdoc.version import __version__

__all__ = ["__version__", "diagnose", "open_source"]

if TYPE_CHECKING:
    from inferdoc.audit.persistent import diagnose
    from inferdoc.source.open import open_source


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name == "diagnose":
        return import_module("inferdoc.audit.persistent").diagnose
    if name == "open_source":
        return import_module("inferdoc.source.open").open_source
    raise AttributeError(f"module 'inferdoc' has no attribute {name!r}")
