"""A fleet of six pools, each with a waste of its own, and what each of them really spent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from inferdoc.simulate.output import write_store
from inferdoc.simulate.scenario import Scenario
from inferdoc.simulate.scenario_files import read_scenario
from inferdoc.simulate.scrape import simulate
from inferdoc.store import Store
from tests.cost.truth import Spent, followed

SCRAPE = 15.0


def scenario(pool: str, traffic: str, more: str = "", duration: str = "12m") -> str:
    return f"""
id: planted
title: "A pool with one waste"
expect: {{cause: null}}
pools: [{{name: pool, model: llama-3.1-8b, {pool}}}]
traffic: [{{{traffic}}}]
duration: {duration}
seed: 5
{more}
"""


CHAT = "prompt: {median: 600, sigma: 0.3, max: 2600}, output: {median: 200, sigma: 0.3, max: 400}"
PLANTED: Mapping[str, str] = {
    "idle": scenario("pods: 3, tier: a100-80", f"rate: 0.4, {CHAT}"),
    "floor": scenario("pods: 6, tier: l40s", f"rate: 6, {CHAT}"),
    "recomputed": scenario(
        "pods: 2, tier: h100-80, flags: {blocks: 1600}",
        "rate: 7, prompt: {median: 2000, sigma: 0.3, max: 8000}, output: {median: 400, sigma: 0.3, max: 2000}",
    ),
    "missed": scenario(
        "pods: 2, tier: h100-80",
        "rate: 6, prompt: {median: 300, sigma: 0.3, max: 2600}, output: {median: 100, sigma: 0.3, max: 400}, "
        "prefixes: {count: 10, tokens: 3000, rendered: false}",
        "router: {policy: prefix}",
    ),
    "rejected": scenario(
        "pods: 2, tier: h100-80, flags: {draft: 3, accept: [0.3, 0.2, 0.2], draft_cost: 0.15}", f"rate: 8, {CHAT}"
    ),
    "lost": scenario(
        "pods: 2, tier: h100-80",
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
        return sum(pool.pods * pool.gpus for pool in one.pools) * (one.duration - SCRAPE)


def planted(path: Path) -> Fleet:
    """Simulate all of them."""
    scenarios, spent = {}, {}
    with Store.open(path, "w") as store:
        for cause, text in PLANTED.items():
            scenarios[cause] = read_scenario(text + f"namespace: {cause}\n", cause)
            with followed(SCRAPE, scenarios[cause].traffic[0].prefixes.tokens) as spent[cause]:
                write_store(simulate(scenarios[cause]), store)
    return Fleet(path, scenarios, spent)
