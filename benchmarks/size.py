"""What `inferdoc size` predicts of a pool, against the simulator: KV tokens, and the rate within the objectives.

    python benchmarks/size.py            twelve pools, as a Markdown table on standard output
    python benchmarks/size.py NAME ...   some of them
    python benchmarks/size.py --hours 0.5 --rounds 2   a shorter past for --like, a coarser search

The rate that a simulated replica carries is looked for by bisection: at each rate ten minutes or a thousand requests
are simulated, and the p95 of the time to first token and the mean time between tokens of the requests that ended are
held against the objectives. The sizing gets the lengths of the traffic and the flags of the engine. One prediction is
made with the shipped shares (collectors/efficiency.yaml); one with the shares that the simulator has, which shows what
the formulas themselves are off; one with --like, from two hours in which the same pool has waves of traffic of at most
54 % of what the simulator holds it able to do.
"""

from __future__ import annotations

import argparse
import math
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import yaml
from measured import measured_line
from stores import fill_store, without_fault

from inferdoc.catalogue.load import Catalogue, load_catalogue
from inferdoc.forecast.fromsource import gather, pool_name
from inferdoc.simulate.fleet import SimulatedFleet
from inferdoc.simulate.hardware import BANDWIDTH_SHARE, FLOP_SHARE
from inferdoc.simulate.pod import engine_config
from inferdoc.simulate.request import EngineRequest
from inferdoc.simulate.scenario import Length, PoolSpec, Scenario, Stream
from inferdoc.sizing.build import EXPECTED
from inferdoc.sizing.live import STEP, LivePool, live_pool
from inferdoc.sizing.model import Predicted
from inferdoc.sizing.request import sized_for_request
from inferdoc.source.open import open_source
from inferdoc_dev.incidents.recording import record

WARM, SECONDS = 120.0, 600.0
REQUESTS = 1000
"""At least so many for a p95."""
ROUNDS = 6
HOURS = 2.0
TTFT, ITL = 2.0, 0.05
Z95 = 1.645
COLUMNS = (
    "pool", "KV tokens predicted", "simulated", "off", "requests/s simulated", "predicted, shipped shares", "off",
    "in range", "with the simulator's shares", "off", "in range", "predicted, `--like`", "off", "in range",
    "back-test: ITL off", "TTFT off",
)  # fmt: skip
LOADS = {
    "chat": (Length(600, 0.6), Length(250, 0.5)),
    "summary": (Length(3000, 0.4), Length(120, 0.4)),
}


@dataclass(frozen=True)
class Case:
    """One pool and its load."""

    name: str
    model: str
    tier: str
    gpus: int
    load: str
    itl: float = ITL


CASES = (
    Case("8b-h100", "llama-3.1-8b", "h100-80", 1, "chat"),
    Case("8b-h100-summary", "llama-3.1-8b", "h100-80", 1, "summary"),
    Case("8b-l40s", "llama-3.1-8b", "l40s", 1, "chat"),
    Case("8b-a100", "llama-3.1-8b", "a100-80", 1, "chat"),
    Case("8b-l4", "llama-3.1-8b", "l4", 1, "chat", itl=0.15),
    Case("32b-h100", "qwen3-32b", "h100-80", 2, "chat"),
    Case("32b-h200", "qwen3-32b", "h200-141", 1, "chat"),
    Case("32b-a100-summary", "qwen3-32b", "a100-80", 2, "summary"),
    Case("70b-h100", "llama-3.3-70b", "h100-80", 4, "chat"),
    Case("70b-h100-summary", "llama-3.3-70b", "h100-80", 4, "summary"),
    Case("70b-h200", "llama-3.3-70b", "h200-141", 2, "chat"),
    Case("70b-b200", "llama-3.3-70b", "b200-180", 2, "chat"),
)


class _Watched(SimulatedFleet):
    """Keeps the latencies of the requests that ended after the warm-up."""

    def __init__(self, scenario: Scenario) -> None:
        self.ttft: list[float] = []
        self.gaps: list[float] = []
        super().__init__(scenario)

    def _finished(self, request: EngineRequest, now: float) -> None:
        if now > 0 and request.first >= 0 and not request.failed:
            self.ttft.append(request.first - request.sent)
            if request.output > 1:
                self.gaps.append((now - request.first) / (request.output - 1))
        super()._finished(request, now)


def pool_of(case: Case) -> PoolSpec:
    return PoolSpec(name="vllm", pods=1, tier=case.tier, model=case.model, gpus=case.gpus)


def kept(case: Case, rate: float) -> bool:
    """Whether a simulated replica keeps both objectives at a rate."""
    prompt, output = LOADS[case.load]
    seconds = max(SECONDS, REQUESTS / rate)
    stream = Stream(prompt=prompt, output=output, rate=rate)
    scenario = without_fault(case.name, (pool_of(case),), (stream,), warmup=WARM, duration=seconds)
    fleet = _Watched(scenario)
    fleet.run(seconds)
    options = rate * seconds
    if len(fleet.ttft) < 0.9 * options:
        return False
    return float(np.quantile(fleet.ttft, 0.95)) <= TTFT and float(np.mean(fleet.gaps)) <= case.itl


