"""What `inferdoc headroom` says of simulated fleets, against the same fleets played on.

    python benchmarks/headroom.py                  both tables, as Markdown on standard output
    python benchmarks/headroom.py growth loss      one of them
    python benchmarks/headroom.py --only NAME ...  some fleets
    python benchmarks/headroom.py --seed N         other draws of the same fleets

growth: fleets whose load swings over the day and grows day by day. They began with one replica less, so that their knee
was seen; at the midnight before their objective breaks the clock is asked, and then they are played on. True is the
first quarter of an hour of which more than one request in a hundred misses the objective, with the next hour as bad.
loss: fleets whose load comes in waves. Before the last crest it is asked what the loss of a pod does; then one is
killed, and true is whether more than one request in a hundred misses the objective in the quarter of an hour after.
The tables go into docs/headroom.md.
"""

from __future__ import annotations

import argparse
import tempfile
from dataclasses import dataclass
from dataclasses import replace as with_seed
from datetime import datetime
from pathlib import Path
from unittest.mock import patch

import numpy as np
from measured import measured_line
from msgspec.structs import replace
from stores import fill_store, without_fault

from inferdoc.catalogue.load import load_catalogue
from inferdoc.catalogue.slo import Slo
from inferdoc.config import Config
from inferdoc.config_sections import SloSection
from inferdoc.headroom.reading import HeadroomAnswer, PoolHeadroom
from inferdoc.headroom.request import headroom_for_request
from inferdoc.simulate import fleet as simulated
from inferdoc.simulate.autoscaler import sustainable
from inferdoc.simulate.scenario import Exporters, FaultSpec, Length, PoolSpec, Scenario, Stream
from inferdoc.slo.history import History, read_history
from inferdoc.source.open import open_source
from inferdoc_dev.incidents.recording import record

HOUR, DAY, SLOT = 3600.0, 86_400.0, 900
SETTINGS = {"start": 1_771_804_800, "exporters": Exporters(router=False, cadvisor=False)}
"""Of every scenario. It starts on a Monday."""
TTFT, ITL = 2.5, 0.1
"""Seconds: bounds of vLLM's buckets."""
PROMISED = (
    SloSection(signal="ttft", percentile=99.0, target=TTFT, role="prefill", id="first-token-prefill"),
    SloSection(signal="ttft", percentile=99.0, target=TTFT, role="both", id="first-token"),
    SloSection(signal="itl", percentile=99.0, target=ITL, role="decode", id="gap"),
)
ALLOWED = 0.01
CHAT = (Length(800, 0.5, max=6000), Length(200, 0.4, max=1000))
RAG = (Length(3000, 0.4, max=12000), Length(150, 0.4, max=600))
LONG = (Length(1000, 0.3, max=4000), Length(3000, 0.3, max=9000))


@dataclass(frozen=True)
class Played:
    """A fleet in a store. scenario: as it was played."""

    scenario: Scenario
    store: Path

    def told(self, until: float, since: str, horizon: str = "3d") -> HeadroomAnswer:
        """What is said at `until`, seconds since its beginning, of what came before."""
        catalogue = load_catalogue(promises=[(one.id or "", one) for one in PROMISED])
        asked = {"since": since, "horizon": horizon, "zone": "UTC", "until": self.scenario.start + until}
        return headroom_for_request(open_source(store=self.store), Config(), catalogue, asked)

    def missed(self, role: str, begin: float, end: float) -> np.ndarray:
        """float64[slots]: the share of events of each quarter of an hour that missed the objective of a role."""
        catalogue = load_catalogue(promises=[(one.id or "", one) for one in PROMISED])
        until = self.scenario.start + end
        history = read_history(open_source(store=self.store), catalogue, (), f"{end - begin:.0f}s", until)
        (slo,) = [one for one in catalogue.slos if one.agreed and one.scope.role == role]
        return _missed(history, slo, role)


