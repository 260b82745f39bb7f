"""Changes that `inferdoc whatif` predicts, against the same changes made for real in the simulator.

    python benchmarks/whatif.py                  all fleets and changes: a Markdown table, then the sums
    python benchmarks/whatif.py NAME ...         some of the fleets
    python benchmarks/whatif.py --change traffic=1.5   one change of each fleet
    python benchmarks/whatif.py --minutes 15 --truths 2   shorter histories, fewer runs after a change
    python benchmarks/whatif.py --write          also put table and sums into docs/whatif.md
    python benchmarks/whatif.py --seed N         other draws of histories and truths than those of the table

A fleet is simulated for 20 minutes and stored; `inferdoc whatif` sees nothing but the store. Then the change is made on
the fleet itself, with its own step times, traffic and prefixes, and other seeds. What is true of a quantity is the
median of three such runs for its direction, and each run alone for the bands, since whoever changes a fleet sees one.
"""

from __future__ import annotations

import argparse
import math
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from dataclasses import replace as with_fields
from pathlib import Path

import numpy as np
from measured import measured_line
from msgspec.structs import replace
from stores import fill_store, without_fault

from inferdoc.catalogue.load import load_catalogue
from inferdoc.config import Config
from inferdoc.simulate.scenario import (
    EngineFlags,
    Length,
    Policy,
    PoolSpec,
    Prefixes,
    Role,
    RouterSpec,
    Scenario,
    Stream,
)
from inferdoc.simulate.workload import scaled
from inferdoc.source.open import open_source
from inferdoc.whatif.answer import calibrated_as_observed, changed_for_request
from inferdoc.whatif.live import observed_for_request
from inferdoc.whatif.predict import QUANTITIES, SAME, Calibrated, Prediction, move_of, plays_now, predicted, value_of
from inferdoc.whatif.run_simulation import PlayedPool, played
from inferdoc.whatif.setting import settings_for_request, side_of
from inferdoc_dev.incidents.recording import record

MINUTES, CLOSING_SECONDS = 20.0, 10.0
"""Of the history: its length, and the scrape that closes the last minute."""
SECONDS = 60 * MINUTES + CLOSING_SECONDS
PAGE = Path(__file__).parent.parent / "docs" / "whatif.md"
BEGIN, END = "<!-- benchmark -->", "<!-- /benchmark -->"
HISTORY_SEED = 1
TRUE_SEEDS = (901, 902, 903)
"""Each plus what --seed gives."""
JUDGED = ("goodput", "ttft_p99", "ttft_p50", "itl_p50", "itl_p99")


@dataclass(frozen=True)
class Fleet:
    """limits: seconds to the first token and per token that count as good; changes: as a user writes them, several with
    a blank between; now: what he tells of the fleet as it is; decode: beside a pool that does prefill."""

    name: str
    pool: PoolSpec
    stream: Stream
    limits: tuple[float, float]
    changes: tuple[str, ...]
    policy: Policy = "least-loaded"
    now: tuple[str, ...] = ()
    decode: PoolSpec | None = None
    seconds: float = SECONDS

    @property
    def pools(self) -> tuple[PoolSpec, ...]:
        """One, or the prefill and the decode pool."""
        return (self.pool,) if self.decode is None else (self.pool, self.decode)

    def scenario(self, seed: int) -> Scenario:
        """Its minutes before any change."""
        return without_fault(
            self.name,
            self.pools,
            (self.stream,),
            router=RouterSpec(policy=self.policy),
            duration=self.seconds,
            warmup=180.0,
            scrape=15.0,
            seed=seed,
            start=1_795_000_200.0,
        )


CHAT = Stream(Length(600, 0.7), Length(220, 0.6))
RAG = Stream(Length(2500, 0.5), Length(150, 0.5))
LONG = Stream(Length(500, 0.6), Length(500, 0.6))
SHARED = Stream(Length(500, 0.6), Length(180, 0.5), prefixes=Prefixes(24, 1200, 0.8, 0.8))


def _pool(pods: int, tier: str = "h100-80", model: str = "llama-3.1-8b", gpus: int = 1, **flags: object) -> PoolSpec:
    return PoolSpec("vllm", pods, tier, model, gpus, flags=EngineFlags(**flags))  # type: ignore[arg-type]


def _side(role: Role, pods: int, tier: str = "h100-80", model: str = "llama-3.1-8b", gpus: int = 1) -> PoolSpec:
    return PoolSpec(role, pods, tier, model, gpus, role)


