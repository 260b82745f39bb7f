"""Large fleets for the benchmarks: a simulated fleet of sixteen pods, grown to hundreds.

Every pod is a copy of one of sixteen simulated pods under its own name, node and address, scraped at its own moment of
the interval, with counters and whole gauges scaled by a factor of its own (0.8 to 1.25). So no two pods hold the same
numbers, and what compresses well is what compresses well in one pod.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Literal

import msgspec
import numpy as np

from inferdoc.collect.samples import Labels, Layout, Page, Series
from inferdoc.simulate.output import write_store
from inferdoc.simulate.scenario_files import adapted, load_scenario
from inferdoc.simulate.scrape import Scraped, simulate
from inferdoc.store import Store

Health = Literal["healthy", "some", "all"]
"""healthy; some: one pod in sixteen on a slow GPU, one short of CPU; all: every pod preempts."""

TEMPLATE_PODS = 16
FAULT_AT = 2 / 3
"""Of the time of the fleet: when the fault begins."""
NUMBERED = re.compile(r"^(vllm|node|GPU-node)-(\d+)(.*)$")
ADDRESS = re.compile(r"^10\.0\.0\.(\d+)(:\d+)$")
WHOLE = ("counter", "histogram", "summary")
SCALED_GAUGES = ("vllm:num_requests_running", "vllm:num_requests_waiting")


@lru_cache(maxsize=2)
def template(health: Health, minutes: int, seed: int = 7) -> list[Scraped]:
    """Sixteen simulated pods with their exporters. Do not change what it returns."""
    name = "kv-preemption-thrash" if health == "all" else "slow-gpu"
    scenario = adapted(load_scenario(name), TEMPLATE_PODS, seed, f"{minutes}m")
    faults = tuple(msgspec.structs.replace(fault, at=FAULT_AT * 60 * minutes) for fault in scenario.faults)
    if health == "some":
        faults += (msgspec.structs.replace(faults[0], kind="cpu", pods=("vllm-5",), cpu=0.08),)
    return simulate(msgspec.structs.replace(scenario, faults=() if health == "healthy" else faults))


def grown(targets: list[Scraped], pods: int, interval_ms: int = 15_000) -> Iterator[Scraped]:
    """The targets of a fleet of so many pods; targets that belong to no pod (the router) once."""
    for copy in range(-(-pods // TEMPLATE_PODS)):
        layouts: dict[bytes, tuple[Layout, np.ndarray]] = {}
        for target in targets:
            if NUMBERED.match(target.labels.get("pod") or target.labels["instance"]):
                if _number(target) + copy * TEMPLATE_PODS < pods:
                    yield _copied(target, copy, layouts, interval_ms)
            elif copy == 0:
                yield target


def _number(target: Scraped) -> int:
    found = NUMBERED.match(target.labels.get("pod", ""))
    return int(found.group(2)) if found else 0


def _copied(target: Scraped, copy: int, layouts: dict[bytes, tuple[Layout, np.ndarray]], interval_ms: int) -> Scraped:
    labels = {name: _renamed(value, copy) for name, value in target.labels.items()}
    token = zlib.crc32(repr(labels).encode())
    factor = float(np.exp(np.random.default_rng(token).uniform(np.log(0.8), np.log(1.25)))) if copy else 1.0
    moment = token % interval_ms
    pages = []
    for stamp, page in target.pages:
        known = layouts.get(page.layout.digest)
        if known is None:
            known = layouts[page.layout.digest] = (_layout(page.layout, copy), _scaled(page.layout))
        layout, scaled = known
        values = np.where(scaled, page.values * factor, page.values)
        values = np.where(scaled & (page.values == np.rint(page.values)), np.rint(values), values)
        pages.append((stamp // interval_ms * interval_ms + moment, Page(layout, values)))
    return Scraped(labels, pages)


def _layout(layout: Layout, copy: int) -> Layout:
    series = [Series(one.name, _relabelled(one.labels, copy)) for one in layout.series]
    return Layout(series, layout.types)


def _scaled(layout: Layout) -> np.ndarray:
    """bool[series]: what grows with the traffic of a pod."""
    kinds = [layout.type_of(one.name) in WHOLE and not one.name.endswith("_created") for one in layout.series]
    gauges = [one.name in SCALED_GAUGES for one in layout.series]
    return np.array(kinds) | np.array(gauges)


def _relabelled(labels: Labels, copy: int) -> Labels:
    return tuple((name, _renamed(value, copy)) for name, value in labels)


def numbered_on(value: str, by: int) -> str:
    """The name of a pod or node with a number that is larger by that; any other text as it is."""
    return NUMBERED.sub(lambda found: f"{found[1]}-{int(found[2]) + by}{found[3]}", value)


def _renamed(value: str, copy: int) -> str:
    """The name of the same pod or node in another copy of the template."""
    if NUMBERED.match(value):
        return numbered_on(value, copy * TEMPLATE_PODS)
    address = ADDRESS.match(value)
    return f"10.0.{copy}.{address.group(1)}{address.group(2)}" if address else value


def fleet_store(path: Path, pods: int, health: Health, minutes: int = 60) -> int:
    """Write a fleet into a new store. Returns the number of samples."""
    count = 0
    targets = template(health, minutes)
    with Store.open(path, "w") as store:
        for target in grown(targets, pods):
            count += write_store([target], store)
    return count
