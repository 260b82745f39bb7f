"""What was scraped, as OpenMetrics text with timestamps or straight into a store."""

from __future__ import annotations

import contextlib
import gzip
import io
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, TextIO

import yaml
from msgspec import structs

from inferdoc.collect.samples import Labels, Layout
from inferdoc.errors import InferdocError
from inferdoc.simulate.fleet import SimulatedFleet
from inferdoc.simulate.scenario import Scenario
from inferdoc.simulate.scrape import FleetScraper, Scraped, SimulatedTarget
from inferdoc.simulate.stats import Item, series_of
from inferdoc.store import Store


def _family(name: str, kind: str) -> str:
    return name.removesuffix("_total") if kind == "counter" else name


def _kind(name: str, kind: str) -> str:
    """The type in OpenMetrics: there a counter's samples end in _total, which those of dcgm-exporter do not."""
    bare = kind == "counter" and not name.endswith("_total")
    return "unknown" if bare or kind == "untyped" else kind


def _prefix(name: str, target: Mapping[str, str], own: Labels) -> str:
    """A label that the target has too is kept as `exported_<name>`, as Prometheus does."""
    named = ((f"exported_{k}" if k in target else k, v) for k, v in own)
    pairs = ",".join(f'{k}="{v}"' for k, v in (*target.items(), *named))
    return f"{name}{{{pairs}}} "


def _places(layout: Layout) -> dict[str, list[int]]:
    """Places of each family's samples in a page."""
    families: dict[str, list[int]] = {}
    heads = {_family(name, kind): name for name, kind in layout.types.items()}
    for place, series in enumerate(layout.series):
        name = series.name
        for suffix in ("", "_bucket", "_count", "_sum", "_created", "_total"):
            head = name.removesuffix(suffix) if suffix else name
            if head in heads:
                families.setdefault(head, []).append(place)
                break
    return families


def write_openmetrics(targets: Iterable[Scraped], stream: TextIO) -> int:
    """Write every sample, family by family as OpenMetrics demands. Returns the number of samples."""
    listed = list(targets)
    kinds: dict[str, str] = {}
    places: dict[bytes, dict[str, list[int]]] = {}
    for target in listed:
        for _, page in target.pages:
            if page.layout.digest not in places:
                places[page.layout.digest] = _places(page.layout)
                kinds.update({_family(n, k): _kind(n, k) for n, k in page.layout.types.items()})
    samples = 0
    for family in sorted(kinds):
        stream.write(f"# TYPE {family} {kinds[family]}\n")
        for target in listed:
            samples += _write_family(target, family, places, stream)
    stream.write("# EOF\n")
    return samples


def _write_family(target: Scraped, family: str, places: dict[bytes, dict[str, list[int]]], stream: TextIO) -> int:
    count = 0
    prefixes: dict[bytes, list[tuple[int, str]]] = {}
    for stamp, page in target.pages:
        digest = page.layout.digest
        known = prefixes.get(digest)
        if known is None:
            found = places[digest].get(family, [])
            series = page.layout.series
            known = prefixes[digest] = [(p, _prefix(series[p].name, target.labels, series[p].labels)) for p in found]
        if not known:
            continue
        when = f" {stamp / 1000:.3f}\n"
        values = page.values
        stream.write("".join([f"{prefix}{float(values[p])!r}{when}" for p, prefix in known]))
        count += len(known)
    return count


def write_file(targets: Iterable[Scraped], path: Path) -> int:
    """Write an OpenMetrics file, compressed where its name ends in .gz. Returns the number of samples."""
    if path.suffix == ".gz":
        with gzip.open(path, "wb", compresslevel=5) as raw, io.TextIOWrapper(raw, "utf-8", newline="\n") as text:
            return write_openmetrics(targets, text)
    with path.open("w", encoding="utf-8", newline="\n") as text:
        return write_openmetrics(targets, text)


def write_store(targets: Iterable[Scraped], store: Store) -> int:
    """Append every scrape to a store in one transaction. Returns the number of samples."""
    count = 0
    with store.writer.round():
        for target in targets:
            for stamp, page in target.pages:
                store.writer.append(target.labels, stamp, page)
                count += len(page)
    return count


CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
HOST = "127.0.0.1"


def text_page(items: list[Item]) -> str:
    """A page in the classic text format: `_created` samples are gauges of their own."""
    lines: list[str] = []
    dated: list[str] = []
    seen = ""
    for item in items:
        if item.name != seen:
            lines += dated
            dated = []
            lines.append(f"# TYPE {item.name} {item.kind}")
            seen = item.name
        values = [*item.values, item.created] if item.created is not None else item.values
        for series, value in zip(series_of(item), values, strict=True):
            pairs = ",".join(f'{k}="{v}"' for k, v in series.labels)
            line = f"{series.name}{{{pairs}}} {value!r}" if pairs else f"{series.name} {value!r}"
            if series.name.endswith("_created"):
                if not dated:
                    dated.append(f"# TYPE {series.name} gauge")
                dated.append(line)
            else:
                lines.append(line)
    return "\n".join([*lines, *dated, ""])


