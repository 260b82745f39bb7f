"""Judging: conditions, recipes, roots and effects.

`from inferdoc import diagnose` must be the function (the public Python interface), and this package has the same name.
As soon as a module of it is imported, Python binds the name to the package; so the package itself can be called.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any


class _CallablePackage(ModuleType):
    def __call__(self, *arguments: Any, **named: Any) -> Any:
        """`inferdoc.diagnose(source, since="1h")`: see `inferdoc.diagnose.api.diagnose`."""
        from inferdoc.diagnose.api import diagnose

        return diagnose(*arguments, **named)


sys.modules[__name__].__class__ = _CallablePackage
