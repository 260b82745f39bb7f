"""Files that are replaced in one step: whoever reads them sees the old one or the new one, never half of it."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

READABLE, PRIVATE = 0o644, 0o600


def replace_file(place: Path, content: bytes, mode: int = READABLE) -> None:
    """Write a file in one step. mode: its permissions. Raises OSError, and leaves nothing behind then."""
    handle, name = tempfile.mkstemp(dir=place.parent, prefix=f".{place.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        Path(name).chmod(mode)
        Path(name).replace(place)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
