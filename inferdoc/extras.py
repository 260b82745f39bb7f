"""Packages that only some commands need: which extra brings them, and one line where they are not installed.

The core (diagnose, collect, doctor, signals) runs on numpy and a few small packages. What brings a hundred megabytes
for one command is an extra; which one is declared in pyproject.toml and read back from the installed distribution.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import metadata

from inferdoc.errors import InferdocError

DISTRIBUTION = "inferdoc-toolkit"


@contextmanager
def needed(package: str, what: str) -> Iterator[None]:
    """Around the import of a package of an extra. what: what needs it, such as "a plot". Raises InferdocError with the
    line that installs it where it is missing."""
    try:
        yield
    except ModuleNotFoundError as fault:
        raise InferdocError(f"{what} needs {package}; install it with: {install(package)}") from fault


def install(package: str) -> str:
    """The command that installs a package of an extra."""
    extra = extra_of(package)
    return f"pip install '{DISTRIBUTION}[{extra}]'" if extra else f"pip install {package}"


def extra_of(package: str) -> str | None:
    """The extra that brings a package; None where none does, or nothing is known of the distribution."""
    try:
        requirements = metadata.requires(DISTRIBUTION) or []
    except metadata.PackageNotFoundError:
        return None
    for requirement in requirements:
        name = re.match(r"[A-Za-z0-9._-]+", requirement)
        extra = re.search(r"extra == ['\"]([^'\"]+)", requirement)
        if name and extra and name[0].lower() == package and extra[1] != "all":
            return extra[1]
    return None
