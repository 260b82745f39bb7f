"""What several workers of a test session need is built once, by whoever needs it first."""

from __future__ import annotations

import atexit
import fcntl
import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

if "INFERDOC_TESTS_CACHE" not in os.environ:
    # Not the cache of the user who runs the tests; workers of pytest-xdist share that of the process that starts them.
    os.environ["INFERDOC_TESTS_CACHE"] = os.environ["XDG_CACHE_HOME"] = tempfile.mkdtemp(prefix="inferdoc-cache-")
    atexit.register(shutil.rmtree, os.environ["XDG_CACHE_HOME"], ignore_errors=True)


def built(key: str, make: Callable[[Path], None]) -> Path:
    """The folder that `make` has filled; key: names its content. Treat what is in it as read-only."""
    folder = Path(os.environ["INFERDOC_TESTS_CACHE"]) / "built" / hashlib.sha256(key.encode()).hexdigest()[:24]
    folder.parent.mkdir(exist_ok=True)
    with folder.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            partial = folder.with_suffix(".partial")
            shutil.rmtree(partial, ignore_errors=True)
            partial.mkdir()
            make(partial)
            partial.rename(folder)
    return folder
