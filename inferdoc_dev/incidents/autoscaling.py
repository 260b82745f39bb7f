"""How causes are drawn: replicas that come, go, or do not come."""

from __future__ import annotations

import msgspec

from inferdoc.simulate.autoscaler import pod_rate
from inferdoc.simulate.scenario import Length
from inferdoc.simulate.surroundings import ScalerSpec
from inferdoc_dev.incidents.generator import Draw, Drawing

replace = msgspec.structs.replace
FULL = 0.7
"""Share of its batch at which a replica counts as full for the autoscaler (the lower end of llm-d's hysteresis)."""


def scaled(d: Draw, load: float, **settings: float) -> None:
    """A pool with an autoscaler on requests in flight, seen through kube-state-metrics."""
    d.pool(pods=int(d.rng.integers(2, 4)))
    d.traffic = [d.chat(load)]
    pool = d.pools[0]
    scaler = ScalerSpec(least=pool.pods, most=3 * pool.pods, target=FULL * pool.flags.max_seqs)
    d.pools[0] = replace(pool, scaler=replace(scaler, **settings), cold_start=d.between(150, 400))
    d.router = replace(d.router, policy="least-loaded")
    d.kube = True
    d.hit = d.names()


def cold_start(d: Draw) -> None:
    """The load steps up beyond what is there; the autoscaler scales up in time, its pods are ready minutes later."""
    load = d.between(0.4, 0.6)
    scaled(d, load)
    d.fault("traffic", rate=d.strong(1.15, 2.0) / load)
    d.accepts = ("demand-beyond-capacity",)


def blind(d: Draw) -> None:
    """The load steps up beyond what is there; the autoscaler has no metric, one that cannot show it, or no room."""
    load = d.between(0.4, 0.6)
    scaled(d, load)
    pool = d.pools[0]
    assert pool.scaler is not None
    why = d.one_of("missing", "gpu", "most")
    if why == "most":
        d.pools[0] = replace(pool, scaler=replace(pool.scaler, most=pool.pods))
    elif why == "gpu":
        d.pools[0] = replace(pool, scaler=replace(pool.scaler, metric="gpu", target=1.0))
    else:
        d.fault("scaler", metric="missing", at=0.0)
    d.fault("traffic", rate=d.strong(1.15, 2.0) / load)
    d.accepts = ("demand-beyond-capacity",)


def oscillation(d: Draw) -> None:
    """A target beyond what a replica can carry, and no patience before scaling down: the queue that a removal makes
    adds the pod again."""
    scaled(d, d.between(0.75, 0.9), down_window=300.0)
    pool = d.pools[0]
    assert pool.scaler is not None
    scaler = replace(pool.scaler, least=1, most=pool.pods + 2, shutdown=300.0)
    d.pools[0] = replace(pool, cold_start=d.between(60, 120), scaler=scaler)
    d.fault("scaler", target=pool.flags.max_seqs * d.strong(1.3, 2.0), window=0.0)
    d.duration = d.onset + d.between(1500, 2000)
    d.hit, d.whole, d.accepts = d.names(), pool.name, ("cold-start-lag",)


def abort(d: Draw) -> None:
    """Pods are replaced one after the other, and get no time for the requests that run on them."""
    d.pool(pods=int(d.rng.integers(3, 6)))
    chat, pool = d.chat(0.5), d.pools[0]
    long = replace(chat, output=Length(d.spread(600, 1500), 0.5, max=5000))
    rate = pod_rate(pool, long) * pool.pods * d.between(0.45, 0.6)
    d.traffic = [replace(long, rate=rate)]
    d.router = replace(d.router, policy="least-loaded")
    d.kube = True
    back, between = d.between(60, 110), d.between(20, 60)
    shutdown = d.strong(1.0, 0.0)
    for number, name in enumerate(d.names()):
        d.fault("stop", pods=[name], at=d.onset + number * (back + between), after=back, seconds=shutdown)
    d.duration = d.onset + pool.pods * (back + between) + 120
    d.hit = tuple(f"{pool.name}-{i}" for i in range(2 * pool.pods))


CAUSES: dict[str, Drawing] = {
    "cold-start-lag": cold_start,
    "autoscaler-blind": blind,
    "autoscaler-oscillation": oscillation,
    "scale-down-abort": abort,
}
