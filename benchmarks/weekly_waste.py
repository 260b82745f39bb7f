"""Six planted wastes on a simulated week: what the report says of each, against what the engines really spent on it.

    python benchmarks/weekly_waste.py [--days N] [--only CAUSE]... [--store FILE]

Each pool is scraped every two minutes; its traffic swings over the day. Money at the prices below. The table goes into
docs/cost.md. Exit code 1 where a waste is not the first one of its pool, or its money is off by more than 15 %.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from unittest.mock import patch

from measured import measured_line
from process_cost import Spent

from inferdoc.catalogue.load import load_catalogue
from inferdoc.config import Config
from inferdoc.config_sections import PricesSection, TierPrice
from inferdoc.cost.bill import billed
from inferdoc.cost.model import Bill, BillRow
from inferdoc.simulate import fleet as simulated
from inferdoc.source.open import open_source
from tests.cost.planted import SMALL, Fleet, planted, scenario

PRICES = {"h100-80": 3.0, "a100-80": 1.5, "l40s": 1.0}
GOAL = 0.15
"""By how much money may be off."""
MONDAY = 1_771_804_800
"""In the past: what a clock has not reached yet is looked past."""
SCRAPED = f"start: {MONDAY}\nscrape: 120"
MORE = f"{SCRAPED}\nexporters: {{router: false, cadvisor: false}}"
ROUTED = f"{SCRAPED}\nexporters: {{cadvisor: false}}\nrouter: {{policy: prefix}}"
PAIR = "model: qwen3-32b, gpus: 2, pods: 2, tier: a100-80"
TICK = 2.0
"""Seconds after which clients and router look again: a request takes tens of them, and a week a quarter of the time."""
DAYS = "pattern: waves, wave: 86400, burst: 0.5"
"""Half as much again by day, half as much by night."""


def week(days: float) -> Mapping[str, str]:
    """Cause of waste -> the scenario of the pool that has it."""
    span = f"{days * 24:g}h"

    def pool(spec: str, traffic: str, more: str = MORE) -> str:
        return scenario(spec, f"{DAYS}, {traffic}", more, span)

    return {
        "idle": pool(
            f"{SMALL}, pods: 3, tier: a100-80",
            "rate: 0.03, prompt: {median: 600, sigma: 0.5, max: 4000}, output: {median: 2000, sigma: 0.5, max: 6000}",
        ),
        "floor": pool(
            f"{SMALL}, pods: 6, tier: l40s",
            "rate: 0.2, prompt: {median: 1000, sigma: 0.3, max: 4000}, output: {median: 4000, sigma: 0.3, max: 9000}",
        ),
        "recomputed": pool(
            "model: qwen3-32b, pods: 1, tier: h100-80",
            "rate: 0.065, prompt: {median: 1000, sigma: 0.3, max: 4000}, output: {median: 4000, sigma: 0.3, max: 9000}",
        ),
        "missed": pool(
            PAIR,
            "rate: 0.15, prompt: {median: 500, sigma: 0.3, max: 2600}, output: {median: 500, sigma: 0.3, max: 2000}, "
            "prefixes: {count: 10, tokens: 6000, rendered: false}",
            ROUTED,
        ),
        "rejected": pool(
            f"{PAIR}, flags: {{draft: 3, accept: [0.3, 0.2, 0.2], draft_cost: 0.15}}",
            "rate: 0.12, prompt: {median: 600, sigma: 0.3, max: 2600}, output: {median: 2000, sigma: 0.3, max: 6000}",
        ),
        "lost": pool(
            PAIR,
            "rate: 0.12, prompt: {median: 600, sigma: 0.3, max: 2600}, output: {median: 1500, sigma: 0.8, max: 6000}, "
            "timeout: 90, retries: 1",
        ),
    }


def told(fleet: Fleet) -> Bill:
    """The bill of the whole week."""
    config = Config(prices=PricesSection(tiers={tier: TierPrice(price) for tier, price in PRICES.items()}))
    return billed(open_source(store=fleet.store), config, load_catalogue(), {"since": "8d", "until": "latest"})


def line(fleet: Fleet, cause: str, row: BillRow) -> tuple[str, bool]:
    """A line of the table, and whether the waste comes first in its pool with its money within the goal."""
    (pool,) = fleet.scenarios[cause].pools
    true = fleet.wasted(cause) / 3600 * PRICES[pool.tier]
    (part,) = [part for part in row.parts if part.cause == cause]
    money = part.amount.money or 0.0
    others = [f"{one.title} {one.amount.money or 0.0:.2f}" for one in row.wasted if one.cause not in (cause, "idle")]
    whole = row.whole.money or 0.0
    cells = [part.title, f"{whole:,.2f}", f"{money:,.2f}", f"{true:,.2f}", f"{money / true if true else 0:.2f}"]
    right = abs(money - true) <= GOAL * true and cause in [one.cause for one in row.wasted if one.cause != "idle"][:1]
    if cause == "idle":
        right = abs(money - true) <= GOAL * true and row.wasted[0].cause == cause
    return f"| {' | '.join([*cells, ', '.join(others) or '-'])} |", right


def main() -> int:
    """Simulate, ask, print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--days", type=float, default=7.0)
    parser.add_argument("--only", action="append", metavar="CAUSE")
    parser.add_argument("--store", type=Path, help="keep what was scraped in this file")
    asked = parser.parse_args()
    if asked.store is not None and asked.store.exists():
        parser.error(f"--store {asked.store} is there already; what it holds would be on the bill")
    texts = {cause: text for cause, text in week(asked.days).items() if not asked.only or cause in asked.only}
    print(f"{asked.days:g} days of {len(texts)} pools", file=sys.stderr)
    with tempfile.TemporaryDirectory() as folder:
        with Spent() as simulation, patch.object(simulated, "TICK", TICK):
            fleet = planted(asked.store or Path(folder) / "week.db", texts)
        print(f"simulated in {simulation.cpu:.0f} s of CPU", file=sys.stderr)
        with Spent() as billing:
            bill = told(fleet)
        print(f"billed in {billing.cpu:.0f} s of CPU", file=sys.stderr)
    print("| waste | pool cost, USD | reported, USD | true, USD | reported / true | other waste except idle, USD |")
    print("| --- | ---: | ---: | ---: | ---: | --- |")
    right = True
    for cause in texts:
        (row,) = [row for row in bill.rows if row.name.startswith(f"{cause} ")]
        text, good = line(fleet, cause, row)
        right = right and good
        print(text)
    print(f"\n{measured_line()}")
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
