"""Draw causes in front of the engines: router, flow control, proxies."""

from __future__ import annotations

from math import exp

import msgspec

from inferdoc.simulate.gateway import CORE_PER_POLL, CORE_PER_REQUEST, CORE_PER_TOKEN
from inferdoc.simulate.pod import step_time
from inferdoc.simulate.router import REFRESH
from inferdoc.simulate.surroundings import FlowSpec
from inferdoc_dev.incidents.generator import Draw, Drawing

replace = msgspec.structs.replace


def stale_load(d: Draw) -> None:
    """The router picks by what it last read, and cannot read some or all pods any more."""
    d.pool(pods=int(d.rng.integers(3, 6)))
    d.traffic = [d.chat(d.between(0.4, 0.55))]
    d.router = replace(d.router, policy="least-loaded", in_flight=False)
    names = d.names()
    blind = names if d.rng.random() < 0.6 else names[: max(1, round(d.strong(1, len(names) - 1)))]
    d.fault("poll", pods=list(blind), share=1.0)
    d.hit, d.accepts = names, ("routing-imbalance",)


def stall(d: Draw) -> None:
    """Flow control is on, and the figures of the pods go stale: read too seldom, or not at all."""
    d.pool()
    d.traffic = [d.chat(d.between(0.2, 0.4))]
    d.router = replace(d.router, policy="least-loaded", flow=FlowSpec())
    if d.rng.random() < 0.5:
        d.fault("refresh", seconds=d.strong(5, 30))
    else:
        d.fault("poll", pods=list(d.names()), share=1.0)
    d.hit = d.names()


def starvation(d: Draw) -> None:
    """A class of higher priority grows until it takes nearly all of the pool."""
    d.pool()
    high = d.chat(0.25, tenant="gold", priority=10)
    pace = high.rate / 0.25
    low = replace(high, rate=pace * d.between(0.2, 0.3), tenant="free", priority=0)
    d.traffic = [high, low]
    d.router = replace(d.router, policy="least-loaded", flow=FlowSpec())
    d.fault("traffic", stream=0, rate=d.strong(3.0, 3.8))
    d.hit, d.accepts = d.names(), ("demand-beyond-capacity",)


def overloaded(d: Draw) -> None:
    """The endpoint picker has fewer cores left than reading the pods and the prompts need."""
    d.pool()
    d.traffic = [d.chat(d.between(0.25, 0.45))]
    stream = d.traffic[0]
    work = stream.rate * (CORE_PER_REQUEST + CORE_PER_TOKEN * stream.prompt.mean())
    polls = d.pools[0].pods * CORE_PER_POLL / REFRESH
    cores = 1.3 * polls + 3 * work
    d.router = replace(d.router, cores=cores)
    d.fault("router-cores", cpu=(polls + work / d.strong(1.05, 1.5)) / cores)
    d.hit = d.names()


def no_endpoints(d: Draw) -> None:
    """A label or selector changes, and the router finds no pod any more."""
    d.pool()
    d.traffic = [d.chat(d.between(0.2, 0.5))]
    if d.rng.random() < 0.5:
        d.router = replace(d.router, policy="least-loaded", flow=FlowSpec())
    d.kube = bool(d.rng.random() < 0.5)
    d.fault("unlabel", pods=list(d.names()))
    d.hit = d.names()


def proxy_limit(d: Draw) -> None:
    """A proxy gets a limit on the whole answer that the longer answers exceed."""
    d.pool()
    d.traffic = [d.chat(d.between(0.2, 0.4))]
    stream, spec = d.traffic[0], d.pools[0]
    step, batch = 0.0, 1
    for _ in range(5):
        # Little's law: requests at work are their rate times how long they take, which grows with them.
        step = step_time(spec).step(batch, batch * stream.prompt.mean(), 0, 0.0, batch).seconds
        batch = max(1, round(stream.rate / spec.pods * stream.output.mean() * step))
    longest = stream.output.median * step * exp(stream.output.sigma * d.strong(1.3, 0.2))
    d.fault("gateway-timeout", seconds=round(longest, 1))
    d.hit, d.accepts = d.names(), ("client-retry-storm",)


CAUSES: dict[str, Drawing] = {
    "routing-on-stale-load": stale_load,
    "flow-control-stall": stall,
    "priority-starvation": starvation,
    "router-overloaded": overloaded,
    "no-ready-endpoints": no_endpoints,
    "gateway-timeout-mismatch": proxy_limit,
}