def _missed(history: History, slo: Slo, role: str) -> np.ndarray:
    grid = history.grid(SLOT * 1000)
    (one,) = [counted for pool, counted in history.of_slo(slo, grid).items() if pool.role == role]
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(1.0 - one.high / one.every)


def played(folder: Path, name: str, scenario: Scenario) -> Played:
    """The fleet, simulated."""
    return Played(scenario, fill_store(folder / f"{name}.db", record(scenario).targets))


def of_role(answer: HeadroomAnswer, role: str) -> PoolHeadroom | None:
    """The pool of a role; None where nothing is told of it."""
    return next((pool for pool in answer.pools if pool.role == role), None)


# ---- growth ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Growing:
    """replicas: at the end, one less before `grown` (days); growth: of the load from midnight to midnight; top: its
    crest on the last day over what the replicas sustain; swing: of the day."""

    name: str
    pool: PoolSpec
    growth: float
    top: float
    swing: float = 0.7
    replicas: int = 2
    grown: float = 3.75
    seed: int = 1

    @property
    def scenario(self) -> Scenario:
        """The whole of it: the last day is the eighth."""
        whole = sustainable((replace(self.pool, pods=self.replicas),), _stream(LONG, 1.0))
        rate = self.top * whole / (1 + self.swing) / self.growth ** (DAYS - 1)
        grow = FaultSpec(kind="grow", at=self.grown * DAY, after=180.0, pods=(f"{self.pool.name}-0",))
        days = [FaultSpec(kind="traffic", at=day * DAY, rate=self.growth) for day in range(1, DAYS)]
        traffic = _stream(LONG, rate, pattern="waves", burst=self.swing, wave=DAY, phase=-0.25 * DAY)
        settings = SETTINGS | {"faults": (grow, *days), "duration": DAYS * DAY, "scrape": 120.0, "seed": self.seed}
        return without_fault(self.name, (replace(self.pool, pods=self.replicas - 1),), (traffic,), **settings)


DAYS = 8
ASKED = (DAYS - 1) * DAY
"""At the midnight before the last day."""
QWEN = PoolSpec(name="qwen", pods=1, model="qwen3-32b", tier="h100-80")
SMALL = PoolSpec(name="small", pods=1, model="llama-3.1-8b", tier="l40s")
GROWING = (
    Growing("qwen, +20 % a day", QWEN, 1.2, 1.05),
    Growing("qwen, +15 % a day", QWEN, 1.15, 1.0, grown=2.75, seed=2),
    Growing("qwen, +25 % a day", QWEN, 1.25, 1.1, seed=3),
    Growing("qwen, flat day", QWEN, 1.2, 1.0, swing=0.4, seed=4),
    Growing("qwen, deep night", QWEN, 1.2, 1.1, swing=0.9, seed=5),
    Growing("qwen, no crossing", QWEN, 1.05, 0.6, seed=6),
    Growing("small, +20 % a day", SMALL, 1.2, 1.6, seed=7),
    Growing("small, +25 % a day", SMALL, 1.25, 1.7, seed=8),
    Growing("small, flat day", SMALL, 1.15, 1.5, swing=0.4, grown=2.75, seed=9),
    Growing("small, no crossing", SMALL, 1.05, 0.8, seed=10),
)


def grown(case: Growing, folder: Path) -> str:
    """A line of the table."""
    fleet = played(folder, "growing", case.scenario)
    pool = of_role(fleet.told(ASKED, "7d", "1d"), "both")
    broke = _first_bad(fleet.missed("both", ASKED, DAYS * DAY))
    true = None if broke is None else ASKED + broke * SLOT
    if pool is None:
        return _row(case.name, "nothing told", "", "", _hours(true), "", "")
    expected, earliest = (
        None if each is None else datetime.fromisoformat(each.at).timestamp() - fleet.scenario.start
        for each in (pool.clock.expected, pool.clock.earliest)
    )
    limit = "seen" if pool.knee is not None else "a lower bound"
    told = (limit, _hours(earliest), _hours(expected), _hours(true))
    return _row(case.name, *told, _apart(earliest, true), _apart(expected, true))


