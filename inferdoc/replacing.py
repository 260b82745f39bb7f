"""Files that are replaced in one step: whoever reads them sees the old one or the new one, never half of it. And the
permissions of files."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

READABLE, PRIVATE = 0o644, 0o600


def replace_file(place: Path, content: bytes, mode: int = READABLE) -> None:
    """Write a file in one step. mode: its permissions. Raises OSError, and leaves nothing behind then."""
    with replaced(place, mode) as file:
        file.write(content)


@contextmanager
def replaced(place: Path, mode: int = READABLE) -> Iterator[BinaryIO]:
    """A file to write, which takes its place in one step at the end; after an error nothing of it is left behind."""
    handle, name = tempfile.mkstemp(dir=place.parent, prefix=f".{place.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
        Path(name).chmod(mode)
        Path(name).replace(place)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def private(path: str, flags: int) -> int:
    """An opener for `open`: a file that it creates is for its owner alone."""
    return os.open(path, flags, PRIVATE)
