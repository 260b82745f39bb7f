"""Seconds and peak memory of a diagnosis for 8, 64 and 512 pods, from both sources, beside the time of the bare reads.

usage: python benchmarks/diagnose.py [--pods 8 64 512] [--health some all healthy] [--turns 3] [--minutes 120]
       [--without-prometheus]

The fleets are simulated (`fleets.py`), two hours each, scraped every 15 s: engines, GPUs, containers and a router, of
which `some` pods are sick, `all` or none. The last hour is diagnosed, and the one before it is read as its history.
Each measurement runs in a process of its own, so that the peak memory is that of one diagnosis. With Debian's
`prometheus` on the PATH the same fleet is back-filled into a real server, as far as a diagnosis asks for its series;
the bare reads there are the range queries of the diagnosis, sent again by as many threads and not even decoded.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import resource
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

PARALLEL = 6
TIMEOUT_SECONDS = 600.0


def measure(kind: str, place: str) -> dict[str, float]:
    """One diagnosis in this process: seconds of wall, CPU, judging and bare reads, queries, samples, peak megabytes."""
    from inferdoc import diagnose, open_source
    from inferdoc.catalogue.load import load_catalogue
    from inferdoc.judging.api import needed_signals, read_window
    from inferdoc.source.prometheus import PrometheusSource

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
    began, began_cpu = time.perf_counter(), time.process_time()
    answer = diagnose(source, since="1h", until="latest")
    wall, cpu = time.perf_counter() - began, time.process_time() - began_cpu
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    began = time.perf_counter()
    if isinstance(server, PrometheusSource):
        server._client.request_seconds = TIMEOUT_SECONDS
        with server._operation() as deadline, ThreadPoolExecutor(PARALLEL) as pool:
            list(pool.map(lambda params: ask("query_range", params, deadline), asked))
    else:
        source = open_source(**{kind: place})
        read_window(source, needed_signals(load_catalogue()), load_catalogue(), "1h", None, "latest", history=True)
    bare = time.perf_counter() - began
    return {
        "wall": wall,
        "cpu": cpu,
        "bare": bare,
        "judge": answer.timing.judge_seconds,
        "queries": answer.timing.queries,
        "samples": answer.timing.samples,
        "peak": peak,
        "pods": answer.coverage.pods,
        "findings": len(answer.findings),
    }


def asked_for(store: Path) -> set[str]:
    """The series names that a diagnosis asks a source for."""
    from inferdoc import open_source
    from inferdoc.catalogue.load import load_catalogue
    from inferdoc.judging.api import needed_signals, read_window

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


def in_a_process(kind: str, place: str) -> dict[str, float]:
    """What `measure` answers, in a process of its own."""
    command = [sys.executable, __file__, "--measure", kind, place]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{kind}: {done.stderr.strip()[-500:]}")
    found: dict[str, float] = json.loads(done.stdout)
    return found


class Server:
    """A real Prometheus over back-filled blocks."""

    def __init__(self, text: Path, folder: Path) -> None:
        fill = ["promtool", "tsdb", "create-blocks-from", "openmetrics", str(text), str(folder / "data")]
        done = subprocess.run(fill, capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(f"promtool: {done.stderr.strip()[-200:]}")
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        (folder / "prometheus.yml").write_text("global: {}\n")
        self.url = f"http://127.0.0.1:{port}"
        self.process = subprocess.Popen(
            [
                "prometheus",
                f"--config.file={folder}/prometheus.yml",
                f"--storage.tsdb.path={folder}/data",
                "--storage.tsdb.retention.time=100y",
                f"--web.listen-address=127.0.0.1:{port}",
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for _ in range(150):
            try:
                urllib.request.urlopen(self.url + "/-/ready", timeout=1)
                return
            except OSError:
                time.sleep(0.2)
        raise SystemExit("prometheus did not get ready")

    def stop(self) -> None:
        """End the server."""
        self.process.terminate()
        self.process.wait(30)


def measured(source: str, what: str, place: str, turns: int) -> str:
    """A row of the table: the best of several diagnoses, and the median ratio of their time to that of bare reads."""
    if source == "prometheus":
        in_a_process(source, place)  # a server that runs has its blocks in memory: the first turn does not count
    found = [in_a_process(source, place) for _ in range(turns)]
    best = min(found, key=lambda t: t["wall"])
    ratio = sorted(t["wall"] / t["bare"] for t in found)[len(found) // 2]
    return (
        f"| {source} | {what} | {best['wall']:.2f} | {best['cpu']:.2f} | {best['bare']:.2f} | {ratio:.2f} "
        f"| {best['judge']:.2f} | {best['queries']:.0f} | {best['samples']:,.0f} | {best['peak']:.0f} |"
    )


def main() -> None:
    """Print the table, or measure once for `in_a_process`."""
    if sys.argv[1:2] == ["--measure"]:
        print(json.dumps(measure(sys.argv[2], sys.argv[3])))
        return
    ask = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ask.add_argument("--pods", type=int, nargs="+", default=[8, 64, 512])
    ask.add_argument("--health", nargs="+", choices=["healthy", "some", "all"], default=["some", "all"])
    ask.add_argument("--turns", type=int, default=3)
    ask.add_argument("--minutes", type=int, default=120, help="length of the recordings, history included")
    ask.add_argument("--without-prometheus", action="store_true")
    asked = ask.parse_args()
    served = not asked.without_prometheus and shutil.which("prometheus") and shutil.which("promtool")
    if not served:
        print("no prometheus: the store alone is measured", file=sys.stderr)
    print(
        "| source | pods | diagnose, s | CPU, s | bare reads, s | ratio | judging, s | queries | samples | peak, MB |"
    )
    print("| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    for pods, health in itertools.product(asked.pods, asked.health):
        with tempfile.TemporaryDirectory() as temporary:
            one_fleet(Path(temporary), pods, health, asked.minutes, asked.turns, bool(served))
    load, recipes = os.getloadavg()[0], recipe_count()
    print(f"\n{os.cpu_count()} cores, load {load:.1f} at the end, {recipes} recipes, best of {asked.turns}.")


def recipe_count() -> int:
    """How many causes were judged."""
    from inferdoc.catalogue.load import load_catalogue

    return len(load_catalogue().recipes)


def one_fleet(folder: Path, pods: int, health: str, minutes: int, turns: int, served: bool) -> None:
    """Make a fleet, measure it from the store and, if there is one, from a server."""
    from fleets import fleet_store

    from inferdoc.store import Store, export

    what = f"{pods}, {health if health == 'healthy' else health + ' sick'}"
    print(f"making {what}", file=sys.stderr)
    place = folder / "fleet.db"
    fleet_store(place, pods, health, minutes)  # type: ignore[arg-type]
    print(measured("store", what, str(place), turns), flush=True)
    if not served:
        return
    text = folder / "fleet.om"
    with Store.open(place) as store, text.open("wb") as stream:
        export(store, store.first_ms() or 0, store.latest_ms() or 0, stream, asked_for(place))
    server = Server(text, folder)
    text.unlink()
    try:
        print(measured("prometheus", what, server.url, turns), flush=True)
    finally:
        server.stop()


if __name__ == "__main__":
    main()
