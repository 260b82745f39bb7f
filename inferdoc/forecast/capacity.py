"""What one replica can serve: the knee of its latency over its load, from history, with its uncertainty.

The knee is the load above which the p99 latency stays at twice its value at low load, or above the SLO. It is checked
with Little's law: running requests = arrival rate x mean time in the system. A history that never reached the knee says
so, and gives the highest load it saw as a lower bound, not as a capacity."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from inferdoc.catalogue.slo import Slo, limits
from inferdoc.fleet.members import Pool
from inferdoc.forecast.fromsource import Gathered, pool_name
from inferdoc.forecast.result import number

LATENCIES = ("ttft_p99", "itl_p99")
SIGNALS = ("request_rate", "generation_tokens_rate", "prompt_tokens_rate", "running", "e2e_mean", *LATENCIES)
BINS = 12
MIN_SAMPLES = 60
MIN_PER_BIN = 5
LEAVES = 2.0
LOW_SHARE = 1 / 3
SPREAD = 2.0
DRAWS = 200
BLOCK = 12
LITTLE_LIMIT = 2.0

Verdict = Literal["p99", "slo", "not seen"]


@dataclass(frozen=True)
class PoolCapacity:
    """Of one pool's replicas. verdict: what marks the knee; per_second: requests per second per replica at the knee
    (None = not seen), low and high: 10 % and 90 % of the bootstrap; tokens: generated tokens per second there; highest:
    load seen; latency: which signal left; little: running / (rate x time in system), median; samples: bins of five
    minutes."""

    pool: str
    tier: str
    verdict: Verdict
    per_second: float | None
    low: float | None
    high: float | None
    tokens: float | None
    highest: float
    latency: str
    little: float | None
    samples: int
    replicas: int

    def notes(self) -> list[str]:
        """What a reader must know before using the number."""
        found = []
        if self.verdict == "not seen":
            found.append(
                f"the knee was not seen: up to {self.highest:.4g} requests/s per replica nothing left its band"
            )
        if self.little is not None and not 1 / LITTLE_LIMIT <= self.little <= LITTLE_LIMIT:
            found.append(f"Little's law is off by {max(self.little, 1 / self.little):.1f}x: check the signals")
        return found

    def to_dict(self) -> dict[str, Any]:
        def plain(value: float | None) -> float | None:
            return None if value is None else number(value)

        return {
            "pool": self.pool,
            "tier": self.tier,
            "verdict": self.verdict,
            "requests_per_second_per_replica": plain(self.per_second),
            "low": plain(self.low),
            "high": plain(self.high),
            "generated_tokens_per_second_per_replica": plain(self.tokens),
            "highest_seen": plain(self.highest),
            "latency": self.latency,
            "littles_law_ratio": plain(self.little),
            "samples": self.samples,
            "replicas": self.replicas,
            "notes": self.notes(),
        }


def signals_for(slos: Sequence[Slo]) -> tuple[str, ...]:
    """What has to be read: load, latencies, and the quantiles that are promised."""
    return tuple(dict.fromkeys((*SIGNALS, *(slo.signal for slo in slos if slo.promised and slo.kind == "latency"))))


def capacities(made: Gathered, slos: Sequence[Slo] = ()) -> list[PoolCapacity]:
    """One per pool, up to the objectives that hold for its model, tier and role."""
    keys: dict[str, list[tuple[str, str, str]]] = {}
    pools: dict[str, Pool] = {}
    for key, member in made.members.items():
        name = pool_name(member.pool)
        keys.setdefault(name, []).append(key)
        pools[name] = member.pool
    latencies = [slo for slo in slos if slo.kind == "latency"]
    return [
        _of_pool(made, name, pool.tier, keys[name], limits(latencies, pool.model, pool.tier, pool.role))
        for name, pool in sorted(pools.items())
    ]


def _column(made: Gathered, signal: str, keys: Sequence[tuple[str, str, str]]) -> np.ndarray:
    blank = np.full(made.count, np.nan)
    return np.concatenate([made.rows.get(signal, {}).get(key, blank) for key in keys])


def _of_pool(
    made: Gathered, name: str, tier: str, keys: Sequence[tuple[str, str, str]], slo: dict[str, float]
) -> PoolCapacity:
    rate, tokens = _column(made, "request_rate", keys), _column(made, "generation_tokens_rate", keys)
    little = _little(rate, _column(made, "running", keys), _column(made, "e2e_mean", keys))
    best: tuple[float, str, Verdict, np.ndarray, np.ndarray] | None = None
    highest = float(np.nanmax(rate)) if np.isfinite(rate).any() else 0.0
    samples = 0
    for signal in dict.fromkeys((*LATENCIES, *slo)):
        late = _column(made, signal, keys)
        known = np.isfinite(rate) & np.isfinite(late) & (rate > 0)
        samples = max(samples, int(known.sum()))
        found = knee(rate[known], late[known], slo.get(signal))
        if found is not None and (best is None or found[0] < best[0]):
            best = (found[0], signal, found[1], rate[known], late[known])
    if best is None:
        return PoolCapacity(name, tier, "not seen", None, None, None, None, highest, "", little, samples, len(keys))
    at, signal, verdict, x, y = best
    low, high = uncertainty(x, y, slo.get(signal))
    near = np.isfinite(tokens) & (np.abs(rate - at) <= 0.1 * at)
    per_token = float(np.median(tokens[near])) if near.any() else None
    return PoolCapacity(name, tier, verdict, at, low, high, per_token, highest, signal, little, samples, len(keys))


def knee(load: np.ndarray, latency: np.ndarray, limit: float | None = None) -> tuple[float, Verdict] | None:
    """The load (float64[n], per second) at which `latency` (float64[n], seconds) leaves its band for good, and why;
    None when it never does or the loads are too few or too alike to tell."""
    if len(load) < MIN_SAMPLES or np.quantile(load, 0.95) < SPREAD * max(np.quantile(load, 0.05), 1e-12):
        return None
    edges = np.linspace(load.min(), np.quantile(load, 0.995), BINS + 1)
    place = np.clip(np.searchsorted(edges, load, side="right") - 1, 0, BINS - 1)
    used = [b for b in range(BINS) if (place == b).sum() >= MIN_PER_BIN]
    if len(used) < 4:
        return None
    centre = np.array([load[place == b].mean() for b in used])
    middle = np.array([np.median(latency[place == b]) for b in used])
    base = float(np.median(middle[: max(1, int(len(used) * LOW_SHARE))]))
    left = _left_for_good(middle >= LEAVES * base)
    crossed = None if limit is None else _left_for_good(middle > limit)
    found = [(i, v) for i, v in ((left, "p99"), (crossed, "slo")) if i is not None and i > 0]
    if not found:
        return None
    first, why = min(found, key=lambda item: item[0])
    return float(centre[first - 1]), "p99" if why == "p99" else "slo"


def _left_for_good(outside: np.ndarray) -> int | None:
    """The first bin from which all are outside; None when the last one is inside."""
    if not outside[-1]:
        return None
    inside = np.flatnonzero(~outside)
    return int(inside[-1]) + 1 if len(inside) else 0


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
        if seen is not None:
            found.append(seen[0])
    if len(found) * 2 < DRAWS:
        return None, None
    return float(np.quantile(found, 0.1)), float(np.quantile(found, 0.9))


def _little(rate: np.ndarray, running: np.ndarray, time: np.ndarray) -> float | None:
    known = np.isfinite(rate) & np.isfinite(running) & np.isfinite(time) & (rate * time > 0.1)
    return float(np.median(running[known] / (rate[known] * time[known]))) if known.sum() >= 10 else None


def to_table(found: Sequence[PoolCapacity]) -> str:
    """One line per pool, then what must be known."""
    head = (
        f"{'pool':34s} {'tier':14s} {'requests/s':>11s} {'10 % - 90 %':>17s} {'tokens/s':>9s} {'knee':>9s} {'seen':>8s}"
    )
    lines = [head, "-" * len(head)]
    for c in found:
        at = "not seen" if c.per_second is None else f"{c.per_second:.4g}"
        band = "-" if c.low is None or c.high is None else f"{c.low:.4g} - {c.high:.4g}"
        tokens = "-" if c.tokens is None else f"{c.tokens:.4g}"
        first = f"{c.pool[:34]:34s} {c.tier[:14]:14s} {at:>11s} {band:>17s} {tokens:>9s}"
        lines.append(f"{first} {c.latency or '-':>9s} {c.highest:>8.4g}")
    for c in found:
        lines += [f"{c.pool}: {note}" for note in c.notes()]
    return "\n".join(lines) + "\n"
