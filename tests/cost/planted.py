"""Fleets of pools with a waste of their own each, and what each of them really spent."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from inferdoc.simulate.autoscaler import pod_rate
from inferdoc.simulate.output import write_store
from inferdoc.simulate.scenario import Scenario
from inferdoc.simulate.scenario_files import read_scenario
from inferdoc.simulate.scrape import simulate
from inferdoc.simulate.workload import Traffic
from inferdoc.store import Store
from tests.cost.truth import SLOT, Spent, followed

USE = 0.6
"""Of a replica, up to which a load is carried with something to spare."""


def scenario(pool: str, traffic: str, more: str = "", duration: str = "12m") -> str:
    """The text of a scenario of one pool and one stream, in the notation of scenario files."""
    return f"""
id: planted
title: "A pool with one waste"
expect: {{cause: null}}
pools: [{{name: pool, {pool}}}]
traffic: [{{{traffic}}}]
duration: {duration}
seed: 5
{more}
"""


SMALL = "model: llama-3.1-8b"
CHAT = "prompt: {median: 600, sigma: 0.3, max: 2600}, output: {median: 200, sigma: 0.3, max: 400}"
PLANTED: Mapping[str, str] = {
    "idle": scenario(f"{SMALL}, pods: 3, tier: a100-80", f"rate: 0.4, {CHAT}"),
    "floor": scenario(f"{SMALL}, pods: 6, tier: l40s", f"rate: 6, {CHAT}"),
    "recomputed": scenario(
        f"{SMALL}, pods: 2, tier: h100-80, flags: {{blocks: 1600}}",
        "rate: 7, prompt: {median: 2000, sigma: 0.3, max: 8000}, output: {median: 400, sigma: 0.3, max: 2000}",
    ),
    "missed": scenario(
        f"{SMALL}, pods: 2, tier: h100-80",
        "rate: 6, prompt: {median: 300, sigma: 0.3, max: 2600}, output: {median: 100, sigma: 0.3, max: 400}, "
        "prefixes: {count: 10, tokens: 3000, rendered: false}",
        "router: {policy: prefix}",
    ),
    "rejected": scenario(
        f"{SMALL}, pods: 2, tier: h100-80, flags: {{draft: 3, accept: [0.3, 0.2, 0.2], draft_cost: 0.15}}",
        f"rate: 8, {CHAT}",
    ),
    "lost": scenario(
        f"{SMALL}, pods: 2, tier: h100-80",
        "rate: 8, prompt: {median: 600, sigma: 0.3, max: 2600}, output: {median: 300, sigma: 0.8, max: 1400}, "
        "timeout: 4, retries: 1",
    ),
}
"""Cause of waste -> the pool that has it. A draft costs 5 % of a step per token, as `inferdoc` takes it."""


@dataclass(frozen=True)
class Fleet:
    """store: all pools in one, each in a namespace of the name of its waste; spent: of each, in GPU-seconds."""

    store: Path
    scenarios: Mapping[str, Scenario]
    spent: Mapping[str, Spent]

    def seconds(self, cause: str) -> float:
        """GPU-seconds that are there in the recording of a pool."""
        one = self.scenarios[cause]
        return sum(pool.pods * pool.gpus for pool in one.pools) * (one.duration - one.scrape)

    def wasted(self, cause: str) -> float:
        """GPU-seconds that the waste of a pool really cost."""
        if cause == "idle":
            return self.seconds(cause) - self.spent[cause].busy
        return self._spare(cause) if cause == "floor" else float(getattr(self.spent[cause], cause))

    def _spare(self, cause: str) -> float:
        """Of the replicas beyond those that carry the rate of each quarter of an hour, and beyond two, by what a
        replica sustains; less what was idle, which is a waste of its own."""
        one = self.scenarios[cause]
        (pool,), (stream,) = one.pools, one.traffic
        sent = Traffic(0, stream, np.random.default_rng(0))
        carried = USE * pod_rate(pool, stream)
        found = 0.0
        for slot in range(math.ceil(one.duration / SLOT)):
            begin, end = max(slot * SLOT, one.scrape), min((slot + 1) * SLOT, one.duration)
            needed = max(2, math.ceil(sent.rate((begin + end) / 2) / carried))
            there = pool.gpus * (end - begin)
            idle = pool.pods * there - self.spent[cause].busy_in.get(slot, 0.0)
            found += max(0.0, (pool.pods - needed) * there - idle)
        return found


def planted(path: Path, texts: Mapping[str, str] = PLANTED) -> Fleet:
    """Simulate all of them. texts: of a scenario, by the cause of its waste."""
    scenarios, spent = {}, {}
    with Store.open(path, "w") as store:
        for cause, text in texts.items():
            one = scenarios[cause] = read_scenario(text + f"namespace: {cause}\n", cause)
            with followed(one.scrape, one.traffic[0].prefixes.tokens) as spent[cause]:
                write_store(simulate(one), store)
    return Fleet(path, scenarios, spent)
