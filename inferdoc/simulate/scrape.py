"""Scrape a simulated fleet: intervals, scrape faults and noise."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Literal

import numpy as np

from inferdoc.collect.samples import Page
from inferdoc.simulate.engine_pages import router_items, vllm_items
from inferdoc.simulate.exporter_pages import Dcgm, balancedness_items, cadvisor_items, kube_items
from inferdoc.simulate.fleet import SimulatedFleet
from inferdoc.simulate.hardware import model
from inferdoc.simulate.pod import Pod
from inferdoc.simulate.scenario import FaultSpec, Scenario
from inferdoc.simulate.stats import Item, Pages, gauge
from inferdoc.simulate.surroundings import Surroundings

BEFORE_RENAME = {"vllm:inter_token_latency_seconds": "vllm:time_per_output_token_seconds"}
"""Old names that stood beside the new ones up to 0.11 (collectors/vllm.yaml, `formerly`)."""
NEWEST_ROUTER = "0.11"
"""From here on the router has its present names alone."""

Exporter = Literal["vllm", "llm-d-router"]


def _number(version: str) -> tuple[int, ...]:
    """A release as numbers; ">0.10.0" is any that comes after 0.10.0."""
    parts = tuple(int(part) for part in version.lstrip(">").split(".")[:3])
    return (*parts[:-1], parts[-1] + 1) if version.startswith(">") else parts


@lru_cache(maxsize=2)
def _since(exporter: Exporter) -> dict[str, tuple[int, ...]]:
    from inferdoc.catalogue.load import load_catalogue

    metrics = load_catalogue().exporters[exporter].metrics
    return {name: _number(str(metric.since)) for name, metric in metrics.items() if metric.since}


@lru_cache(maxsize=2)
def _former(exporter: Exporter) -> dict[str, list[tuple[tuple[int, ...], str]]]:
    """Current name -> (last release that has it, older name), newest first."""
    from inferdoc.catalogue.load import load_catalogue

    metrics = load_catalogue().exporters[exporter].metrics
    return {
        name: [(_number(str(old.until)), old.name) for old in metric.formerly if old.until]
        for name, metric in metrics.items()
        if metric.formerly
    }


def at_version(items: Iterable[Item], version: str) -> Iterator[Item]:
    """The page as an older vLLM gives it: families that came later are absent or stand under their older name, both
    names stand where both did."""
    is_kept = _number(version)
    if is_kept >= (0, 32):
        yield from items
        return
    for item in items:
        if _since("vllm").get(item.name, (0,)) > (*is_kept, 99):
            yield from _older(item, "vllm", is_kept)
            continue
        counts_ends = item.name == "vllm:request_success_total" and is_kept < (0, 13)
        if counts_ends and dict(item.labels)["finished_reason"] in ("error", "repetition"):
            continue
        yield item
        if is_kept <= (0, 11) and item.name in BEFORE_RENAME:
            yield replace(item, name=BEFORE_RENAME[item.name])


def router_at_version(items: Iterable[Item], version: str) -> Iterator[Item]:
    """The page of an older router: families that came later are absent, and stand under their older name where they
    had one; releases between two renames write both names."""
    is_kept = _number(version)
    for item in items:
        if _since("llm-d-router").get(item.name, (0,)) <= (*is_kept, 99):
            yield item
        if is_kept < _number(NEWEST_ROUTER):
            yield from _older(item, "llm-d-router", is_kept)


def _older(item: Item, exporter: Exporter, is_kept: tuple[int, ...]) -> Iterator[Item]:
    """The item under the name that it had in a release before its present one: the oldest that had not ended."""
    names = [name for until, name in _former(exporter).get(item.name, ()) if until >= is_kept]
    if names:
        yield replace(item, name=names[-1])


class ScrapeNoise:
    """Draws for each target by itself, so that one target more or less changes nothing for the others."""

    def __init__(self, surroundings: Surroundings, interval: float) -> None:
        self._drawn = surroundings
        self._refused = surroundings.refused * interval / 3600.0
        self._rngs: dict[str, np.random.Generator] = {}

    def _rng(self, target: str) -> np.random.Generator:
        if target not in self._rngs:
            self._rngs[target] = np.random.default_rng([self._drawn.seed, 41, zlib.crc32(target.encode())])
        return self._rngs[target]

    def draw_delay(self, target: str) -> float:
        """Seconds by which the next scrape is off its place, either way."""
        return float(self._rng(target).uniform(-1.0, 1.0)) * self._drawn.jitter

    def lost(self, target: str) -> bool:
        """Whether a scrape never happens."""
        return float(self._rng(target).random()) < self._drawn.lost

    def refused(self, target: str) -> bool:
        """Whether a target that lives does not answer: `up` is 0 for one scrape."""
        return float(self._rng(target).random()) < self._refused


@dataclass
class Scraped:
    """One target. labels: those that all its series carry; pages: (milliseconds since 1970, page) in order of time."""

    labels: dict[str, str]
    pages: list[tuple[int, Page]] = field(default_factory=list)


@dataclass
class SimulatedTarget:
    """alive: whether it answers; exists: whether it is in the list of targets at all; offset: s into the interval at
    which it is scraped; skip: lost scrapes; delay: s that its answer comes late, by a draw between 0 and 1."""

    scraped: Scraped
    items: Callable[[float], Iterator[Item]]
    alive: Callable[[], bool]
    exists: Callable[[float], bool]
    offset: float
    skip: Callable[[float], bool] = lambda now: False
    delay: Callable[[float], float] = lambda draw: 0.0


class FleetScraper:
    """take(until) scrapes everything that is due by then, in order of time. The fleet is moved on as it goes."""

    def __init__(self, fleet: SimulatedFleet) -> None:
        self.fleet = fleet
        self._scenario: Scenario = fleet.scenario
        self._pages = Pages()
        self._rng = np.random.default_rng([self._scenario.seed, 11])
        self._targets: list[SimulatedTarget] = []
        self._known: set[str] = set()
        self._dcgm = Dcgm(self._scenario.seed, self._scenario.exporters.dcgm_profiling)
        drawn = self._scenario.surroundings
        self._noise = None if drawn is None else ScrapeNoise(drawn, self._scenario.scrape)
        self._faults = [f for f in self._scenario.faults if f.kind in ("scrape-gap", "duplicate-target", "drop-series")]
        self._discover()
        namespace = self._scenario.namespace
        if self._scenario.exporters.router:
            self._add("llm-d-epp", "10.0.250.1:9090", "epp-0", self._router)
        if self._scenario.exporters.kube:
            self._add("kube-state-metrics", "10.0.250.2:8080", "", lambda now: kube_items(fleet, namespace))

    @property
    def targets(self) -> list[Scraped]:
        return [t.scraped for t in self._targets if t.scraped.pages]

    def every_target(self) -> list[SimulatedTarget]:
        return list(self._targets)

    def take(self, until: float) -> None:
        """Scrape what is due in [now, until)."""
        interval = self._scenario.scrape
        start = max(0.0, self.fleet.now)
        due = []
        for target in self._targets:
            first = int(np.ceil((start - target.offset) / interval))
            moment = first * interval + target.offset
            while moment < until:
                due.append((self._off(moment, start, until, target), target))
                moment += interval
        for moment, target in sorted(due, key=lambda entry: entry[0]):
            self.fleet.run(moment)
            self._scrape(target, moment)
        self.fleet.run(until)
        self._discover()

    def _off(self, moment: float, start: float, until: float, target: SimulatedTarget) -> float:
        """When a scrape happens that is due at `moment`: a little off where the surroundings say so."""
        if self._noise is None:
            return moment
        return min(max(moment + self._noise.draw_delay(target.scraped.labels["instance"]), start), until - 1e-3)

    def _scrape(self, target: SimulatedTarget, moment: float) -> None:
        if not target.exists(moment) or target.skip(moment):
            return
        stamp = round(1000 * (self._scenario.start + moment))
        answered = target.alive()
        if self._noise is not None:
            if self._noise.lost(target.scraped.labels["instance"]):
                return
            answered &= not self._noise.refused(target.scraped.labels["instance"])
        items = list(target.items(moment)) if answered else []
        items.append(gauge("up", float(answered)))
        took = float(self._rng.uniform(0.004, 0.012))
        # No draw of its own: a share of the same one, so that a fleet without a fault is the same fleet as before.
        items.append(gauge("scrape_duration_seconds", round(took + target.delay((took - 0.004) / 0.008), 6)))
        target.scraped.pages.append((stamp, self._pages.page(items)))

    # ---- targets -----------------------------------------------------------------------------------------------

    def _discover(self) -> None:
        for pod in self.fleet.pods:
            if pod.name not in self._known:
                self._known.add(pod.name)
                self._pod(pod)
                self._node(pod)

    def _add(
        self,
        job: str,
        instance: str,
        pod: str,
        items: Callable[[float], Iterator[Item]],
        alive: Callable[[], bool] = lambda: True,
        exists: Callable[[float], bool] = lambda now: True,
        skip: Callable[[float], bool] = lambda now: False,
        delay: Callable[[float], float] = lambda draw: 0.0,
    ) -> None:
        found = {"job": job, "instance": instance}
        if pod:
            found |= {"namespace": self._scenario.namespace, "pod": pod}
        # A fixed place within the interval, as Prometheus gives each target one.
        offset = zlib.crc32(f"{job}{instance}".encode()) % 997 / 997 * self._scenario.scrape
        self._targets.append(SimulatedTarget(Scraped(found), items, alive, exists, offset, skip, delay))

    def _pod(self, pod: Pod) -> None:
        pod.unix = self._scenario.start
        name = self.model_name(pod)

        def active_faults(kind: str, now: float) -> Iterator[FaultSpec]:
            """Who has whose place is known when a new pod is ready, after it was first scraped."""
            for fault in self._faults:
                here = not fault.pods or pod.name in map(self.fleet.heir, fault.pods)
                if fault.kind == kind and here and fault.at <= now and (fault.until is None or now < fault.until):
                    yield fault

        def items(now: float) -> Iterator[Item]:
            dropped = tuple(n for f in active_faults("drop-series", now) for n in f.families)
            for item in at_version(vllm_items(pod, name, self._scenario.start), pod.spec.version):
                if item.name not in dropped:
                    yield item

        def lost(now: float) -> bool:
            return any(self._rng.random() < f.lost for f in active_faults("scrape-gap", now))

        def twice(now: float) -> bool:
            return pod.scraped and any(active_faults("duplicate-target", now))

        self._add(
            "vllm", pod.instance, pod.name, items, lambda: pod.alive, lambda now: pod.scraped, lost, pod.page_delay
        )
        if any(fault.kind == "duplicate-target" for fault in self._faults):
            again = pod.instance.replace(":8000", ":8001")
            self._add("vllm", again, pod.name, items, lambda: pod.alive, twice)

    def _node(self, pod: Pod) -> None:
        """The exporters of the pod's node, once a node; the log of an expert-parallel engine, once an engine."""
        exporters, node = self._scenario.exporters, pod.node

        def here() -> list[Pod]:
            return [p for p in self.fleet.pods if p.node == node]

        def dcgm(now: float) -> Iterator[Item]:
            return self._dcgm.items([rank for p in here() for rank in p.ranks], now, self._scenario.namespace)

        def cadvisor(now: float) -> Iterator[Item]:
            return cadvisor_items(here(), now, self._scenario.namespace)

        if pod.spec.flags.balancedness_log:
            host = pod.instance.replace(":8000", ":9400")

            def log(now: float) -> Iterator[Item]:
                return balancedness_items(pod, self.model_name(pod), self._rng)

            self._add("inferdoc-eplb", host, pod.name, log, lambda: pod.alive, lambda now: pod.scraped)
        if node in self._known:
            return
        self._known.add(node)
        if exporters.dcgm and pod.spec.measured is None:
            self._add("dcgm-exporter", f"{node}:9400", "", dcgm)
        if exporters.cadvisor:
            self._add("cadvisor", f"{node}:10250", "", cadvisor)

    def _router(self, now: float) -> Iterator[Item]:
        items = router_items(self.fleet, self.model_name(self.fleet.pods[0]), self._scenario.namespace)
        return router_at_version(items, self._scenario.router.version)

    @staticmethod
    def model_name(pod: Pod) -> str:
        return "tiny" if pod.spec.measured is not None else model(pod.spec.model).name


def simulate(scenario: Scenario, progress: Callable[[float], None] | None = None) -> list[Scraped]:
    """Run a scenario from its warm-up to its end and return what was scraped, under the names of the simulation.
    progress: called with the share done."""
    return scrape_all(scenario, progress).targets


def scrape_all(scenario: Scenario, progress: Callable[[float], None] | None = None) -> FleetScraper:
    """Run a scenario from its warm-up to its end; what was scraped, and the fleet as it is then."""
    fleet = SimulatedFleet(scenario)
    fleet.run(0.0)
    scraper = FleetScraper(fleet)
    done = 0.0
    while done < scenario.duration:
        done = min(done + scenario.scrape, scenario.duration)
        scraper.take(done)
        if progress is not None:
            progress(done / scenario.duration)
    return scraper
