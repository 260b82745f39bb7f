"""An interval of a source as accounts, day by day, so that a week needs no more memory than a day, with the
share of requests that missed the latency SLO, as far as histograms prove it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from inferdoc.audit.api import AuditOptions, watch
from inferdoc.catalogue.load import Catalogue
from inferdoc.catalogue.quantiles import NAME
from inferdoc.catalogue.slo import Slo, in_force
from inferdoc.config import Config
from inferdoc.cost.ledger import Account, Ledger, counts_of, known_causes
from inferdoc.cost.prices import SlotRates, slot_rates
from inferdoc.errors import InferdocError
from inferdoc.fleet.members import ENGINE_SIGNS, FleetFilter, Pool
from inferdoc.judging.model import Diagnosis, Finding
from inferdoc.judging.request import matcher
from inferdoc.slo.attainment import goodput
from inferdoc.slo.history import History, first_ms
from inferdoc.slo.model import Bounds, Goodput, Unjudged
from inferdoc.source.grid import LOOK_MS, scrape_interval_ms
from inferdoc.source.identified import Identified
from inferdoc.source.reads import Grid
from inferdoc.times import Moment, moment_ms, resolve_window

DAY_MS = 86_400_000
SLOT_MS = 900_000
"""Hours and days are made of slots; with fewer the last hour of an interval would be taken for another one."""
LEAST_PIECE_MS = 3_600_000
"""A beginning or an end of a day that is shorter is read with its neighbour."""
DEFAULT_SINCE = "24h"


@dataclass(frozen=True)
class Piece:
    """At most a day. accounts: of every engine in focus; middles: Unix seconds of the middle of each slot, float64[S];
    good: requests within the objectives by pool; unjudged: where that is unknown; history: for further counts;
    rates: what a GPU-hour costs in each slot."""

    accounts: Sequence[Account]
    middles: np.ndarray
    begin_ms: int
    end_ms: int
    good: dict[Pool, Bounds]
    unjudged: Sequence[Unjudged]
    history: History
    slots: Grid
    rates: SlotRates


def pieces(source: Identified, config: Config, catalogue: Catalogue, params: dict[str, Any]) -> Iterator[Piece]:
    """Every day of the interval requested in which an engine was seen. Raises SourceError where the source cannot be
    read."""
    since = params.get("since") or (None if params.get("begin") else DEFAULT_SINCE)
    until: Moment = params.get("until") or "now"
    begin, end = resolve_window(since, params.get("begin"), until, source.latest_ms())
    if end - begin > 2 * DAY_MS:  # a year that was requested is not read where there is a week
        interval = scrape_interval_ms(source.scrapes(end - LOOK_MS, end))
        begin = first_ms(source, ENGINE_SIGNS[:2], begin, end, interval)
    options = AuditOptions(
        match=tuple(matcher(text) for text in params.get("labels") or ()), config=config, catalogue=catalogue
    )
    selected = FleetFilter(*(params.get(key) for key in ("model", "namespace", "tier", "role", "pod", "cluster")))
    for first, last in days(begin, end):
        piece = _piece(source, catalogue, (first, last if last < end else until), options, selected)
        if piece is not None:
            yield piece


def days(begin_ms: int, end_ms: int) -> Iterator[tuple[int, int]]:
    """The interval cut at midnight, UTC."""
    edges = [begin_ms, *range((begin_ms // DAY_MS + 1) * DAY_MS, end_ms, DAY_MS), end_ms]
    if len(edges) > 2 and edges[1] - edges[0] < LEAST_PIECE_MS:
        del edges[1]
    if len(edges) > 2 and edges[-1] - edges[-2] < LEAST_PIECE_MS:
        del edges[-2]
    yield from pairwise(edges)


def _piece(
    source: Identified, catalogue: Catalogue, window: tuple[int, Moment], options: AuditOptions, selected: FleetFilter
) -> Piece | None:
    first, last = window
    read = read_ledger(source, catalogue, (first / 1000, last / 1000 if isinstance(last, int) else last), options)
    if read is None:
        return None
    ledger, history, slots = read
    every = ledger.accounts()
    accounts = [account for account in every if selected.keeps(account.unit.member)]
    pools = list(dict.fromkeys(account.unit.member.pool for account in accounts))
    served, unjudged = goodput(history, catalogue.slos, pools)
    return Piece(
        accounts,
        (slots.times_ms - slots.step_ms / 2) / 1000,
        history.begin_ms,
        history.end_ms,
        {pool: one for pool in pools if (one := _good(pool, served, history.seconds)) is not None},
        unjudged,
        history,
        slots,
        slot_rates(options.config.prices, options.config.pods, every, slots.count, slots.step_ms),
    )


def read_ledger(
    source: Identified, catalogue: Catalogue, window: tuple[Moment, Moment], options: AuditOptions
) -> tuple[Ledger, History, Grid] | None:
    """The ledger of a window (from, until), the history and the slots it is counted in; None without an engine."""
    watched, _ = watch(source, (None, *window), options)
    view = watched.view
    latest, grid = source.latest_ms(), view.frame.grid
    if not view.units or latest is None or min(grid.end_ms, latest) <= grid.start_ms:
        return None
    end = min(grid.end_ms, latest)
    history = History(source, catalogue, view.fleet, grid.start_ms, end, grid.interval_ms, options.match)
    slots = slots_of(history)
    behind = np.clip(-((slots.start_ms - grid.times_ms) // slots.step_ms), 0, slots.count - 1)
    late = late_shares(history, catalogue.slos, watched.pools)
    return Ledger(watched, catalogue.standing, counts_of(history, watched, slots), behind, late), history, slots


def slots_of(history: History) -> Grid:
    """Slots of a quarter of an hour or so that fill an interval, and are not shorter than what an increase needs."""
    span = history.end_ms - history.begin_ms
    return history.grid(span // max(1, round(span / SLOT_MS)))


def _good(pool: Pool, served: Sequence[Goodput], seconds: float) -> Bounds | None:
    one = next((each for each in served if each.place == pool), None)
    return None if one is None else Bounds(one.good.low * seconds, one.good.high * seconds)


OF_REQUESTS = ("ttft", "tpot_request", "e2e")
"""Latencies that are counted once a request; gaps between tokens weigh long answers."""


def late_shares(history: History, slos: Sequence[Slo], pools: Sequence[Pool]) -> Mapping[Pool, float]:
    """At least so many of the requests of each pool missed an SLO: the worst of its objectives,
    since histograms do not show whether two of them were missed by the same requests. Pools without an
    SLO or without counts are left out."""
    latency_slos = [slo for slo in slos if slo.agreed and slo.kind == "latency"]
    found: dict[Pool, float] = {}
    for pool in pools:
        for slo in in_force(latency_slos, pool).values():
            name = NAME.fullmatch(slo.signal)
            if name is None or name["family"] not in OF_REQUESTS or slo.scope.tenant:
                continue
            one = history.of_slo(slo, history.whole()).get(pool)
            if one is not None and one.share is not None:
                found[pool] = max(found.get(pool, 0.0), 1.0 - one.share[1])
    return found


WASTED_BY: Mapping[str, tuple[str, ...]] = {
    "engine-down": ("away",),
    "engine-crash-loop": ("away",),
    "engine-oom": ("away",),
    "engine-hung": known_causes(),  # it serves nobody, whatever its gauges say
    "gpu-lost": known_causes(),
    "kv-preemption-thrash": ("recomputed",),
    "client-retry-storm": ("lost",),
    "prefix-index-divergence": ("missed",),
    "prefix-locality-loss": ("missed",),
    "spec-acceptance-decay": ("rejected",),
    "spec-grammar-collapse": ("rejected",),
    "spec-overhead-at-saturation": ("rejected",),
}
"""Cause -> the parts of the bill of its pods that are its doing. What others do users feel; it is no GPU time."""


def price_findings(answer: Diagnosis, source: Identified, config: Config, catalogue: Catalogue) -> None:
    """Fill in `cost_per_hour` of the findings that map to GPU time, where [prices] names their tiers. Where the source
    cannot be read a second time that is a warning."""
    if not config.prices.tiers:
        return
    for finding in answer.findings:
        if finding.id in WASTED_BY:
            try:
                finding.cost_per_hour = _cost(finding, answer, source, config, catalogue)
            except InferdocError as error:
                answer.source.warnings.append(f"{finding.id}: what it costs was not looked at: {error}")


def _cost(
    finding: Finding, answer: Diagnosis, source: Identified, config: Config, catalogue: Catalogue
) -> float | None:
    until = finding.ended or answer.window.until
    options = AuditOptions(config=config, catalogue=catalogue)
    if moment_ms(until, None) <= moment_ms(finding.onset, None):
        return None
    read = read_ledger(source, catalogue, (finding.onset, until), options)
    if read is None:
        return None
    ledger, history, slots = read
    spent, accounts = 0.0, ledger.accounts()
    rates = slot_rates(config.prices, config.pods, accounts, slots.count, slots.step_ms)
    for account in accounts:
        member = account.unit.member
        if not {member.shown, member.pod} & set(finding.scope.pods):
            continue
        price = rates.of(account)
        if price is None:
            return None
        spent += sum(float((account.parts[part] * price).sum()) for part in WASTED_BY[finding.id])
    return round(spent / (history.seconds / 3600), 4) if spent > 0 else None
