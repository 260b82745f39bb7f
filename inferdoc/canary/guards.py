"""Whether the two groups can be compared: the same work, at the same load, both warm."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from inferdoc.canary.interval import ALIKE, ratio
from inferdoc.canary.pairs import ArmsWatched
from inferdoc.catalogue.signal import Term
from inferdoc.source.frame import Entity
from inferdoc.source.plan import BY
from inferdoc.source.reads import Read
from inferdoc.words import figure

STARTED = "process_start_time_seconds"


@dataclass(frozen=True)
class Guard:
    """One quantity in both groups. ratio: candidate over stable; broken: it differs by more than is alike, and not by
    chance; voids: which answer it takes away: any, or that the candidate is worse."""

    name: str
    title: str
    unit: str
    candidate: float
    stable: float
    ratio: float
    broken: bool
    voids: str
    because: str


@dataclass(frozen=True)
class _Quotient:
    """A quantity that is a sum over another. voids, because: as of the guard."""

    name: str
    title: str
    unit: str
    above: str
    below: str
    voids: str
    because: str


LENGTHS = (
    _Quotient(
        "prompt_tokens", "mean prompt", "tokens", "vllm:request_prompt_tokens_sum", "vllm:request_prompt_tokens_count",
        "any", "they do other work: send both the same mix",
    ),
    _Quotient(
        "output_tokens", "mean answer", "tokens", "vllm:request_generation_tokens_sum",
        "vllm:request_generation_tokens_count", "any", "they do other work, or the candidate answers otherwise",
    ),
    _Quotient(
        "prefix_hits", "prefix hits", "ratio", "vllm:prefix_cache_hits_total", "vllm:prefix_cache_queries_total",
        "none", "its cache is colder, its share of a session smaller, or the change costs hits",
    ),
)  # fmt: skip


def guards(watched: ArmsWatched, windows: np.ndarray, requests: np.ndarray) -> list[Guard]:
    """windows: bool[windows], those that are compared; requests: float64[2, windows], requests of both groups."""
    found = [guard for one in LENGTHS if (guard := _of(watched, one, windows)) is not None]
    load = _load(watched, windows, requests)
    return found if load is None else [*found, load]


def _of(watched: ArmsWatched, one: _Quotient, windows: np.ndarray) -> Guard | None:
    above, below = (watched.counted(Term(rate=name))[:, windows] for name in (one.above, one.below))
    times = ratio(above, below)
    if times is None:
        return None
    candidate, stable = (float(value) for value in above.sum(axis=1) / below.sum(axis=1))
    broken = times.low > 1 + ALIKE or times.high < 1 - ALIKE  # for sure
    return Guard(one.name, one.title, one.unit, candidate, stable, times.value, broken, one.voids, one.because)


def _load(watched: ArmsWatched, windows: np.ndarray, requests: np.ndarray) -> Guard | None:
    pods = np.array([len(watched.arms.candidate), len(watched.arms.stable)], dtype=float)
    seconds = windows.sum() * watched.grid.step_ms / 1000
    candidate, stable = (float(each) for each in requests[:, windows].sum(axis=1) / pods / seconds)
    if stable <= 0:
        return None
    times = candidate / stable
    voids = "worse" if times > 1 else "none"
    because = "slower may be the load alone" if times > 1 else "at its full share it may be slower"
    return Guard("load", "requests a pod", "1/s", candidate, stable, times, abs(times - 1) > ALIKE, voids, because)


def warm(watched: ArmsWatched, warmup_seconds: float) -> np.ndarray:
    """bool[windows]: the windows that begin when each pod of the candidate has been up for so long; all of them where
    nothing shows when its processes started."""
    grid, keys = watched.grid, watched.arms.keys()[0]
    read = Read(STARTED, "last", BY["target"], agg="max")
    history = watched.history
    if STARTED not in history.source.names(history.begin_ms, history.end_ms):
        return np.ones(grid.count, dtype=bool)
    rows = history.source.evaluate([read], grid, history.match)[read]
    started = np.zeros(grid.count)
    for key, values in zip(rows.keys, rows.values, strict=True):
        if Entity.of(rows.by, key).member in keys:
            started = np.fmax(started, values)
    ends = (grid.start_ms + np.arange(grid.count) * grid.step_ms) / 1000
    mask: np.ndarray = ends - grid.step_ms / 1000 >= started + warmup_seconds
    return mask


def words(guard: Guard) -> str:
    """In words: "mean prompt: 1,200 tokens, and 900 tokens of the stable pods: ..."."""
    each = f"{figure(guard.candidate, guard.unit)}, {figure(guard.stable, guard.unit)} on the stable pods"
    return f"{guard.title} of the candidate: {each}: {guard.because}"
