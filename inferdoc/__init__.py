"""inferdoc: what is wrong with an LLM-inference fleet, since when, where, how sure, and what to do next.

The public Python surface is small: `diagnose`, `open_source` and the classes they return. Everything is imported
lazily, so that `import inferdoc` costs a few milliseconds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"
__all__ = ["__version__", "diagnose", "open_source"]

if TYPE_CHECKING:
    from inferdoc.diagnose.api import diagnose
    from inferdoc.source.open import open_source

_WHERE = {"diagnose": "inferdoc.diagnose.api", "open_source": "inferdoc.source.open"}


def __getattr__(name: str) -> Any:
    if name in _WHERE:
        from importlib import import_module

        return getattr(import_module(_WHERE[name]), name)
    raise AttributeError(f"module 'inferdoc' has no attribute {name!r}")
