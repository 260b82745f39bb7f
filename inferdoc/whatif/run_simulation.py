"""One play of a pool in the simulator, and what is read off it: the same quantities that a live pool counts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from inferdoc.simulate.fleet import SimulatedFleet
from inferdoc.simulate.pod import Pod
from inferdoc.simulate.scenario import Scenario
from inferdoc.simulate.stats import Histogram
from inferdoc.whatif.live import ITL, STEP, TPOT, TTFT

FINE = tuple(float(bound) for bound in np.geomspace(1e-3, 1e3, 700))
"""Seconds; 2 % from bound to bound."""
TIMED = {TTFT: "ttft", ITL: "itl", TPOT: "tpot"}
"""Histograms that are counted in finer buckets than those of vLLM."""
SUMMED = ("ttft", "itl", "prefill")
ROLES = ("prefill", "decode")
CLIENTS = "clients"
"""Where first tokens are counted of which two pools have a part."""


@dataclass(frozen=True)
class TimesCounted:
    """A histogram of seconds. bounds: float64[n]; counts: float64[n + 1]."""

    bounds: np.ndarray
    counts: np.ndarray

    def quantile(self, share: float) -> float:
        """By the rule of Prometheus: even between two bounds. NaN without observations."""
        whole = np.cumsum(self.counts)
        if not len(whole) or whole[-1] <= 0:
            return float("nan")
        at = int(np.searchsorted(whole, share * whole[-1]))
        if at >= len(self.bounds):
            return float(self.bounds[-1])
        below, lower = (whole[at - 1], self.bounds[at - 1]) if at else (0.0, 0.0)
        part = (share * whole[-1] - below) / self.counts[at]
        return float(lower + (self.bounds[at] - lower) * part)

    def within(self, limit: float) -> float:
        """Share at or below a limit, even between two bounds; 0 without observations."""
        whole = np.cumsum(self.counts)
        if not len(whole) or whole[-1] <= 0:
            return 0.0
        inside = float(np.interp(limit, np.append(0.0, self.bounds), np.append(0.0, whole[:-1])))
        return inside / float(whole[-1])

    def coarser(self, bounds: np.ndarray) -> TimesCounted:
        """The same in other buckets, as if each lay at its upper bound."""
        place = np.searchsorted(bounds, np.append(self.bounds, np.inf) * (1 - 1e-9))
        return TimesCounted(bounds, np.bincount(place, weights=self.counts, minlength=len(bounds) + 1))


@dataclass(frozen=True)
class PlayedPool:
    """times: by histogram; minutes: of SUMMED (`ttft_sum`, `ttft_count`), "running" and "steps" float64[intervals];
    looked, hits: prompt tokens; preemptions, served: how many; seconds: of the play; most_running: role of pods ->
    streams of one of them at most, at the ends of minutes; waits: of a pair, role -> seconds to the first token as the
    engines of that side count them."""

    times: dict[str, TimesCounted]
    minutes: dict[str, np.ndarray]
    looked: float
    hits: float
    preemptions: float
    served: float
    generated: float
    seconds: float
    most_running: Mapping[str, int]
    waits: Mapping[str, TimesCounted] = field(default_factory=dict)

    @property
    def rate(self) -> float:
        """Requests per second that were served."""
        return self.served / self.seconds

    def goodput(self, ttft: float, tpot: float) -> float:
        """Requests per second of which so many at least met both limits (seconds): of shares a and b that meet one each
        at least a + b - 1 meet both."""
        return max(0.0, self.times[TTFT].within(ttft) + self.times[TPOT].within(tpot) - 1.0) * self.rate


def played(scenario: Scenario, begin: float = 0.0, apart: bool = False) -> PlayedPool:
    """One play from its warm-up to its end; what comes before `begin` (seconds) is not counted. What counts is what the
    pods show that write answers. apart: first tokens are timed by clients, of whose wait two pools have a part."""
    fleet = SimulatedFleet(scenario)
    for pod in _ranks(fleet.pods):
        for name in TIMED.values():
            setattr(pod.engine.stats, name, Histogram(FINE))
    clients = fleet.router.stats.for_class(scenario.traffic[0].tenant, scenario.traffic[0].priority)
    clients.ttft = Histogram(FINE)
    writing = [pod for pod in fleet.pods if pod.spec.role != "prefill"]
    by_role = {role: [pod for pod in fleet.pods if pod.spec.role == role] for role in ROLES} if apart else {}
    counted = _ranks(writing)
    fleet.run(begin)
    start, waits_before = _counted(counted), _waits(by_role, clients.ttft)
    snapshots, running = [_summed(counted)], []
    most: dict[str, int] = {}
    moments = np.arange(begin + STEP, scenario.duration + 1e-6, STEP)
    for moment in moments:
        fleet.run(float(moment))
        snapshots.append(_summed(counted))
        running.append(float(np.mean([len(pod.engine.running) for pod in counted])))
        for pod in _ranks(fleet.pods):
            role = pod.spec.role
            most[role] = max(most.get(role, 0), len(pod.engine.running))
    end, waits = _counted(counted), _waits(by_role, clients.ttft)
    minutes = {name: np.diff([snapshot[name] for snapshot in snapshots]) for name in snapshots[0]}
    minutes["running"] = np.array(running)
    fine = np.array(FINE)
    times = {name: TimesCounted(fine, end[short] - start[short]) for name, short in TIMED.items()}
    apart_waits = {role: TimesCounted(fine, cells - waits_before[role]) for role, cells in waits.items()}
    if apart:
        times[TTFT] = apart_waits.pop(CLIENTS)
    change = {name: float(end[name] - start[name]) for name in ("looked", "hits", "preemptions", "served", "generated")}
    return PlayedPool(
        times, minutes, **change, seconds=float(moments[-1]) - begin, most_running=most, waits=apart_waits
    )


def _ranks(pods: Sequence[Pod]) -> Sequence[Pod]:
    return [rank for pod in pods for rank in pod.ranks]


def _cells(ranks: Sequence[Pod], short: str) -> np.ndarray:
    whole: np.ndarray = np.sum([getattr(pod.engine.stats, short).counts for pod in ranks], axis=0, dtype=float)
    return whole


def _waits(by_role: Mapping[str, Sequence[Pod]], clients: Histogram) -> dict[str, np.ndarray]:
    """Where and in how many cells first tokens were counted up to now; empty where one pool serves all."""
    found = {role: _cells(_ranks(pods), "ttft") for role, pods in by_role.items()}
    return found | {CLIENTS: np.array(clients.counts, dtype=float)} if found else {}


def _summed(ranks: Sequence[Pod]) -> dict[str, float]:
    stats = [pod.engine.stats for pod in ranks]
    found = {f"{name}_sum": sum(getattr(each, name).sum for each in stats) for name in SUMMED}
    found |= {f"{name}_count": float(sum(getattr(each, name).count for each in stats)) for name in SUMMED}
    found["steps"] = float(sum(each.iteration.count for each in stats))
    return found


def _counted(ranks: Sequence[Pod]) -> dict[str, np.ndarray]:
    stats = [pod.engine.stats for pod in ranks]
    totals = {
        "looked": sum(each.prefix_queries for each in stats),
        "hits": sum(each.prefix_hits for each in stats),
        "preemptions": sum(each.preemptions for each in stats),
        "served": sum(sum(each.success[reason] for reason in ("stop", "length")) for each in stats),
        "generated": sum(each.generation for each in stats),
    }
    return {name: np.array(float(each)) for name, each in totals.items()} | {
        short: _cells(ranks, short) for short in TIMED.values()
    }
