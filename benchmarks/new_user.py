"""What a new user does with the README, on real servers, with times: writes docs/first-hour.md.

    python benchmarks/new_user.py

A simulated fleet with one hung engine is scraped by a real Prometheus under the labels of kube-prometheus-stack; a real
Alertmanager has a configuration with routes of others. Every command of the transcript is run as it is printed.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import yaml
from measured import measured_line
from msgspec import structs

from inferdoc.simulate.output import Live, write_file
from inferdoc.simulate.scenario import Scenario
from inferdoc.simulate.scenario_files import load_scenario
from inferdoc.simulate.scrape import scrape_all
from tests import prometheus_server

PAGE = Path(__file__).resolve().parents[1] / "docs" / "first-hour.md"
SCENARIO, PAST, FAULT_BEFORE, PATIENCE = "engine-hung", 2400.0, 90.0, 420.0
"""Seconds: history that Prometheus has, how long before its end the engine hangs, how long the page may take."""
SETTLED = 20.0
"""Seconds that the servers run before the user begins."""
MOST_LINES = 14
STACK = {"service": "vllm", "endpoint": "http", "container": "vllm"}
ALERTMANAGER = """\
route:
  receiver: 'null'
  group_by: [namespace]
  routes:
    - {receiver: 'null', matchers: ['alertname="Watchdog"']}
    - {receiver: oncall, matchers: ['severity="critical"'], group_wait: 10s}
inhibit_rules:
  - {source_matchers: ['severity="critical"'], target_matchers: ['severity="warning"'], equal: [namespace, alertname]}
receivers:
  - {name: 'null'}
  - {name: oncall, webhook_configs: [{url: "%s"}]}
"""


class Continued(Live):
    """A fleet that already ran for a while, past seconds: `history` has its samples, and it goes on with the clock."""

    def __init__(self, scenario: Scenario, past: float) -> None:
        self._started = time.monotonic() - past
        scraper = scrape_all(structs.replace(scenario, start=round(time.time() - past, 3), duration=past))
        self.fleet, self.targets = scraper.fleet, scraper.every_target()
        self.history = scraper.targets
        self._lock, self._speed = threading.Lock(), 1.0
        for target in self.targets:
            target.scraped.labels |= STACK
        self.servers = [self._server(target, 0) for target in self.targets]


class Oncall:
    """Receives the notifications of Alertmanager."""

    def __init__(self) -> None:
        self.alerts: list[dict[str, Any]] = []
        oncall = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                oncall.alerts += json.loads(self.rfile.read(int(self.headers["Content-Length"])))["alerts"]
                self.send_response(200)
                self.end_headers()

            def log_message(self, *args: Any) -> None:
                """Requests are not worth a line each."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


