"""Folders in which the commands of quoted outputs run: the files that a page's example reads, by the fixture's name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from inferdoc.simulate.output import write_store
from inferdoc.simulate.scenario import EngineFlags, Expect, Length, PoolSpec, Prefixes, Scenario, Stream
from inferdoc.store import Store
from inferdoc_dev.incidents.recording import record
from tests.bench import made as bench
from tests.built import built
from tests.canary.made import Pod, fleet
from tests.canary.made import store as canary_store
from tests.cost.planted import planted
from tests.headroom.test_command import made_fleet

PRICES = """
[prices]
currency = "USD"
tiers.h100-80.on_demand = 3.0
tiers.a100-80.on_demand = 1.5
tiers.l40s.on_demand = 1.0
"""


def cost(folder: Path) -> None:
    planted(folder / "fleet.db")
    (folder / "inferdoc.toml").write_text(PRICES, "utf-8")


def cache(folder: Path) -> None:
    """Forty minutes of a pod whose prompts share prefixes."""
    stream = Stream(prompt=Length(300, 0.5), output=Length(120, 0.4), rate=4.0, prefixes=Prefixes(60, 1500, 0.8, 0.9))
    _simulated(folder, "h100-80", 1, stream, EngineFlags(blocks=5000, kv_metrics=True), 2400.0, 30.0)


def canary(folder: Path) -> None:
    canary_store(folder / "fleet.db", fleet(slower=1.6))


def benchmark(folder: Path) -> None:
    bench.runs(folder, "vllm")


def production(folder: Path) -> None:
    """A benchmark, and a store of two pods of its model with longer prompts that hit the prefix cache."""
    for rate in bench.RATES:
        bench.written(folder, f"vllm-{rate:g}.json", bench.vllm(rate, model_id="llama", block_size="32", tp="4"))
    pods = [Pod(f"llama-{number}", rate=6.0, prompt=1500.0, hits=0.3) for number in range(2)]
    canary_store(folder / "fleet.db", pods, seconds=5400)


def whatif(folder: Path) -> None:
    """A quarter of an hour of two pods below their limit."""
    _simulated(folder, "l40s", 2, Stream(Length(800, 0.5), Length(150, 0.4), rate=2.0), EngineFlags(), 910.0, 15.0)


def _simulated(
    folder: Path, tier: str, pods: int, traffic: Stream, flags: EngineFlags, seconds: float, scrape: float
) -> None:
    scenario = Scenario(
        id="docs",
        title="docs",
        expect=Expect(cause=None),
        pools=(PoolSpec("vllm", pods, tier, flags=flags),),
        traffic=(traffic,),
        duration=seconds,
        warmup=300.0,
        scrape=scrape,
        start=1_795_000_200.0,
    )
    with Store.open(folder / "fleet.db", "w") as store:
        write_store(record(scenario).targets, store)


FIXTURES: dict[str, Callable[[Path], None]] = {
    "nothing": lambda folder: None,
    "cost": cost,
    "cache": cache,
    "canary": canary,
    "benchmark": benchmark,
    "production": production,
    "whatif": whatif,
    "headroom": made_fleet,
}


def folder_of(fixture: str) -> Path:
    """The folder of a fixture, made once per session. Read-only."""
    return built(f"docs {fixture}", FIXTURES[fixture])
