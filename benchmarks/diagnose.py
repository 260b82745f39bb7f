"""Seconds and peak memory of a diagnosis for 8 and 64 pods, from both sources, beside the time of the bare reads.

usage: python benchmarks/diagnose.py [RECORDING.om.gz] [--pods 8 64]

The fleets are made by repeating a recording under other pod names. Each measurement runs in a process of its own, so
that the peak memory is that of one diagnosis. With Debian's `prometheus` on the PATH the same fleet is back-filled into
a real server.
"""

from __future__ import annotations

import argparse
import gzip
import json
import resource
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DEFAULT = ROOT / "fixtures" / "recordings" / "kv-preemption-thrash.om.gz"
TURNS = 3


def fleet_text(recording: Path, pods: int, out: Path) -> None:
    """Write the recording `pods` times under other pod names, family by family, as OpenMetrics wants it."""
    from inferdoc.store import Store, import_file
    from inferdoc.store.exporter import export

    with tempfile.TemporaryDirectory() as folder:
        text = gzip.decompress(recording.read_bytes()).decode()
        with Store.open(Path(folder) / "fleet.db", "w") as store:
            for pod in range(pods):
                one = Path(folder) / "one.om"
                renamed = text.replace('pod="vllm-0"', f'pod="bench-{pod}"').replace('instance="', f'instance="{pod}-')
                one.write_text(renamed)
                import_file(store, str(one))
        with Store.open(Path(folder) / "fleet.db") as store, out.open("wb") as stream:
            export(store, store.first_ms() or 0, store.latest_ms() or 0, stream)


def measure(kind: str, place: str) -> dict[str, float]:
    """One diagnosis in this process: read and judge seconds, wall, queries, samples, peak megabytes."""
    from inferdoc import diagnose, open_source
    from inferdoc.catalogue.load import load_catalogue
    from inferdoc.diagnose.api import needed_signals, read_window

    load_catalogue().recipes  # noqa: B018  (loaded before the clock starts)
    source = open_source(**{kind: place})
    began = time.perf_counter()
    read_window(source, needed_signals(load_catalogue()), load_catalogue(), "1h", None, "latest")
    bare = time.perf_counter() - began
    source = open_source(**{kind: place})
    began = time.perf_counter()
    answer = diagnose(source, since="1h", until="latest")
    wall = time.perf_counter() - began
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {
        "wall": wall,
        "bare": bare,
        "judge": answer.timing.judge_seconds,
        "queries": answer.timing.queries,
        "samples": answer.timing.samples,
        "peak": peak,
        "pods": answer.coverage.pods,
    }


def in_a_process(kind: str, place: str) -> dict[str, float]:
    """What `measure` answers, in a process of its own."""
    command = [sys.executable, __file__, "--measure", kind, place]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
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


def measured(source: str, pods: int, place: str) -> str:
    """A row of the table: the best of several diagnoses, and the median ratio of their time to that of bare reads."""
    turns = [in_a_process(source, place) for _ in range(TURNS)]
    best = min(turns, key=lambda t: t["wall"])
    ratio = sorted(t["wall"] / t["bare"] for t in turns)[len(turns) // 2]
    return (
        f"| {source} | {pods} | {best['wall']:.2f} | {best['bare']:.2f} | {ratio:.2f} | {best['judge']:.2f} "
        f"| {best['queries']:.0f} | {best['samples']:,.0f} | {best['peak']:.0f} |"
    )


def main() -> None:
    """Print the table, or measure once for `in_a_process`."""
    if sys.argv[1:2] == ["--measure"]:
        print(json.dumps(measure(sys.argv[2], sys.argv[3])))
        return
    ask = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ask.add_argument("recording", nargs="?", type=Path, default=DEFAULT)
    ask.add_argument("--pods", type=int, nargs="+", default=[8, 64])
    asked = ask.parse_args()
    from inferdoc.store import Store, import_file

    print("| source | pods | diagnose, s | bare reads, s | ratio | judging, s | queries | samples | peak, MB |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    for pods in asked.pods:
        with tempfile.TemporaryDirectory() as temporary:
            folder = Path(temporary)
            print(f"making {pods} pods", file=sys.stderr)
            fleet_text(asked.recording, pods, folder / "fleet.om")
            with Store.open(folder / "fleet.db", "w") as store:
                import_file(store, str(folder / "fleet.om"))
            print(measured("store", pods, str(folder / "fleet.db")), flush=True)
            if shutil.which("prometheus") and shutil.which("promtool"):
                server = Server(folder / "fleet.om", folder)
                try:
                    print(measured("prometheus", pods, server.url), flush=True)
                finally:
                    server.stop()
            else:
                print(f"no prometheus on the PATH: {pods} pods from it left out", file=sys.stderr)


if __name__ == "__main__":
    main()
