"""Load series of every pool from a source: demand, not what was served, and never an outage as silence."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Literal, Protocol

import numpy as np

from inferdoc.catalogue.signal import Tiers
from inferdoc.errors import InferdocError
from inferdoc.fleet.members import Assignment, Member, Pool, resolve
from inferdoc.forecast.series import DAY, LoadSeries
from inferdoc.source.frame import SignalFrame
from inferdoc.source.reads import Matcher

Load = Literal["requests", "input-tokens", "output-tokens"]

SIGNALS: dict[Load, tuple[tuple[str, ...], ...]] = {
    "requests": (("arrival_rate", "request_rate"), ("admission_rejections_rate",)),
    "input-tokens": (("prompt_tokens_rate",),),
    "output-tokens": (("generation_tokens_rate",),),
}
UNITS: dict[Load, str] = {"requests": "requests/s", "input-tokens": "tokens/s", "output-tokens": "tokens/s"}
BY_ROLE: dict[str, Load] = {"prefill": "input-tokens", "decode": "output-tokens", "both": "requests"}
ALONGSIDE = ("running", "gpu_util")
STEP = 300
SUBSTEP = 60
HISTORY_DAYS = 28
SHORT_GAP_BINS = 3
SMALL_SHARE = 0.1


class HistorySource(Protocol):
    """What is needed of a source."""

    def read(
        self,
        signals: Iterable[str],
        start: float,
        end: float,
        step: float | None = ...,
        match: tuple[Matcher, ...] = ...,
    ) -> SignalFrame: ...

    def latest_ms(self) -> int | None: ...


Key = tuple[str, str, str]


@dataclass
class Gathered:
    """Rates of every pod on one grid. start: Unix seconds; rows: signal -> pod -> float64[bins] (per second, NaN = not
    seen); members: pod -> who it is."""

    start: int
    step: int
    count: int
    rows: dict[str, dict[Key, np.ndarray]] = field(default_factory=dict)
    members: dict[Key, Member] = field(default_factory=dict)

    def row(self, signal: str, key: Key) -> np.ndarray:
        found = self.rows.setdefault(signal, {})
        if key not in found:
            found[key] = np.full(self.count, np.nan)
        return found[key]


def gather(
    source: HistorySource,
    signals: Sequence[str],
    tiers: Tiers,
    assignments: Sequence[Assignment] = (),
    match: tuple[Matcher, ...] = (),
    days: int = HISTORY_DAYS,
    until: int | None = None,
    progress: Callable[[int, int], None] = lambda done, of: None,
) -> Gathered:
    """Reads the signals of the last `days` days day by day (memory stays that of one day) into bins of five minutes.
    until: Unix seconds (None = the newest sample). Raises InferdocError when the source holds nothing."""
    newest = source.latest_ms() if until is None else until * 1000
    if newest is None:
        raise InferdocError("the source holds no samples: collect some, or give --input FILE")
    end = newest // 1000 // STEP * STEP
    made = Gathered(end - days * DAY, STEP, days * DAY // STEP)
    for done, begin in enumerate(range(made.start, end, DAY)):
        frame = source.read([*signals, *ALONGSIDE], begin + SUBSTEP, min(begin + DAY, end), SUBSTEP, match)
        _take(made, frame, signals)
        for member in resolve(frame, tiers, assignments).members:
            made.members[member.key] = member
        progress(done + 1, days)
    if not made.members:
        raise InferdocError("no engine was seen in the source's last days: `inferdoc doctor` says what is visible")
    return made


def _take(made: Gathered, frame: SignalFrame, signals: Sequence[str]) -> None:
    at = np.floor((frame.times - 1.0 - made.start) / made.step).astype(
        np.int64
    )  # a rate looks back: its last second counts
    inside = (at >= 0) & (at < made.count)
    for signal in signals:
        if signal not in frame:
            continue
        matrix = frame[signal]
        for entity, values in zip(matrix.entities, matrix.values, strict=True):
            known = inside & np.isfinite(values)
            hits = np.bincount(at[known], minlength=made.count)
            total = np.bincount(at[known], weights=values[known], minlength=made.count)
            row = made.row(signal, entity.member)
            found = hits > 0
            row[found] = np.where(np.isfinite(row[found]), row[found], 0.0) + total[found] / hits[found]


def pool_name(pool: Pool) -> str:
    """A name that Kubernetes labels can carry: namespace, model, role and tier, as far as known."""
    parts = [pool.cluster, pool.namespace, pool.model, pool.role if pool.role != "both" else "", pool.tier]
    text = "-".join(part for part in parts if part and part != "unknown").lower()
    return re.sub(r"[^a-z0-9]+", "-", text).strip("-")[:63].strip("-") or "pool"


def load_series(made: Gathered, load: Load | None = None, step: int = STEP) -> dict[str, LoadSeries]:
    """One series per pool (name -> series, rates per second). load: what is counted; None = by role (prefill by input
    tokens, decode by output tokens, else requests)."""
    return {name: series for name, _, series in pool_series(made, load, step)}


def pool_series(made: Gathered, load: Load | None = None, step: int = STEP) -> Iterator[tuple[str, Pool, LoadSeries]]:
    """(name, pool, series) of each pool, in order of name."""
    pools: dict[Pool, list[Key]] = {}
    for key, member in made.members.items():
        pools.setdefault(member.pool, []).append(key)
    for name, pool, keys in sorted((pool_name(pool), pool, keys) for pool, keys in pools.items()):
        kind = load or BY_ROLE.get(pool.role, "requests")
        values = np.zeros(made.count)
        found = False
        for choice in SIGNALS[kind]:
            signal = next((s for s in choice if any(k in made.rows.get(s, {}) for k in keys)), None)
            if signal is None:
                continue
            rows = made.rows[signal]
            summed = sum_of_pods(np.stack([rows[k] for k in keys if k in rows]))
            values = values + (summed if not found else np.nan_to_num(summed))
            found = True
        if not found:
            continue
        series = LoadSeries(made.start, made.step, np.maximum(values, 0.0), "rate", UNITS[kind], name)
        series = _trimmed(series)
        yield name, pool, series if step == made.step else series.coarser(step)


def sum_of_pods(rows: np.ndarray) -> np.ndarray:
    """float64[bins]: the sum over pods (float64[pods, bins]). A pod counts as absent before its first and after its
    last bin. A hole inside its life is bridged when it is short or the pod carries little; else the bin is a gap,
    because a sum without it would be a drop that never happened."""
    total = np.zeros(rows.shape[1])
    alive = np.zeros(rows.shape[1], dtype=bool)
    broken = np.zeros(rows.shape[1], dtype=bool)
    means = np.array([np.nanmean(row) if np.isfinite(row).any() else 0.0 for row in rows])
    whole = float(means.sum())
    for row, mean in zip(rows, means, strict=True):
        known = np.flatnonzero(np.isfinite(row))
        if not len(known):
            continue
        at = np.arange(known[0], known[-1] + 1)
        total[at] += np.interp(at, known, row[known])
        alive[known] = True
        if whole > 0 and mean / whole > SMALL_SHARE:
            for a, b in pairwise(known.tolist()):
                if b - a - 1 > SHORT_GAP_BINS:
                    broken[a + 1 : b] = True
    return np.where(alive & ~broken, total, np.nan)


def _trimmed(series: LoadSeries) -> LoadSeries:
    """Without the unknown stretch before the first value; a trailing one stays: a forecast begins at the end of the
    data."""
    known = np.flatnonzero(np.isfinite(series.values))
    return (
        series
        if not len(known)
        else series.before(series.end, (len(series.values) - int(known[0])) * series.step / DAY)
    )
