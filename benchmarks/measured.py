"""State when, at which commit and by which command a table was measured."""

from __future__ import annotations

import shlex
import subprocess
import sys
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CONTENT = ("inferdoc", "collectors", "diagnostics", "alerts", "fixtures", "benchmarks")
"""Folders whose uncommitted changes can change a number."""


def measured_line() -> str:
    """The line that stands by a table which the running script makes."""
    return f"Measured {datetime.now(UTC):%Y-%m-%d} at {commit()} (`{command()}`)."


def command() -> str:
    """The command of the running script, as typed in a checkout."""
    script = Path(sys.argv[0]).resolve()
    shown = script.relative_to(ROOT) if script.is_relative_to(ROOT) else Path(script.name)
    if shown.name == "__main__.py":
        return shlex.join(["python", "-m", ".".join(shown.parent.parts), *sys.argv[1:]])
    return shlex.join(["python", str(shown), *sys.argv[1:]])


@lru_cache(maxsize=1)
def commit() -> str:
    """The commit of this checkout when first requested; `unknown commit` outside one."""
    revision = _git("rev-parse", "--short=8", "HEAD")
    if not revision:
        return "unknown commit"
    changed = _git("status", "--porcelain", "--", *CONTENT)
    return f"commit {revision}{' with uncommitted changes' if changed else ''}"


def _git(*words: str) -> str:
    """What git prints; nothing if it fails."""
    try:
        done = subprocess.run(["git", "-C", str(ROOT), *words], capture_output=True, text=True, check=False)
    except OSError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
