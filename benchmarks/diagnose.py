"""Measure seconds and peak memory of a diagnosis of 8, 64 and 512 pods from both sources, beside the bare reads.

usage: python benchmarks/diagnose.py [--pods 8 64 512] [--health some all healthy] [--turns 3] [--minutes 120]
       [--without-prometheus] [--cold]

The fleets are simulated (`fleets.py`), two hours each, scraped every 15 s: engines, GPUs, containers and a router, of
which `some` pods are sick, `all` or none, and compacted as by a collector. The last hour is diagnosed, and the one
before it is read as its history. Each measurement runs in a new process. CPU and memory include the processes that it
starts to read a large store; the peak is the largest sum of their peaks (`process_cost.py`). With Debian's
`prometheus` on the PATH the same fleet is back-filled into a real server, as far as a diagnosis asks for its series;
the bare reads there are the range queries of the diagnosis, sent again by as many threads and not even decoded.
"""

from __future__ import annotations

import argparse
import itertools
import os
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from fleets import Health, fleet_store
from measured import measured_line
from process_cost import ProcessCost, in_new_process

from inferdoc import diagnose, open_source
from inferdoc.catalogue.load import load_catalogue
from inferdoc.judging.reading import read_window
from inferdoc.judging.session import needed_signals
from inferdoc.source.prometheus import PrometheusSource
from inferdoc.source.prometheus_http import ReadDeadline
from inferdoc.store import Store, compact, export
from tests import prometheus_server

PARALLEL = 6
TIMEOUT_SECONDS = 600.0


def measure(kind: str, place: str) -> dict[str, float]:
    """One diagnosis in this process: seconds of wall, CPU, judging and bare reads, queries, samples, peak megabytes."""
    load_catalogue().recipes  # noqa: B018  (loaded before the clock starts)
    source = open_source(**{kind: place}, timeout=TIMEOUT_SECONDS, parallel=PARALLEL)
    server = source.raw
    asked: list[dict[str, str]] = []
    if isinstance(server, PrometheusSource):
        client, ask = server._client, server._client.ask

        def noted(path: str, params: Any, deadline: Any, *, form: bool = True) -> Any:
            if path == "query_range":
                asked.append(dict(params))
            return ask(path, params, deadline, form=form)

        client.ask = noted  # type: ignore[method-assign]
    with ProcessCost() as cost:
        answer = diagnose(source, since="1h", until="latest")
        if not isinstance(server, PrometheusSource):
            source.close()  # ends the processes that read parts of the store, and so counts their CPU
    began = time.perf_counter()
    if isinstance(server, PrometheusSource):
        client.request_seconds, deadline = TIMEOUT_SECONDS, ReadDeadline(TIMEOUT_SECONDS)
        with ThreadPoolExecutor(PARALLEL) as pool:
            list(pool.map(lambda params: ask("query_range", params, deadline), asked))
    else:
        source = open_source(**{kind: place})
        read_window(source, needed_signals(load_catalogue()), load_catalogue(), "1h", None, "latest", history=True)
    bare = time.perf_counter() - began
    source.close()
    return {
        "wall": cost.wall,
        "cpu": cost.cpu,
        "bare": bare,
        "judge": answer.timing.judge_seconds,
        "queries": answer.timing.queries,
        "samples": answer.timing.samples,
        "peak": cost.memory.mb,
        "pods": answer.coverage.pods,
        "findings": len(answer.findings),
    }


def asked_for(store: Path) -> set[str]:
    """The series names that a diagnosis asks a source for."""
    source = open_source(store=store)
    names = {"up"}
    evaluate, info = source.evaluate, source.info

    def evaluate_noted(reads: Any, grid: Any, match: Any = ()) -> Any:
        names.update(read.name for read in reads)
        return evaluate(reads, grid, match)

    def info_noted(name: str, grid: Any, match: Any = ()) -> Any:
        names.add(name)
        return info(name, grid, match)

    source.evaluate, source.info = evaluate_noted, info_noted  # type: ignore[method-assign]
    read_window(source, needed_signals(load_catalogue()), load_catalogue(), "1h", None, "latest", history=True)
    return names


def measured(source: str, what: str, place: str, turns: int) -> str:
    """A row of the table: the best of several diagnoses, and the median ratio of their time to that of bare reads."""
    found = [in_new_process(measure, source, place) for _ in range(turns)]
    best = min(found, key=lambda t: t["wall"])
    ratio = sorted(t["wall"] / t["bare"] for t in found)[len(found) // 2]
    return (
        f"| {source} | {what} | {best['wall']:.2f} | {best['cpu']:.2f} | {best['bare']:.2f} | {ratio:.2f} "
        f"| {best['judge']:.2f} | {best['queries']:.0f} | {best['samples']:,.0f} | {best['peak']:.0f} |"
    )


def main() -> None:
    """Print the table."""
    ask = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ask.add_argument("--pods", type=int, nargs="+", default=[8, 64, 512])
    ask.add_argument("--health", nargs="+", choices=["healthy", "some", "all"], default=["some", "all"])
    ask.add_argument("--turns", type=int, default=3)
    ask.add_argument("--minutes", type=int, default=120, help="length of the recordings, history included")
    ask.add_argument("--without-prometheus", action="store_true")
    ask.add_argument("--cold", action="store_true", help="measure a server whose blocks are not in memory yet")
    asked = ask.parse_args()
    served = not asked.without_prometheus and prometheus_server.available()
    if not served:
        print("no prometheus: the store alone is measured", file=sys.stderr)
    print(
        "| source | pods | diagnose, s | CPU, s | bare reads, s | ratio | judging, s | queries | samples | peak, MB |"
    )
    print("| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    for pods, health in itertools.product(asked.pods, asked.health):
        with tempfile.TemporaryDirectory() as temporary:
            one_fleet(Path(temporary), pods, health, served, asked)
    load, recipes = os.getloadavg()[0], len(load_catalogue().recipes)
    print(f"\n{os.cpu_count()} cores, load {load:.1f} at the end, {recipes} recipes, best of {asked.turns}.")
    print(measured_line())


def one_fleet(folder: Path, pods: int, health: Health, served: bool, asked: argparse.Namespace) -> None:
    """Make a fleet, measure it from the store and, if there is one, from a server."""
    what = f"{pods}, {health if health == 'healthy' else health + ' sick'}"
    print(f"making {what}", file=sys.stderr)
    place = folder / "fleet.db"
    fleet_store(place, pods, health, asked.minutes)
    with Store.open(place, "w") as store:
        compact(store, store.newest_ms())
    print(measured("store", what, str(place), asked.turns), flush=True)
    if not served:
        return
    text = folder / "fleet.om"
    with Store.open(place) as store, text.open("wb") as stream:
        export(store, store.first_ms() or 0, store.latest_ms() or 0, stream, asked_for(place))
    with prometheus_server.running([text], folder) as address:
        if not asked.cold:
            in_new_process(measure, "prometheus", address)
        print(measured("prometheus", what, address, asked.turns), flush=True)


if __name__ == "__main__":
    main()
