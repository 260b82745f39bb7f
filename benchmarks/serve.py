"""A page with its diagnosis: simulated fleet -> Prometheus with our rules -> Alertmanager -> `inferdoc serve` -> Slack.

    python benchmarks/serve.py [--jobs 3] [--write docs/serve.md] [SCENARIO...]

Everything is the real program but the fleet and Slack. A fault begins after four minutes of a healthy fleet that is
scraped every second; windows and waits of rules and routes are a fifteenth. Per scenario: which alert came first, how
long after the onset, and how long after that the first message that names a cause was received, with what it named.
Then the look that is taken where the alert is repeated after four hours, of a store in which the fault lasted all the
while (`--no-repeat` leaves it out).
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import requests
from msgspec import structs

from inferdoc.incidents.looks import story
from inferdoc.incidents.model import AlertScope
from inferdoc.judging.model import seconds
from inferdoc.serve.look_process import LookAsked, look
from inferdoc.simulate.live import Live
from inferdoc.simulate.output import write_store
from inferdoc.simulate.recording import record
from inferdoc.simulate.scenario import Scenario
from inferdoc.simulate.scenario_files import load_scenario
from inferdoc.store import Store
from tests import prometheus_server
from tests.live import chain

ROOT = Path(__file__).resolve().parents[1]
SCENARIOS = (
    "engine-hung", "engine-down", "kv-preemption-thrash", "kv-transfer-backlog", "slow-gpu",
    "demand-beyond-capacity", "prefix-unstable-prompt", "admission-shedding", "gpu-clock-throttle", "lora-thrash",
)  # fmt: skip
ONSET = 240.0
PATIENCE = 600.0
LATER = 200.0
"""After the first message: the service has looked again by then."""
REPEAT = 4 * 3600.0
BEGIN, END = "<!-- benchmarks/serve.py begin -->", "<!-- benchmarks/serve.py end -->"


@dataclass
class Row:
    """Seconds from the onset to the alert, from the alert to the message; what the message named; later: what
    the look after three minutes named; repeat: what the look after four hours named. None where nothing came."""

    scenario: str
    alert: str | None
    alerted: float | None
    told: float | None
    cause: str | None
    later: str | None
    pods: tuple[str, ...]
    right_pods: bool
    onset_off: float | None
    runbook: bool
    repeat: str | None

    @property
    def right(self) -> bool:
        return self.cause == self.scenario


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("scenarios", nargs="*", default=SCENARIOS)
    parser.add_argument("--jobs", type=int, default=3)
    parser.add_argument("--write", type=Path)
    parser.add_argument("--no-repeat", action="store_true")
    asked = parser.parse_args()
    with ThreadPoolExecutor(asked.jobs) as pool:
        rows = list(pool.map(lambda name: measured(name, repeat=not asked.no_repeat), asked.scenarios))
    text = table(rows)
    print(text)
    if asked.write:
        page = asked.write.read_text("utf-8")
        before, after = page.partition(BEGIN)[0], page.partition(END)[2]
        asked.write.write_text(f"{before}{BEGIN}\n{text}\n{END}{after}", "utf-8")


def early(name: str) -> Scenario:
    """The scenario with its fault after four minutes."""
    scenario = load_scenario(name)
    moved = tuple(structs.replace(fault, at=fault.at - scenario.expect.onset + ONSET) for fault in scenario.faults)
    exporters = structs.replace(scenario.exporters, kube=True)
    return structs.replace(
        scenario, faults=moved, expect=structs.replace(scenario.expect, onset=ONSET), exporters=exporters
    )


def measured(name: str, *, repeat: bool) -> Row:
    with tempfile.TemporaryDirectory(prefix="inferdoc-") as folder, messages() as (address, received):
        port = prometheus_server.free_port()
        live = Live(early(name), 0, 1.0)
        also = f"http://127.0.0.1:{port}/alertmanager"
        with chain.running(live, ROOT / "alerts" / "generated", ROOT / "runbooks", Path(folder), also) as running:
            onset = live.fleet.scenario.start + ONSET
            with served(Path(folder), running.prometheus, port, address):
                row = watched(name, f"http://127.0.0.1:{port}", onset, received, live)
    print(f"{name}: {row}", file=sys.stderr, flush=True)
    return replace(row, repeat=repeated(name) if repeat else None)


@contextmanager
def messages() -> Iterator[tuple[str, list[tuple[float, dict[str, Any]]]]]:
    """A webhook that looks like Slack's: its address, and what it received, when."""
    received: list[tuple[float, dict[str, Any]]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            received.append((time.time(), body))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *args: Any) -> None:
            """Nobody reads it."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", received
    finally:
        server.shutdown()
        server.server_close()


@contextmanager
def served(folder: Path, prometheus: str, port: int, address: str) -> Iterator[None]:
    """The service as a user runs it."""
    config = folder / "inferdoc.toml"
    config.write_text(
        f'[serve]\nlisten = "127.0.0.1:{port}"\nrecord = "{folder}/incidents.db"\n'
        f'public_url = "http://127.0.0.1:{port}"\n[[serve.outputs]]\nkind = "slack"\nurl = "{address}/slack"\n',
        "utf-8",
    )
    command = [Path(sys.executable).with_name("inferdoc"), "--config", config, "serve", "--prometheus", prometheus]
    with (folder / "serve.log").open("wb") as log, subprocess.Popen(command, stdout=log, stderr=log) as process:
        try:
            yield
        finally:
            process.terminate()
            process.wait(60)


def watched(name: str, service: str, onset: float, received: Sequence[tuple[float, dict[str, Any]]], live: Live) -> Row:
    """Wait for the first message that names a cause, at most ten minutes from the onset."""
    expected = live.fleet.scenario.expect
    while time.time() < onset + PATIENCE:
        time.sleep(1.0)
        told = next(((at, body) for at, body in received if "*cause*" in json.dumps(body, ensure_ascii=False)), None)
        if told is not None and told[0] > onset:
            break
    else:
        return Row(name, None, None, None, None, None, (), False, None, False, None)
    at, body = told
    listed = requests.get(f"{service}/api/v1/incidents", timeout=10).json()["incidents"]
    name_of = next(one["id"] for one in listed if one["id"] in json.dumps(body))
    incident = requests.get(f"{service}/api/v1/incidents/{name_of}", timeout=10).json()
    starts = sorted((datetime.fromisoformat(a["starts"]).timestamp(), a["name"]) for a in incident["alerts"])
    begun = [(start, alert) for start, alert in starts if start <= at]
    time.sleep(LATER)
    incident = requests.get(f"{service}/api/v1/incidents/{name_of}", timeout=10).json()
    said = next(one["story"] for one in incident["looks"] if one["story"] and one["story"]["cause"])
    heard = min(datetime.fromisoformat(look["asked"]).timestamp() for look in incident["looks"])
    return Row(
        name,
        begun[0][1],
        heard - onset,
        at - heard,
        said["cause"],
        incident["story"]["cause"],
        tuple(said["pods"]),
        set(said["pods"]) == set(expected.pods),
        None if said["onset"] is None else seconds(said["onset"]) - onset,
        "/runbooks/" in json.dumps(body),
        None,
    )


def repeated(name: str) -> str | None:
    """What a look names that is taken when the alert is repeated after four hours of the fault."""
    scenario = load_scenario(name)
    onset = scenario.expect.onset
    until = onset + 300 + REPEAT
    longer = structs.replace(scenario, duration=until, start=round(time.time() - until, 3))
    with tempfile.TemporaryDirectory(prefix="inferdoc-") as folder:
        path = Path(folder) / "fleet.db"
        with Store.open(path, "w") as store:
            write_store(record(longer).targets, store)
        began = longer.start + onset + 300
        asked = LookAsked({"store": str(path)}, {}, began - 1800, longer.start + until, AlertScope(), page=False)
        return story(look(asked).document).cause


def table(rows: Sequence[Row]) -> str:
    heads = (
        "scenario", "first alert", "after the onset, at a fifteenth", "message after the alert", "cause",
        "three minutes later", "pods", "onset off", "runbook", "repeated after 4 h",
    )  # fmt: skip
    lines = [f"| {' | '.join(heads)} |", "| --- | --- | ---: | ---: | --- | --- | --- | ---: | --- | --- |"]
    for row in rows:
        cells = (
            row.scenario,
            row.alert or "none",
            "" if row.alerted is None else f"{row.alerted:.0f} s",
            "" if row.told is None else f"{row.told:.1f} s",
            "right" if row.right else row.cause or "none",
            "right" if row.later == row.scenario else row.later or "none",
            "right" if row.right_pods else ", ".join(row.pods),
            "" if row.onset_off is None else f"{row.onset_off:+.0f} s",
            "yes" if row.runbook else "no",
            "right" if row.repeat == row.scenario else row.repeat or "",
        )
        lines.append("| " + " | ".join(cells) + " |")
    right = sum(row.right and row.right_pods for row in rows)
    quick = sum(row.told is not None and row.told <= 30 for row in rows)
    lines += ["", f"Right cause and pods in {right} of {len(rows)}; told within 30 s of the alert in {quick}."]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
