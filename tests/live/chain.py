"""Simulated fleet -> Prometheus with the rules -> Alertmanager with the routes -> a webhook: the whole way of an alert,
in minutes that last seconds."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import requests
import yaml

from inferdoc.generate import promtool
from inferdoc.generate.alerts import ALERTMANAGER
from inferdoc.generate.pack import RECORDING, RULES
from inferdoc.simulate.output import Live
from inferdoc.times import length_of
from tests import prometheus_server

FASTER = 15
"""A window of five minutes lasts 20 s, a scrape every 15 s comes every second."""
PATIENCE_SECONDS = 120
DURATION = re.compile(r"(?<![\w.])\d+(?:ms|[smhdw])(?:\d+(?:ms|[smhd]))*(?!\w|:[a-zA-Z_])")
LENGTHS = ("interval", "for", "keep_firing_for")
ROUTE_LENGTHS = ("group_wait", "group_interval", "repeat_interval")
Alert = dict[str, Any]


def alertmanager() -> str | None:
    """Where Alertmanager is, under either of its names."""
    return shutil.which("prometheus-alertmanager") or shutil.which("alertmanager")


class Webhook:
    """Receives what Alertmanager sends, each receiver under its own path, and serves the runbooks beside it."""

    def __init__(self, runbooks: Path) -> None:
        self.received: list[tuple[str, dict[str, Any]]] = []
        self._lock = threading.Lock()
        hook = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                with hook._lock:
                    hook.received.append((self.path.strip("/"), body))
                self.send_response(200)
                self.end_headers()

            def do_GET(self) -> None:
                page = runbooks / f"{self.path.removeprefix('/runbooks/').strip('/')}.md"
                there = page.parent == runbooks and page.is_file()
                self.send_response(200 if there else 404)
                self.end_headers()
                if there:
                    self.wfile.write(page.read_bytes())

            def log_message(self, *args: Any) -> None:
                """Nobody reads it."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def alerts(self, receiver: str, status: str) -> list[Alert]:
        """Every alert that a receiver was told of in this status, in order."""
        with self._lock:
            return [
                a for path, body in self.received if path == receiver for a in body["alerts"] if a["status"] == status
            ]

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@dataclass
class Chain:
    """The running servers. down: instances whose pages are taken away from the scraper, whatever the fleet does;
    discover: lets Prometheus find all targets but those of these instances."""

    live: Live
    prometheus: str
    alertmanager: str
    webhook: Webhook
    down: set[str] = field(default_factory=set)
    discover: Callable[[Collection[str]], None] = lambda without: None

    def firing(self) -> list[dict[str, str]]:
        """The labels of what fires in Prometheus now."""
        found = requests.get(f"{self.prometheus}/api/v1/alerts", timeout=10).json()["data"]["alerts"]
        return [alert["labels"] for alert in found if alert["state"] == "firing"]

    def states(self) -> list[tuple[dict[str, str], dict[str, Any]]]:
        """The labels of what Alertmanager holds, and its status of each."""
        found = requests.get(f"{self.alertmanager}/api/v2/alerts", timeout=10).json()
        return [(alert["labels"], alert["status"]) for alert in found]

    def until(self, what: str, told: Callable[[], Any]) -> Any:
        """The first true answer. Fails with what fires where none comes in time."""
        end = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < end:
            if found := told():
                return found
            time.sleep(0.3)
        names = sorted(f"{labels['alertname']} {labels.get('pod', '')}" for labels in self.firing())
        raise AssertionError(f"not within {PATIENCE_SECONDS} s: {what}; firing: {names}")

    def up(self, instances: Sequence[str], value: int) -> None:
        """Wait until Prometheus has seen these targets like that."""
        self.until(f"up == {value} of {list(instances)}", lambda: set(instances) <= self._instances(f"up == {value}"))

    def value(self, query: str) -> float | None:
        """The one number that a query gives now; None where it gives nothing."""
        found = self._asked(query)
        return float(found[0]["value"][1]) if found else None

    def _instances(self, query: str) -> set[str]:
        return {each["metric"].get("instance", "") for each in self._asked(query)}

    def _asked(self, query: str) -> list[dict[str, Any]]:
        answer = requests.get(f"{self.prometheus}/api/v1/query", params={"query": query}, timeout=10).json()
        found: list[dict[str, Any]] = answer["data"]["result"]
        return found


@contextmanager
def running(
    live: Live,
    generated: Path,
    runbooks: Path,
    folder: Path,
    also: str | None = None,
    times: int = FASTER,
    alerts: set[str] | None = None,
) -> Iterator[Chain]:
    """The chain over a fleet, with the rules and routes of a generated folder; all of it is stopped at the end. also:
    an address that is sent every page and ticket beside their receivers; times: how much faster than the files say;
    alerts: these alone, with what they rest on."""
    down: set[str] = set()
    _take_away(live, down)
    with ExitStack() as stack:
        live.start()
        stack.callback(live.stop)
        webhook = Webhook(runbooks)
        stack.callback(webhook.stop)
        _moving(live, stack)
        manager = f"127.0.0.1:{prometheus_server.free_port()}"
        routes = routes_to(generated, webhook.address, folder, also, times)
        stack.enter_context(
            serving(
                [str(alertmanager()), f"--config.file={routes}", f"--storage.path={folder / 'alertmanager'}",
                 f"--web.listen-address={manager}", "--cluster.listen-address=", "--log.level=error"],
                manager, folder / "alertmanager.log",
            )
        )  # fmt: skip
        prometheus = f"127.0.0.1:{prometheus_server.free_port()}"
        files = rules_with_links(generated, webhook.address, folder, times, alerts=alerts)
        config = _scraping(live, manager, files, folder)
        stack.enter_context(
            serving(
                ["prometheus", f"--config.file={config}", f"--storage.tsdb.path={folder / 'data'}",
                 f"--web.listen-address={prometheus}", "--log.level=error", "--rules.alert.resend-delay=2s",
                 "--web.enable-lifecycle"],
                prometheus, folder / "prometheus.log",
            )
        )  # fmt: skip

        def discover(without: Collection[str]) -> None:
            _scraping(live, manager, files, folder, without)
            requests.post(f"http://{prometheus}/-/reload", timeout=10).raise_for_status()

        yield Chain(live, f"http://{prometheus}", f"http://{manager}", webhook, down, discover)


