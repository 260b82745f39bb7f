"""Compare a scan of a store with DuckDB on the same samples as Parquet: bytes, CPU seconds and memory.

    python benchmarks/duckdb_scan.py [--pods 64] [--turns 3]

The fleet is simulated (`fleets.py`), two hours scraped every 15 s. The scan reads the series of the signals that every
pod is scanned for. DuckDB runs with one thread and takes first and last of each of these series per minute, which is
less than the scan does: it neither aligns nor computes rates or quantiles. Each measurement runs in a new process, the
lowest CPU time of all turns counts; methods alternate.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from fleets import fleet_store
from measured import measured_line
from process_cost import ProcessCost, in_new_process

from inferdoc import open_source
from inferdoc.catalogue.load import load_catalogue
from inferdoc.judging.reading import read_window
from inferdoc.judging.scan.impacts import scan_signals
from inferdoc.source.plan import series_names
from inferdoc.store import Store, compact, export_parquet
from inferdoc.store.segments import HOUR_MS


def scanned_names() -> list[str]:
    """The series names of a scan."""
    catalogue = load_catalogue()
    return sorted(series_names(scan_signals(catalogue), catalogue.signals, catalogue.aliases))


def decode(place: Path, names: list[str] | None) -> tuple[float, float]:
    """CPU seconds and peak memory, MB, of decoding some series, or all, without evaluating them."""
    with ProcessCost() as cost, Store.open(place) as store:
        blocks = store.blocks(store.first_ms() or 0, store.latest_ms() or 0, names)
        assert blocks
    return cost.cpu, cost.memory.mb


def scan(place: Path, names: list[str]) -> tuple[float, float]:
    """The same of the signals of a scan on one grid, with rates and quantiles."""
    catalogue = load_catalogue()
    wanted = scan_signals(catalogue)
    with ProcessCost() as cost:
        source = open_source(store=place, parallel=1)
        frame, _ = read_window(source, wanted, catalogue, "1h", None, "latest", history=True)
        assert frame.signals
        source.close()
    return cost.cpu, cost.memory.mb


def duck(place: Path, names: list[str] | None) -> tuple[float, float]:
    """The same of DuckDB: first and last per series and minute, or one sum of all values."""
    import duckdb

    shown = ", ".join(f"'{name}'" for name in names or ())
    query = (
        f"SELECT target, name, labels, time_bucket(INTERVAL 1 minute, time) AS minute, arg_min(value, time) AS first, "
        f"arg_max(value, time) AS last FROM '{place}' WHERE name IN ({shown}) GROUP BY ALL"
        if names
        else f"SELECT sum(value) FROM '{place}'"
    )
    with ProcessCost() as cost:
        connection = duckdb.connect(config={"threads": 1})
        assert len(connection.sql(query).fetchnumpy())
        connection.close()
    return cost.cpu, cost.memory.mb


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pods", type=int, default=64)
    parser.add_argument("--turns", type=int, default=3)
    asked = parser.parse_args()
    names = scanned_names()
    with tempfile.TemporaryDirectory() as temporary:
        pages, chunks, parquet = (Path(temporary) / name for name in ("pages.db", "chunks.db", "fleet.parquet"))
        samples = fleet_store(pages, asked.pods, "some", 120)
        shutil.copy(pages, chunks)
        with Store.open(chunks, "w") as store:
            compact(store, (store.newest_ms() or 0) + 2 * HOUR_MS)
            with parquet.open("wb") as out:
                export_parquet(store, store.first_ms() or 0, store.latest_ms() or 0, out)
        ways: list[tuple[str, Callable[..., tuple[float, float]], Path, list[str] | None]] = [
            ("store, pages: scan, aligned, rates and quantiles", scan, pages, names),
            ("store, compacted: the same", scan, chunks, names),
            ("store, pages: decode the series of a scan", decode, pages, names),
            ("store, compacted: the same", decode, chunks, names),
            ("store, compacted: decode all series", decode, chunks, None),
            ("DuckDB on Parquet: first and last per minute of the series of a scan", duck, parquet, names),
            ("DuckDB on Parquet: sum of all values", duck, parquet, None),
        ]
        found: list[list[tuple[float, float]]] = [[] for _ in ways]
        for _ in range(asked.turns):
            for place, (_, function, path, chosen) in enumerate(ways):
                found[place].append(in_new_process(function, path, chosen))
        sizes = {path: path.stat().st_size / samples for path in (pages, chunks, parquet)}
        print(f"{asked.pods} pods, {samples / 1e6:.1f} M samples, {len(names)} series names of a scan.\n")
        print("| method | bytes a sample | CPU, s | peak, MB |\n| --- | ---: | ---: | ---: |")
        for (title, _, path, _), each in zip(ways, found, strict=True):
            cpu, peak = min(each)
            print(f"| {title} | {sizes[path]:.2f} | {cpu:.2f} | {peak:.0f} |")
    print(f"\n{measured_line()}")


if __name__ == "__main__":
    main()
