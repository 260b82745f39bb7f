"""Harm that no recipe explains: which signals of the hit pods behave most unlike their baseline.

Every signal becomes a robust distance from its own baseline (`distances.py`). An isolation forest (F. T. Liu, K. M.
Ting, Z. Zhou, "Isolation Forest", ICDM 2008, as in scikit-learn) learns the baseline of the pool from those vectors:
the hit pods before the onset, their like at any time, and all of them at the same hour of earlier days where the source
goes back so far. A signal then counts by how far it moved beyond what its like moved, or by how far it left its like,
and by how odd the forest finds a baseline moment with this one signal as it is now. Signals are grouped by what they
measure, and what stands earlier between a mechanism and an affected user counts more (`distances.py`).

scikit-learn is loaded here and nowhere else, and only when there is something to rank.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from importlib.util import find_spec

import numpy as np

from inferdoc.catalogue.signal import WIDE, Signal
from inferdoc.fleet.members import resolve
from inferdoc.judging.clock import Rule
from inferdoc.judging.cohort_signals import add_cohorts
from inferdoc.judging.context import Context, Outcome
from inferdoc.judging.deviation import against
from inferdoc.judging.distances import (
    FARTHEST,
    LEAST_BASELINE,
    LOAD,
    MECHANISM,
    Apart,
    Episode,
    Track,
    gpus_apart,
    place,
    precedence,
    quantity,
    tracks,
    typical,
    units_apart,
)
from inferdoc.judging.fold import Cause
from inferdoc.judging.order import median
from inferdoc.judging.references.rhythm import BEFORE, LONGEST_MS
from inferdoc.judging.session import Session
from inferdoc.judging.view import Unit, View, make_view
from inferdoc.words import figure

MOST_NAMED = 5
LEAST_MOVED = 3.0
"""Sigmas that a signal must have moved to be named."""
STEP_DOWN = 0.5
"""What a place farther from the mechanism counts, of the place before it."""
ALONE = 0.5
"""What a distance counts that the forest makes nothing of."""
SAME = 0.5
"""Of the signals of one quantity, one with at least this share of the score of the clearest of them may be named
for it."""
MOST_HIT, MOST_LIKE = 16, 24
"""Pods whose signals are looked at, of those that are hit and of their like: evenly spread over a larger pool."""
MOST_BASELINE, MOST_EPISODE = 2000, 40
"""Rows that the forest learns from, and rows of the episode that it scores."""


@dataclass(frozen=True)
class Moved:
    """A signal in the episode. sigmas: how far it moved, signed, without what its like moved; apart: how far the hit
    pods left their like, sigmas; gpu: the GPU that left the others of its pod; carried: how odd the forest finds it,
    0..1; baseline, now: medians in the signal's unit; part: one of the GPUs, or empty."""

    signal: Signal
    name: str
    unit: Unit
    part: str
    sigmas: float
    apart: float
    gpu: Apart | None
    carried: float
    baseline: float
    now: float

    @property
    def entity(self) -> str:
        """The pod, or one of its GPUs."""
        return f"{self.unit.name} {self.gpu.part if self.beside and self.gpu else self.part}".strip()

    @property
    def beside(self) -> bool:
        """Whether it is the difference between like GPUs that is odd."""
        return self.gpu is not None and abs(self.gpu.sigmas) >= max(LEAST_MOVED, abs(self.sigmas))

    @property
    def distance(self) -> float:
        """The farthest of the ways in which it is odd, sigmas."""
        return max(abs(self.sigmas), self.apart, abs(self.gpu.sigmas) if self.gpu else 0.0)

    @property
    def known(self) -> float:
        """Distances count on a logarithmic scale: ten sigmas or forty are both beyond chance. What differs among GPUs
        in lockstep is a mechanism, whatever it measures."""
        stands = place(self.name)
        if stands == LOAD and self.gpu is not None and abs(self.gpu.sigmas) >= LEAST_MOVED:
            stands = MECHANISM
        return float(np.log1p(self.distance)) * STEP_DOWN**stands


@dataclass
class Measured:
    """What is known of the pods. hit: theirs; like: of the pods like them, today and on earlier days."""

    hit: dict[Unit, dict[str, Track]]
    like: list[dict[str, Track]] = field(default_factory=list)


def has_forest() -> bool:
    """Whether scikit-learn is installed. Without it signals are ranked by how far they moved alone."""
    return find_spec("sklearn") is not None


