"""Estimates how much of each kind of load one replica serves, from its latency over its load, with the uncertainty.

With a latency SLO (alerts/slo.yaml), the capacity is the highest load before the SLO stays broken. Without one, it is
the knee: the load above which the p99 latency stays at twice its value at low load. A history that never reached either
gives a lower bound: the highest load with good latency. The numbers are checked with Little's law: running requests =
arrival rate x mean time in the system."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from inferdoc.catalogue.slo import Slo, limits
from inferdoc.escaping import page
from inferdoc.fleet.members import Pool
from inferdoc.forecast.fromsource import SIGNALS, Gathered, Key, pool_name
from inferdoc.forecast.result import number
from inferdoc.forecast.series import BY_ROLE, LoadUnit, Rate

LATENCIES = ("ttft_p99", "itl_p99")
SERVED: dict[LoadUnit, str] = {
    LoadUnit.REQUESTS: "request_rate",
    LoadUnit.PROMPT: SIGNALS[LoadUnit.PROMPT][0][0],
    LoadUnit.GENERATED: SIGNALS[LoadUnit.GENERATED][0][0],
}
"""Signal of the served load of each kind; queued requests do not count."""
BINS = 12
MIN_SAMPLES = 60
MIN_PER_BIN = 5
LEAVES = 2.0
LOW_SHARE = 1 / 3
SPREAD = 2.0
DRAWS = 200
BLOCK = 2
"""Samples half an hour apart per resampled block: an hour."""
LITTLE_LIMIT = 2.0
ENOUGH_RUNNING = 20.0

Verdict = Literal["slo", "p99", "at least", "missed", "unknown"]
"""slo: the objective is broken above; p99: latency leaves its low-load value; at least: neither was seen, the highest
load served well; missed: the objective was broken at every load; unknown: too few latency samples with a load."""


@dataclass(frozen=True)
class Served:
    """The capacity of one replica for one kind of load. rate: None if missed or unknown; low, high: 10 % and 90 % of
    the bootstrap, per second; latency: the signal that decides; limit: its objective, seconds; highest: the highest
    load seen, per second; samples: bins of five minutes."""

    unit: LoadUnit
    verdict: Verdict
    rate: Rate | None
    low: float | None
    high: float | None
    latency: str
    limit: float | None
    highest: float
    samples: int

    @property
    def safe(self) -> Rate | None:
        """The rate to plan with: the low end of the band."""
        return self.rate if self.rate is None or self.low is None else Rate(self.low, self.unit)

    @property
    def basis(self) -> str:
        """How the number was found, in words."""
        limit_text = "" if self.limit is None else f" of {self.limit:g} s"
        return {
            "slo": f"the objective for {self.latency}{limit_text} is broken above it",
            "p99": f"{self.latency} stays at twice its low-load value above it",
            "at least": f"a lower bound: the highest load at which {self.latency or 'latency'} was well"
            + (f" within the objective{limit_text}" if limit_text else ", below twice its low-load value"),
            "missed": f"the objective for {self.latency}{limit_text} was missed at every load seen",
            "unknown": f"{self.samples} readings of a latency beside this load, {MIN_SAMPLES} are needed",
        }[self.verdict]

    def to_dict(self) -> dict[str, Any]:
        def plain(value: float | None) -> float | None:
            return None if value is None else number(value)

        return {
            "unit": self.unit.value,
            "verdict": self.verdict,
            "per_replica": plain(None if self.rate is None else self.rate.per_second),
            "lower_bound": self.verdict == "at least",
            "low": plain(self.low),
            "high": plain(self.high),
            "latency": self.latency,
            "objective_seconds": plain(self.limit),
            "highest_seen": plain(self.highest),
            "samples": self.samples,
            "basis": self.basis,
        }


@dataclass(frozen=True)
class PoolCapacity:
    """The capacity of one pool's replicas. served: one per kind of load; little: running / (rate x time in system)."""

    pool: str
    role: str
    tier: str
    served: tuple[Served, ...]
    little: float | None
    replicas: int

    def of(self, unit: LoadUnit) -> Served | None:
        return next((each for each in self.served if each.unit == unit), None)

    def notes(self) -> list[str]:
        """Caveats of the numbers, one line each."""
        if self.little is None or 1 / LITTLE_LIMIT <= self.little <= LITTLE_LIMIT:
            return []
        return [f"Little's law: {self.little:.2g} of rate x time in the system are running: check the signals"]

    def to_dict(self) -> dict[str, Any]:
        return {
            "pool": self.pool,
            "role": self.role,
            "tier": self.tier,
            "serves": [each.to_dict() for each in self.served],
            "littles_law_ratio": None if self.little is None else number(self.little),
            "replicas": self.replicas,
            "notes": self.notes(),
        }