def _first_bad(missed: np.ndarray) -> int | None:
    """The first slot of which too many missed, with three of the four from it on."""
    bad = np.nan_to_num(missed) > ALLOWED
    return next((at for at in range(len(bad) - 3) if bad[at] and bad[at : at + 4].sum() >= 3), None)


def _hours(seconds: float | None) -> str:
    """Hours after it was asked."""
    return "no" if seconds is None else f"{(seconds - ASKED) / HOUR:.1f} h"


def _apart(told: float | None, true: float | None) -> str:
    if told is None or true is None:
        return "right" if told is true else "missed" if told is None else "false alarm"
    return f"{(told - true) / 60:+.0f}"


# ---- loss --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Losing:
    """top: the crest of a wave over what the replicas sustain; killed: the pod; rehearsed: whether one pod was out of
    the rotation for twenty minutes of an earlier crest, as a rolling update has it."""

    name: str
    pools: tuple[PoolSpec, ...]
    lengths: tuple[Length, Length]
    top: float
    killed: str
    rehearsed: bool = False
    seed: int = 1

    @property
    def role(self) -> str:
        """Of the pool that loses a pod."""
        return next(pool.role for pool in self.pools if self.killed.startswith(pool.name))

    @property
    def scenario(self) -> Scenario:
        """Three waves of an hour and the crest of the fourth."""
        rate = self.top * sustainable(self.pools, _stream(self.lengths, 1.0)) / (1 + SWING)
        faults = [FaultSpec(kind="kill", at=KILLED, pods=(self.killed,))]
        if self.rehearsed:
            faults.append(FaultSpec(kind="unlabel", at=1.08 * HOUR, until=1.42 * HOUR, pods=(self.killed,)))
        traffic = _stream(self.lengths, rate, pattern="waves", burst=SWING, wave=HOUR)
        settings = SETTINGS | {"faults": tuple(faults), "duration": KILLED + 1200.0, "scrape": 15.0, "seed": self.seed}
        return without_fault(self.name, self.pools, (traffic,), **settings)


SWING = 0.6
KILLED, TOLD_BEFORE, SETTLED = 3 * HOUR + 600.0, 60.0, 120.0
"""Seconds: when it is killed, how long before that it is asked, and how long after that misses count: a router notices
within ten seconds, and what queued by then drains."""


def _pool(tier: str, pods: int, model: str = "llama-3.1-8b", gpus: int = 1) -> tuple[PoolSpec, ...]:
    return (PoolSpec(name="vllm", pods=pods, model=model, tier=tier, gpus=gpus),)


def _pair(prefill: int, decode: int) -> tuple[PoolSpec, ...]:
    sides = (("prefill", prefill, "h100-80"), ("decode", decode, "a100-80"))
    return tuple(PoolSpec(name=role, pods=pods, tier=tier, role=role) for role, pods, tier in sides)  # type: ignore[arg-type]