def unusual(context: Context, cause: Cause, earlier: Sequence[View] = ()) -> list[Outcome]:
    """The most unusual signals of the pods of a cause, one per quantity, as observations that hold. earlier: the same
    hours of days before."""
    episode = Episode(cause.onset, cause.last)
    affected = list(dict.fromkeys(m.unit for m in cause.matches))
    like = _some([u for u in context.view.like(affected[0]) if u not in set(affected)], MOST_LIKE)
    hit = _some(affected, MOST_HIT)
    known = Measured({unit: tracks(context.view, context.signals, unit, episode) for unit in hit})
    known.like = [tracks(context.view, context.signals, unit, episode) for unit in like]
    for view in earlier:
        then = _some([u for u in view.units if u.member.pool == hit[0].member.pool], MOST_LIKE)
        known.like += [tracks(view, context.signals, unit, episode) for unit in then]
    names = sorted({name for found in known.hit.values() for name in found})
    if not names or episode.split < LEAST_BASELINE:
        return []
    carried = _carried(known, names, episode)
    moved = [_moved(name, context, known, hit, like, carried[name], episode) for name in names]
    return [_outcome(context, one, episode) for one in _ranked([m for m in moved if m.distance >= LEAST_MOVED])]


def _some(units: Sequence[Unit], most: int) -> list[Unit]:
    """At most so many, evenly spread."""
    return [units[i] for i in _thinned(np.arange(len(units)), most)]


def _ranked(moved: Sequence[Moved]) -> list[Moved]:
    """One signal per quantity, the most unusual quantity first."""
    groups: dict[str, list[Moved]] = {}
    for one in moved:
        groups.setdefault(quantity(one.name), []).append(one)
    ranked = []
    for group in groups.values():
        most = max(one.known for one in group)
        named = min((one for one in group if one.known >= SAME * most), key=lambda one: precedence(one.name))
        ranked.append((-most * (ALONE + (1 - ALONE) * max(one.carried for one in group)), named.name, named))
    return [named for *_, named in sorted(ranked, key=lambda entry: entry[:2])][:MOST_NAMED]


def _rows(found: dict[str, Track], names: Sequence[str], steps: slice, count: int) -> np.ndarray:
    """float64[steps, names]; what is not known stands at its baseline."""
    blank = np.zeros(count)
    columns = [np.nan_to_num(found[name].sigmas[steps]) if name in found else blank for name in names]
    return np.column_stack(columns)


def _carried(known: Measured, names: Sequence[str], episode: Episode) -> dict[str, float]:
    """By signal, how much odder a baseline moment looks to the forest with this one signal as it is in the episode. 1:
    the oddest of them, and all of them where there is no forest."""
    if not has_forest():
        return dict.fromkeys(names, 1.0)
    from sklearn.ensemble import IsolationForest

    split, last = episode.split, episode.last
    stood = dict.fromkeys(names, 0.0)  # what did not move carries no information, and takes splits from what did
    names = [name for name in names if _has_moved(name, known, episode)]
    if not names:
        return stood
    baseline = [_rows(found, names, slice(0, split), split) for found in known.hit.values()]
    baseline += [_rows(found, names, slice(0, last + 1), last + 1) for found in known.like]
    learnt = _thinned(np.vstack(baseline), MOST_BASELINE)
    # A tree cannot split on what never moved, though nothing is odder than its first move: every value is known to
    # about a sigma (its floor) at best.
    chance = np.random.default_rng(0)
    learnt = learnt + chance.normal(size=learnt.shape) * np.sqrt(np.maximum(1 - learnt.var(axis=0), 0))
    forest = IsolationForest(n_estimators=100, random_state=0, n_jobs=1).fit(learnt)
    now = np.vstack([_rows(found, names, episode.steps, last + 1 - split) for found in known.hit.values()])
    now = _thinned(now, MOST_EPISODE)
    variants = np.zeros((len(names) + 1, *now.shape))
    for column in range(len(names)):
        variants[column + 1, :, column] = now[:, column]
    scores = forest.score_samples(variants.reshape(-1, len(names))).reshape(len(names) + 1, -1).mean(axis=1)
    odder = np.maximum(scores[0] - scores[1:], 0.0)
    most = float(odder.max())
    return stood | dict(zip(names, (odder / most if most > 0 else odder).tolist(), strict=True))


def _has_moved(name: str, known: Measured, episode: Episode) -> bool:
    """Whether a signal is anywhere in the episode where chance alone does not take it."""
    now = [found[name].sigmas[episode.steps] for found in known.hit.values() if name in found]
    return any(bool((np.abs(values) >= LEAST_MOVED).any()) for values in now)


def _thinned(rows: np.ndarray, most: int) -> np.ndarray:
    """At most so many rows, evenly spread."""
    return rows if len(rows) <= most else rows[np.linspace(0, len(rows) - 1, most).astype(np.int64)]


