"""How much one collector takes: scrapes, series and samples a second, its CPU time, and what it says past its limit.

    python benchmarks/collector.py [--rates 50 100 200 400 800] [--seconds 20] [--page fixtures/pages/vllm-plain.txt]

Every target is a page of a real vLLM on loopback, whose numbers move from scrape to scrape, served by processes of
their own. The interval is one second, so that a rate is that of fifteen times as many targets every 15 s; a collector
runs in a process of its own, parses, and stores each scrape in a transaction of its own, as always. The CPU time of a
scrape says what a core takes, whatever else this machine does at the time.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from measured import measured_line
from process_cost import ProcessCost, in_new_process

ROOT = Path(__file__).resolve().parent.parent
PORTS = 2
"""Processes that serve pages."""
VERSIONS = 24
NUMBER = re.compile(rb"^(\S+(?:_total|_count|_sum|_bucket)(?:\{[^}]*\})? )([0-9.e+]+)$", re.MULTILINE)
INTERVAL = 15.0


def serve(page: str) -> None:
    """Serve a page whose counters grow. Prints the port; ends with its standard input."""
    body = Path(page).read_bytes()
    versions = [NUMBER.sub(lambda m, n=n: m[1] + repr(float(m[2]) + n * 3.0).encode(), body) for n in range(VERSIONS)]

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            answer = versions[int(time.time()) % VERSIONS]
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_: object) -> None:
            pass

    Handler.protocol_version, ThreadingHTTPServer.request_queue_size = "HTTP/1.1", 512
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    print(server.server_address[1], flush=True)
    server.serve_forever()


def collected(ports: list[int], rate: int, seconds: float) -> dict[str, Any]:
    """One run in this process."""
    from inferdoc.collect.collector import CollectStats, collect
    from inferdoc.collect.discovery import Discovery, make_target
    from inferdoc.store import Store

    targets = [
        make_target(f"127.0.0.1:{ports[n % len(ports)]}/{n}", {"pod": f"vllm-{n}", "namespace": f"team-{n % 20}"})
        for n in range(rate)
    ]
    stats, said = CollectStats(), list[str]()
    with tempfile.TemporaryDirectory() as folder, Store.open(Path(folder) / "fleet.db", "w") as store:
        collect(Discovery(targets), store.writer, interval=1.0, duration=3.0, stats=CollectStats())  # layouts are new
        with ProcessCost() as cost:
            collect(Discovery(targets), store.writer, interval=1.0, duration=seconds, stats=stats, report=said.append)
    return {
        "scrapes": stats.scrapes / cost.wall,
        "samples": stats.samples / cost.wall,
        "left_out": stats.left_out / max(1, stats.left_out + stats.scrapes),
        "cpu_ms": 1e3 * cost.cpu / max(1, stats.scrapes),
        "cores": cost.cpu / cost.wall,
        "peak": cost.memory.mb,
        "said": said[-1:],
    }


def main() -> None:
    """Print the table; or serve pages."""
    if sys.argv[1:2] == ["--serve"]:
        serve(sys.argv[2])
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rates", type=int, nargs="+", default=[50, 100, 200, 400, 800], help="scrapes a second")
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--page", default=str(ROOT / "fixtures" / "pages" / "vllm-plain.txt"))
    asked = parser.parse_args()
    command = [sys.executable, __file__, "--serve", asked.page]
    servers = [
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) for _ in range(PORTS)
    ]
    try:
        ports = [int(server.stdout.readline()) for server in servers if server.stdout is not None]
        print(
            "| asked for, scrapes/s | targets every 15 s | done, scrapes/s | samples/s | left out | CPU ms a scrape"
            " | cores | peak, MB |"
        )
        print("| ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
        for rate in asked.rates:
            told = in_new_process(collected, ports, rate, asked.seconds)
            print(
                f"| {rate} | {rate * INTERVAL:,.0f} | {told['scrapes']:.0f} | {told['samples']:,.0f}"
                f" | {told['left_out']:.0%} | {told['cpu_ms']:.1f} | {told['cores']:.2f} | {told['peak']:.0f} |",
                flush=True,
            )
            for line in told["said"]:
                print(f"  ({line})", flush=True)
    finally:
        for server in servers:
            server.kill()
            server.wait()
    print(f"\n{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f} at the end.\n{measured_line()}")


if __name__ == "__main__":
    main()