def signals_for(slos: Sequence[Slo]) -> tuple[str, ...]:
    """Signals to read: load, latencies, and the quantiles with an objective."""
    objectives = (slo.signal for slo in slos if slo.agreed and slo.kind == "latency")
    return tuple(dict.fromkeys((*SERVED.values(), "running", "e2e_mean", *LATENCIES, *objectives)))


def capacities(made: Gathered, slos: Sequence[Slo] = (), unit: LoadUnit | None = None) -> list[PoolCapacity]:
    """One per pool, by name, with the objectives that apply to it. unit: the kind of load (None = what replicas of the
    pool's role work on, requests where no tokens were seen)."""
    latencies = [slo for slo in slos if slo.kind == "latency"]
    found = []
    for pool, members in made.pools().items():
        keys = sorted(members)  # resamples of hours depend on the order
        units = (unit,) if unit is not None else _units(made, pool, keys)
        objectives = limits(latencies, pool)
        served = tuple(_served(made, each, keys, objectives) for each in units)
        rate, time = _column(made, "request_rate", keys), _column(made, "e2e_mean", keys)
        little = _little(rate, _column(made, "running", keys), time)
        found.append(PoolCapacity(pool_name(pool), pool.role, pool.tier, served, little, len(keys)))
    return sorted(found, key=lambda each: each.pool)


def _units(made: Gathered, pool: Pool, keys: Sequence[Key]) -> tuple[LoadUnit, ...]:
    seen = tuple(u for u in BY_ROLE[pool.role] if np.isfinite(_column(made, SERVED[u], keys)).any())
    return seen or (LoadUnit.REQUESTS,)


def _column(made: Gathered, signal: str, keys: Sequence[Key]) -> np.ndarray:
    blank = np.full(made.count, np.nan)
    return np.concatenate([made.rows.get(signal, {}).get(key, blank) for key in keys])


def _served(made: Gathered, unit: LoadUnit, keys: Sequence[Key], objectives: Mapping[str, float]) -> Served:
    """The minimum over the latencies that count: those with an objective, else TTFT and ITL."""
    load = _column(made, SERVED[unit], keys)
    highest = float(np.nanmax(load)) if np.isfinite(load).any() else 0.0
    seen, few = {}, 0
    for signal in dict.fromkeys((*objectives, *LATENCIES)):
        late = _column(made, signal, keys)
        known = np.isfinite(load) & np.isfinite(late) & (load > 0)
        if known.sum() >= MIN_SAMPLES:
            seen[signal] = (load[known], late[known])
        few = max(few, int(known.sum()))
    deciding = {signal: pair for signal, pair in seen.items() if signal in objectives} or seen
    if not deciding:
        return Served(unit, "unknown", None, None, None, "", None, highest, few)
    answers = [_by_latency(unit, signal, *pair, objectives.get(signal), highest) for signal, pair in deciding.items()]
    missed = [each for each in answers if each.rate is None]
    crossed = [each for each in answers if each.verdict in ("slo", "p99")]
    return min(missed or crossed or answers, key=lambda each: 0.0 if each.rate is None else each.rate.per_second)


def _by_latency(
    unit: LoadUnit, signal: str, load: np.ndarray, late: np.ndarray, limit: float | None, highest: float
) -> Served:
    at = knee(load, late, limit)
    if at:
        low, high = uncertainty(load, late, limit)
        low, high = low and min(low, at), high and max(high, at)
        verdict: Verdict = "p99" if limit is None else "slo"
        return Served(unit, verdict, Rate(at, unit), low, high, signal, limit, highest, len(load))
    bound = served_well(load, late, limit) if at is None else None
    if bound is None:
        return Served(unit, "missed", None, None, None, signal, limit, highest, len(load))
    return Served(unit, "at least", Rate(bound, unit), None, None, signal, limit, highest, len(load))


def knee(load: np.ndarray, latency: np.ndarray, limit: float | None = None) -> float | None:
    """The load (float64[n], per second) from which `latency` (float64[n], seconds) is beyond the limit for good, or
    without a limit beyond twice its value at low load; 0.0 when it is at every load, None when it never is, or the
    samples are too few or cover too small a range of loads."""
    if len(load) < MIN_SAMPLES or np.quantile(load, 0.95) < SPREAD * max(np.quantile(load, 0.05), 1e-12):
        return None
    edges = np.linspace(load.min(), np.quantile(load, 0.995), BINS + 1)
    place = np.clip(np.searchsorted(edges, load, side="right") - 1, 0, BINS - 1)
    used = [b for b in range(BINS) if (place == b).sum() >= MIN_PER_BIN]
    if len(used) < 4:
        return None
    centre = np.array([load[place == b].mean() for b in used])
    middle = np.array([np.median(latency[place == b]) for b in used])
    return crossing(centre, middle, limit)


