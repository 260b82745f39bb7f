"""Several recordings as the pools of one fleet: each in a namespace of its own, and all end at one time."""

from __future__ import annotations

import gzip
import re
from collections.abc import Sequence
from pathlib import Path

from inferdoc.store.importer import import_file
from inferdoc.store.store import Store
from tests.built import built

END = 1_790_000_000.0
NAMES = re.compile(r'\b(pod|instance|namespace)="([^"]*)"')


def merged_store(recordings: Sequence[Path]) -> Path:
    """The path of the store of such a fleet, built once per session."""

    def make(folder: Path) -> None:
        with Store.open(folder / "merged.db", "w") as store:
            for text in pool_texts(recordings):
                import_file(store, text)

    return built(f"merged {[str(each) for each in recordings]}", make) / "merged.db"


def pool_texts(recordings: Sequence[Path]) -> list[Path]:
    """The OpenMetrics text of each pool of such a fleet, written once per session."""
    return [_pool_text(recording, f"n{number}") for number, recording in enumerate(recordings)]


def _pool_text(recording: Path, namespace: str) -> Path:
    def make(folder: Path) -> None:
        (folder / "pool.om").write_text(_moved(recording, namespace), encoding="utf-8")

    return built(f"{recording} as {namespace}", make) / "pool.om"


def _moved(recording: Path, namespace: str) -> str:
    lines = [line.rsplit(" ", 2) for line in gzip.decompress(recording.read_bytes()).decode().splitlines()]
    samples = [line for line in lines if line[0] and not line[0].startswith("#")]
    stamps = {stamp: float(stamp) for _, _, stamp in samples}
    shift = END - max(stamps.values())
    later = {stamp: f"{at + shift:.3f}" for stamp, at in stamps.items()}
    renamed = {series: _renamed(series, namespace) for series in {series for series, _, _ in samples}}
    moved = [
        " ".join(line) if not line[0] or line[0].startswith("#") else f"{renamed[line[0]]} {line[1]} {later[line[2]]}"
        for line in lines
    ]
    return "\n".join(moved) + "\n"


def _renamed(series: str, namespace: str) -> str:
    def of(found: re.Match[str]) -> str:
        label, value = found.groups()
        return f'{label}="{namespace if label == "namespace" else f"{namespace}-{value}"}"'

    series = NAMES.sub(of, series)
    return series if 'namespace="' in series else series.replace("{", f'{{namespace="{namespace}",', 1)
