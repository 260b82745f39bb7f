"""Harm that no recipe explains: which signals of the hit pods behave most unlike their calm.

Every signal becomes a robust distance from its own calm (sigmas: deviations from the calm median over the spread of the
calm part). An isolation forest (F. T. Liu, K. M. Ting, Z. Zhou, "Isolation Forest", ICDM 2008, as in scikit-learn)
learns the calm of the pool from those vectors: the hit pods before the onset, and their like at any time. A signal then
counts by how far it moved during the episode, beyond what the like pods moved, and by how much of the forest's verdict
it carries: how much more normal the episode scores once this signal is put back to its calm.

scikit-learn is loaded here and nowhere else, and only when there is something to rank.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from inferdoc.diagnose.context import Context, Outcome
from inferdoc.diagnose.excursion import IQR_TO_SIGMA, Rule, against
from inferdoc.diagnose.fold import Cause
from inferdoc.diagnose.order import median, percentiles
from inferdoc.diagnose.view import Unit
from inferdoc.diagnose.words import figure

MOST_NAMED = 5
LEAST_MOVED = 3.0
"""Sigmas that a signal must have moved to be named."""
LEAST_CALM, LEAST_SEEN = 8, 3
"""Values that a signal needs in the calm part and in the episode."""
LEAST_SPREAD = 0.02
"""Of the calm median: quantities that hardly move would otherwise turn the last digit into a hundred sigmas."""
FLOOR_SIGMAS = 3.0
"""The smallest change that can matter (the signal's floor) counts as so many sigmas at least."""
FARTHEST = 50.0
"""Sigmas beyond which farther says no more."""
MOST_CALM, MOST_EPISODE = 2000, 40
"""Rows that the forest learns from, and rows of the episode that it scores."""
CONSEQUENCES = ("ttft", "itl", "e2e", "tpot", "goodput", "generation", "request", "success", "slo")
"""Families of signals that say that users are hurt, not why. They are named last."""
PHASES = ("queue_time", "prefill_time", "decode_time", "inference_time")
"""Quantities that say where the time goes; what takes the time comes first."""
NO_MECHANISM = ("target", "missing", "duplicate", "lost", "process")
"""Families about the telemetry itself."""


@dataclass(frozen=True)
class Moved:
    """A signal in the episode. sigmas: how far it moved, signed, without what its like moved; carried: share of the
    forest's verdict, 0..1; calm, now: medians in the signal's unit; entity: the pod, or one of its GPUs."""

    signal: str
    entity: str
    unit: Unit
    sigmas: float
    carried: float
    calm: float
    now: float

    @property
    def weight(self) -> float:
        """What it is ranked by. Distances count on a logarithmic scale: ten sigmas or forty are both beyond chance."""
        return float(np.log1p(abs(self.sigmas))) * (0.5 + self.carried)


@dataclass(frozen=True)
class Track:
    """One signal of one unit: its values and its sigmas, float64[T]."""

    entity: str
    values: np.ndarray
    sigmas: np.ndarray


def unusual(context: Context, cause: Cause) -> list[Outcome]:
    """The most unusual signals of the pods of a cause, mechanisms before consequences, as observations that hold."""
    split, last = cause.onset, cause.last
    hit = list(dict.fromkeys(m.unit for m in cause.matches))
    others = [u for u in context.view.like(hit[0]) if u not in set(hit)]
    tracks = {unit: _tracks(context, unit, split, last) for unit in (*hit, *others)}
    names = sorted({name for unit in hit for name in tracks[unit]})
    if not names or split < LEAST_CALM:
        return []
    carried = _carried(tracks, hit, others, names, split, last)
    moved = [m for name in names if (m := _moved(name, tracks, hit, others, carried[name], split, last)) is not None]
    moved = [m for m in moved if abs(m.sigmas) >= LEAST_MOVED]
    moved.sort(key=lambda m: (_order(m.signal), -m.weight, m.signal))
    kept: dict[str, Moved] = {}
    for one in moved:
        same = kept.setdefault(_quantity(one.signal), one)
        if len(one.signal) < len(same.signal):  # kv_usage rather than kv_usage_mean: the name that recipes use
            kept[_quantity(one.signal)] = one
    return [_outcome(context, one, split, last) for one in list(kept.values())[:MOST_NAMED]]


def _family(signal: str) -> str:
    """The first word of a signal's name; what routers see of the engines belongs to the same families."""
    return signal.removeprefix("router_").removeprefix("tenant_").split("_")[0]


def _order(signal: str) -> int:
    """Mechanisms, then where the time goes, then what users feel."""
    return 2 if _family(signal) in CONSEQUENCES else 1 if _quantity(signal) in PHASES else 0


def _quantity(signal: str) -> str:
    """What a signal measures, without how: quantiles and means of one histogram are one."""
    head, _, tail = signal.rpartition("_")
    return head if tail in ("p50", "p90", "p95", "p99", "mean", "rate", "ratio", "share") else signal


def _tracks(context: Context, unit: Unit, split: int, last: int) -> dict[str, Track]:
    """Every signal that says something about a unit in both parts."""
    found = {}
    for name in context.view.frame.signals:
        signal = context.signals.get(name)
        if signal is None or _family(name) in NO_MECHANISM:
            continue
        rows = context.view.gpus(unit, name) if signal.level == "gpu" else {}
        series = None if signal.level == "gpu" else context.view.get(unit, name)
        if series is not None:
            rows = {"": series.values}
        tracks = [
            Track(f"{unit.name} {part}".strip(), row, sigmas)
            for part, row in rows.items()
            if (sigmas := _sigmas(row, signal.floor, split, last)) is not None
        ]
        if tracks:  # of several GPUs the one that moved farthest
            found[name] = max(tracks, key=lambda t: abs(_typical(t.sigmas[split : last + 1])))
    return found


def _sigmas(row: np.ndarray, floor: float, split: int, last: int) -> np.ndarray | None:
    """Deviations from the calm median over the calm spread; None for too few values."""
    calm = row[:split][np.isfinite(row[:split])]
    if len(calm) < LEAST_CALM or np.isfinite(row[split : last + 1]).sum() < LEAST_SEEN:
        return None
    low, middle, high = percentiles(np.sort(calm), (0.25, 0.5, 0.75))
    least = max(LEAST_SPREAD * abs(middle), floor / FLOOR_SIGMAS)
    spread = max((high - low) / IQR_TO_SIGMA, float(calm.std()) / 2, least)
    if spread <= 0:
        spread = 1.0 if not np.nanmax(np.abs(row)) else float(np.nanmax(np.abs(row))) / FARTHEST
    return np.asarray(np.clip((row - middle) / spread, -FARTHEST, FARTHEST))


def _typical(sigmas: np.ndarray) -> float:
    seen = sigmas[np.isfinite(sigmas)]
    return median(seen) if len(seen) else 0.0


def _rows(tracks: dict[str, Track], names: Sequence[str], steps: slice, count: int) -> np.ndarray:
    """float64[steps, names]; what is not known stands at its calm."""
    blank = np.zeros(count)
    columns = [np.nan_to_num(tracks[name].sigmas[steps]) if name in tracks else blank for name in names]
    return np.column_stack(columns)


def _carried(
    tracks: dict[Unit, dict[str, Track]],
    hit: Sequence[Unit],
    others: Sequence[Unit],
    names: Sequence[str],
    split: int,
    last: int,
) -> dict[str, float]:
    """By signal, the share of the forest's verdict on the episode that goes once the signal is put back to its calm."""
    from sklearn.ensemble import IsolationForest

    calm = [_rows(tracks[unit], names, slice(0, split), split) for unit in hit]
    calm += [_rows(tracks[unit], names, slice(0, last + 1), last + 1) for unit in others]
    episode = np.vstack([_rows(tracks[unit], names, slice(split, last + 1), last + 1 - split) for unit in hit])
    forest = IsolationForest(n_estimators=100, random_state=0, n_jobs=1).fit(_thinned(np.vstack(calm), MOST_CALM))
    episode = _thinned(episode, MOST_EPISODE)
    variants = np.repeat(episode[np.newaxis], len(names) + 1, axis=0)
    for column in range(len(names)):
        variants[column + 1, :, column] = 0.0
    scores = forest.score_samples(variants.reshape(-1, len(names))).reshape(len(names) + 1, -1).mean(axis=1)
    gains = np.maximum(scores[1:] - scores[0], 0.0)
    most = float(gains.max())
    return dict(zip(names, (gains / most if most > 0 else gains).tolist(), strict=True))


def _thinned(rows: np.ndarray, most: int) -> np.ndarray:
    """At most so many rows, evenly spread."""
    return rows if len(rows) <= most else rows[np.linspace(0, len(rows) - 1, most).astype(np.int64)]


def _moved(
    name: str,
    tracks: dict[Unit, dict[str, Track]],
    hit: Sequence[Unit],
    others: Sequence[Unit],
    carried: float,
    split: int,
    last: int,
) -> Moved | None:
    """How far a signal moved: the median over the hit pods, less that over their like; shown on the pod that moved
    farthest."""
    steps = slice(split, last + 1)
    mine = {unit: _typical(tracks[unit][name].sigmas[steps]) for unit in hit if name in tracks[unit]}
    theirs = [_typical(tracks[unit][name].sigmas[steps]) for unit in others if name in tracks[unit]]
    own = median(np.array(list(mine.values())))
    usual = median(np.array(theirs)) if theirs else 0.0
    shown = max(mine, key=lambda unit: abs(mine[unit]))
    track = tracks[shown][name]
    calm, now = track.values[:split], track.values[steps]
    return Moved(
        name,
        track.entity,
        shown,
        own - usual if own * usual > 0 else own,
        carried,
        median(calm[np.isfinite(calm)]),
        median(now[np.isfinite(now)]),
    )


def _outcome(context: Context, one: Moved, split: int, last: int) -> Outcome:
    """The observation in words: from what to what, how far, and since when."""
    signal = context.signals[one.signal]
    rows = context.view.gpus(one.unit, one.signal) if signal.level == "gpu" else {}
    series = context.view.get(one.unit, one.signal) if not rows else None
    values = series.values if series is not None else rows[one.entity.removeprefix(one.unit.name).strip()]
    # A ratio of 1 is any rise beyond the swing of the calm, one just below it any fall.
    rule = Rule(1.0 if one.sigmas > 0 else 1.0 - 1e-9, by=signal.floor, share=0.3)
    left = against(values, split, rule, context.clock)
    word = "rose" if one.now > one.calm else "fell" if one.now < one.calm else "swings around"
    distance = f"more than {FARTHEST:g}" if abs(one.sigmas) >= FARTHEST else f"{abs(one.sigmas):.0f}"
    text = (
        f"Unusual: {signal.title} {word} from {figure(one.calm, signal.unit)} to {figure(one.now, signal.unit)} "
        f"({distance} sigmas of its calm)"
    )
    first = left.start if left is not None else split
    return Outcome(
        True,
        text,
        one.signal,
        one.entity,
        signal.unit,
        first=first,
        last=last,
        baseline=one.calm,
        observed=one.now,
        threshold=None if left is None else left.band,
    )
