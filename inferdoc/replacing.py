"""Files that are replaced in one step: whoever reads them sees the old one or the new one, never half of it. And the
permissions of files."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping
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


def replace_all(contents: Mapping[Path, bytes | None]) -> None:
    """Write files, or remove those with None for content: all of them or none. Raises OSError; the files are then as
    they were."""
    before = {place: place.read_bytes() if place.is_file() else None for place in contents}
    staged: dict[Path, Path] = {}
    changed = []
    try:
        for place, content in contents.items():
            if content is not None:
                place.parent.mkdir(parents=True, exist_ok=True)
                staged[place] = _stage(place, content)
        for place, content in contents.items():
            changed.append(place)
            if content is None:
                place.unlink()
            else:
                staged[place].replace(place)
    except BaseException:
        for file in staged.values():
            file.unlink(missing_ok=True)
        for place in changed:
            _restore(place, before[place])
        raise


def _stage(place: Path, content: bytes) -> Path:
    """A file beside the place, with the content that it is to have."""
    handle, name = tempfile.mkstemp(dir=place.parent, prefix=f".{place.name}.")
    staged = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        staged.chmod(READABLE)
    except BaseException:
        staged.unlink(missing_ok=True)
        raise
    return staged


def _restore(place: Path, content: bytes | None) -> None:
    if content is None:
        place.unlink(missing_ok=True)
    elif not place.is_file() or place.read_bytes() != content:
        replace_file(place, content)


def private(path: str, flags: int) -> int:
    """An opener for `open`: a file that it creates is for its owner alone."""
    return os.open(path, flags, PRIVATE)