def moment(text: str) -> float:
    """RFC 3339 as Unix seconds."""
    return datetime.fromisoformat(text).timestamp()


def faster(text: str, times: int = FASTER) -> str:
    """A duration, so many times shorter; what would vanish is a scrape long at least."""
    seconds = length_of(text) / times
    return f"{max(1, round(1000 * seconds))}ms" if seconds else "0s"


def _take_away(live: Live, down: set[str]) -> None:
    """Let the instances in `down` answer with an error."""
    for target in live.targets:
        alive, instance = target.alive, target.scraped.labels["instance"]
        target.alive = lambda alive=alive, instance=instance: instance not in down and alive()  # type: ignore[misc]


def _moving(live: Live, stack: ExitStack) -> None:
    """Move the fleet with the clock until the stack is left."""
    over = threading.Event()

    def move() -> None:
        while not over.wait(0.2):
            live.step()

    thread = threading.Thread(target=move, daemon=True)
    thread.start()
    stack.callback(thread.join)
    stack.callback(over.set)


def rules_with_links(
    generated: Path,
    address: str,
    folder: Path,
    times: int,
    *,
    interval: str = "1s",
    windows: bool = True,
    alerts: set[str] | None = None,
) -> list[str]:
    """The rule files, so many times faster, with links to the webhook's own pages. windows: those too; else only what
    an alert waits for is shorter; alerts: these alone, with what they rest on."""
    files, documents = [], {str(name): promtool.load(generated / name) for name in (RECORDING, RULES)}
    if alerts is not None:
        documents = promtool.reduced(documents, alerts)
    for name, document in documents.items():
        for group in document["groups"]:
            group["interval"] = interval
            for rule in group["rules"]:
                if windows:
                    rule["expr"] = DURATION.sub(lambda found: faster(found.group(), times), rule["expr"])
                rule |= {key: faster(rule[key], times) for key in LENGTHS if key in rule}
                if "alert" in rule:
                    rule["annotations"]["runbook_url"] = f"{address}/runbooks/{rule['labels']['cause']}"
        (folder / name).write_text(yaml.dump(document, Dumper=yaml.CSafeDumper), "utf-8")
        files.append(str(folder / name))
    return files


def routes_to(generated: Path, address: str, folder: Path, also: str | None, times: int) -> Path:
    """The Alertmanager configuration, so many times faster, with the webhook in the place of every receiver. also: an
    address that is sent every page and ticket beside them, as `inferdoc serve` is."""
    document = yaml.load((generated / ALERTMANAGER).read_text("utf-8"), yaml.CSafeLoader)
    (ours,) = document["route"]["routes"]
    for route in (ours, *ours["routes"]):
        route |= {key: faster(route[key], times) for key in ROUTE_LENGTHS if key in route}
    for receiver in document["receivers"]:
        hook = {"url": f"{address}/{receiver['name'].removeprefix('inferdoc-')}"}
        receiver["webhook_configs"] = [{**hook, "send_resolved": receiver["name"] != "inferdoc-deadman"}]
    if also is not None:
        document["receivers"].append({"name": "also", "webhook_configs": [{"url": also, "send_resolved": True}]})
        route = {"receiver": "also", "matchers": ['severity=~"critical|warning"'], "group_wait": "1s", "continue": True}
        ours["routes"].insert(0, route)
    path = folder / ALERTMANAGER
    path.write_text(yaml.dump(document, Dumper=yaml.CSafeDumper), "utf-8")
    return path


def _scraping(live: Live, manager: str, files: list[str], folder: Path, without: Collection[str] = ()) -> Path:
    """What Prometheus reads: every target of the fleet but `without`, under its own labels, once a second."""
    jobs = live.scrape_jobs()
    for job in jobs:
        job["static_configs"] = [page for page in job["static_configs"] if page["labels"]["instance"] not in without]
    config = {
        "global": {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"},
        "rule_files": files,
        "alerting": {"alertmanagers": [{"static_configs": [{"targets": [manager]}]}]},
        "scrape_configs": jobs,
    }
    path = folder / "prometheus.yml"
    path.write_text(yaml.dump(config, Dumper=yaml.CSafeDumper), "utf-8")
    return path


@contextmanager
def serving(command: list[str], address: str, log: Path) -> Iterator[None]:
    """A Prometheus or an Alertmanager, from when it is ready."""
    with log.open("wb") as said, subprocess.Popen(command, stdout=said, stderr=said) as process:
        try:
            _wait(f"http://{address}/-/ready", process, log)
            yield
        finally:
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()


def _wait(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    end = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < end and process.poll() is None:
        try:
            if requests.get(url, timeout=2).status_code == 200:
                return
        except requests.exceptions.RequestException:
            time.sleep(0.1)
    raise AssertionError(f"{url} does not answer: {log.read_text('utf-8', 'replace')[-500:]}")
