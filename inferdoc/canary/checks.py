"""The checks of a candidate: objectives, the usual latency of the stable group, errors, and goodput."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from inferdoc.canary.pairs import ArmCounts, ArmsWatched
from inferdoc.catalogue.quantiles import NAME
from inferdoc.catalogue.signal import Term
from inferdoc.slo.goodput import FAILED, REFUSED, SERVED
from inferdoc.slo.objective import Objective

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
