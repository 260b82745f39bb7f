"""One scenario from the start of its server to both diagnoses."""

from __future__ import annotations

import asyncio
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.real_vllm.judge import collecting, diagnosis, unix
from benchmarks.real_vllm.load import Clients
from benchmarks.real_vllm.scenarios import Scenario, expected
from benchmarks.real_vllm.server import counters, serving

VOCABULARY = 4096
WARM_ANSWERS = 3
WARM_SECONDS = 240.0
"""The most that one answer may take before everything is warm."""
PROBE_SECONDS = 24.0
PROBE_RAMP_SECONDS = 6.0
PROBE_CLIENTS = 16
"""At this batch the model's throughput is near its plateau on one core, and a whole answer still takes only seconds."""
LEAD_SECONDS = 14.0
"""Usual load before the first scrape, so that no window holds the end of the measurement."""
SAMPLE_SECONDS = 4.0
SCRAPE_SECONDS = 2.0
FULL = 0.9


class Seen(NamedTuple):
    """The server's own page at a moment. at: monotonic seconds; cache: share in use; preemptions: since the start."""

    at: float
    cache: float
    running: float
    preemptions: float


@dataclass(frozen=True)
class Run:
    """What one scenario did and what was said of it. capacity: requests/s; preempted: per running request and second;
    before, after: the documents of the calm part and of the whole window; onset: Unix seconds."""

    scenario: Scenario
    capacity: float
    preempted: float
    expected: str
    onset: float
    before: dict[str, Any]
    after: dict[str, Any]
    seconds: float

    @property
    def silent(self) -> bool:
        return self.before["verdict"] == "healthy" and not self.before["findings"] and self.before["exit"] == 0

    @property
    def named(self) -> bool:
        found = self.after["findings"]
        return bool(found) and found[0]["id"] == self.expected

    @property
    def off(self) -> float:
        """Seconds from the change of load to the onset of the first finding."""
        found = self.after["findings"]
        return unix(found[0]["onset"]) - self.onset if found and found[0]["onset"] else float("nan")


def say(words: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {words}", file=sys.stderr, flush=True)


async def warm(clients: Clients, scenario: Scenario) -> None:
    """A few whole answers of each kind: the first ones compile what the engine needs, which can take a minute."""
    for stream in {scenario.probe, scenario.usual}:
        for _ in range(WARM_ANSWERS):
            await asyncio.wait_for(clients.request(stream), WARM_SECONDS)


async def capacity(clients: Clients, scenario: Scenario) -> float:
    """Requests/s that the server finishes with every place taken."""
    await warm(clients, scenario)
    probe = asyncio.create_task(clients.closed_loop(scenario.probe, min(scenario.seqs, PROBE_CLIENTS), PROBE_SECONDS))
    await asyncio.sleep(PROBE_RAMP_SECONDS)
    since = time.time()
    await probe
    rate = clients.rate(since)
    if rate <= 0:
        raise SystemExit(f"{scenario.name}: the server finished nothing in {PROBE_SECONDS:.0f} s")
    return rate


async def watch(url: str, seconds: float) -> list[Seen]:
    """The server's own page every few seconds, read without inferdoc."""
    began, seen = time.monotonic(), []
    while time.monotonic() - began < seconds - SAMPLE_SECONDS:
        shown = await asyncio.to_thread(counters, url)
        cache, running = shown.get("vllm:kv_cache_usage_perc", 0.0), shown.get("vllm:num_requests_running", 0.0)
        seen.append(Seen(time.monotonic(), cache, running, shown.get("vllm:num_preemptions_total", 0.0)))
        await asyncio.sleep(SAMPLE_SECONDS)
    return seen


def preempted(seen: Sequence[Seen]) -> float:
    """Preemptions per running request and second from the moment at which the cache was full; 0 where it never was."""
    full = next((i for i, s in enumerate(seen) if s.cache >= FULL), len(seen))
    part = seen[full:]
    if len(part) < 2:
        return 0.0
    running = max(statistics.mean(s.running for s in part), 1.0)
    return (part[-1].preemptions - part[0].preemptions) / running / (part[-1].at - part[0].at)


async def drive(url: str, scenario: Scenario, store: Path, log: Path) -> tuple[float, float, float, float, float]:
    """Measure, load, strike. Returns capacity, preemptions, and the Unix seconds of beginning, onset and end."""
    clients = Clients(url, VOCABULARY)
    most = await capacity(clients, scenario)
    say(f"{scenario.name}: finishes {most:.2f} requests/s; usual load {scenario.share * most:.2f}/s")
    await clients.open_loop(scenario.usual, scenario.share * most, LEAD_SECONDS)
    with collecting(["--target", f"{url}/metrics,pod=vllm-0"], store, log, SCRAPE_SECONDS):
        begin = time.time()
        await clients.open_loop(scenario.usual, scenario.share * most, scenario.calm)
        onset = time.time()
        say(f"{scenario.name}: {scenario.done}")
        tasks = [asyncio.create_task(clients.open_loop(scenario.then, scenario.then_share * most, scenario.struck))]
        if scenario.more is not None:
            tasks.append(asyncio.create_task(clients.closed_loop(scenario.more, scenario.clients, scenario.struck)))
        seen = await watch(url, scenario.struck)
        await asyncio.gather(*tasks)
        end = time.time()
    await clients.hang_up()
    return most, preempted(seen), begin, onset, end


def play(scenario: Scenario, vllm: Path, model: Path, work: Path) -> Run:
    """One server from start to end, and both diagnoses."""
    began = time.monotonic()
    store = work / f"{scenario.name}.db"
    for old in work.glob(f"{scenario.name}.db*"):
        old.unlink()
    say(f"{scenario.name}: starting vllm serve {' '.join(scenario.flags)}")
    with serving(vllm, model, scenario.flags, work / f"{scenario.name}.server.log") as url:
        most, share, begin, onset, end = asyncio.run(drive(url, scenario, store, work / f"{scenario.name}.collect.log"))
    before, after = diagnosis(store, begin, onset), diagnosis(store, begin, end)
    wanted = expected(scenario, share)
    done = Run(scenario, most, share, wanted, onset, before, after, time.monotonic() - began)
    found = [f"{f['id']} ({f['certainty']})" for f in after["findings"]]
    said = f"before {before['verdict']}, after {', '.join(found) or 'nothing'}, onset off {done.off:+.0f} s"
    say(f"{scenario.name}: {said}")
    return done
