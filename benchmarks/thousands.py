"""What a diagnosis costs from 64 to 10,000 pods: a scan, and all of it with sick pools, from an embedded store.

    python benchmarks/thousands.py [--pools 2x32 16x32 64x32 200x50] [--minutes 120] [--interval 30] [--folder DIR]
                                   [--deep] [--alone]

Two pools are simulated, one well and one with sick pods (`fleets.py`), scraped every 30 s for two hours, or as was
asked: engines, GPUs, containers and a router. They are compacted, as a collector does with every hour, and multiplied
row by row under other names, namespaces, nodes and addresses: no copy is simulated again, and what is read is as much
as of a fleet that was.
One pool in twenty is sick, at least one. Each fleet is diagnosed in a new process; CPU is that of this process and of
those that it starts; the peaks are its own and that of the others. A fleet of under 256 targets is not scanned.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import os
import re
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

from fleets import Health, grown, numbered_on, template
from measured import measured_line
from process_cost import ProcessCost, in_new_process

from inferdoc import diagnose, open_source
from inferdoc.catalogue.load import load_catalogue
from inferdoc.judging.api import Options
from inferdoc.judging.scan import stages
from inferdoc.simulate.output import write_store
from inferdoc.simulate.scrape import Scraped
from inferdoc.source.open import DEFAULT_PARALLEL
from inferdoc.store import Store, compact
from inferdoc.store.layouts import LayoutWriter
from inferdoc.store.schema import transaction
from inferdoc.store.seal import Owner, owner_of
from inferdoc.store.segments import (
    CHUNKS_PER_SEGMENT,
    HOUR_MS,
    Segment,
    chunk_data,
    insert_segment,
    overlapping,
)

SICK_SHARE = 20
"""One pool in so many is sick."""
ADDRESS = re.compile(r"^10\.0\.(\d+\.\d+:\d+)$")
NAMESPACE = "sim"
APART = 1000
"""Numbers of pods and nodes of two pools lie so far apart."""


def one_pool(path: Path, targets: list[Scraped], pods: int, keep: int) -> None:
    """A pool in a store of its own, all of it compacted. keep: of so many scrapes of a target one."""
    with Store.open(path, "w") as store:
        for target in grown(targets, pods):
            labels = {**target.labels, "namespace": NAMESPACE}
            write_store([Scraped(labels, target.pages[::keep])], store)
        compact(store, (store.newest_ms() or 0) + 2 * HOUR_MS)


def renamed(value: str, pool: int) -> str:
    """The same name, in another pool."""
    if value == NAMESPACE:
        return f"pool-{pool:03d}"
    return numbered_on(ADDRESS.sub(rf"10.{pool + 1}.\1", value), pool * APART)


def rows_of(store: Store) -> list[tuple[dict[str, str], Segment, list[bytes]]]:
    """The compacted hours of a store: labels of the target, hour, chunks."""
    found = []
    first, last = store.first_ms() or 0, store.newest_ms() or 0
    for number, text in store.connection.execute("SELECT id, labels FROM target").fetchall():
        for segment in overlapping(store.connection, owner_of(number, text), first, last):
            begin = segment.id * CHUNKS_PER_SEGMENT
            query = "SELECT id, body FROM chunk WHERE id >= ? AND id < ? ORDER BY id"
            bodies = store.connection.execute(query, (begin, begin + CHUNKS_PER_SEGMENT)).fetchall()
            found.append((json.loads(text), segment, [chunk_data(*each) for each in bodies]))
    return found


def multiplied(path: Path, pools: Iterator[tuple[int, Path]]) -> None:
    """Write a fleet into a new store: each pool from the store of a template."""
    known: dict[Path, list[tuple[dict[str, str], Segment, list[bytes]]]] = {}
    series: dict[tuple[Path, int], list[tuple[str, ...]]] = {}
    with Store.open(path, "w") as store:
        writer = LayoutWriter(store.connection)
        for pool, source in pools:
            if source not in known:
                with Store.open(source) as one:
                    known[source] = rows_of(one)
                    for layout in {layout for _, segment, _ in known[source] for layout in segment.layouts}:
                        numbers = one.layouts.series(layout).tolist()
                        series[source, layout] = [one.layouts.keys[number] for number in numbers]
            with transaction(store.connection, "IMMEDIATE"):
                layouts: dict[int, int] = {}
                owners: dict[str, Owner] = {}
                for labels, segment, chunks in known[source]:
                    for layout in segment.layouts:
                        if layout not in layouts:
                            keys = [_key(key, pool) for key in series[source, layout]]
                            layouts[layout] = writer.identify(keys)
                    own = {name: renamed(value, pool) for name, value in labels.items()}
                    text = json.dumps(own, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
                    if text not in owners:
                        added = store.connection.execute("INSERT INTO target (labels) VALUES (?)", (text,))
                        owners[text] = owner_of(int(added.lastrowid or 0), text)
                    ids = tuple(layouts[layout] for layout in segment.layouts)
                    insert_segment(store.connection, owners[text], replace(segment, layouts=ids), chunks)


def _key(key: tuple[str, ...], pool: int) -> tuple[str, ...]:
    """Name and labels of a series, in another pool."""
    name, *labels = key
    return (name, *(part if place % 2 == 0 else renamed(part, pool) for place, part in enumerate(labels)))


def measure(place: Path, deep: bool, alone: bool) -> dict[str, Any]:
    """One diagnosis in this process, and when its scan was over. alone: no other process reads."""
    assert load_catalogue().recipes
    source = open_source(store=place, parallel=1 if alone else DEFAULT_PARALLEL)
    scans = list[tuple[float, float]]()
    began, in_full = time.perf_counter(), stages._of_part

    def noted(*given: Any) -> Any:
        cost.memory.read()
        scans.append((time.perf_counter() - began, cost.memory.root_mb))
        return in_full(*given)

    with ProcessCost() as cost, patch.object(stages, "_of_part", noted):
        answer = diagnose(source, since="1h", options=Options(deep=deep))
        wall = time.perf_counter() - began
        source.close()
    return {
        "scan": scans[0] if scans else None,
        "wall": wall,
        "cpu": cost.cpu,
        "peak": cost.memory.root_mb,
        "peak_other": cost.memory.others_mb,
        "samples": answer.timing.samples,
        "pods": answer.coverage.pods,
        "targets": answer.coverage.targets,
        "findings": [[each.id, len(each.scope.pods)] for each in answer.findings],
        "warnings": answer.source.warnings,
    }


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pools", nargs="+", default=["2x32", "16x32", "64x32", "200x50"], metavar="POOLSxPODS")
    parser.add_argument("--folder", type=Path, help="keep the stores there, and use those that are there")
    parser.add_argument("--minutes", type=int, default=120, help="of data in the store")
    parser.add_argument("--interval", type=int, default=30, choices=[15, 30], help="seconds between scrapes")
    parser.add_argument("--deep", action="store_true", help="read everything in full, without a scan")
    parser.add_argument("--alone", action="store_true", help="read in one process")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = asked.folder or Path(temporary)
        print(
            "| pods | targets | pools | sick | scan, s | peak of it, MB | whole, s | CPU, s | peak, MB"
            " | samples read | findings |"
        )
        print("| ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | --- |")
        points = list[tuple[int, float]]()
        for text in asked.pools:
            pools, pods = (int(part) for part in text.split("x"))
            sick = max(1, pools // SICK_SHARE)
            store = fleet(folder, pools, pods, sick, asked.minutes, asked.interval // 15)
            told = in_new_process(measure, store, asked.deep, asked.alone)
            points.append((pools * pods, told["cpu"]))
            print(_line(pools, sick, told), flush=True)
            for line in told["warnings"]:
                print(f"  ({line})", flush=True)
        print(f"\nslope of CPU seconds: {_slope(points)}")
    print(f"\n{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f} at the end.\n{measured_line()}")


def _line(pools: int, sick: int, told: Mapping[str, Any]) -> str:
    counts = Counter(name for name, _ in told["findings"])
    what = ", ".join(f"`{name}` {count}" for name, count in counts.items()) or "none"
    scan, scan_peak = (f"{each:,.1f}" for each in told["scan"]) if told["scan"] else ("-", "-")
    return (
        f"| {told['pods']:,} | {told['targets']:,} | {pools} | {sick} | {scan} | {scan_peak} | {told['wall']:.1f} "
        f"| {told['cpu']:.1f} | {told['peak']:,.0f}, {told['peak_other']:,.0f} | {told['samples']:,} | {what} |"
    )


def _slope(points: list[tuple[int, float]]) -> str:
    """By how much the cost grows when the pods double, step by step: 1 is in proportion."""
    steps = itertools.pairwise(points)
    return ", ".join(f"{a:,} to {b:,}: {math.log(y / x) / math.log(b / a):.2f}" for (a, x), (b, y) in steps)


def fleet(folder: Path, pools: int, pods: int, sick: int, minutes: int, keep: int) -> Path:
    """The store of a fleet, made where it is not there. keep: of so many scrapes, 15 s apart, one."""
    place = folder / f"fleet-{pools}x{pods}-{sick}.db"
    if place.exists():
        return place
    kinds: list[Health] = ["healthy", "some"] if sick else ["healthy"]
    stores = {}
    for kind in kinds:
        stores[kind] = folder / f"pool-{kind}-{pods}.db"
        if not stores[kind].exists():
            print(f"simulating a pool of {pods}, {kind}", file=sys.stderr, flush=True)
            one_pool(stores[kind], template(kind, minutes), pods, keep)
    print(f"making {pools} pools of {pods}, {sick} sick", file=sys.stderr, flush=True)
    multiplied(place, ((pool, stores["some" if pool < sick else "healthy"]) for pool in range(pools)))
    return place


if __name__ == "__main__":
    main()
