"""What the records of our rules save: one Prometheus with many well clusters and some with a fault.

python benchmarks/scan_by_records.py --calm 120 --folder DIR
python benchmarks/scan_by_records.py --calm 1 --bare 189 --sick 10 --pods 50 --ways records --folder DIR

One well cluster and some with a fault are simulated, with what our rules would have recorded of them, and multiplied
under other names of clusters. All of it is back-filled into a real Prometheus, or a real VictoriaMetrics, and a quarter
of an hour is diagnosed: scanned by records, scanned by samples, and read in full. Of a bare cluster only that is there
which a scan by records asks for: its records, `up`, and the gauges that every engine has. A server with the samples of
ten thousand pods needs more memory than one machine has; a scan by records asks for no sample of a pool that is well.
The CPU time is that of the diagnosis, not of the server. Needs `prometheus` and `promtool` on the PATH; a gigabyte of
text for each ten clusters of four pods is written and deleted again.
"""

from __future__ import annotations

import argparse
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

from rich.console import Console
from rich.progress import track

from benchmarks.measured import measured_line
from benchmarks.process_cost import ProcessCost, in_new_process
from inferdoc import diagnose, open_source
from inferdoc.catalogue.load import load_catalogue
from inferdoc.catalogue.names import load_identity
from inferdoc.catalogue.record_names import INFO, records_of
from inferdoc.judging.api import Options
from inferdoc.judging.scan import impacts, stages
from inferdoc.judging.scan.stages import RecordedScan, impact_names
from inferdoc.judging.scan.stages import by_records as scanned_by_records
from inferdoc.judging.session import Inquiry
from inferdoc.source.prometheus import PrometheusSource
from inferdoc.source.rule_records import SCRAPED, TARGETS
from tests import prometheus_server, victoria_metrics_server
from tests.live.recorded_clusters import LASTS_SECONDS, Cluster, recorded, well, with_past
from tests.live.records import Families, multiplied, recorded_families, recorded_text

FAULTS, CALM = ("engine-down", "cpu-starvation", "demand-beyond-capacity"), "control-pd"
LARGE_CALM = "control-unique"
"""A well cluster of one pool, which can be of any size."""
LATE_SECONDS, SINCE = 1400.0, "15m"
AT_ONCE, BARE_AT_ONCE = 10, 1000
"""Clusters of four pods in one text: more do not fit the memory of promtool."""
WAYS = ("records", "samples", "full")


def raw_families(text: Path) -> Families:
    """The scraped series of a cluster."""
    families, current = dict[str, list[str]](), list[str]()
    for line in text.read_text("utf-8").splitlines():
        if line.startswith("# TYPE"):
            current = families.setdefault(line.split()[2], [line])
        elif not line.startswith("#"):
            current.append(line)
    return families


def asked_families(families: Families) -> Families:
    """What a scan by records asks for of a cluster that is well."""
    gauges = "|".join(map(re.escape, load_identity().engines[-1]))
    records = records_of(impact_names(load_catalogue()))
    asked = re.compile("|".join(("up", gauges, "ALERTS", INFO, SCRAPED, TARGETS, records)))
    return {name: rows for name, rows in families.items() if asked.fullmatch(name)}