def _moved(
    name: str,
    context: Context,
    known: Measured,
    hit: Sequence[Unit],
    like: Sequence[Unit],
    carried: float,
    episode: Episode,
) -> Moved:
    """How far a signal moved: the median over the hit pods, less that over their like where each has its own; shown on
    the pod that moved farthest."""
    signal, view = context.signals[name], context.view
    mine = {unit: found[name].typical(episode.steps) for unit, found in known.hit.items() if name in found}
    theirs = [found[name].typical(episode.steps) for found in known.like if name in found]
    own = median(np.array(list(mine.values())))
    usual = median(np.array(theirs)) if theirs and signal.level not in WIDE else 0.0
    away = [abs(one) for one in units_apart(view, signal, name, hit, like, episode)]
    apart = median(np.array(away)) if away else 0.0
    gpus = {unit: found for unit in mine if (found := gpus_apart(view, signal, name, unit, episode)) is not None}
    odd = max(gpus, key=lambda unit: abs(gpus[unit].sigmas), default=None)
    shown = max(mine, key=lambda unit: abs(mine[unit]))
    sigmas = own
    if own * usual > 0:  # they move together: what is left, and no more than what parts them
        left = max(abs(own) - abs(usual), 0.0)
        sigmas = float(np.sign(own)) * (min(left, apart) if away else left)
    if odd is not None and abs(gpus[odd].sigmas) >= max(LEAST_MOVED, abs(sigmas)):
        shown = odd
    track = known.hit[shown][name]
    return Moved(
        signal,
        name,
        shown,
        track.part,
        sigmas,
        apart,
        gpus.get(shown),
        carried,
        typical(track.values[: episode.split]),
        typical(track.values[episode.steps]),
    )


def _outcome(context: Context, one: Moved, episode: Episode) -> Outcome:
    """The observation in words: from what to what, how far, and since when."""
    signal, split = one.signal, episode.split
    known = tracks_of(context, one)
    baseline, now = one.baseline, one.now
    if one.beside and one.gpu is not None:
        baseline, now = one.gpu.usual, one.gpu.own
        text = (
            f"Unusual: {signal.title} is {figure(now, signal.unit)} against {figure(baseline, signal.unit)} of the "
            f"other GPUs of the pod ({_far(one)} sigmas of their baseline difference)"
        )
    else:
        word = "rose" if now > baseline else "fell" if now < baseline else "swings around"
        text = (
            f"Unusual: {signal.title} {word} from {figure(baseline, signal.unit)} to {figure(now, signal.unit)} "
            f"({_far(one)} sigmas of its baseline)"
        )
    # A ratio of 1 is any rise beyond the swing of the baseline, one just below it any fall.
    rule = Rule(1.0 if one.now > one.baseline else 1.0 - 1e-9, by=signal.floor, share=0.3)
    left = against(known, split, rule, context.clock)
    return Outcome(
        True,
        text,
        one.name,
        one.entity,
        signal.unit,
        first=split if left is None else left.start,
        last=episode.last,
        baseline=baseline,
        observed=now,
        threshold=None if left is None else left.band,
    )


def _far(one: Moved) -> str:
    return f"more than {FARTHEST:g}" if one.distance >= FARTHEST else f"{one.distance:.0f}"


def tracks_of(context: Context, one: Moved) -> np.ndarray:
    """The values of what is shown: float64[T]."""
    part = one.gpu.part if one.beside and one.gpu else one.part
    if part:
        return context.view.gpus(one.unit, one.name)[part]
    series = context.view.get(one.unit, one.name)
    assert series is not None  # it was measured
    return series.values


def read_rest(session: Session) -> None:
    """Put every signal of the catalogue that the recipes did not query for into the frame of a view: what a cause that
    nobody wrote down moves need not be what the known ones move. What is there already stays: it has its baseline."""
    view, signals = session.context.view, session.catalogue.signals
    rest = [name for name in signals if name not in view.frame]
    more = session.read(rest, view.frame.grid)
    if view.lead is not None:
        more.prepend(session.read(rest, view.lead))
    view.add({name: matrix for name, matrix in more.signals.items() if name not in view.frame})
    add_cohorts(view.frame, signals, view.fleet)


def earlier_days(session: Session) -> list[View]:
    """The fleet at the same hours of yesterday and of a week ago, as far as the source goes back. A chosen baseline
    takes their place, and a window of most of a day holds them itself."""
    view, signals = session.context.view, session.catalogue.signals
    grid = view.frame.grid
    if view.lead is not None or grid.end_ms - grid.start_ms > LONGEST_MS:
        return []
    views = []
    for _, back_ms, _ in BEFORE:
        then = replace(grid, start_ms=grid.start_ms - back_ms)
        if "up" in session.source.names(then.start_ms, then.end_ms):
            frame = session.read(list(view.frame.signals), then)
            fleet = resolve(frame, session.catalogue.tiers, session.options.assignments)
            add_cohorts(frame, signals, fleet)
            views.append(make_view(frame, fleet, signals=signals))
    return views
