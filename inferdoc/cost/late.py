"""Which share of the requests of a pool was answered later than promised, as far as histograms prove it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from inferdoc.catalogue.quantiles import NAME
from inferdoc.catalogue.slo import Slo, in_force
from inferdoc.fleet.members import Pool
from inferdoc.slo.history import History

OF_REQUESTS = ("ttft", "tpot_request", "e2e")
"""Latencies that are counted once a request; gaps between tokens weigh long answers."""


def late_shares(history: History, slos: Sequence[Slo], pools: Sequence[Pool]) -> Mapping[Pool, float]:
    """At least so many of the requests of each pool missed something that is promised: the worst of its objectives,
    since histograms do not tell whether two of them were missed by the same requests. Pools of which nothing is
    promised or counted are left out."""
    promised = [slo for slo in slos if slo.promised and slo.kind == "latency"]
    found: dict[Pool, float] = {}
    for pool in pools:
        for slo in in_force(promised, pool).values():
            name = NAME.fullmatch(slo.signal)
            if name is None or name["family"] not in OF_REQUESTS or slo.scope.tenant:
                continue
            one = history.of_slo(slo, history.whole()).get(pool)
            if one is not None and one.share is not None:
                found[pool] = max(found.get(pool, 0.0), 1.0 - one.share[1])
    return found
