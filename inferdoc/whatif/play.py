"""One play of a pool in the simulator, and what is read off it: the same quantities that a live pool counts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

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
        held = float(np.interp(limit, np.append(0.0, self.bounds), np.append(0.0, whole[:-1])))
        return held / float(whole[-1])

    def coarser(self, bounds: np.ndarray) -> TimesCounted:
        """The same in other buckets, as if each lay at its upper bound."""
        place = np.searchsorted(bounds, np.append(self.bounds, np.inf) * (1 - 1e-9))
        return TimesCounted(bounds, np.bincount(place, weights=self.counts, minlength=len(bounds) + 1))


@dataclass(frozen=True)
class PlayedPool:
    """times: by histogram; minutes: of SUMMED (`ttft_sum`, `ttft_count`), "running" and "steps" float64[stretches];
    looked, hits: prompt tokens; preemptions, served: how many; seconds: of the play; most_running: streams of one pod
    at most, at the ends of minutes."""

    times: dict[str, TimesCounted]
    minutes: dict[str, np.ndarray]
    looked: float
    hits: float
    preemptions: float
    served: float
    generated: float
    seconds: float
    most_running: int

    @property
    def rate(self) -> float:
        """Requests per second that were served."""
        return self.served / self.seconds

    def goodput(self, ttft: float, tpot: float) -> float:
        """Requests per second of which so many at least met both limits (seconds): of shares a and b that meet one each
        at least a + b - 1 meet both."""
        return max(0.0, self.times[TTFT].within(ttft) + self.times[TPOT].within(tpot) - 1.0) * self.rate


def played(scenario: Scenario, begin: float = 0.0) -> PlayedPool:
    """One play from its warm-up to its end; what comes before `begin` (seconds) is not counted."""
    fleet = SimulatedFleet(scenario)
    for pod in _ranks(fleet):
        for name in TIMED.values():
            setattr(pod.engine.stats, name, Histogram(FINE))
    fleet.run(begin)
    start = _counted(fleet)
    snapshots, running = [_summed(fleet)], []
    most = 0
    moments = np.arange(begin + STEP, scenario.duration + 1e-6, STEP)
    for moment in moments:
        fleet.run(float(moment))
        snapshots.append(_summed(fleet))
        streams = [len(pod.engine.running) for pod in _ranks(fleet)]
        running.append(float(np.mean(streams)))
        most = max(most, *streams)
    end = _counted(fleet)
    minutes = {name: np.diff([snapshot[name] for snapshot in snapshots]) for name in snapshots[0]}
    minutes["running"] = np.array(running)
    times = {name: TimesCounted(np.array(FINE), _cells(fleet, short) - start[short]) for name, short in TIMED.items()}
    change = {name: float(end[name] - start[name]) for name in ("looked", "hits", "preemptions", "served", "generated")}
    return PlayedPool(times, minutes, **change, seconds=float(moments[-1]) - begin, most_running=most)


def _ranks(fleet: SimulatedFleet) -> Sequence[Pod]:
    return [rank for pod in fleet.pods for rank in pod.ranks]


def _cells(fleet: SimulatedFleet, short: str) -> np.ndarray:
    whole: np.ndarray = np.sum([getattr(pod.engine.stats, short).counts for pod in _ranks(fleet)], axis=0, dtype=float)
    return whole


def _summed(fleet: SimulatedFleet) -> dict[str, float]:
    stats = [pod.engine.stats for pod in _ranks(fleet)]
    found = {f"{name}_sum": sum(getattr(each, name).sum for each in stats) for name in SUMMED}
    found |= {f"{name}_count": float(sum(getattr(each, name).count for each in stats)) for name in SUMMED}
    found["steps"] = float(sum(each.iteration.count for each in stats))
    return found


def _counted(fleet: SimulatedFleet) -> dict[str, np.ndarray]:
    stats = [pod.engine.stats for pod in _ranks(fleet)]
    totals = {
        "looked": sum(each.prefix_queries for each in stats),
        "hits": sum(each.prefix_hits for each in stats),
        "preemptions": sum(each.preemptions for each in stats),
        "served": sum(sum(each.success[reason] for reason in ("stop", "length")) for each in stats),
        "generated": sum(each.generation for each in stats),
    }
    return {name: np.array(float(each)) for name, each in totals.items()} | {
        short: _cells(fleet, short) for short in TIMED.values()
    }