class Live:
    """Moves the fleet on with the clock, and answers scrapes in between. Its processes started now, not when the
    scenario says: what scrapes it reads their age. port: of the first target; 0: any free one."""

    def __init__(self, scenario: Scenario, port: int, speed: float) -> None:
        self.fleet = SimulatedFleet(structs.replace(scenario, start=round(time.time(), 3)))
        self.fleet.run(0.0)
        self.targets = FleetScraper(self.fleet).every_target()
        self._lock = threading.Lock()
        self._speed = speed
        self._started = time.monotonic()
        self.servers = [self._server(target, port and port + i) for i, target in enumerate(self.targets)]

    def _server(self, target: SimulatedTarget, port: int) -> ThreadingHTTPServer:
        live = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                body = live.answer(target) if self.path.rstrip("/") in ("/metrics", "") else None
                if body is None:
                    self.send_error(503 if self.path.startswith("/metrics") else 404)
                    return
                self.send_response(200)
                self.send_header("Content-Type", CONTENT_TYPE)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                # A scraper that has given up meanwhile is no fault of the fleet.
                with contextlib.suppress(ConnectionError):
                    self.wfile.write(body)

            def log_message(self, *args: Any) -> None:
                """Scrapes are not worth a line each."""

        try:
            return ThreadingHTTPServer((HOST, port), Handler)
        except OSError as error:
            raise InferdocError(
                f"port {port} on {HOST}: {(error.strerror or str(error)).lower()}; choose --port"
            ) from error

    def answer(self, target: SimulatedTarget) -> bytes | None:
        """The page of one target now, None while it is down."""
        with self._lock:
            now = self.fleet.now
            if not (target.exists(now) and target.alive()):
                return None
            return text_page(list(target.items(now))).encode()

    def step(self) -> float:
        """Move the fleet to the present. Returns its time in seconds."""
        with self._lock:
            self.fleet.run((time.monotonic() - self._started) * self._speed)
            return self.fleet.now

    def scrape_jobs(self) -> list[dict[str, Any]]:
        """The jobs with which a Prometheus scrapes what is served."""
        scraped = [target.scraped for target in self.targets]
        return scrape_jobs(scraped, (server.server_address[1] for server in self.servers))

    def start(self) -> None:
        for server in self.servers:
            threading.Thread(target=server.serve_forever, daemon=True).start()

    def stop(self) -> None:
        for server in self.servers:
            server.shutdown()
            server.server_close()


def scrape_jobs(targets: Sequence[Scraped], ports: Iterable[int]) -> list[dict[str, Any]]:
    """The jobs with which a Prometheus scrapes the targets under their own labels. ports: of each target."""
    jobs: dict[str, list[dict[str, Any]]] = {}
    for target, port in zip(targets, ports, strict=True):
        labels = {name: value for name, value in target.labels.items() if name != "job"}
        jobs.setdefault(target.labels["job"], []).append({"targets": [f"{HOST}:{port}"], "labels": labels})
    return [{"job_name": job, "static_configs": pages} for job, pages in jobs.items()]


def scrape_configuration(targets: Sequence[Scraped], port: int, seconds: float) -> str:
    """What a Prometheus needs to scrape the targets under their own labels, as YAML of its configuration file. port: of
    the first; seconds: between two scrapes."""
    interval = f"{max(1, round(seconds))}s"
    configs = [
        {"job_name": job["job_name"], "scrape_interval": interval, "scrape_timeout": interval, **job}
        for job in scrape_jobs(targets, range(port, port + len(targets)))
    ]
    text: str = yaml.safe_dump({"scrape_configs": configs}, sort_keys=False, allow_unicode=True)
    return text


def serve(scenario: Scenario, port: int, speed: float, log: Callable[[str], None], show: Callable[[str], None]) -> None:
    """Serve until interrupted, or until the scenario is over. log: a line of progress; show: the configuration with
    which a Prometheus scrapes the fleet."""
    live = Live(scenario, port, speed)
    show(scrape_configuration([target.scraped for target in live.targets], port, scenario.scrape / speed))
    log(f"serving {len(live.targets)} targets on {HOST}, ports {port} to {port + len(live.targets) - 1}, until Ctrl-C")
    live.start()
    try:
        while live.step() < scenario.duration:
            time.sleep(min(0.25, 1.0 / speed))
        log(f"scenario {scenario.id} is over")
    finally:
        live.stop()
