"""The embedded store beside Prometheus: bytes per sample, samples per second in, time of a read.

    python benchmarks/store.py [RECORDINGS] [--pods 64] [--minutes 60]

RECORDINGS is a folder of OpenMetrics files (*.om.gz), default fixtures/recordings. Prints a Markdown table to standard
output, progress to standard error. The Prometheus figures are blocks that promtool makes of the same samples (index
included); without promtool on the PATH they are left out.
"""

from __future__ import annotations

import argparse
import gzip
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from inferdoc.collect.samples import Layout, Page, Series
from inferdoc.store import Block, Store, absent, export, import_file

INTERVAL_MS = 15_000
NAMES_READ = 20
CUMULATIVE = ("counter", "histogram", "summary")


@dataclass
class Row:
    """What was measured of one data set: samples, bytes and seconds; the block columns are None without promtool."""

    what: str
    samples: int
    store_bytes: int
    store_seconds: float
    read_samples: int
    read_seconds: float
    block_bytes: int | None
    block_seconds: float | None

    def line(self) -> str:
        """The row as Markdown."""
        block_size = f"{self.block_bytes / self.samples:.2f}" if self.block_bytes else "-"
        block_speed = f"{self.samples / self.block_seconds / 1e6:.2f} M" if self.block_seconds else "-"
        return (
            f"| {self.what} | {self.samples:,} | {self.store_bytes / self.samples:.2f} | {block_size} "
            f"| {self.samples / self.store_seconds / 1e6:.2f} M | {block_speed} "
            f"| {self.read_samples:,} in {self.read_seconds:.3f} s |"
        )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recordings", nargs="?", type=Path, default=Path("fixtures/recordings"))
    parser.add_argument("--pods", type=int, default=64)
    parser.add_argument("--minutes", type=int, default=60)
    asked = parser.parse_args()
    files = sorted(asked.recordings.glob("*.om.gz"), key=lambda file: file.stat().st_size)
    if not files:
        sys.exit(f"no *.om.gz in {asked.recordings}; give a folder of recordings")
    if not shutil.which("promtool"):
        say("promtool is not on the PATH (Debian package prometheus): the Prometheus columns stay empty")
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        rows = [of_files("smallest recording", files[:1], work), of_files("largest recording", files[-1:], work)]
        rows.append(of_files(f"all {len(files)} recordings", files, work))
        rows.append(of_fleet(files[-1], asked.pods, asked.minutes, work))
    print(
        "| what | samples | store, bytes/sample | Prometheus block, bytes/sample | in, samples/s "
        "| promtool, samples/s | read back |"
    )
    print("|---|---|---|---|---|---|---|")
    for row in rows:
        print(row.line())
    print(
        "\nin: recordings from gzip text to a committed file (parsing included); the fleet page by page, one commit "
        f"per round. read back: recordings every series, the fleet the series of {NAMES_READ} names of every pod over "
        "the whole time. Small recordings carry the fixed cost of tables and series names; the fleet shows the cost "
        "of samples: the largest recording, repeated by every pod with counters growing on."
    )
    print(f"\n{platform.platform()}, {os.cpu_count()} cores, Python {platform.python_version()}, one run.")


def of_files(what: str, files: list[Path], work: Path) -> Row:
    """Recordings imported, read back whole and made into blocks by promtool."""
    say(what)
    path = fresh(work)
    samples, began = 0, time.perf_counter()
    with Store.open(path, "w") as store:
        for file in files:
            samples += import_file(store, file).samples
    took = time.perf_counter() - began
    read, read_seconds = timed_read(path, None)
    blocks: list[tuple[int, float]] = []
    for file in files:
        text = work / "page.om"
        with gzip.open(file) as packed, text.open("wb") as plain:
            shutil.copyfileobj(packed, plain)
        blocks += prometheus(text, work)
    return Row(what, samples, path.stat().st_size, took, read, read_seconds, *total(blocks))


