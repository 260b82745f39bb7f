"""Several recordings as the pools of one fleet: each in a namespace of its own, and all end at one time."""

from __future__ import annotations

import gzip
import re
from collections.abc import Sequence
from pathlib import Path

from inferdoc.store.importer import import_file
from inferdoc.store.store import Store

END = 1_790_000_000.0
NAMES = re.compile(r'\b(pod|instance|namespace)="([^"]*)"')


def merged_store(recordings: Sequence[Path], folder: Path) -> Path:
    """Write the store of such a fleet into a folder. Returns its path."""
    path = folder / "merged.db"
    with Store.open(path, "w") as store:
        for number, recording in enumerate(recordings):
            text = folder / f"{number}.om"
            text.write_text(_moved(recording, f"n{number}"), encoding="utf-8")
            import_file(store, text)
    return path


def _moved(recording: Path, namespace: str) -> str:
    with gzip.open(recording, "rt", encoding="utf-8") as stream:
        lines = stream.read().splitlines()
    times = [float(line.rpartition(" ")[2]) for line in lines if line and not line.startswith("#")]
    shift = END - max(times)

    def renamed(found: re.Match[str]) -> str:
        label, value = found.groups()
        return f'{label}="{namespace if label == "namespace" else f"{namespace}-{value}"}"'

    moved = []
    for line in lines:
        if not line or line.startswith("#"):
            moved.append(line)
            continue
        series, _, at = line.rpartition(" ")
        series = NAMES.sub(renamed, series)
        if 'namespace="' not in series:
            series = series.replace("{", f'{{namespace="{namespace}",', 1)
        moved.append(f"{series} {float(at) + shift:.3f}")
    return "\n".join(moved) + "\n"