class Transcript:
    """Commands with their output and the time since the user began."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.began, self.lines = folder, time.monotonic(), list[str]()

    def title(self, text: str) -> None:
        self.lines += ["", f"## {text}", ""]

    def run(self, command: str, expected: tuple[int, ...] = (0,)) -> str:
        """Run a command in the folder. Raises SystemExit with its output where the exit code is another."""
        path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
        plain = {name: value for name, value in os.environ.items() if not name.startswith("INFERDOC_")}
        begin = time.monotonic()
        done = subprocess.run(
            command,
            shell=True,
            cwd=self.folder,
            env={**plain, "PATH": path},
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode not in expected:
            raise SystemExit(f"{command}: exit {done.returncode}\n{done.stdout}{done.stderr}")
        shown = [line for line in (done.stdout + done.stderr).rstrip().splitlines() if line.strip()]
        more = [f"... {len(shown) - MOST_LINES} more lines"] if len(shown) > MOST_LINES else []
        took = time.monotonic() - begin
        self.lines += [f"{self.clock()} after {took:.1f} s:", "", "```none", f"$ {command}"]
        self.lines += [*shown[:MOST_LINES], *more, "```", ""]
        return done.stdout

    def say(self, text: str) -> None:
        self.lines += [f"{self.clock()}: {text}", ""]

    def clock(self) -> str:
        minutes, seconds = divmod(round(time.monotonic() - self.began), 60)
        return f"**{minutes}:{seconds:02}**"


def main() -> None:
    """Run the steps and write the page."""
    scenario = load_scenario(SCENARIO)
    faults = tuple(structs.replace(fault, at=PAST - FAULT_BEFORE) for fault in scenario.faults)
    live = Continued(structs.replace(scenario, faults=faults, namespace="llm"), PAST)
    with ExitStack() as open_, tempfile.TemporaryDirectory(prefix="inferdoc-") as place:
        folder = Path(place)
        write_file(live.history, folder / "history.om")
        prometheus_server.backfill([folder / "history.om"], folder)
        live.start()
        open_.callback(live.stop)
        over = threading.Event()
        open_.callback(over.set)
        threading.Thread(target=lambda: [live.step() for _ in iter(lambda: over.wait(0.5), True)], daemon=True).start()
        oncall = Oncall()
        open_.callback(oncall.server.shutdown)
        manager, prometheus = (f"127.0.0.1:{prometheus_server.free_port()}" for _ in range(2))
        (folder / "alertmanager.yml").write_text(ALERTMANAGER % oncall.url)
        (folder / "prometheus.yml").write_text(yaml.safe_dump(stack_configuration(live, manager)))
        for command, address in (
            (["prometheus-alertmanager", "--config.file=alertmanager.yml", "--cluster.listen-address="], manager),
            (["prometheus", "--config.file=prometheus.yml", "--web.enable-lifecycle"], prometheus),
        ):
            kept = "--storage.path=am" if address == manager else "--storage.tsdb.path=data"
            started = subprocess.Popen(
                [*command, kept, f"--web.listen-address={address}", "--log.level=error"],
                cwd=folder,
                preexec_fn=prometheus_server.die_with_parent,
            )
            open_.callback(started.wait)
            open_.callback(started.terminate)
        time.sleep(SETTLED)
        transcript = Transcript(folder)
        steps(transcript, f"http://{prometheus}", f"http://{manager}", oncall)
    by_hand = "".join(PAGE.read_text("utf-8").partition(BY_HAND)[1:])
    PAGE.write_text("\n".join([*HEAD, *transcript.lines, measured_line(), "", by_hand]), "utf-8")


BY_HAND = "## A walk by hand\n"
"""The part of the page that a person writes starts here."""
HEAD = (
    "# The first hour: a transcript with times",
    "",
    "`python benchmarks/new_user.py` runs these commands and writes the transcript. The fleet is simulated: three vLLM",
    "pods, one of which hangs. Prometheus and Alertmanager are real. The labels are those of kube-prometheus-stack.",
    "The Alertmanager configuration has routes of its own. [A walk by hand](#a-walk-by-hand) is at the end.",
    "Times in bold are minutes and seconds since the user started.",
)


def steps(transcript: Transcript, prometheus: str, manager: str, oncall: Oncall) -> None:
    """What the user does. Raises SystemExit where a step does not do what the README says."""
    transcript.title("Diagnose in two commands")
    transcript.run(f"inferdoc init --prometheus {prometheus}")
    if SCENARIO not in transcript.run("inferdoc diagnose --since 1h", (1,)):
        raise SystemExit(f"the diagnosis does not name {SCENARIO}")
    transcript.title("Load the rules that page")
    transcript.run("inferdoc alerts build --set pages --out rules > written.txt")
    transcript.run("inferdoc alerts routes --set pages --merge alertmanager.yml --receiver inferdoc-page=oncall")
    transcript.run("amtool check-config alertmanager.yml | head -2")
    transcript.run(f"curl -sSf -X POST {prometheus}/-/reload && curl -sSf -X POST {manager}/-/reload && echo reloaded")
    end = time.monotonic() + PATIENCE
    while not oncall.alerts:
        if time.monotonic() > end:
            raise SystemExit(f"no page within {PATIENCE:.0f} s")
        time.sleep(0.5)
    page = oncall.alerts[0]
    transcript.say(f"the receiver `oncall` gets the page `{page['labels']['alertname']}`:")
    transcript.lines += [f"> {page['annotations']['description']}", ""]
    if not page["labels"]["alertname"].startswith("Inferdoc"):
        raise SystemExit(f"not a page of ours: {page['labels']}")
    transcript.run(page["annotations"]["diagnose_command"], (1,))
    transcript.title("Dashboards")
    transcript.run("inferdoc dashboards build --provisioning --out boards | tail -2")
    transcript.run("inferdoc dashboards check --out boards")
    transcript.lines += ["Next: `kubectl apply -n monitoring -f boards/configmaps/`; this machine has no Grafana.", ""]


def stack_configuration(live: Live, manager: str) -> dict[str, Any]:
    """The configuration of a Prometheus of kube-prometheus-stack, with static targets instead of ServiceMonitors."""
    return {
        "global": {
            "scrape_interval": "15s",
            "evaluation_interval": "30s",
            "external_labels": {"prometheus": "monitoring/kube-prometheus-stack-prometheus", "prometheus_replica": "0"},
        },
        "rule_files": ["rules/inferdoc-*.yaml"],
        "scrape_configs": live.scrape_jobs(),
        "alerting": {
            "alert_relabel_configs": [{"regex": "prometheus_replica", "action": "labeldrop"}],
            "alertmanagers": [{"static_configs": [{"targets": [manager]}]}],
        },
    }


if __name__ == "__main__":
    main()
