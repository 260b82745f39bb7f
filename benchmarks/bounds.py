"""What inputs without bounds cost: label sets that come and go, pages of millions of series, an import of a hundred
million samples.

    python benchmarks/bounds.py [--only ROW]... [--samples 100000000] [--pods 240] [--label-sets 20000]
                                [--day-pods 40] [--page-series 1000000]

Every command runs as its users run it, in a new process; the peak includes the processes that it starts
(`process_cost.py`). Prints a Markdown table; seconds are of this machine and of whatever else it does. The import takes
a quarter of an hour and 40 MB of disk for the file.
"""

from __future__ import annotations

import argparse
import gzip
import re
import sys
import tempfile
from collections.abc import Callable
from fnmatch import fnmatch
from pathlib import Path

import numpy as np
from measured import measured_line
from process_cost import INFERDOC, CommandCost, run_command

from inferdoc.collect.samples import Layout, Page, Series
from inferdoc.store import Store, compact
from tests.page_server import answering

START_MS = 1_700_000_400_000 // 3_600_000 * 3_600_000
INTERVAL_MS = 15_000
SCRAPES = 240
LIFE = SCRAPES // 2
"""Scrapes of a pod until it is replaced, in the stores of a day."""
IMPORTED_SERIES = 1_000
GAUGES = ("vllm:num_requests_running", "vllm:num_requests_waiting", "vllm:kv_cache_usage_perc")
READ = "vllm:request_success_total"
"""A metric that a diagnosis reads."""
TYPES = {**dict.fromkeys(GAUGES, "gauge"), "up": "gauge", READ: "counter"}
TELLING = re.compile("left out|stored|imported|samples")


def run(*words: str) -> CommandCost:
    """Run `inferdoc` with these words."""
    return run_command([*INFERDOC, *words])


def churning(folder: Path, pods: int, label_sets: int, own: bool) -> Path:
    """A store of one hour in which each pod has label sets that live for one scrape. own: each pod has others."""
    path = folder / f"churn-{own}.db"
    fresh = label_sets // SCRAPES
    with Store.open(path, "w") as store:
        for scrape in range(SCRAPES):
            with store.writer.round() as writer:
                layout = None
                for pod in range(pods):
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


def churning_day(folder: Path, pods: int, life: int) -> Path:
    """A store of a day in which each of so many pods is replaced, with its name and address, after so many scrapes, and
    each scrape brings label sets that are gone with the next."""
    path = folder / "day.db"
    with Store.open(path, "w") as store:
        for scrape in range(24 * SCRAPES):
            series = [Series("up", ()), *(Series(name, (("model_name", "m"),)) for name in GAUGES)]
            series += [Series(READ, (("id", f"{scrape}-{each}"),)) for each in range(5)]
            layout, values = Layout(series, TYPES), np.ones(len(series))
            with store.writer.round() as writer:
                for pod in range(pods):
                    name = f"vllm-{pod}-{(scrape + pod * life // pods) // life}"
                    labels = {"job": "vllm", "instance": f"{name}:8000", "pod": name}
                    writer.append(labels, START_MS + scrape * INTERVAL_MS + pod, Page(layout, values))
            if scrape % SCRAPES == 0:
                compact(store, START_MS + scrape * INTERVAL_MS)
    return path


def diagnosed_day(pods: int, life: int, since: str) -> Callable[[Path], CommandCost]:
    """A diagnosis of such a day."""

    def measure(folder: Path) -> CommandCost:
        store = churning_day(folder, pods, life)
        print(f"store of a day: {store.stat().st_size / 1e6:.0f} MB", file=sys.stderr)
        return run("diagnose", "--store", str(store), "--since", since, "--until", "latest")

    return measure


def diagnosed(pods: int, label_sets: int, own: bool) -> Callable[[Path], CommandCost]:
    """A diagnosis of such a store."""

    def measure(folder: Path) -> CommandCost:
        store = churning(folder, pods, label_sets, own)
        return run("diagnose", "--store", str(store), "--since", "1h", "--until", "latest")

    return measure


def page(series: int) -> str:
    """A page with so many series of one metric beside two others."""
    rows = "".join(f'requests_total{{id="{each}",engine="0"}} {each}\n' for each in range(series))
    return f"# TYPE up_time gauge\nup_time 1\n# TYPE requests counter\n{rows}# TYPE queue gauge\nqueue 3\n"


def scraped(series: int, *words: str) -> Callable[[Path], CommandCost]:
    """One scrape of such a page."""

    def measure(folder: Path) -> CommandCost:
        text = page(series)
        with answering(lambda path: text) as address:
            options = ("--once", "--timeout", "300s", "--store", str(folder / "page.db"))
            return run("collect", "--target", f"{address}/metrics,pod=a", *options, *words)

    return measure


def imported(samples: int) -> Callable[[Path], CommandCost]:
    """An import of so many samples of a thousand series."""

    def measure(folder: Path) -> CommandCost:
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
    parser.add_argument("--pods", type=int, default=240, help="of the stores")
    parser.add_argument("--label-sets", type=int, default=20_000, help="of the stores, at least one for each scrape")
    parser.add_argument("--day-pods", type=int, default=40, help="of the stores of a day")
    parser.add_argument(
        "--page-series", type=int, default=1_000_000, help="of a page; the last page has 2.5 times as many"
    )
    asked = parser.parse_args()
    pods, sets, series = asked.pods, asked.label_sets, asked.page_series
    limit = 2 * series
    rows: dict[str, Callable[[Path], CommandCost]] = {
        f"store: {pods} pods, {sets:,} label sets that come and go within an hour": diagnosed(pods, sets, own=False),
        f"store: the same, each pod with label sets of its own ({pods * sets:,})": diagnosed(pods, sets, own=True),
        f"store of a day: {asked.day_pods} pods, replaced every half hour, the last hour": diagnosed_day(
            asked.day_pods, LIFE, "1h"
        ),
        "store of the same day, all of it": diagnosed_day(asked.day_pods, LIFE, "1d"),
        f"page of {series:,} series in one metric beside two others": scraped(series),
        f"page of {series:,} series, `--max-series {limit}`": scraped(series, "--max-series", str(limit)),
        f"page of {series * 5 // 2:,} series": scraped(series * 5 // 2),
        f"import of {asked.samples:,} samples, {IMPORTED_SERIES:,} series": imported(asked.samples),
    }
    print("| input | peak memory | time | exit | answer |\n| --- | ---: | ---: | ---: | --- |")
    for name, measure in rows.items():
        if asked.only and not any(fnmatch(name, pattern) for pattern in asked.only):
            continue
        print(f"measuring: {name}", file=sys.stderr)
        with tempfile.TemporaryDirectory() as folder:
            spent = measure(Path(folder))
        answer = next((line for line in spent.output.splitlines() if TELLING.search(line)), "")
        print(f"| {name} | {spent.peak_mb:,.0f} MB | {spent.seconds:.0f} s | {spent.code} | {answer} |", flush=True)
    print(f"\n{measured_line()}")


if __name__ == "__main__":
    main()