FLEETS = (
    Fleet(
        "chat 8B, l40s",
        _pool(2, "l40s"),
        replace(CHAT, rate=7.0),
        (1.0, 0.06),
        ("replicas=3", "replicas=1", "traffic=1.5", "tier=h100-80", "max-num-seqs=16", "answers=1.5"),
    ),
    Fleet(
        "chat 8B, a100, waves",
        _pool(2, "a100-80"),
        replace(CHAT, rate=9.0, pattern="waves", burst=0.5, wave=900.0),
        (1.0, 0.05),
        ("replicas=1", "replicas=4", "traffic=1.5", "tier=l40s", "batch-tokens=1024", "max-num-seqs=24"),
    ),
    Fleet(
        "rag 8B, a100",
        _pool(2, "a100-80"),
        replace(RAG, rate=4.5),
        (2.0, 0.08),
        ("replicas=3", "traffic=1.3", "tier=h100-80", "batch-tokens=2048", "prompts=0.5", "max-num-seqs=8"),
    ),
    Fleet(
        "long answers 32B, h100 x2",
        _pool(2, model="qwen3-32b", gpus=2),
        replace(LONG, rate=5.0, pattern="ramp", burst=2.0, wave=SECONDS),
        (1.0, 0.05),
        ("replicas=1", "replicas=3", "traffic=2", "tier=h200-141", "kv-dtype=fp8", "max-num-seqs=48"),
    ),
    Fleet(
        "shared prefixes 8B, l40s",
        _pool(3, "l40s"),
        replace(SHARED, rate=7.0),
        (1.0, 0.06),
        ("replicas=2", "replicas=5", "traffic=1.4", "tier=a100-80", "router=prefix", "max-num-seqs=12"),
        now=("router=least-loaded",),
    ),
    Fleet(
        "small cache 8B, l40s",
        _pool(2, "l40s", pool=0.12),
        replace(LONG, rate=2.0),
        (2.0, 0.08),
        ("kv-dtype=fp8", "kv-tokens=60000", "traffic=1.4", "replicas=3", "max-num-seqs=24", "answers=1.3"),
    ),
    Fleet(
        "few seats 8B, h100",
        _pool(2, max_seqs=24),
        replace(CHAT, rate=17.0),
        (1.0, 0.05),
        ("max-num-seqs=64", "max-num-seqs=16", "replicas=3", "traffic=1.4", "tier=h200-141", "prompts=1.5"),
    ),
    Fleet(
        "drafts 70B, h100 x4",
        _pool(2, model="llama-3.3-70b", gpus=4, draft=3, accept=(0.8, 0.75, 0.7)),
        replace(CHAT, rate=8.0),
        (1.5, 0.06),
        ("draft-tokens=0", "draft-tokens=5", "replicas=1", "traffic=1.6", "tier=h200-141", "max-num-seqs=32"),
    ),
    Fleet(
        "experts 30B, h100 x2",
        _pool(2, model="qwen3-30b-a3b", gpus=2),
        replace(CHAT, rate=10.0, pattern="bursts", burst=2.5, burst_for=60.0, burst_every=300.0),
        (0.5, 0.03),
        ("replicas=1", "replicas=3", "traffic=1.5", "batch-tokens=1024", "max-num-seqs=32", "answers=0.7"),
    ),
    Fleet(
        "at random 8B, l4",
        _pool(4, "l4", memory_share=0.95),
        replace(CHAT, rate=3.0),
        (2.0, 0.12),
        ("router=least-loaded", "router=round-robin", "replicas=6", "replicas=3", "traffic=1.3", "tier=l40s"),
        policy="random",
        now=("router=random",),
    ),
    Fleet(
        "parted 8B, h100 + a100",
        _side("prefill", 2, "h100-80"),
        replace(RAG, rate=16.0),
        (1.0, 0.06),
        (
            "prefill.replicas=3",
            "prefill.replicas=1 decode.replicas=3",
            "decode.replicas=1",
            "traffic=1.3",
            "decode.tier=h100-80",
            "prefill.batch-tokens=2048",
        ),
        decode=_side("decode", 2, "a100-80"),
    ),
    Fleet(
        "parted 32B, h100 x2",
        _side("prefill", 2, model="qwen3-32b", gpus=2),
        replace(CHAT, rate=12.0, pattern="waves", burst=0.4, wave=900.0),
        (1.0, 0.05),
        (
            "prefill.replicas=1 decode.replicas=3",
            "decode.replicas=1",
            "decode.max-num-seqs=32",
            "kv-dtype=fp8",
            "answers=1.5",
            "prompts=2",
        ),
        decode=_side("decode", 2, model="qwen3-32b", gpus=2),
    ),
)