@dataclass(frozen=True)
class Fleet:
    """calm, bare, sick: clusters of each kind; pods: of the first pool of each, None as declared."""

    calm: int
    bare: int
    sick: int
    pods: int | None

    def templates(self, onset: float, folder: Path) -> list[Cluster]:
        """The clusters that are simulated, the well one last, with what rules recorded of them in a database."""
        calm = CALM if self.pods is None else LARGE_CALM
        sick = [recorded(name, onset, folder, self.pods) for name in FAULTS[: self.sick]]
        clusters = [*sick, well(calm, onset, folder, self.pods)]
        with_past(clusters, folder)
        return clusters

    def texts(self, clusters: Sequence[Cluster], folder: Path) -> Iterator[Path]:
        """Their copies, some at once; each text is deleted when the next one is asked for."""
        *sick, calm = clusters
        database = folder / "data"
        each = [self.sick // len(sick) + (n < self.sick % len(sick)) for n in range(len(sick))] if sick else []
        whole = [{**raw_families(one.text), **recorded_families(database, one.name)} for one in clusters]
        copies = [
            (cluster, families, cluster.name, number - 1, AT_ONCE)
            for cluster, families, number in zip(clusters, whole, [*each, self.calm], strict=True)
        ]
        copies.append((calm, asked_families(whole[-1]), "bare", self.bare, BARE_AT_ONCE))
        for cluster, families, kind, number, most in copies:
            at_once = most if self.pods is None else max(1, most * 4 // self.pods)
            names = [f"{kind}-{n:04}" for n in range(number)]
            begins, console = range(0, number, at_once), Console(stderr=True)
            for begin in track(begins, f"multiplying {kind}", console=console, disable=not console.is_terminal):
                text = folder / "copies.om"
                with text.open("w", encoding="utf-8") as file:
                    file.writelines(multiplied(families, cluster.name, names[begin : begin + at_once]))
                yield text
                text.unlink()


@contextmanager
def prometheus(fleet: Fleet, folder: Path, onset: float) -> Iterator[str]:
    """Address of a Prometheus that holds the fleet."""
    for text in fleet.texts(fleet.templates(onset, folder), folder):
        prometheus_server.backfill([text], folder)
    with prometheus_server.running([], folder) as address:
        yield address


@contextmanager
def victoria_metrics(fleet: Fleet, folder: Path, onset: float) -> Iterator[str]:
    """Address of a VictoriaMetrics that holds the fleet."""
    clusters = fleet.templates(onset, folder)
    with victoria_metrics_server.running(folder / "victoria-metrics", "-memory.allowedBytes=4GB") as address:
        for cluster in clusters:
            victoria_metrics_server.load(address, cluster.text)
            victoria_metrics_server.load(address, recorded_text(folder / "data", cluster.name, folder))
        for text in fleet.texts(clusters, folder):
            victoria_metrics_server.load(address, text)
        yield address


SERVERS: Mapping[str, Callable[[Fleet, Path, float], AbstractContextManager[str]]] = {
    "prometheus": prometheus,
    "victoria-metrics": victoria_metrics,
}


def measure(address: str, until: float, way: str) -> str:
    """One diagnosis as a row of a table."""
    source = open_source(prometheus=address, timeout=600)
    scanned = list[float]()
    began = time.perf_counter()

    def by_records(inquiry: Inquiry) -> RecordedScan | None:
        if way != "records":
            return None
        told = scanned_by_records(inquiry)
        scanned.append(time.perf_counter() - began)
        return told

    with (
        patch.object(stages, "by_records", by_records),
        patch.object(PrometheusSource, "target_count", lambda self: impacts.LEAST_TARGETS),
        ProcessCost() as cost,
    ):
        answer = diagnose(source, since=SINCE, until=until, options=Options(deep=way == "full"))
    source.close()
    causes = ", ".join(f"{name} {count}" for name, count in Counter(each.id for each in answer.findings).items())
    read = answer.coverage.scanned.pods_read if answer.coverage.scanned else answer.coverage.pods
    scan = f"{scanned[0]:.1f}" if scanned else "-"
    return (
        f"| {way} | {answer.coverage.pods:,} | {read} | {scan} | {cost.wall:.1f} | {cost.cpu:.1f} "
        f"| {cost.memory.mb:.0f} | {answer.timing.queries} | {answer.timing.samples / 1e6:.1f} M | {causes} |"
    )


def main() -> None:
    """Print a row for each way."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calm", type=int, default=60, help="well clusters")
    parser.add_argument("--bare", type=int, default=0, help="well clusters of which only records are there")
    parser.add_argument("--sick", type=int, default=len(FAULTS), help="clusters with a fault")
    parser.add_argument("--pods", type=int, help="of each cluster; four or so as declared")
    parser.add_argument("--server", choices=SERVERS, default="prometheus")
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=WAYS)
    parser.add_argument("--folder", type=Path, required=True, help="an empty folder for the database")
    given = parser.parse_args()
    onset = time.time() - LASTS_SECONDS
    given.folder.mkdir(parents=True, exist_ok=True)
    fleet = Fleet(given.calm, given.bare, given.sick, given.pods)
    print("| scanned by | pods | read in full | scan, s | s | CPU, s | peak, MB | queries | samples | causes |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | --- |")
    with SERVERS[given.server](fleet, given.folder, onset) as address:
        for way in given.ways:
            print(in_new_process(measure, address, onset + LATE_SECONDS, way), flush=True)
    print(f"\n{measured_line()}")


if __name__ == "__main__":
    main()
