"""Other models of the namespace: small healthy fleets beside the one that an incident strikes."""

from __future__ import annotations

import msgspec

from inferdoc.simulate.capacity import sustainable
from inferdoc.simulate.scenario import Expect, Exporters, FaultSpec, Length, PoolSpec, RouterSpec, Scenario, Stream
from inferdoc.simulate.surroundings import Bystander

PROMPTS, ANSWERS = Length(400, 0.5, max=4000), Length(120, 0.5, max=800)
MOST_RATE = 0.3
"""Requests/s of one bystander pod: it has to be there, not to be busy (the simulation grows with requests)."""


def bystander_scenario(bystander: Bystander, number: int, host: Scenario) -> Scenario:
    """The scenario of a bystander. number: which of the namespace, from 1; host: whose time, scrapes and surroundings
    it shares."""
    surroundings = host.surroundings
    assert surroundings is not None
    pool = PoolSpec(
        f"side{number}", bystander.pods, bystander.tier, bystander.model, bystander.gpus, version=host.pools[0].version
    )
    stream = Stream(PROMPTS, ANSWERS)
    rate = min(bystander.load * sustainable([pool], stream), MOST_RATE * bystander.pods)
    own = msgspec.structs.replace(
        surroundings, bystanders=(), withheld=(), seed=surroundings.seed + 101 * number, relabelled=None
    )
    return Scenario(
        f"{host.id}-side{number}",
        "a healthy model in the same namespace",
        Expect(None),
        (pool,),
        (msgspec.structs.replace(stream, rate=rate),),
        _innocent(bystander, pool),
        RouterSpec("least-loaded", version=host.router.version),
        Exporters(host.exporters.dcgm, host.exporters.dcgm_profiling, bystander.router, host.exporters.cadvisor),
        host.duration,
        host.warmup,
        host.scrape,
        host.seed + 1000 * number,
        host.start,
        host.namespace,
        own,
    )


def _innocent(bystander: Bystander, pool: PoolSpec) -> tuple[FaultSpec, ...]:
    """What happens to it, and hurts nobody."""
    if bystander.happens == "rollout":
        return (FaultSpec("rollout", bystander.at, after=60.0, seconds=120.0, surge=0.5),)
    if bystander.happens == "grow":
        return (FaultSpec("grow", bystander.at, pods=(f"{pool.name}-0",), after=60.0),)
    if bystander.happens == "burst":
        return (FaultSpec("traffic", bystander.at, until=bystander.at + 60.0, rate=1.6),)
    return ()
