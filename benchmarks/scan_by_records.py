"""What the records of our rules save: one Prometheus with many well clusters and three with a fault.

python benchmarks/scan_by_records.py --calm 120 --folder DIR

One well cluster (prefill and decode, four pods) is simulated, with what our rules would have recorded of it, and
multiplied under other names of clusters; three clusters have a fault. All of it is back-filled into a real Prometheus,
and a quarter of an hour is diagnosed three times: scanned by records, scanned by samples, and read in full. The CPU
time is that of the diagnosis, not of the server. Needs `prometheus` and `promtool` on the PATH; a gigabyte of text for
each ten clusters is written and deleted again.
"""

from __future__ import annotations

import argparse
import re
import resource
import subprocess
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from unittest.mock import patch

from rich.progress import track

from inferdoc import diagnose, open_source
from inferdoc.judging import api, triage
from inferdoc.judging.api import Options
from inferdoc.source.prometheus import PrometheusSource
from tests import prometheus_server
from tests.live.recorded_clusters import LASTS_SECONDS, recorded, well, with_past

FAULTS, CALM = ("engine-down", "cpu-starvation", "demand-beyond-capacity"), "control-pd"
LATE_SECONDS, SINCE = 1400.0, "15m"
AT_ONCE = 10
"""Clusters in one text: more do not fit the memory of promtool."""
SAMPLE = re.compile(r"\{(?P<labels>.*)\} (?P<value>\S+) (?P<at>\d+)$")
NAME = re.compile(r'__name__="([^"]*)"(, )?')

Families = Mapping[str, list[str]]
"""Lines of OpenMetrics by the name of their family; the first is its type."""


def raw_families(text: Path) -> Families:
    """The scraped series of a cluster."""
    families, current = dict[str, list[str]](), list[str]()
    for line in text.read_text("utf-8").splitlines():
        if line.startswith("# TYPE"):
            current = families.setdefault(line.split()[2], [line])
        elif not line.startswith("#"):
            current.append(line)
    return families


def recorded_families(database: Path, cluster: str) -> Families:
    """What rules recorded of a cluster."""
    (database / "wal").mkdir(exist_ok=True)  # a server would have made it, and promtool reads none without it
    match = f'{{__name__=~".+:inferdoc_.+|ALERTS", cluster="{cluster}"}}'
    command = ["promtool", "tsdb", "dump", f"--match={match}", str(database)]
    dumped = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    families = defaultdict[str, list[str]](list)
    for line in dumped.splitlines():
        parts, name = SAMPLE.match(line), NAME.search(line)
        if parts is None or name is None:
            continue
        labels = NAME.sub("", parts["labels"]).replace('", ', '",')
        rows = families[name[1]]
        rows += [] if rows else [f"# TYPE {name[1]} unknown"]
        rows.append(f"{name[1]}{{{labels}}} {parts['value']} {int(parts['at']) / 1000}")
    return families


def multiplied(families: Families, names: list[str]) -> Iterator[str]:
    """The series under the names of other clusters, as one text."""
    for kind, *rows in families.values():
        yield kind + "\n"
        body = "".join(f"{row}\n" for row in rows)
        for name in names:
            yield body.replace(f'cluster="{CALM}"', f'cluster="{name}"')
    yield "# EOF\n"


def fill(folder: Path, calm: int) -> float:
    """Write the database of a folder, and tell the onset of its faults."""
    onset = time.time() - LASTS_SECONDS
    clusters = [recorded(name, onset, folder) for name in FAULTS] + [well(CALM, onset, folder)]
    with_past(clusters, folder)
    families = {**raw_families(clusters[-1].text), **recorded_families(folder / "data", CALM)}
    names = [f"calm-{number:03}" for number in range(1, calm)]
    for begin in track(range(0, len(names), AT_ONCE), "multiplying", transient=True):
        text = folder / "calm.om"
        with text.open("w", encoding="utf-8") as file:
            file.writelines(multiplied(families, names[begin : begin + AT_ONCE]))
        prometheus_server.backfill([text], folder)
        text.unlink()
    return onset


def measure(address: str, until: float, way: str) -> str:
    """One diagnosis as a row of a table."""
    source = open_source(prometheus=address, timeout=600)
    spent, began = time.process_time(), time.perf_counter()
    with patch.object(api, "by_records", api.by_records if way == "records" else lambda inquiry: None):
        answer = diagnose(source, since=SINCE, until=until, options=Options(deep=way == "in full"))
    took = time.perf_counter() - began, time.process_time() - spent
    source.close()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    causes = ", ".join(finding.id for finding in answer.findings)
    read = answer.coverage.scanned.pods_read if answer.coverage.scanned else answer.coverage.pods
    return (
        f"| {way} | {answer.coverage.pods} | {read} | {took[0]:.1f} | {took[1]:.1f} | {peak} "
        f"| {answer.timing.queries} | {answer.timing.samples / 1e6:.1f} M | {causes} |"
    )


def main() -> None:
    """Print a row for each way."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calm", type=int, default=60, help="well clusters, of four pods each")
    parser.add_argument("--folder", type=Path, required=True, help="an empty folder for the database")
    given = parser.parse_args()
    onset = fill(given.folder, given.calm)
    print("| scanned by | pods | read in full | s | CPU, s | peak so far, MB | queries | samples | causes |")
    with (
        prometheus_server.running([], given.folder) as address,
        patch.object(PrometheusSource, "target_count", lambda self: triage.LEAST_TARGETS),
    ):
        for way in ("records", "samples", "in full"):
            print(measure(address, onset + LATE_SECONDS, way), flush=True)


if __name__ == "__main__":
    main()
