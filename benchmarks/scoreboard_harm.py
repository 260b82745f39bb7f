"""Whether a fault hurt anybody, and whom: by the pages of the simulation before names and families were taken away; no
recipe is asked."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable
from functools import lru_cache

import numpy as np

from inferdoc.catalogue.load import load_catalogue
from inferdoc.simulate.faults import ENDS_PROCESS
from inferdoc.simulate.scenario import Expect, PoolSpec, Scenario
from inferdoc.simulate.scrape import Scraped
from inferdoc_dev.incidents.recording import Recording

HARM = 1.3  # growth of a mean latency below which a fault counts as harmless
PASSING = frozenset({"prefix-cold-start", "cold-start-lag", "autoscaler-oscillation"})
"""Causes whose harm passes by itself: a cache fills, replicas come."""
MANY = 20
"""Observations that a mean over two minutes needs to count."""
LOSS = frozenset(
    {
        "client-retry-storm",
        "engine-down",
        "gpu-ecc-degradation",
        "gpu-lost",
        "engine-hung",
        "engine-crash-loop",
        "engine-oom",
        "kv-handshake-failure",
        "kv-lease-expiry",
        "kv-load-failure",
        "admission-shedding",
        "no-ready-endpoints",
        "flow-control-stall",
        "router-overloaded",
        "priority-starvation",
        "gateway-timeout-mismatch",
        "scale-down-abort",
        "silent-output-corruption",
        "metric-absent-or-renamed",
        "telemetry-artifact",
        "tool-parse-failure",
    }
)
"""Causes whose harm is what they are: work or sight is lost, or waits outside the engines. It counts where it shows: on
a page that counts what was lost."""
AT_ONCE = frozenset({"scale-down-abort"})
"""Of these, causes that lose work in one moment: who looks later finds harm only where latencies still show it."""

FIRST_TOKEN = "time_to_first_token"
LATENCIES = {FIRST_TOKEN: "ttft_mean", "inter_token_latency": "itl_mean", "e2e_request_latency": "e2e_mean"}
"""Histograms of what users wait for, and the signals whose floors say which change of them can matter at all. The time
in the queue is none of them: users wait for it as a part of the time to the first token."""
INSTANT_SECONDS = 0.1
"""Nielsen, "Response times: the three important limits": what takes no longer is instantaneous to its reader. A time to
the first token that stays below affects nobody."""
ADMISSION = frozenset({"batch-cap-reached", "kv-capacity-bound"})
"""Limits that keep requests in the queue: what they cost is the wait for the first token. Tokens that are slower at
twice the load are so without the limit, too."""


def loses(kind: str, scenario: Scenario, remaps_show: bool) -> bool:
    """Whether the fault loses work or sight. A failed remap ends no process yet: it is a loss where it shows
    (remaps_show) and nothing to anybody where it does not. A failed read whose prompt is computed again loses nothing:
    it hurts as far as it takes longer."""
    if kind == READS_FAIL and all(pool.flags.on_failed_read == "recompute" for pool in _readers(scenario)):
        return False
    codes = {fault.xid for fault in scenario.faults if fault.kind == "xid" and fault.at >= (scenario.expect.onset or 0)}
    return kind in LOSS and (kind != "gpu-ecc-degradation" or remaps_show or bool(codes & ENDS_PROCESS))


READS_FAIL = "kv-load-failure"


def _readers(scenario: Scenario) -> list[PoolSpec]:
    """The pools that read KV of others."""
    return [pool for pool in scenario.pools if pool.role == "decode"]


IDLE_HANG = "engine-hung"
"""The cause that strikes an idle pod as well."""
WORK = frozenset({"vllm:num_requests_running", "vllm:num_requests_waiting"})


def holds_work(targets: Iterable[Scraped], pods: Collection[str], onset_ms: float) -> bool:
    """Whether the page of a pod says after the onset that it holds requests. One that hung while it held none says
    that it is idle for as long as it hangs, and what is sent to it is counted by the router alone."""
    for target in targets:
        if target.labels.get("pod") in pods and target.labels["job"] == "vllm":
            for stamp, page in target.pages:
                values = zip(page.layout.series, page.values, strict=True)
                if stamp > onset_ms and any(value > 0 for series, value in values if series.name in WORK):
                    return True
    return False


REFUSES = "admission-shedding"
"""The cause whose loss is counted request by request: a limit that refuses one of a thousand hurts nobody."""
LEAST_LOSS = 0.01
"""What an objective of 99 % leaves to lose."""


def refused_share(targets: Iterable[Scraped], pods: Collection[str], onset_ms: float) -> float:
    """Of the requests that came to the pods after the onset, the share that was refused at the door."""
    totals = {"vllm:admission_rejections_total": 0.0, "vllm:request_success_total": 0.0}
    for target in targets:
        if target.labels.get("pod") in pods and target.labels["job"] == "vllm":
            later = [page for stamp, page in target.pages if stamp > onset_ms and len(page) > 5]
            for sign, page in ((-1, later[0]), (1, later[-1])) if later else ():
                for series, value in zip(page.layout.series, page.values, strict=True):
                    if series.name in totals:
                        totals[series.name] += sign * float(value)
    refused, served = totals.values()
    return refused / max(refused + served, 1.0)


def growth(
    targets: Iterable[Scraped],
    pods: Collection[str],
    onset_ms: float,
    kind: str = "",
    since_ms: float | None = None,
) -> float:
    """The largest growth of a mean latency of the pods, from the calm part to what came a minute after the onset. Of a
    kind whose harm passes also from the worst two minutes of the calm part to the worst two after the onset (of other
    harm not: one healthy fleet in twelve has two minutes that are worse by half). kind: the cause; since_ms: what came
    after it instead. pods: names of the simulation, those of former pods too."""
    later_from = onset_ms + 60_000 if since_ms is None else since_ms
    waited = {FIRST_TOKEN: LATENCIES[FIRST_TOKEN]} if kind in ADMISSION else LATENCIES
    calm: dict[str, list[np.ndarray]] = defaultdict(list)
    later: dict[str, list[np.ndarray]] = defaultdict(list)
    for target in targets:
        if target.labels.get("pod") in pods and target.labels["job"] == "vllm":
            for name, rows in grown(target).items():
                calm[name].append(rows[rows[:, 0] < onset_ms])
                later[name].append(rows[rows[:, 0] > later_from])
    ratios = [1.0]
    for name, signal in waited.items():
        floor = _floor(signal)
        for mean in (_mean, _worst) if kind in PASSING else (_mean,):
            was, became = mean(calm[name]), mean(later[name])
            if became - was >= floor and (name != FIRST_TOKEN or became > INSTANT_SECONDS):
                ratios.append(became / max(was, floor / 2))
    return max(ratios)


def grown(target: Scraped) -> dict[str, np.ndarray]:
    """Per latency: float64[n, 3], ms of a page and what sum and count grew by since the one before."""
    pages = [(t, p) for t, p in target.pages if len(p) > 5]
    found: dict[str, np.ndarray] = {}
    if len(pages) < 2:
        return found
    for name in LATENCIES:
        rows = np.zeros((len(pages) - 1, 3))
        rows[:, 0] = [t for t, _ in pages[1:]]
        for place, series in enumerate(pages[-1][1].layout.series):
            for column, ending in ((1, "sum"), (2, "count")):
                if series.name == f"vllm:{name}_seconds_{ending}":
                    seen = np.array([p.values[place] if place < len(p) else 0.0 for _, p in pages])
                    steps = np.diff(seen)
                    # A counter that fell was set back: what it shows now came since.
                    rows[:, column] += np.where(steps < 0, seen[1:], steps)
        found[name] = rows
    return found


def _mean(pods: list[np.ndarray]) -> float:
    """Mean latency of all pods, s; NaN on too few observations."""
    total = sum((rows[:, 1:].sum(axis=0) for rows in pods), np.zeros(2))
    return float(total[0] / total[1]) if total[1] > 5 else float("nan")


def _worst(pods: list[np.ndarray]) -> float:
    """The largest mean latency of one pod over two minutes, s, on at least MANY observations; NaN without."""
    worst = float("nan")
    for rows in pods:
        until = np.searchsorted(rows[:, 0], rows[:, 0] + 120_000, side="right")
        sums = np.vstack((np.zeros(2), rows[:, 1:].cumsum(axis=0)))
        over = sums[until] - sums[np.arange(len(rows))]
        enough = over[:, 1] >= MANY
        if enough.any():
            worst = float(np.nanmax([worst, (over[enough, 0] / over[enough, 1]).max()]))
    return worst


@lru_cache(maxsize=8)
def _floor(signal: str) -> float:
    return load_catalogue().signals[signal].floor


def hit(expect: Expect, recording: Recording, onset: float) -> set[str]:
    """The slots of the pods that the fault hits; of a pool that it hits as a whole, all that served after the onset
    (Unix s). Where the simulation decides which pod gets a popular prefix, the one that began most requests after
    it."""
    own = [life for life in recording.lives if not life.bystander and life.ended > onset]
    if expect.pool is not None:
        return {life.slot for life in own if life.pool == expect.pool}
    if expect.pods or expect.cause is None:
        return set(expect.pods)
    slots = {life.bare: life.slot for life in own}
    began: dict[str, float] = defaultdict(float)
    for target in recording.bare:
        slot = slots.get(target.labels.get("pod", ""))
        rows = grown(target).get("time_to_first_token") if slot is not None else None
        if slot is not None and rows is not None:
            began[slot] += float(rows[rows[:, 0] > 1000 * onset, 2].sum())
    return {max(began, key=lambda slot: began[slot])} if began else set()