def really(fleet: Fleet, change: str, seed: int) -> PlayedPool:
    """The fleet after the change, as it is: its own machines, traffic and prefixes."""
    pools, stream, policy = fleet.pools, fleet.stream, fleet.policy
    for asked in change.split():
        key, _, value = asked.partition("=")
        side, own = side_of(key)
        if own == "router":
            policy = value  # type: ignore[assignment]
        elif own == "traffic":
            stream = replace(stream, rate=stream.rate * float(value))
        elif own == "prompts":
            stream = replace(stream, prompt=scaled(stream.prompt, float(value)))
        elif own == "answers":
            stream = replace(stream, output=scaled(stream.output, float(value)))
        else:
            pools = tuple(_changed(pool, own, value) if side in (None, pool.role) else pool for pool in pools)
    scenario = fleet.scenario(seed)
    router = replace(scenario.router, policy=policy)
    return truly(replace(scenario, pools=pools, traffic=(stream,), router=router))


def _changed(pool: PoolSpec, key: str, value: str) -> PoolSpec:
    """A pool with another setting."""
    flags = pool.flags
    if key == "replicas":
        return replace(pool, pods=int(value))
    if key == "tier":
        return replace(pool, tier=value)
    of_flags: dict[str, Callable[[], dict[str, object]]] = {
        "max-num-seqs": lambda: {"max_seqs": int(value)},
        "batch-tokens": lambda: {"budget": int(value)},
        "chunk-tokens": lambda: {"long_prefill": int(value)},
        "kv-tokens": lambda: {"blocks": int(value) // flags.block_size},
        "kv-dtype": lambda: {"cache_dtype": value},
        "draft-tokens": lambda: {
            "draft": int(value),
            "accept": _longer(flags.accept, int(value)),
            # Tokens are drafted one after the other.
            "draft_cost": flags.draft_cost * int(value) / max(1, flags.draft),
        },
    }
    return replace(pool, flags=replace(flags, **of_flags[key]()))


def truly(scenario: Scenario) -> PlayedPool:
    """The minutes that a calibration is shown: not the first, in which pages were read for the first time."""
    duration = scenario.duration - CLOSING_SECONDS
    return played(replace(scenario, duration=duration), begin=60.0, apart=len(scenario.pools) > 1)


def _longer(accept: tuple[float, ...], draft: int) -> tuple[float, ...]:
    """Further positions are accepted as the last one is."""
    return (*accept, *([accept[-1]] * max(0, draft - len(accept))))[:draft]


def calibration(fleet: Fleet, folder: Path, seed: int = 0) -> Calibrated:
    """As `inferdoc whatif` makes it of the fleet's pages."""
    catalogue = load_catalogue()
    path = fill_store(folder / "fleet.db", record(fleet.scenario(HISTORY_SEED + seed)).targets)
    live = observed_for_request(open_source(store=path), Config(), catalogue, {"history": "1h"})
    return calibrated_as_observed(live, catalogue, settings_for_request(fleet.now, "--now", of_now=True), fleet.limits)


@dataclass(frozen=True)
class Checked:
    """One change. right: of goodput and TTFT p99, whether the direction was; off: goodput predicted over true, less 1;
    inside, looked: true values inside their bands, of all."""

    fleet: str
    change: str
    prediction: Prediction
    true: dict[str, float]
    moves: dict[str, str]
    inside: dict[str, list[bool]]

    def right(self, name: str) -> bool:
        """Whether a quantity moved to the side that was predicted, or stood still as was predicted."""
        row = self.prediction.row(name)
        if self.moves[name] == row.move:
            return True
        higher = row.then.value > row.now.value
        side = "better" if higher == row.quantity.up else "worse"
        return row.then.value != row.now.value and self.moves[name] == side

    @property
    def off(self) -> float:
        """Goodput predicted over true, less 1; NaN where nothing was good."""
        good = self.true["goodput"]
        return self.prediction.row("goodput").then.value / good - 1.0 if good > 0 else math.nan


def checked(fleet: Fleet, seed: int, only: str | None, truths: int) -> list[Checked]:
    """All changes of a fleet, or one. seed: of the draws; truths: runs after each change."""
    with tempfile.TemporaryDirectory() as folder:
        pool = calibration(fleet, Path(folder), seed)
    before = plays_now(pool)
    true_seeds = [each + seed for each in TRUE_SEEDS[:truths]]
    true_before = [truly(fleet.scenario(each)) for each in true_seeds]
    rows = []
    for change in [one for one in fleet.changes if only in (None, one)]:
        asked = changed_for_request(pool, settings_for_request(change.split(), "--set"), load_catalogue())
        prediction = predicted(pool, asked, before)
        true_after = [really(fleet, change, each) for each in true_seeds]
        true, moves, inside = {}, {}, {}
        for quantity in QUANTITIES:
            now, then = (
                np.array([value_of(quantity, play, fleet.limits) for play in plays])
                for plays in (true_before, true_after)
            )
            true[quantity.name], moves[quantity.name] = float(np.median(then)), move_of(quantity, now, then)
            band = prediction.row(quantity.name).then
            inside[quantity.name] = [bool(band.low <= value <= band.high) for value in then]
        rows.append(Checked(fleet.name, change, prediction, true, moves, inside))
    return rows


def line(row: Checked) -> str:
    """A row of the table."""
    cells = [row.fleet, f"`{row.change}`"]
    for name in ("goodput", "ttft_p99"):
        each = row.prediction.row(name)
        wrong = "" if row.right(name) else f" **{each.move}, was {row.moves[name]}**"
        cells += [
            f"{each.then.value:.3g} ({each.then.low:.3g} to {each.then.high:.3g})",
            f"{row.true[name]:.3g}{wrong}",
        ]
    cells.append("yes" if row.prediction.guesses else "")
    return f"| {' | '.join(cells)} |"


HEAD = (
    "| fleet | change | goodput predicted, 1/s | true | TTFT p99 predicted, s | true | outside |\n"
    "| --- | --- | ---: | ---: | ---: | ---: | --- |"
)


def sums(rows: list[Checked]) -> str:
    """What the whole table comes to."""
    pairs = [(row, name) for row in rows for name in ("goodput", "ttft_p99")]
    right = sum(row.right(name) for row, name in pairs)
    words = sum(row.moves[name] == row.prediction.row(name).move for row, name in pairs)
    opposite = sum({row.moves[name], row.prediction.row(name).move} == {"better", "worse"} for row, name in pairs)
    both = sum(all(row.right(name) for name in ("goodput", "ttft_p99")) for row in rows)
    offs = sorted(abs(row.off) for row in rows if math.isfinite(row.off))
    head = f"- {len(rows)} changes; direction right for both goodput and TTFT p99: {both} ({both / len(rows):.0%}); "
    lines = [
        f"{head}of the {len(pairs)} single ones {right} ({right / len(pairs):.0%}), opposite {opposite}",
        f"- better, worse or same (below {SAME:.0%}) word for word: {words} of {len(pairs)} ({words / len(pairs):.0%})",
        f"- goodput off by {offs[len(offs) // 2]:.1%} (median), {offs[int(0.9 * len(offs))]:.0%} (p90)",
    ]
    for name in JUDGED:
        held = [inside for row in rows for inside in row.inside[name]]
        lines.append(f"- {name}: {np.mean(held):.0%} of the true values inside the bands")
    every = [inside for row in rows for name in JUDGED for inside in row.inside[name]]
    lines.append(f"- all five together: {np.mean(every):.0%} inside")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="of fleets; all by default")
    parser.add_argument("--seed", type=int, default=0, help="added to the seed of every draw")
    parser.add_argument("--change", help="of each fleet this change alone")
    parser.add_argument("--minutes", type=float, default=MINUTES, help="of the history")
    parser.add_argument("--truths", type=int, default=len(TRUE_SEEDS), choices=range(2, len(TRUE_SEEDS) + 1))
    parser.add_argument("--write", action="store_true", help="put the table into docs/whatif.md")
    asked = parser.parse_args()
    rows: list[Checked] = []
    print(HEAD)
    for fleet in FLEETS:
        if not asked.names or fleet.name in asked.names:
            fleet = with_fields(fleet, seconds=60 * asked.minutes + CLOSING_SECONDS)
            for row in checked(fleet, asked.seed, asked.change, asked.truths):
                rows.append(row)
                print(line(row), flush=True)
    text = f"{sums(rows)}\n\n{measured_line()}"
    print(f"\n{text}")
    if asked.write:
        before, _, rest = PAGE.read_text("utf-8").partition(BEGIN)
        _, _, after = rest.partition(END)
        table = "\n".join([HEAD, *map(line, rows)])
        PAGE.write_text(f"{before}{BEGIN}\n\n{text}\n\n{table}\n\n{END}{after}", "utf-8")


if __name__ == "__main__":
    main()