def of_fleet(file: Path, pods: int, minutes: int, work: Path) -> Row:
    """The recording's first target, repeated: every pod begins elsewhere in it, counters go on growing."""
    say(f"{pods} pods x {minutes} min")
    pages = list(endless_pages(file, work, minutes * 60_000 // INTERVAL_MS, pods))
    path = fresh(work)
    start_ms = 1_700_000_000_000
    samples = sum(len(page) for round_pages in pages for page in round_pages)
    began = time.perf_counter()
    with Store.open(path, "w") as store:
        for number, round_pages in enumerate(pages):
            with store.writer.round() as writer:
                for pod, page in enumerate(round_pages):
                    writer.append(labels(pod), start_ms + number * INTERVAL_MS + pod, page)
        took = time.perf_counter() - began
    names = set(sorted({series.name for series in pages[0][0].layout.series})[-NAMES_READ:])
    read, read_seconds = timed_read(path, names)
    blocks: list[tuple[int, float]] = []
    if shutil.which("promtool"):
        text = work / "fleet.om"
        with Store.open(path) as store, text.open("wb") as out:
            export(store, start_ms, start_ms + minutes * 60_000, out)
        blocks = prometheus(text, work)
    what = f"{pods} pods x {minutes} min x {len(pages[0][0])} series, every {INTERVAL_MS // 1000} s"
    return Row(what, samples, path.stat().st_size, took, read, read_seconds, *total(blocks))


def endless_pages(file: Path, work: Path, rounds: int, pods: int) -> Iterator[list[Page]]:
    """For each round the pages of all pods: the recording over and over, counters growing by a lap each time."""
    with Store.open(fresh(work), "w") as store:
        done = import_file(store, file)
        types = store.types()
        block = store.blocks(done.first_ms or 0, done.last_ms or 0)[0]
    series = [Series(name, tuple(own.items())) for name, own in zip(block.names, block.labels, strict=True)]
    layout = Layout(series, types)
    steps = len(block.times_ms)
    growth = np.array([layout.type_of(name) in CUMULATIVE for name in block.names]) * gained(block)
    for number in range(rounds):
        pages = []
        for pod in range(pods):
            lap, step = divmod(number + pod * 7, steps)
            pages.append(Page(layout, block.values[step] + lap * growth))
        yield pages


def gained(block: Block) -> np.ndarray:
    """What each series gains over the block: float64[series]."""
    gain: np.ndarray = np.nan_to_num(block.values[-1] - block.values[0])
    return gain


def labels(pod: int) -> dict[str, str]:
    """The target labels of a pod."""
    return {"job": "vllm", "instance": f"10.0.{pod // 250}.{pod % 250}:8000", "pod": f"vllm-{pod}", "namespace": "prod"}


def timed_read(path: Path, names: set[str] | None) -> tuple[int, float]:
    """Samples read and seconds taken; names: None reads every series."""
    began = time.perf_counter()
    with Store.open(path) as store:
        first, latest = store.first_ms() or 0, store.latest_ms() or 0
        blocks = store.blocks(first, latest, names)
    took = time.perf_counter() - began
    return sum(int((~absent(block.values)).sum()) for block in blocks), took


def prometheus(text: Path, work: Path) -> list[tuple[int, float]]:
    """Size and time of the blocks that promtool makes of an OpenMetrics file; empty without promtool."""
    if not shutil.which("promtool"):
        return []
    out = work / "blocks"
    shutil.rmtree(out, ignore_errors=True)
    began = time.perf_counter()
    subprocess.run(
        ["promtool", "tsdb", "create-blocks-from", "openmetrics", str(text), str(out)], check=True, capture_output=True
    )
    took = time.perf_counter() - began
    return [(sum(file.stat().st_size for file in out.rglob("*") if file.is_file()), took)]


def total(blocks: list[tuple[int, float]]) -> tuple[int | None, float | None]:
    """Bytes and seconds of all blocks; None without any."""
    if not blocks:
        return None, None
    return sum(size for size, _ in blocks), sum(took for _, took in blocks)


def fresh(work: Path) -> Path:
    """The path of a database that does not exist yet."""
    for old in work.glob("bench.db*"):
        old.unlink()
    return work / "bench.db"


def say(text: str) -> None:
    """Progress, on stderr."""
    print(text, file=sys.stderr)


if __name__ == "__main__":
    main()
