"""What inputs without bounds cost: label sets that come and go, pages of millions of series, an import of a hundred
million samples.

    python benchmarks/bounds.py [--only ROW]... [--samples 100000000]

Every command runs as its users run it, in a process of its own, whose peak memory the kernel tells. Prints a Markdown
table; seconds are of this machine and of whatever else it does. The import takes a quarter of an hour and 40 MB of
disk for the file.
"""

from __future__ import annotations

import argparse
import gzip
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatch
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np

from inferdoc.collect.samples import Layout, Page, Series
from inferdoc.store import Store

START_MS = 1_700_000_400_000 // 3_600_000 * 3_600_000
INTERVAL_MS = 15_000
SCRAPES = 240
PODS = 240
LABEL_SETS = 20_000
IMPORTED_SERIES = 1_000
GAUGES = ("vllm:num_requests_running", "vllm:num_requests_waiting", "vllm:kv_cache_usage_perc")
READ = "vllm:request_success_total"
"""A metric that a diagnosis reads."""
TYPES = {**dict.fromkeys(GAUGES, "gauge"), "up": "gauge", READ: "counter"}
TELLING = re.compile("left out|stored|imported|samples")


@dataclass(frozen=True)
class Spent:
    """What a command took. peak_mb: of its process; answer: its line about how much there was."""

    peak_mb: int
    seconds: float
    code: int
    answer: str


def run(*words: str) -> Spent:
    """Run `inferdoc` with these words."""
    command = [sys.executable, "-c", "from inferdoc.cli.main import main; main()", *words]
    began = time.monotonic()
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        lines = [line for line in output.read().decode().splitlines() if TELLING.search(line)]
    return Spent(usage.ru_maxrss // 1024, time.monotonic() - began, process.returncode, lines[0] if lines else "")


def churning(folder: Path, own: bool) -> Path:
    """A store of one hour in which each pod has label sets that live for one scrape. own: each pod has others."""
    path = folder / f"churn-{own}.db"
    fresh = LABEL_SETS // SCRAPES
    with Store.open(path, "w") as store:
        for scrape in range(SCRAPES):
            with store.writer.round() as writer:
                layout = None
                for pod in range(PODS):
                    if layout is None or own:
                        whose = f"p{pod}-" if own else ""
                        ids = (f"{whose}{scrape * fresh + each}" for each in range(fresh))
                        series = [Series("up", ()), *(Series(name, (("model_name", "m"),)) for name in GAUGES)]
                        series += [Series(READ, (("id", each),)) for each in ids]
                        layout = Layout(series, TYPES)
                    values = np.ones(len(layout.series))
                    labels = {"job": "vllm", "instance": f"10.0.{pod // 250}.{pod % 250}:8000", "pod": f"vllm-{pod}"}
                    writer.append(labels, START_MS + scrape * INTERVAL_MS + pod, Page(layout, values))
    return path


def diagnosed(own: bool) -> Callable[[Path], Spent]:
    """A diagnosis of such a store."""
    return lambda folder: run("diagnose", "--store", str(churning(folder, own)), "--since", "1h", "--until", "latest")


def page(series: int) -> Iterator[bytes]:
    """A page with so many series of one metric beside two others."""
    yield b"# TYPE up_time gauge\nup_time 1\n# TYPE requests counter\n"
    for begin in range(0, series, 10_000):
        ids = range(begin, min(series, begin + 10_000))
        yield "".join(f'requests_total{{id="{each}",engine="0"}} {each}\n' for each in ids).encode()
    yield b"# TYPE queue gauge\nqueue 3\n"


def scraped(series: int, *words: str) -> Callable[[Path], Spent]:
    """One scrape of such a page."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.end_headers()
            for part in page(series):
                self.wfile.write(part)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    def measure(folder: Path) -> Spent:
        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            target = f"http://127.0.0.1:{server.server_port}/metrics,pod=a"
            options = ("--once", "--timeout", "300s", "--store", str(folder / "page.db"))
            return run("collect", "--target", target, *options, *words)
        finally:
            server.shutdown()
            server.server_close()

    return measure


def imported(samples: int) -> Callable[[Path], Spent]:
    """An import of so many samples of a thousand series."""

    def measure(folder: Path) -> Spent:
        path = folder / "many.om.gz"
        each = samples // IMPORTED_SERIES
        with gzip.open(path, "wb", compresslevel=1) as file:
            file.write(b"# TYPE queue gauge\n")
            for series in range(IMPORTED_SERIES):
                pod = series % 10
                head = f'queue{{pod="p{pod}",instance="{pod}:8000",job="vllm",id="{series}"}} 1 '
                begin = START_MS // 1000
                file.write("".join(f"{head}{begin + 15 * at}\n" for at in range(each)).encode())
            file.write(b"# EOF\n")
        return run("import", "--store", str(folder / "many.db"), str(path))

    return measure


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", help="a row, or a pattern: page*")
    parser.add_argument("--samples", type=int, default=100_000_000, help="of the import")
    asked = parser.parse_args()
    rows: dict[str, Callable[[Path], Spent]] = {
        f"store: {PODS} pods, {LABEL_SETS:,} label sets that come and go within an hour": diagnosed(own=False),
        f"store: the same, each pod with label sets of its own ({PODS * LABEL_SETS:,})": diagnosed(own=True),
        "page of 1,000,000 series in one metric beside two others": scraped(1_000_000),
        "page of 1,000,000 series, `--max-series 2000000`": scraped(1_000_000, "--max-series", "2000000"),
        "page of 2,500,000 series": scraped(2_500_000),
        f"import of {asked.samples:,} samples, {IMPORTED_SERIES:,} series": imported(asked.samples),
    }
    print("| input | peak memory | time | exit | answer |\n| --- | ---: | ---: | ---: | --- |")
    for name, measure in rows.items():
        if asked.only and not any(fnmatch(name, pattern) for pattern in asked.only):
            continue
        print(f"measuring: {name}", file=sys.stderr)
        with tempfile.TemporaryDirectory() as folder:
            spent = measure(Path(folder))
        print(f"| {name} | {spent.peak_mb:,} MB | {spent.seconds:.0f} s | {spent.code} | {spent.answer} |", flush=True)


if __name__ == "__main__":
    main()
