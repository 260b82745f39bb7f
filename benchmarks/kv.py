"""Hits that `inferdoc kv` predicts of other cache sizes, against simulations of the same traffic with those caches.

    python benchmarks/kv.py            all pools, as a Markdown table on standard output
    python benchmarks/kv.py NAME ...   some of them
    python benchmarks/kv.py --minutes 10   shorter simulations than an hour

Each pool is simulated for an hour at its size, half, twice and ten times of it, with the same seed: arrivals, lengths
and prefixes are the same. What is true of a size is the share of the prompt tokens that hit there, in the hour after a
warm-up of ten minutes, or of a sixth of the time.
"""

from __future__ import annotations

import argparse
import tempfile
from dataclasses import dataclass
from pathlib import Path

from measured import measured_line
from msgspec.structs import replace
from stores import fill_store, without_fault

from inferdoc.catalogue.load import load_catalogue
from inferdoc.config import Config
from inferdoc.kv.live import CachedPool, pool_for_request
from inferdoc.kv.sizes import HitsAt, by_gaps
from inferdoc.simulate.scenario import EngineFlags, Length, Policy, PoolSpec, Prefixes, RouterSpec, Stream
from inferdoc.source.open import open_source
from inferdoc_dev.incidents.recording import record

MINUTES, WARM_SHARE = 60.0, 1 / 6
SIZES = (0.5, 2.0, 10.0)
CHATS = Stream(prompt=Length(500, 0.6), output=Length(150, 0.4), rate=3.0, turns=5.0, think=40.0)
SLOW_CHATS = Stream(prompt=Length(500, 0.6), output=Length(150, 0.4), rate=2.0, turns=8.0, think=120.0)
PREFIXES = Stream(prompt=Length(300, 0.5), output=Length(120, 0.4), rate=4.0, prefixes=Prefixes(60, 1500, 0.8, 0.9))
EVEN = Stream(prompt=Length(300, 0.5), output=Length(120, 0.4), rate=4.0, prefixes=Prefixes(300, 1000, 1.0, 0.0))
MIXED = (
    Stream(prompt=Length(400, 0.6), output=Length(150, 0.4), rate=1.5, turns=5.0, think=40.0),
    Stream(prompt=Length(300, 0.5), output=Length(120, 0.4), rate=2.0, prefixes=Prefixes(100, 1200, 0.8, 0.8)),
    Stream(prompt=Length(1500, 0.4), output=Length(100, 0.4), rate=0.5),
)
WAVES = replace(PREFIXES, pattern="waves", burst=0.6, wave=1800.0)


@dataclass(frozen=True)
class Case:
    """blocks: of one pod's KV cache."""

    name: str
    traffic: tuple[Stream, ...]
    blocks: int
    pods: int = 1
    policy: Policy = "least-loaded"


CASES = (
    Case("chats, small", (CHATS,), 20_000),
    Case("chats", (CHATS,), 40_000),
    Case("chats, large", (CHATS,), 80_000),
    Case("slow chats", (SLOW_CHATS,), 40_000),
    Case("prefixes, small", (PREFIXES,), 2_500),
    Case("prefixes", (PREFIXES,), 5_000),
    Case("prefixes, large", (PREFIXES,), 10_000),
    Case("even prefixes", (EVEN,), 12_000),
    Case("prefixes in waves", (WAVES,), 5_000),
    Case("mixed", MIXED, 12_000),
    Case("mixed, 2 pods at random", MIXED, 8_000, 2, "random"),
    Case("mixed, 2 pods by prefix", MIXED, 8_000, 2, "prefix"),
)


def simulated(case: Case, memory: float, minutes: float, folder: Path) -> CachedPool:
    """The pool with so many times its KV cache, as `inferdoc kv` reads it."""
    flags = EngineFlags(blocks=round(case.blocks * memory), kv_metrics=True)
    scenario = without_fault(
        case.name,
        (PoolSpec(name="vllm", pods=case.pods, flags=flags),),
        case.traffic,
        router=RouterSpec(policy=case.policy),
        duration=60 * minutes,
        warmup=60 * minutes * WARM_SHARE,
        scrape=30.0,
    )
    path = fill_store(folder / f"{case.name}-{memory:g}.db", record(scenario).targets)
    return pool_for_request(open_source(store=path), Config(), load_catalogue(), {"history": "1d"})


def hits(pool: CachedPool) -> float:
    """Share of the prompt tokens that hit, over the whole time."""
    return float(pool.hits.sum() / pool.looked.sum())


def row(case: Case, minutes: float) -> tuple[str, list[tuple[HitsAt, float]]]:
    """A line of the table, and predictions with what is true."""
    with tempfile.TemporaryDirectory() as folder:
        pool = simulated(case, 1.0, minutes, Path(folder))
        predicted = by_gaps(pool, SIZES)
        true = [hits(simulated(case, size, minutes, Path(folder))) for size in SIZES]
    cells = [case.name, f"{hits(pool):.1%}"]
    for each, share in zip(predicted, true, strict=True):
        inside = "" if within(each, share) else " no"
        cells += [f"{each.hits:.1%} ({each.low:.0%} to {each.high:.0%}){inside}", f"{share:.1%}"]
    return f"| {' | '.join(cells)} |", list(zip(predicted, true, strict=True))


def within(predicted: HitsAt, true: float) -> bool:
    """Whether the range holds what is true, to a point: the two runs differ by that by chance."""
    return predicted.low - 0.01 <= true <= predicted.high + 0.01


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="of pools; all by default")
    parser.add_argument("--minutes", type=float, default=MINUTES, help="of each simulation")
    given = parser.parse_args()
    heads = ["pool", "hits", *(word for size in SIZES for word in (f"{size:g}x predicted", "true"))]
    print(f"| {' | '.join(heads)} |\n| --- |{' ---: |' * (len(heads) - 1)}")
    told: list[list[tuple[HitsAt, float]]] = []
    for case in CASES:
        if not given.names or case.name in given.names:
            line, pairs = row(case, given.minutes)
            told.append(pairs)
            print(line, flush=True)
    for at, size in enumerate(SIZES):
        off = sorted(abs(each[at][0].hits - each[at][1]) for each in told)
        inside = sum(within(*each[at]) for each in told)
        print(
            f"{size:g}x: off by {off[len(off) // 2]:.1%} (median), {off[-1]:.1%} (most); {inside} of {len(off)} inside"
        )
    print(f"\n{measured_line()}")


if __name__ == "__main__":
    main()
