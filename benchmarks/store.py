"""The embedded store beside Prometheus: bytes per sample, samples per second in and compacted, time of a read.

    python benchmarks/store.py [RECORDINGS] [--pods 64] [--minutes 60] [--hours 24] [--large]

RECORDINGS is a folder of OpenMetrics files (*.om.gz), default fixtures/recordings. Prints Markdown tables to standard
output, progress to standard error. The Prometheus figures are blocks that promtool makes of the same samples (index
included); without promtool on the PATH they are left out. The long fleet (--hours, 0 leaves it out) is written and
compacted hour by hour, so that the disk never holds more than an hour of pages: some 20 MB of chunks for 64 pods and a
day. --large adds a fleet of 512 pods, which takes eight times as long.
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
from measured import measured_line
from process_cost import Spent

from inferdoc.collect.samples import Layout, Page, Series
from inferdoc.store import Block, Store, absent, compact, export, import_file

INTERVAL_MS = 15_000
NAMES_READ = 20
HISTOGRAMS_READ = 4
LARGE_PODS = 512
START_MS = 1_700_000_400_000 // 3_600_000 * 3_600_000
CUMULATIVE = ("counter", "histogram", "summary")


@dataclass
class Row:
    """What was measured of one data set: samples, bytes and seconds; None where a column does not apply."""

    what: str
    samples: int
    page_bytes: int | None
    store_bytes: int
    store_seconds: float
    compact_seconds: float | None
    reads: list[tuple[int, float]]
    block_bytes: int | None
    block_seconds: float | None

    def line(self) -> str:
        """The row as Markdown."""
        sizes = [self.page_bytes, self.store_bytes, self.block_bytes]
        speeds = [self.store_seconds, self.compact_seconds, self.block_seconds]
        cells = [self.what, f"{self.samples:,}"]
        cells += [f"{size / self.samples:.2f}" if size else "-" for size in sizes]
        cells += [f"{self.samples / seconds / 1e6:.2f} M" if seconds else "-" for seconds in speeds]
        cells.append(", then ".join(f"{samples:,} in {seconds:.3f} s" for samples, seconds in self.reads))
        return f"| {' | '.join(cells)} |"


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recordings", nargs="?", type=Path, default=Path("fixtures/recordings"))
    parser.add_argument("--pods", type=int, default=64)
    parser.add_argument("--minutes", type=int, default=60)
    parser.add_argument("--hours", type=int, default=24, help="of the long fleet; 0 leaves it out")
    parser.add_argument("--large", action="store_true", help=f"also {LARGE_PODS} pods over these hours")
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
        sizes = [asked.pods, *([LARGE_PODS] if asked.large else [])] if asked.hours > 0 else []
        long_rows = [of_long_fleet(files[-1], pods, asked.hours, work) for pods in sizes]
    titles = ["what", "samples", "pages, bytes/sample", "column chunks, bytes/sample"]
    titles += ["Prometheus block, bytes/sample", "in, samples/s", "compacted, samples/s", "promtool, samples/s"]
    print_table([*titles, "read back"], [row.line() for row in rows])
    print(
        "\nSizes are of the whole file. in: recordings from gzip text to a committed and compacted file (parsing "
        "included); the fleet page by page, one commit per round. read back: recordings every series, the fleet the "
        f"series of {NAMES_READ} names of every pod over the whole time, from pages, then from column chunks. Small "
        "recordings carry the fixed cost of tables and series names; the fleet shows the cost of samples: the largest "
        "recording, repeated by every pod with counters growing on.\n"
    )
    if long_rows:
        titles = ["what", "samples", "file, bytes/sample", "in", "compaction", f"{NAMES_READ} gauges and counters"]
        print_table([*titles, f"{NAMES_READ} names, {HISTOGRAMS_READ} of them buckets"], long_rows)
        print(
            "\nThe same fleet for longer, compacted after every hour; reads are of every pod over all of the time, "
            "opening included, from a file that the system has in memory.\n"
        )
    load = os.getloadavg()[0]
    print(
        f"{platform.platform()}, {os.cpu_count()} cores (load {load:.0f}), Python {platform.python_version()}, one run."
    )
    print(measured_line())


def print_table(titles: list[str], lines: list[str]) -> None:
    """A Markdown table."""
    print(f"| {' | '.join(titles)} |")
    print("|" + "---|" * len(titles))
    for line in lines:
        print(line)


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
    return Row(what, samples, None, path.stat().st_size, took, None, [(read, read_seconds)], *total(blocks))


def of_fleet(file: Path, pods: int, minutes: int, work: Path) -> Row:
    """The recording's first target, repeated: every pod begins elsewhere in it, counters go on growing."""
    say(f"{pods} pods x {minutes} min")
    pages = list(endless_pages(file, work, minutes * 60_000 // INTERVAL_MS, pods))
    path = fresh(work)
    samples = sum(len(page) for round_pages in pages for page in round_pages)
    with Store.open(path, "w") as store, Spent() as storing:
        append(store, pages, 0)
    page_bytes = path.stat().st_size
    names, _ = names_to_read(pages)
    reads = [timed_read(path, names)]
    with Store.open(path, "w") as store, Spent() as compacting:
        compact(store)
    reads.append(timed_read(path, names))
    blocks: list[tuple[int, float]] = []
    if shutil.which("promtool"):
        text = work / "fleet.om"
        with Store.open(path) as store, text.open("wb") as out:
            export(store, START_MS, START_MS + minutes * 60_000, out)
        blocks = prometheus(text, work)
        text.unlink()
    what = f"{pods} pods x {minutes} min x {len(pages[0][0])} series, every {INTERVAL_MS // 1000} s"
    size = path.stat().st_size
    return Row(what, samples, page_bytes, size, storing.wall, compacting.wall, reads, *total(blocks))


def of_long_fleet(file: Path, pods: int, hours: int, work: Path) -> str:
    """The fleet over hours, compacted after each as a collector does it: a line of the second table."""
    path = work / "long.db"
    path.unlink(missing_ok=True)
    storing, compacting = Spent(), Spent()
    rounds = 3_600_000 // INTERVAL_MS
    samples = 0
    head: list[list[Page]] = []
    pages = endless_pages(file, work, hours * rounds, pods)
    with Store.open(path, "w") as store:
        for hour in range(hours):
            say(f"{pods} pods, hour {hour + 1} of {hours}")
            for number in range(hour * rounds, (hour + 1) * rounds):
                round_pages = [next(pages)]
                head += [round_pages[0][:1]] if hour == 0 else []
                with storing:
                    samples += append(store, round_pages, number)
            with compacting:
                compact(store, START_MS + (hour + 1) * 3_600_000)
    cells = [f"{pods} pods x {hours} h x {len(head[0][0])} series, every {INTERVAL_MS // 1000} s", f"{samples:,}"]
    cells.append(f"{path.stat().st_size / samples:.3f}")
    cells += [f"{samples / spent.wall / 1e6:.1f} M samples/s, {spent}" for spent in (storing, compacting)]
    for names in names_to_read(head):
        with Spent() as reading:
            found, _ = timed_read(path, names)
        cells.append(f"{found:,} samples in {reading}")
    path.unlink()
    return f"| {' | '.join(cells)} |"


def append(store: Store, pages: list[list[Page]], first: int) -> int:
    """Store rounds of pages, one commit each, the first of them at round `first`. Returns how many samples."""
    for number, round_pages in enumerate(pages, first):
        with store.writer.round() as writer:
            for pod, page in enumerate(round_pages):
                writer.append(labels(pod), START_MS + number * INTERVAL_MS + pod, page)
    return sum(len(page) for round_pages in pages for page in round_pages)


def names_to_read(pages: list[list[Page]]) -> tuple[set[str], set[str]]:
    """Names of gauges and counters that move (the first pod's), and some of them with names of buckets instead."""
    series = pages[0][0].layout.series
    moves = np.ptp(np.nan_to_num(np.stack([round_pages[0].values for round_pages in pages])), axis=0) > 0
    moving = sorted({each.name for each, moved in zip(series, moves.tolist(), strict=True) if moved})
    buckets = [name for name in moving if name.endswith("_bucket")]
    plain = [name for name in moving if not name.endswith(("_bucket", "_created"))]
    spread = [plain[number * len(plain) // NAMES_READ] for number in range(min(NAMES_READ, len(plain)))]
    return set(spread), {*spread[HISTOGRAMS_READ:], *buckets[:HISTOGRAMS_READ]}


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
            with np.errstate(invalid="ignore"):  # what is absent has a NaN of its own
                pages.append(Page(layout, block.values[step] + lap * growth))
        yield pages


def gained(block: Block) -> np.ndarray:
    """What each series gains over the block: float64[series]."""
    with np.errstate(invalid="ignore"):  # what is absent has a NaN of its own
        gain: np.ndarray = np.nan_to_num(block.values[-1] - block.values[0])
    return gain


def labels(pod: int) -> dict[str, str]:
    """The target labels of a pod."""
    return {"job": "vllm", "instance": f"10.0.{pod // 250}.{pod % 250}:8000", "pod": f"vllm-{pod}", "namespace": "prod"}


def timed_read(path: Path, names: set[str] | None) -> tuple[int, float]:
    """Samples read and seconds taken; names: None reads every series."""
    with Spent() as reading, Store.open(path) as store:
        first, latest = store.first_ms() or 0, store.latest_ms() or 0
        blocks = store.blocks(first, latest, names)
    return sum(int((~absent(block.values)).sum()) for block in blocks), reading.wall


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
