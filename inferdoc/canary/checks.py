"""Checks of a candidate against the stable pods, and guards that both groups can be compared."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import msgspec
import numpy as np

from inferdoc.canary.interval import ALIKE, ArmCounts, ArmsWatched, ratio
from inferdoc.catalogue.quantiles import NAME
from inferdoc.catalogue.signal import Term
from inferdoc.slo.attainment import FAILED, REFUSED, SERVED
from inferdoc.slo.model import Objective
from inferdoc.source.frame import Entity
from inferdoc.source.plan import BY
from inferdoc.source.reads import Read
from inferdoc.words import figure

STARTED = "process_start_time_seconds"


class GuardAnswer(msgspec.Struct, frozen=True):
    """One quantity in both groups. ratio: candidate over stable; broken: the ratio differs by more than chance and by
    more than what counts as alike."""

    name: str
    title: str
    unit: str
    candidate: float
    stable: float
    ratio: float
    broken: bool


@dataclass(frozen=True)
class Guard:
    """A quantity and the decision that it voids if it is broken: any, or that the candidate is worse."""

    shown: GuardAnswer
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
    shown = GuardAnswer(one.name, one.title, one.unit, candidate, stable, times.value, broken)
    return Guard(shown, one.voids, one.because)


def _load(watched: ArmsWatched, windows: np.ndarray, requests: np.ndarray) -> Guard | None:
    pods = np.array([len(watched.arms.candidate), len(watched.arms.stable)], dtype=float)
    seconds = windows.sum() * watched.grid.step_ms / 1000
    candidate, stable = (float(each) for each in requests[:, windows].sum(axis=1) / pods / seconds)
    if stable <= 0:
        return None
    times = candidate / stable
    voids = "worse" if times > 1 else "none"
    because = "slower may be the load alone" if times > 1 else "at its full share it may be slower"
    shown = GuardAnswer("load", "requests a pod", "1/s", candidate, stable, times, abs(times - 1) > ALIKE)
    return Guard(shown, voids, because)


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
    shown = guard.shown
    each = f"{figure(shown.candidate, shown.unit)}, {figure(shown.stable, shown.unit)} on the stable pods"
    return f"{shown.title} of the candidate: {each}: {guard.because}"


HISTOGRAMS = {
    "ttft": "vllm:time_to_first_token_seconds",
    "itl": "vllm:inter_token_latency_seconds",
    "tpot_request": "vllm:request_time_per_output_token_seconds",
    "e2e": "vllm:e2e_request_latency_seconds",
}
TITLES = {"ttft": "TTFT", "itl": "ITL", "tpot_request": "TPOT", "e2e": "whole request"}
USUAL = ("ttft", "itl", "tpot_request")
GOOD = ("ttft", "tpot_request")
"""What goodput takes a promise on (as of `inferdoc slo show`)."""
TAIL = 0.1
"""Slower than nine in ten of the stable group's requests: a promise may lie far above what users are used to."""
TAIL_LEAST, TAIL_MOST = 0.02, 0.5
"""A bucket bound outside of these shares of the stable group shows no shift."""


@dataclass(frozen=True, eq=False)
class Check:
    """One question. kind: promise, usual, errors or goodput; limit: seconds, the bound at which is counted; margin: the
    share by which the candidate may be worse; independent: float64[2, windows], how many of the events are independent
    at most, None where all may be; spent: float64[2, windows], their seconds added up, where they count."""

    name: str
    title: str
    kind: str
    limit: float | None
    margin: float
    counts: ArmCounts
    source: str
    independent: np.ndarray | None = None
    spent: np.ndarray | None = None


@dataclass(frozen=True)
class Margins:
    """By how much a candidate may be worse, as shares (0..1). promise: of requests beyond an objective; usual: of
    requests slower than nine in ten of the stable group; errors: of requests that fail."""

    promise: float = 0.01
    usual: float = 0.05
    errors: float = 0.005


DEFAULT_MARGINS = Margins()
"""One request in a hundred; a fifth slower where latencies have an exponential tail (0.1 -> 0.15); half of the errors
that make the judge speak of harm (own choices)."""