def crossing(load: np.ndarray, latency: np.ndarray, limit: float | None = None) -> float | None:
    """The same of the points of a curve. load: float64[n], rising; latency: float64[n], one for each."""
    limit = twice_low_load(latency) if limit is None else limit
    first = left_for_good(latency > limit)
    if not first:
        return None if first is None else 0.0
    share = (limit - latency[first - 1]) / (latency[first] - latency[first - 1])
    return float(load[first - 1] + share * (load[first] - load[first - 1]))


def twice_low_load(latency: np.ndarray) -> float:
    """Seconds: twice the median of the lowest third of the loads. latency: float64[n], by rising load."""
    return LEAVES * float(np.median(latency[: max(1, int(len(latency) * LOW_SHARE))]))


def left_for_good(outside: np.ndarray) -> int | None:
    """The first point from which all are outside; None when the last one is inside."""
    if not outside[-1]:
        return None
    inside = np.flatnonzero(~outside)
    return int(inside[-1]) + 1 if len(inside) else 0


def served_well(load: np.ndarray, latency: np.ndarray, limit: float | None) -> float | None:
    """The highest load (per second) reached in five bins whose latency was within the limit, or without one below twice
    the median of the lower loads; None when most bins were beyond it."""
    if limit is None:
        limit = LEAVES * float(np.median(latency[load <= np.quantile(load, LOW_SHARE)]))
    well = np.sort(load[latency <= limit])
    return float(well[-MIN_PER_BIN]) if len(well) >= max(MIN_PER_BIN, len(load) / 2) else None


def uncertainty(load: np.ndarray, latency: np.ndarray, limit: float | None) -> tuple[float | None, float | None]:
    """10 % and 90 % of the knee over resamples of hours (neighbouring bins go together); None when it is seen in fewer
    than half of them."""
    rng = np.random.default_rng(0)
    starts = np.arange(0, len(load), BLOCK)
    found = []
    for _ in range(DRAWS):
        at = (rng.choice(starts, size=len(starts))[:, None] + np.arange(BLOCK)).reshape(-1)
        at = at[at < len(load)]
        seen = knee(load[at], latency[at], limit)
        if seen:
            found.append(seen)
    if len(found) * 2 < DRAWS:
        return None, None
    return float(np.quantile(found, 0.1)), float(np.quantile(found, 0.9))


def _little(rate: np.ndarray, running: np.ndarray, time: np.ndarray) -> float | None:
    """The ratio of Little's law over all samples, since a prefill pod often runs nothing at one moment; None if so few
    requests were running that their number is chance."""
    known = np.isfinite(rate) & np.isfinite(running) & np.isfinite(time)
    expected = float((rate[known] * time[known]).sum())
    return float(running[known].sum()) / expected if expected >= ENOUGH_RUNNING else None


def to_table(found: Sequence[PoolCapacity]) -> str:
    """A few lines per pool: what a replica serves of each kind of load, what marks the number, what must be known."""
    lines: list[str] = []
    for each in found:
        replicas = f"{each.replicas} replica{'s' if each.replicas > 1 else ''} seen"
        lines += [f"{each.pool} ({each.role}, tier {each.tier}, {replicas})"]
        for served in each.served:
            lines += [f"  {line}" for line in _served_lines(each, served)]
        lines += [f"  {note}" for note in each.notes()]
        lines.append("")
    return page(lines[:-1]) + "\n"


def _served_lines(pool: PoolCapacity, served: Served) -> list[str]:
    """What a replica serves, to the digit that resamples of the same hours move."""
    if served.rate is None:
        unit = served.unit.value
        return [f"{unit}: not known: {served.basis}", f"  give it to a plan: --capacity '{pool.pool}=NUMBER {unit}'"]
    least = "at least " if served.verdict == "at least" else ""
    rate, band = served.rate.per_second, ""
    if served.low is not None and served.high is not None and served.low < served.high:
        digits = -math.floor(math.log10(served.high - served.low))
        rate, low, high = (round(value, digits) for value in (rate, served.low, served.high))
        band = f" (10 % to 90 %: {low:.4g} to {high:.4g})"
    return [
        f"{least}{Rate(rate, served.unit)} per replica{band}",
        f"  {served.basis}",
        f"  highest seen {served.highest:.4g}, {served.samples} readings",
    ]
