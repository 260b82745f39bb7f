"""Controls: kinds of healthy fleets that look like trouble to a careless eye."""

from __future__ import annotations

import msgspec

from inferdoc.simulate.controllers import FlowSpec, ScalerSpec
from inferdoc.simulate.generator import Draw, Recipe
from inferdoc.simulate.scenario import Length, Prefixes, Stream

replace = msgspec.structs.replace


def steady(d: Draw) -> None:
    d.pool()
    d.traffic = [d.chat(d.between(0.2, 0.6), Prefixes(int(d.rng.integers(2, 30)), 1024))]
    d.router = replace(d.router, policy="prefix")


def unique_prompts(d: Draw) -> None:
    d.pool()
    d.traffic = [d.chat(d.between(0.2, 0.6))]


def full_cache(d: Draw) -> None:
    """A closed loop whose contexts just fit: the cache is nearly full from start to end and nothing waits."""
    d.pool()
    clients = int(d.rng.integers(6, 24))
    prompt, output = int(d.spread(500, 3000)), int(d.spread(80, 250))
    each = -(-(prompt + output + 16) // 16)
    d.pool_blocks(int(clients * each * d.between(1.03, 1.2)) + 20)
    d.router = replace(d.router, policy="least-loaded")
    spec = d.pools[0]
    d.pools[0] = replace(spec, flags=replace(spec.flags, max_len=4096))
    fixed = Stream(Length(prompt, 0.0), Length(output, 0.1, max=output + 40), clients=clients * spec.pods)
    d.traffic = [fixed]


def split_at_rest(d: Draw) -> None:
    d.split(int(d.rng.integers(1, 4)), int(d.rng.integers(1, 4)), d.between(0.5, 4), d.spread(400, 2000))


def rolling_restart(d: Draw) -> None:
    d.pool(pods=int(d.rng.integers(3, 6)))
    d.traffic = [d.chat(d.between(0.2, 0.4))]
    after = d.between(60, 110)
    for number, name in enumerate(d.names()):
        d.fault("restart", pods=[name], at=240 + number * (after + 60), after=after)
    d.accepts = ("engine-down",)


def scale_in(d: Draw) -> None:
    d.pool(pods=int(d.rng.integers(3, 6)))
    d.traffic = [d.chat(d.between(0.15, 0.35))]
    d.fault("scale-in", pods=[d.names()[-1]])


def gap(d: Draw) -> None:
    d.pool()
    d.traffic = [d.chat(d.between(0.2, 0.5))]
    d.fault("scrape-gap", pods=[d.victim()], lost=1.0, until=d.onset + d.between(1.5, 3.0) * d.scrape)
    d.accepts = ("telemetry-artifact",)


def bursts(d: Draw) -> None:
    d.pool()
    burst, length, every = d.between(1.5, 3.0), d.between(5, 15), d.between(50, 120)
    d.traffic = [d.chat(d.between(0.1, 0.22), pattern="bursts", burst=burst, burst_for=length, burst_every=every)]


def busier_pod(d: Draw) -> None:
    d.pool(pods=int(d.rng.integers(3, 6)))
    d.traffic = [d.chat(d.between(0.15, 0.25))]
    d.fault("routing", pods=[d.names()[0]], share=d.between(0.2, 0.4), at=0.0)


def ramp(d: Draw) -> None:
    d.pool()
    d.traffic = [d.chat(d.between(0.1, 0.2), pattern="ramp", burst=d.between(2, 3.5), wave=d.duration)]


def lora_fits(d: Draw) -> None:
    slots = int(d.rng.integers(2, 6))
    d.pool(loras=slots)
    d.traffic = [d.chat(d.between(0.2, 0.5), adapters=slots)]


def speculation_works(d: Draw) -> None:
    d.pool(draft=3, accept=(0.8, 0.7, 0.6))
    d.traffic = [d.chat(d.between(0.2, 0.5))]


def faster_link_share(d: Draw) -> None:
    """Traffic of a split fleet grows within what link and pods can do."""
    d.split(3, 3, d.between(1.0, 2.0), d.spread(400, 1000))
    d.fault("traffic", rate=d.between(1.3, 2.0))


def scaler_follows(d: Draw) -> None:
    """The load grows slowly enough for an autoscaler whose pods start within a minute or two."""
    d.pool(pods=2)
    d.traffic = [d.chat(d.between(0.25, 0.4), pattern="ramp", burst=d.between(1.6, 2.4), wave=d.duration)]
    pool = d.pools[0]
    scaler = ScalerSpec(least=2, most=8, target=0.4 * pool.flags.max_seqs)
    d.pools[0] = replace(pool, scaler=scaler, cold_start=d.between(40, 90))
    d.router = replace(d.router, policy="least-loaded")
    d.kube = True


def flow_control_idle(d: Draw) -> None:
    """Flow control is on, two classes of requests, and the pool has room: nothing is held."""
    d.pool()
    high = d.chat(d.between(0.1, 0.25), tenant="gold", priority=10)
    d.traffic = [high, replace(high, rate=high.rate * d.between(0.5, 1.0), tenant="free", priority=0)]
    d.router = replace(d.router, policy="least-loaded", flow=FlowSpec())


CONTROLS: dict[str, Recipe] = {
    "control-steady": steady,
    "control-unique": unique_prompts,
    "control-kv-full": full_cache,
    "control-pd": split_at_rest,
    "control-rolling-restart": rolling_restart,
    "control-scale-in": scale_in,
    "control-scrape-gap": gap,
    "control-bursts": bursts,
    "control-busier-pod": busier_pod,
    "control-ramp": ramp,
    "control-lora-fits": lora_fits,
    "control-speculation": speculation_works,
    "control-pd-growth": faster_link_share,
    "control-scaler-follows": scaler_follows,
    "control-flow-idle": flow_control_idle,
}
