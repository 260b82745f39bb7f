"""A real Prometheus over back-filled recordings, on a free loopback port, for tests."""

from __future__ import annotations

import gzip
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from inferdoc.backtest.backfill import LONGEST_BLOCK, die_with_parent, free_port, serving, started
from inferdoc.generate.promtool import create_blocks
from tests.built import built

__all__ = ["available", "backfill", "die_with_parent", "free_port", "running", "started"]

FIXTURES = Path(__file__).resolve().parents[1] / "fixtures"
MISSING = "Debian's prometheus and promtool are not on the PATH: apt-get install prometheus"


def available() -> bool:
    """Whether a real server can be started at all."""
    return bool(shutil.which("prometheus") and shutil.which("promtool"))


def backfill(recordings: Sequence[Path], folder: Path) -> None:
    """Write OpenMetrics text with timestamps (plain or .gz) as blocks of a Prometheus database."""
    folder.mkdir(parents=True, exist_ok=True)
    for recording in recordings:
        if recording.is_relative_to(FIXTURES):
            blocks = built(f"blocks of {recording}", lambda place, one=recording: _write_blocks(one, place))
            shutil.copytree(blocks / "data", folder / "data", dirs_exist_ok=True)
        else:
            _write_blocks(recording, folder)


def _write_blocks(recording: Path, folder: Path) -> None:
    text = recording
    if recording.suffix == ".gz":
        text = folder / "backfill.om"
        with gzip.open(recording) as source, text.open("wb") as target:
            shutil.copyfileobj(source, target)
    create_blocks(text, folder / "data", LONGEST_BLOCK)
    if text != recording:
        text.unlink()


@contextmanager
def running(
    recordings: Sequence[Path], folder: Path, *options: str, auth: tuple[str, str] | None = None
) -> Iterator[str]:
    """A server over these recordings; yields its address. It is stopped whatever happens. auth: what it asks of us."""
    backfill(recordings, folder)
    with serving(folder, *options, auth=auth) as address:
        yield address