def checks(watched: ArmsWatched, objectives: Sequence[Objective], margins: Margins) -> tuple[list[Check], list[str]]:
    """The checks that can be made, and why the rest cannot."""
    served, failed, refused = (watched.counted(term) for term in (SERVED, FAILED, REFUSED))
    requests = served + failed + refused
    found: list[Check] = []
    lacking: list[str] = []
    cells = {family: watched.buckets(name) for family, name in HISTOGRAMS.items()}
    for one in objectives:
        match = NAME.fullmatch(one.signal)
        family = match["family"] if match else ""
        if not cells.get(family):
            lacking.append(f"{one.signal}: both groups need buckets of {HISTOGRAMS.get(family, 'a histogram')}")
            continue
        promise = _promise(family, cells[family], one, margins.promise)
        if promise is None:
            lacking.append(f"{one.signal}: no bucket bound lies at or above {one.limit:g} s")
        else:
            found.append(promise)
    for family in USUAL:
        if not cells[family]:
            continue
        spent = watched.counted(Term(rate=f"{HISTOGRAMS[family]}_sum"))
        usual = _usual(family, cells[family], margins.usual, requests, spent)
        if usual is None:
            lacking.append(f"{TITLES[family]} against the usual: no bucket bound parts off a tail of the stable group")
        else:
            found.append(usual)
    source = "vllm:request_success_total{finished_reason=error}, vllm:admission_rejections_total"
    lost = ArmCounts(failed + refused, requests)
    found.append(Check("errors", "failed or refused", "errors", None, margins.errors, lost, source))
    return [*found, *_goodput(found, requests, margins.promise)], lacking


def strictest(found: Sequence[Check]) -> list[Check]:
    """Of the promises on the first token and on the time per token the tightest of each."""
    named: dict[str, Check] = {}
    for check in sorted(found, key=lambda each: -(each.limit or 0.0)):
        match = NAME.fullmatch(check.name)
        if check.kind == "promise" and match and match["family"] in GOOD:
            named[match["family"]] = check
    return list(named.values())


def _promise(family: str, cells: Mapping[float, np.ndarray], one: Objective, margin: float) -> Check | None:
    """Counted at the first bucket bound at or above the limit: what is beyond it broke the promise for sure."""
    bound = min(bound for bound in cells if bound >= one.limit * (1 - 1e-9))
    if not np.isfinite(bound):
        return None
    source = f"{HISTOGRAMS[family]}_bucket; {one.signal}: {one.source}"
    return Check(one.signal, f"{TITLES[family]} over", "promise", bound, margin, _beyond(cells, bound), source)


def _usual(
    family: str, cells: Mapping[float, np.ndarray], margin: float, requests: np.ndarray, spent: np.ndarray
) -> Check | None:
    tails = {bound: counts.totals[1] for bound in cells if np.isfinite(bound) for counts in [_beyond(cells, bound)]}
    shares = {bound: bad / of for bound, (bad, of) in tails.items() if of > 0 and TAIL_LEAST <= bad / of <= TAIL_MOST}
    if not shares:
        return None
    bound = min(shares, key=lambda at: abs(np.log(shares[at] / TAIL)))
    source = f"{HISTOGRAMS[family]}_bucket; the bound nearest to the slowest tenth of the stable group"
    gaps = requests if family == "itl" else None
    title = f"{TITLES[family]} slower than"
    return Check(f"usual_{family}", title, "usual", bound, margin, _beyond(cells, bound), source, gaps, spent)


def _beyond(cells: Mapping[float, np.ndarray], bound: float) -> ArmCounts:
    every = cells[np.inf]
    return ArmCounts(np.maximum(every - np.minimum(cells[bound], every), 0.0), every)


def _goodput(found: Sequence[Check], requests: np.ndarray, margin: float) -> Iterator[Check]:
    """Requests that may have missed an objective or failed: at most all of these, the bound that histograms give for
    several limits together (the Frechet bound)."""
    limits = strictest(found)
    if len(limits) < len(GOOD):
        return
    errors = next(check for check in found if check.kind == "errors")
    bad = np.minimum(sum((check.counts.bad for check in limits), errors.counts.bad), requests)
    source = "the sum of requests beyond each objective and of failed ones, which is the most that missed any"
    yield Check("goodput", "outside of goodput, at most", "goodput", None, margin, ArmCounts(bad, requests), source)
