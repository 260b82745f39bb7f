"""How long the replicas of each pool take to start, from their own history.

A new pod is a scrape target as soon as it has an address: its first scrapes fail (`up` is 0) until the engine has
loaded the model and serves /metrics. The process exposes its start time. The start lasts from the earlier of the two,
the first scrape of a new target or the start of the process, to the first successful scrape; the first token comes with
the first request."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from inferdoc.fleet.members import Pool
from inferdoc.forecast.fromsource import LISTED, STARTED, Gathered, HistorySource, Key
from inferdoc.forecast.series import DAY
from inferdoc.source.frame import SignalFrame
from inferdoc.source.reads import Matcher

UP, TOKENS = LISTED, "generation_tokens_rate"
START_DAYS = 2
"""Days that are read minute by minute."""
ENOUGH = 5
"""Starts that a quantile needs."""
STEP = 60
LOOK_BACK = 150.0
"""Two scrapes a minute apart, and one may be lost."""
LONGEST = 3600.0


@dataclass(frozen=True)
class Start:
    """One replica becoming ready. ready, token: seconds from its beginning to the first successful scrape and to the
    first token (None = none within the hour)."""

    ready: float
    token: float | None


@dataclass(frozen=True)
class Starts:
    """The starts seen of one pool."""

    seen: tuple[Start, ...] = ()

    def quantile(self, q: float) -> float:
        """Seconds to the first successful scrape that a share `q` of the starts did not exceed."""
        return float(np.quantile([start.ready for start in self.seen], q))

    @property
    def spread(self) -> str:
        """In words: how many, how long, and when the first token came."""
        low, middle, high = (self.quantile(q) for q in (0.1, 0.5, 1.0))
        tokens = [start.token for start in self.seen if start.token is not None]
        after = f", first token after {np.median(tokens):.0f} s" if tokens else ""
        times = f"{low:.0f} s to {high:.0f} s, median {middle:.0f} s" if high > low else f"{high:.0f} s"
        return f"{len(self.seen)} start{'s' if len(self.seen) > 1 else ''} of its own replicas took {times}{after}"


def pool_starts(source: HistorySource, made: Gathered, match: tuple[Matcher, ...] = ()) -> dict[Pool, Starts]:
    """The starts of the members of each pool, on the days of what was gathered that saw most of them; pools without any
    are left out."""
    found: dict[Pool, list[Start]] = {}
    for begin in _busiest_days(made):
        frame = source.read([STARTED, UP, TOKENS], begin, begin + DAY, STEP, match, window=LOOK_BACK)
        rows = {signal: _rows(frame, signal) for signal in (STARTED, UP, TOKENS)}
        for pool, keys in made.pools().items():
            seen = [start for key in keys for start in _of_target(frame.times, {s: rows[s].get(key) for s in rows})]
            found.setdefault(pool, []).extend(seen)
    return {pool: Starts(tuple(seen)) for pool, seen in found.items() if seen}


def _busiest_days(made: Gathered) -> list[int]:
    """Start of the days with most starts, Unix seconds; per pool and day only as many as a quantile needs count. The
    last days if no process exposes its start time."""
    days = (made.end - made.start) // DAY
    counts = np.zeros(days, dtype=np.int64)
    started_at = made.rows.get(STARTED, {})
    for keys in made.pools().values():
        times = [np.unique(started_at[key][np.isfinite(started_at[key])]) for key in keys if key in started_at]
        born = np.concatenate([np.empty(0), *times])
        ago = (made.end - born[(born > made.start) & (born < made.end)]) // DAY
        counts += np.minimum(np.bincount(ago.astype(np.int64), minlength=days)[:days], ENOUGH)
    order = np.argsort(-counts, kind="stable")[:START_DAYS]
    return [made.end - DAY * (int(ago) + 1) for ago in order]


def _rows(frame: SignalFrame, signal: str) -> dict[Key, np.ndarray]:
    """float64[times] per pod, the highest over its engines."""
    found: dict[Key, np.ndarray] = {}
    if signal in frame:
        for entity, row in zip(frame[signal].entities, frame[signal].values, strict=True):
            key = entity.member
            found[key] = np.fmax(found[key], row) if key in found else row
    return found


def _of_target(times: np.ndarray, rows: Mapping[str, np.ndarray | None]) -> list[Start]:
    blank = np.full(len(times), np.nan)
    started, up, tokens = (blank if row is None else row for row in (rows[s] for s in (STARTED, UP, TOKENS)))
    pages = (up > 0) | np.isfinite(started)
    firsts = np.flatnonzero(pages & ~np.concatenate([[True], pages[:-1]]))
    again = 1 + np.flatnonzero(np.isfinite(started[1:]) & np.isfinite(started[:-1]) & (np.diff(started) > 1.0))
    found = []
    for at in sorted({*firsts.tolist(), *again.tolist()}):
        begins = [b for b in (_process(started, at, times), _first_scrape(up, pages, at, times)) if b is not None]
        ready = float(times[at]) - min(begins, default=np.inf)
        if 0 < ready <= LONGEST:
            made = np.flatnonzero(tokens[at:] > 0)
            token = float(times[at + made[0]]) - min(begins) if len(made) else None
            found.append(Start(ready, token if token is not None and token <= LONGEST else None))
    return found


def _process(started: np.ndarray, at: int, times: np.ndarray) -> float | None:
    """Start time of the process scraped at `at`; None if it exposes none, or started before the time range."""
    started_at = started[at]
    known = started[:at][np.isfinite(started[:at])]
    new = np.isfinite(started_at) and started_at >= times[0] and not (len(known) and abs(known[-1] - started_at) <= 1.0)
    return float(started_at) if new else None


def _first_scrape(up: np.ndarray, pages: np.ndarray, at: int, times: np.ndarray) -> float | None:
    """First scrape of a target without an earlier successful one; None for a target that existed before, or whose first
    scrape succeeded."""
    known = np.flatnonzero(np.isfinite(up[:at]))
    if not len(known) or known[0] == 0 or pages[:at].any() or (up[:at][known] > 0).any():
        return None
    return float(times[known[0]])


DEFAULT_COLD_START = 300
QUANTILE = 0.9


@dataclass(frozen=True)
class ColdStart:
    """seconds: from creation to ready; basis: where they come from, in words."""

    seconds: int
    basis: str


def cold_start(given: int | None, starts: Starts | None, tier: str, of_tier: float | None) -> ColdStart:
    """With fewer starts than a quantile needs, they can only raise the value of the tier. given: seconds; starts: those
    seen of the pool's own replicas; of_tier: seconds that its hardware usually takes."""
    if given is not None:
        return ColdStart(given, "given")
    if starts is not None and len(starts.seen) >= ENOUGH:
        seconds = round(starts.quantile(QUANTILE))
        return ColdStart(seconds, f"{seconds} s: {starts.spread}")
    usual = DEFAULT_COLD_START if of_tier is None else int(of_tier)
    whose = "five minutes" if of_tier is None else f"the {usual} s of tier {tier}"
    if starts is None:
        return ColdStart(usual, f"no start of its replicas was seen, {whose} are taken")
    seconds = max(usual, round(starts.quantile(1.0)))
    return ColdStart(seconds, f"{seconds} s: {starts.spread}; so few count only where they exceed {whose}")