def true_rate(case: Case, near: float, rounds: int) -> float:
    """Requests/s that the replica carries, to some 3 % after ROUNDS rounds."""
    low, high = near / 2, near * 2
    while kept(case, high):
        low, high = high, high * 2
    while not kept(case, low):
        low, high = low / 2, low
    for _ in range(rounds):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if kept(case, middle) else (low, middle)
    return math.sqrt(low * high)


def asked_of(case: Case) -> dict[str, object]:
    prompt, output = LOADS[case.load]
    lengths = {
        name: f"{length.mean()},{length.median * math.exp(Z95 * length.sigma)}"
        for name, length in (("prompt_tokens", prompt), ("output_tokens", output))
    }
    flags = pool_of(case).flags
    return {
        **lengths,
        "model": case.model,
        "tier": case.tier,
        "tp": case.gpus,
        "pp": 1,
        "ttft": f"{TTFT:g}s",
        "itl": f"{case.itl * 1000:g}ms",
        "prefix_share": 0.0,
        "max_num_seqs": flags.max_seqs,
        "max_num_batched_tokens": flags.budget,
    }


def lived(case: Case, folder: Path, hours: float) -> LivePool:
    """The pool after hours of waves."""
    prompt, output = LOADS[case.load]
    waves = Stream(prompt=prompt, output=output, load=0.3, pattern="waves", burst=0.8, wave=3600)
    scenario = without_fault(case.name, (pool_of(case),), (waves,), duration=3600.0 * hours)
    source = open_source(store=str(fill_store(folder / f"{case.name}.db", record(scenario).targets)))
    made = gather(source, (), load_catalogue().tiers, days=1, step=STEP, window=STEP)
    (pool,) = made.pools()
    return live_pool(source, load_catalogue().tiers, pool_name(pool), days=1)


def with_shares_of_simulator(case: Case, folder: Path) -> Catalogue:
    """The shipped catalogue and, as a user would put them there, the shares that the simulator has the tier reach: nine
    tenths of a row are expected, so rows are that much higher."""
    known = load_catalogue().efficiency.tiers.get(case.tier)
    prefill, decode = (
        [{"arithmetic": "bf16", "gpus": case.gpus, "share": share / EXPECTED, "load": "simulator"}]
        for share in (FLOP_SHARE, BANDWIDTH_SHARE)
    )
    talking = {} if known is None else {"all_reduce": known.all_reduce}
    tiers = {case.tier: {"source": "simulator", "prefill": prefill, "decode": decode, **talking}}
    own = folder / f"{case.name}-catalogue"
    (own / "collectors").mkdir(parents=True)
    (own / "collectors" / "efficiency.yaml").write_text(yaml.safe_dump({"tiers": tiers}), "utf-8")
    return load_catalogue([own])


def predicted(case: Case, like: LivePool | None = None, catalogue: Catalogue | None = None) -> dict[str, Predicted]:
    answer = sized_for_request(asked_of(case), catalogue or load_catalogue(), like)
    return {each.name: each for part in answer.parts for each in part.numbers}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="of pools; all by default")
    parser.add_argument("--hours", type=float, default=HOURS, help="of the waves before --like")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="of the search for the rate that is carried")
    given = parser.parse_args()
    print(f"| {' | '.join(COLUMNS)} |\n| --- {'| ---: ' * (len(COLUMNS) - 1)}|")
    with tempfile.TemporaryDirectory() as folder:
        for case in CASES:
            if not given.names or case.name in given.names:
                print(row(case, Path(folder), given.hours, given.rounds), flush=True)
    print(f"\n{measured_line()}")


def row(case: Case, folder: Path, hours: float, rounds: int) -> str:
    """One line of the table."""
    shipped, live = predicted(case), predicted(case, lived(case, folder, hours))
    own = predicted(case, catalogue=with_shares_of_simulator(case, folder))
    config = engine_config(pool_of(case))
    held, tokens = config.blocks * config.block_size, shipped["kv_tokens"].value or 0.0
    carried = true_rate(case, shipped["rate"].value or 1.0, rounds)
    cells = [case.name, f"{tokens:,.0f}", f"{held:,}", f"{tokens / held - 1:+.1%}", f"{carried:.3g}"]
    for rate in (shipped["rate"], own["rate"], live["rate"]):
        assert rate.value is not None and rate.high is not None
        inside = "yes" if rate.low <= carried <= rate.high else "no"
        spread = f"{rate.value:.3g} ({rate.low:.3g} to {rate.high:.3g})"
        cells += [spread, f"{rate.value / carried - 1:+.0%}", inside]
    cells += [f"{live[name].value or 0.0:.0%}" for name in ("itl_error", "ttft_error")]
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    main()