LOSING = (
    Losing("chat, 4 x l40s at 0.7", _pool("l40s", 4), CHAT, 0.7, "vllm-1", seed=1),
    Losing("chat, 4 x l40s at 0.7, rehearsed", _pool("l40s", 4), CHAT, 0.7, "vllm-1", True, seed=12),
    Losing("chat, 4 x l40s at 1.2", _pool("l40s", 4), CHAT, 1.2, "vllm-1", seed=2),
    Losing("chat, 4 x l40s at 1.5, rehearsed", _pool("l40s", 4), CHAT, 1.5, "vllm-1", True, seed=3),
    Losing("chat, 2 x l40s at 1.1, rehearsed", _pool("l40s", 2), CHAT, 1.1, "vllm-0", True, seed=4),
    Losing("RAG, 3 x h100 at 0.7", _pool("h100-80", 3), RAG, 0.7, "vllm-2", seed=5),
    Losing("RAG, 3 x h100 at 0.6, rehearsed", _pool("h100-80", 3), RAG, 0.6, "vllm-2", True, seed=13),
    Losing("RAG, 3 x h100 at 1.1, rehearsed", _pool("h100-80", 3), RAG, 1.1, "vllm-2", True, seed=6),
    Losing("qwen, 3 x h100 at 1.0, rehearsed", _pool("h100-80", 3, "qwen3-32b"), CHAT, 1.0, "vllm-0", True, seed=8),
    Losing("pair 3 + 3 at 0.6, a prefill pod", _pair(3, 3), RAG, 0.6, "prefill-0", seed=9),
    Losing("pair 3 + 3 at 0.6, a prefill pod, rehearsed", _pair(3, 3), RAG, 0.6, "prefill-0", True, seed=14),
    Losing("pair 3 + 3 at 0.9, a prefill pod, rehearsed", _pair(3, 3), RAG, 0.9, "prefill-0", True, seed=10),
    Losing("pair 2 + 3 at 0.6, a decode pod, rehearsed", _pair(2, 3), CHAT, 0.6, "decode-0", True, seed=11),
)


def lost(case: Losing, folder: Path) -> str:
    """A line of the table."""
    fleet = played(folder, "losing", case.scenario)
    answer = fleet.told(KILLED - TOLD_BEFORE, "3h")
    pool = of_role(answer, case.role)
    (missed,) = fleet.missed(case.role, KILLED + SETTLED, KILLED + SETTLED + SLOT)
    before = fleet.missed(case.role, HOUR / 4, KILLED)
    broke = "broke" if missed > ALLOWED else "met"
    crests = f"{np.nanmax(before):.1%}"
    if pool is None:
        (why,) = {one.because for one in answer.left_out if case.role in one.pool or len(case.pools) == 1}
        return _row(case.name, f"nothing told: {why}", "", crests, f"{missed:.1%}", broke)
    one = pool.lost[0]
    share = "" if one.share is None or one.share.value is None else f"{one.share.low:.0%} to {one.share.value:.0%}"
    return _row(case.name, one.holds, share, crests, f"{missed:.1%}", broke)


# ---- both --------------------------------------------------------------------------------------------------------


def _stream(lengths: tuple[Length, Length], rate: float, **more: object) -> Stream:
    return Stream(prompt=lengths[0], output=lengths[1], rate=rate, **more)  # type: ignore[arg-type]


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


TABLES = {
    "growth": (
        GROWING,
        grown,
        1.0,
        ("fleet", "limit", "may cross", "expected", "SLO broke", "may cross off, min", "expected off"),
    ),
    "loss": (
        LOSING,
        lost,
        0.25,
        ("fleet", "predicted to hold", "peak over the others", "missed before, at most", "missed after", "after"),
    ),
}
"""Name -> cases, what makes a line of one, the tick of its simulation (seconds), and the heads."""


def main() -> None:
    """Simulate, ask, play on, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tables", nargs="*", choices=[[], *TABLES], metavar="|".join(TABLES))
    parser.add_argument("--only", action="append", metavar="NAME")
    parser.add_argument("--seed", type=int, default=0, help="added to the seed of every fleet")
    parser.add_argument("--tick", type=float, help="seconds of a step of the simulation (default: growth 1, loss 0.25)")
    asked = parser.parse_args()
    for name in asked.tables or TABLES:
        cases, line, tick, heads = TABLES[name]
        print(_row(*heads), _row(*("---" for _ in heads)), sep="\n")
        for case in cases:
            if not asked.only or case.name in asked.only:
                with tempfile.TemporaryDirectory() as folder, patch.object(simulated, "TICK", asked.tick or tick):
                    drawn = with_seed(case, seed=case.seed + asked.seed)
                    print(line(drawn, Path(folder)), flush=True)
    print(f"\n{measured_line()}")


if __name__ == "__main__":
    main()
