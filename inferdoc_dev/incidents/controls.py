"""Controls: healthy fleets that resemble a fault."""

from __future__ import annotations

import msgspec

from inferdoc.simulate.scenario import Length, PoolSpec, Prefixes, Stream
from inferdoc.simulate.surroundings import FlowSpec, ScalerSpec
from inferdoc_dev.incidents.generator import Draw, Drawing

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
    """Flow control is on, two classes of requests, and the pool has room: nothing is queued."""
    d.pool()
    high = d.chat(d.between(0.1, 0.25), tenant="gold", priority=10)
    d.traffic = [high, replace(high, rate=high.rate * d.between(0.5, 1.0), tenant="free", priority=0)]
    d.router = replace(d.router, policy="least-loaded", flow=FlowSpec())


def even_ranks(d: Draw) -> None:
    """Data-parallel ranks that the internal balancer keeps even."""
    tier, name = d.one_of(("h100-80", "llama-3.1-8b"), ("h200-141", "qwen3-30b-a3b"))
    d.pools = [PoolSpec("vllm", int(d.rng.integers(1, 3)), tier, name)]
    stream = d.chat(d.between(0.2, 0.45))
    d.pools = [replace(d.pools[0], ranks=4)]
    d.traffic = [replace(stream, rate=4 * stream.rate)]


def two_tiers(d: Draw) -> None:
    """A fast and a slow tier behind a balancer that goes by load, with room on both."""
    d.pools = [PoolSpec("vllm-slow", 2, d.one_of("l40s", "a100-40"), "llama-3.1-8b")]
    d.traffic = [d.chat(d.between(0.3, 0.5))]
    slow = d.pools[0]
    d.pools = [replace(slow, name="vllm-fast", tier="h100-80", pods=3), slow]
    d.router = replace(d.router, policy="least-loaded")


def harmless_setting(d: Draw) -> None:
    """A canary comes back with another block size and image, and is as fast as its like."""
    d.pool(pods=int(d.rng.integers(3, 6)))
    d.traffic = [d.chat(d.between(0.15, 0.35))]
    after = d.between(60, 110)
    d.fault("restart", pods=[d.victim()], after=after, flags={"block_size": 32, "python": "3.12.11"})


def warm_room(d: Draw) -> None:
    """Cooling is worse than it was, and still enough for the load; an old error code stays on the page."""
    d.pool(pods=int(d.rng.integers(2, 5)))
    d.traffic = [d.chat(d.between(0.1, 0.3))]
    d.opt_in = True
    d.fault("cooling", factor=0.85)
    d.fault("xid", pods=[d.victim()], xid=13, at=0.0)


CONTROLS: dict[str, Drawing] = {
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
    "control-even-ranks": even_ranks,
    "control-two-tiers": two_tiers,
    "control-harmless-setting": harmless_setting,
    "control-warm-room": warm_room,
}
