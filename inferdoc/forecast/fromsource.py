"""Load series of every pool from a source: demand, not what was served, and never an outage as silence."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Protocol

import numpy as np

from inferdoc.catalogue.signal import Tiers
from inferdoc.config_sections import PodSection
from inferdoc.errors import InferdocError
from inferdoc.fleet.members import Assignment, Member, Pool, resolve
from inferdoc.forecast.series import DAY, LoadSeries, LoadUnit
from inferdoc.source.base import SourceKind
from inferdoc.source.frame import SignalFrame
from inferdoc.source.reads import Matcher

SIGNALS: dict[LoadUnit, tuple[tuple[str, ...], ...]] = {
    LoadUnit.REQUESTS: (("arrival_rate", "request_rate"), ("admission_rejections_rate",)),
    LoadUnit.PROMPT: (("prefill_tokens_rate",),),
    LoadUnit.GENERATED: (("generation_tokens_rate",),),
}
"""Signals of each unit: the terms of a sum, each with alternatives of which the first available one counts."""
LOADS: dict[str, LoadUnit] = {
    "requests": LoadUnit.REQUESTS,
    "input-tokens": LoadUnit.PROMPT,
    "output-tokens": LoadUnit.GENERATED,
}
"""As --load calls them."""
FORECAST_BY_ROLE = {"prefill": LoadUnit.PROMPT, "decode": LoadUnit.GENERATED, "both": LoadUnit.REQUESTS}


def counted(*units: LoadUnit) -> tuple[str, ...]:
    """Signals to read for the load in some units."""
    return tuple(signal for unit in units for choice in SIGNALS[unit] for signal in choice)


ADDED = frozenset(counted(*SIGNALS)) | {"running"}
"""Signals of which a pod with several engines has the sum; of any other, latencies, it has the highest."""
STEP = 300
CARD_STEP = 3600
"""Which cards a pod has is looked up once an hour."""
PIECE_DAYS = {"store": 1, "prometheus": 35}
"""How much is read at once: from a store a day, so that memory stays that of a day; of a server all, in few queries (it
answers with 11,000 points of a series, and five minutes of 35 days are fewer)."""
HISTORY_DAYS = 28
SHORT_GAP_BINS = 3
SMALL_SHARE = 0.1
STARTED, LISTED = "process_start_time", "target_up"
"""Signals that show whether a pod came back as another process; the second if the first is missing."""
LONGEST_NAME = 63
"""Maximum length of a Kubernetes label value."""
SAME_PROCESS = 1.0
"""Seconds by which two readings of one start differ at most."""


class HistorySource(Protocol):
    """The part of a source that forecasts use."""

    kind: SourceKind

    def read(
        self,
        signals: Iterable[str],
        start: float,
        end: float,
        step: float | None = ...,
        match: tuple[Matcher, ...] = ...,
        window: float | None = ...,
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

    @property
    def end(self) -> int:
        """Unix seconds just after the last bin."""
        return self.start + self.step * self.count

    @property
    def first_seen(self) -> int:
        """Unix seconds of the first bin in which any engine ran, the end without any."""
        running = self.rows.get("running", {}).values()
        firsts = [int(np.argmax(seen)) for row in running if (seen := np.isfinite(row)).any()]
        return self.start + self.step * min(firsts, default=self.count)

    def pools(self) -> dict[Pool, list[Key]]:
        """The pods of each pool."""
        found: dict[Pool, list[Key]] = {}
        for key, member in self.members.items():
            found.setdefault(member.pool, []).append(key)
        return found


def gather(
    source: HistorySource,
    signals: Sequence[str],
    tiers: Tiers,
    assignments: Sequence[Assignment] = (),
    match: tuple[Matcher, ...] = (),
    days: int = HISTORY_DAYS,
    until: int | None = None,
    step: int = STEP,
    window: int | None = None,
    progress: Callable[[int, int], None] = lambda done, of: None,
) -> Gathered:
    """Reads the signals of the last `days` days into one value per `step` seconds, each over the last `window` seconds
    of its step (None = all of it). until: Unix seconds (None = the newest sample). Raises InferdocError when the source
    holds nothing."""
    newest = source.latest_ms() if until is None else until * 1000
    if newest is None:
        raise InferdocError("the source holds no samples: collect some, or give --input FILE")
    end = newest // 1000 // STEP * STEP
    made = Gathered(end - days * DAY, step, days * DAY // step)

    def know(frame: SignalFrame, begin: int, last: int) -> None:
        cards = source.read(["gpu_util"], begin + CARD_STEP, last, CARD_STEP, match, window=STEP)
        frame.signals |= {name: cards[name] for name in ("gpu_util",) if name in cards}
        for member in resolve(frame, tiers, assignments).members:
            made.members[member.key] = member
        progress((last - made.start) // DAY, days)

    add(made, source, ("running", *signals), match, window, know)
    if STARTED in signals and STARTED not in made.rows:
        add(made, source, (LISTED,), match, window)
    if not made.members:
        raise InferdocError("no engine was seen in the source's last days: `inferdoc doctor` says what is visible")
    return made


def add(
    made: Gathered,
    source: HistorySource,
    signals: Sequence[str],
    match: tuple[Matcher, ...] = (),
    window: int | None = None,
    know: Callable[[SignalFrame, int, int], None] = lambda frame, begin, last: None,
) -> None:
    """Reads further signals into what was gathered, piece by piece. know: is shown each piece and where it begins and
    ends."""
    piece = PIECE_DAYS[source.kind] * DAY
    for begin in range(made.start, made.end, piece):
        last = min(begin + piece, made.end)
        frame = source.read(signals, begin + made.step, last, made.step, match, window=window or made.step)
        _take(made, frame, signals)
        know(frame, begin, last)


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
            row, place, seen = made.row(signal, entity.member), at[known], values[known]
            row[place] = np.nansum([row[place], seen], axis=0) if signal in ADDED else np.fmax(row[place], seen)


def pool_name(pool: Pool) -> str:
    """A name that Kubernetes labels can carry: namespace, model, role and tier, as far as known. One that is too long
    ends in a hash, so that the roles and tiers of a model with a long name stay apart."""
    parts = [pool.cluster, pool.namespace, pool.model, pool.role if pool.role != "both" else "", pool.tier]
    text = "-".join(part for part in parts if part and part != "unknown").lower()
    name = re.sub(r"[^a-z0-9]+", "-", text).strip("-") or "pool"
    if len(name) <= LONGEST_NAME:
        return name
    mark = hashlib.sha256(name.encode()).hexdigest()[:6]
    return f"{name[: LONGEST_NAME - 7].rstrip('-')}-{mark}"


def called_alike(pools: Iterable[Pool]) -> dict[str, str]:
    """Names that several pools share (they differ only in a character that no label can contain), with the reason for
    the refusal."""
    found: dict[str, list[Pool]] = {}
    for pool in pools:
        found.setdefault(pool_name(pool), []).append(pool)
    return {
        name: f"{len(several)} pools go by this name ({'; '.join(sorted(_description(pool) for pool in several))}): "
        "choose one with --namespace, or give its model another name"
        for name, several in found.items()
        if len(several) > 1
    }


def _description(pool: Pool) -> str:
    return ", ".join(part for part in (pool.place, f"model {pool.model}", pool.role, pool.tier) if part)


def load_series(made: Gathered, unit: LoadUnit | None = None, step: int = STEP) -> dict[str, LoadSeries]:
    """One series per pool (name -> series, rates per second). unit: what is counted; None = by role (prefill by the
    prompt tokens it computes, decode by the tokens it generates, else requests)."""
    found = {}
    alike = called_alike(made.pools())
    if alike:
        name, why = next(iter(alike.items()))
        raise InferdocError(f"{name}: {why}")
    for pool in made.pools():
        series = pool_series(made, pool, unit or FORECAST_BY_ROLE[pool.role])
        if series is not None:
            found[series.name] = series if step == made.step else series.coarser(step)
    return dict(sorted(found.items()))


def pool_series(made: Gathered, pool: Pool, unit: LoadUnit) -> LoadSeries | None:
    """The load of one pool in a unit; None where nothing shows it."""
    keys = made.pools()[pool]
    values = np.zeros(made.count)
    found = False
    for choice in SIGNALS[unit]:
        signal = next((s for s in choice if any(k in made.rows.get(s, {}) for k in keys)), None)
        if signal is None:
            continue
        rows = made.rows[signal]
        shown = [key for key in keys if key in rows]
        summed = sum_of_pods(np.stack([rows[key] for key in shown]), np.stack([_lives(made, key) for key in shown]))
        values = values + (summed if not found else np.nan_to_num(summed))
        found = True
    if not found:
        return None
    return _trimmed(LoadSeries(made.start, made.step, np.maximum(values, 0.0), "rate", unit, pool_name(pool)))


def _lives(made: Gathered, key: Key) -> np.ndarray:
    """float64[bins]: a number that is another for each process of the pod, NaN where none is known: when the process
    started, else how often the target had left the list of targets (a removed target has no `up`)."""
    blank = np.full(made.count, np.nan)
    started = made.rows.get(STARTED, {}).get(key, blank)
    if np.isfinite(started).any():
        return started
    listed = np.isfinite(made.rows.get(LISTED, {}).get(key, blank))
    return np.where(listed, np.cumsum(~listed), np.nan) if listed.any() else blank


def sum_of_pods(rows: np.ndarray, lives: np.ndarray | None = None) -> np.ndarray:
    """float64[bins]: the sum over pods (float64[pods, bins]). A pod counts as absent before its first and after its
    last bin, and between two processes (lives: float64[pods, bins], another number for each): it was scaled in, or its
    work went to others. A hole inside the life of a process is bridged when it is short or the pod carries little; else
    the bin is a gap, because a sum without it would be a drop that never happened."""
    total = np.zeros(rows.shape[1])
    alive = np.zeros(rows.shape[1], dtype=bool)
    broken = np.zeros(rows.shape[1], dtype=bool)
    means = np.array([np.nanmean(row) if np.isfinite(row).any() else 0.0 for row in rows])
    whole = float(means.sum())
    for row, life, mean in zip(rows, np.full_like(rows, np.nan) if lives is None else lives, means, strict=True):
        known = np.flatnonzero(np.isfinite(row))
        if not len(known):
            continue
        total[known] += row[known]
        alive[known] = True
        for a, b in pairwise(known.tolist()):
            if b - a == 1 or abs(life[a] - life[b]) > SAME_PROCESS:
                continue
            hole = np.arange(a + 1, b)
            total[hole] += np.interp(hole, (a, b), (row[a], row[b]))
            if whole > 0 and mean / whole > SMALL_SHARE and b - a - 1 > SHORT_GAP_BINS:
                broken[hole] = True
    return np.where(alive & ~broken, total, np.nan)


def _trimmed(series: LoadSeries) -> LoadSeries:
    """Without the gap before the first value; a trailing gap stays: a forecast starts at the end of the data."""
    known = np.flatnonzero(np.isfinite(series.values))
    return (
        series
        if not len(known)
        else series.before(series.end, (len(series.values) - int(known[0])) * series.step / DAY)
    )


def gpus_of_pod(source: HistorySource, pods: Iterable[PodSection], made: Gathered, keys: Sequence[Key]) -> int | None:
    """As the configuration says, else as many as the GPU exporter joins to it at the end of what was gathered; None if
    neither shows it. keys: the pods of the pool."""
    for section in pods:
        if section.gpus is not None and re.fullmatch(section.pod, keys[0][2]):
            return section.gpus
    frame = source.read(["gpu_util"], made.end - made.step, made.end, made.step, window=made.step)
    if "gpu_util" not in frame:
        return None
    numbers = [sum(1 for entity in frame["gpu_util"].entities if entity.member == key) for key in keys]
    return max(numbers, default=0) or None
