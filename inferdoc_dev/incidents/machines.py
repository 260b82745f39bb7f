"""How causes are drawn: GPUs, experts, tiers and settings."""

from __future__ import annotations

import msgspec

from inferdoc.simulate.autoscaler import pod_rate
from inferdoc.simulate.scenario import Length, PoolSpec
from inferdoc_dev.incidents.generator import Draw, Drawing, batch_at
from inferdoc_dev.incidents.prefixes import relaunch

replace = msgspec.structs.replace


def hot_expert(d: Draw) -> None:
    tier = d.one_of("h100-80", "h200-141", "a100-80")
    logged = bool(d.rng.random() < 0.6)
    d.pool()
    d.pools = [PoolSpec("vllm", 2, tier, "mixtral-8x7b", 8, flags=replace(d.pools[0].flags, balancedness_log=logged))]
    stream = d.chat(0.5)
    d.pools[0] = replace(d.pools[0], flags=replace(d.pools[0].flags, max_seqs=256))
    prompt = Length(d.spread(2000, 4000), 0.4, max=12000)
    d.traffic = [replace(stream, prompt=prompt, rate=d.pools[0].pods * d.between(5, 8))]
    victim = d.victim()
    d.fault("hot-expert", pods=[victim], hot=d.strong(2.0, 6.0))
    d.hit = (victim,)


def slow(d: Draw) -> None:
    """A GPU whose clock stays low without the driver giving a reason."""
    d.pool(pods=int(d.rng.integers(2, 6)))
    d.traffic = [d.chat(d.between(0.2, 0.4))]
    victim = d.victim()
    pace = d.strong(0.85, 0.4)
    gpu = int(d.rng.integers(d.pools[0].gpus))
    d.rng.integers(3)  # Was the reason of a throttled clock; keeps the incidents of each seed as they were.
    d.fault("clock", pods=[victim], gpu=gpu, clock=pace, bandwidth=min(1.0, pace * 1.1))
    d.router = replace(d.router, policy=d.one_of("round-robin", "random"))
    d.hit = (victim,)


def throttled(d: Draw) -> None:
    """Cooling fails, the power limit is lowered, or the power supply limits it; the driver throttles the clocks.
    Without the field of the reasons in the exporter's list it cannot be distinguished from a GPU that is slow for
    another reason."""
    d.pool(pods=int(d.rng.integers(2, 6)))
    d.traffic = [d.chat(d.between(0.25, 0.45))]
    victim, kind = d.victim(), d.one_of("cooling", "cooling", "power-limit", "power-brake")
    gpus = list(range(d.pools[0].gpus)) if d.rng.random() < 0.5 else [int(d.rng.integers(d.pools[0].gpus))]
    share = {"cooling": d.strong(0.4, 0.15), "power-limit": d.strong(0.5, 0.25), "power-brake": 1.0}[kind]
    d.fault(kind, pods=[victim], gpus=gpus, factor=share)
    d.router = replace(d.router, policy=d.one_of("round-robin", "random"))
    d.opt_in = True
    d.hit = (victim,)


def memory_errors(d: Draw) -> None:
    """Uncorrectable errors: rows are remapped and the process that used them ends, or no spare row is left."""
    d.pool(pods=int(d.rng.integers(2, 6)))
    d.traffic = [d.chat(d.between(0.15, 0.4))]
    victim, code = d.victim(), d.one_of(48, 94, 94, 95, 64)
    rows = int(d.rng.integers(1, 4)) if code != 64 else 0
    after = None if code in (64, 95) else d.between(60, 200)
    d.fault("xid", pods=[victim], gpu=int(d.rng.integers(d.pools[0].gpus)), xid=code, rows=rows, after=after)
    d.hit = (victim,)


def lost(d: Draw) -> None:
    """A GPU leaves the bus or its firmware stops; every call of its engine hangs."""
    d.pool(pods=int(d.rng.integers(2, 6)))
    d.traffic = [d.chat(d.between(0.25, 0.45))]
    victim = d.victim()
    d.fault("gpu-lost", pods=[victim], gpu=int(d.rng.integers(d.pools[0].gpus)), xid=d.one_of(79, 79, 119))
    d.router = replace(d.router, policy="round-robin")
    d.hit = (victim,)


def bad_links(d: Draw) -> None:
    """Links between the GPUs of a pod repeat packets and carry less; seen where their counters are switched on."""
    d.pool(pods=int(d.rng.integers(2, 5)))
    tier, name, gpus = d.one_of(
        ("h100-80", "llama-3.3-70b", 4), ("h200-141", "llama-3.3-70b", 2), ("a100-80", "qwen3-32b", 4)
    )
    d.pools = [replace(d.pools[0], tier=tier, model=name, gpus=gpus)]
    d.traffic = [d.chat(d.between(0.25, 0.45))]
    victim = d.victim()
    d.fault("interconnect", pods=[victim], factor=d.strong(0.06, 0.01), errors=d.spread(20, 2000))
    d.router = replace(d.router, policy=d.one_of("round-robin", "random"))
    d.opt_in = True
    d.hit = (victim,)


TIERS = (
    ("h100-80", "a100-40", "llama-3.1-8b", 1),
    ("h100-80", "l40s", "llama-3.1-8b", 1),
    ("h200-141", "a100-80", "qwen3-32b", 2),
    ("h100-80", "l40s", "qwen3-32b", 4),
)
"""A faster and a slower tier that serve one model, and GPUs a pod."""


def two_tiers(d: Draw) -> tuple[PoolSpec, PoolSpec, float]:
    """A fast and a slow pool of one model behind one balancer; requests/s that one slow pod sustains."""
    fast, slow, name, gpus = d.one_of(*TIERS)
    d.pools = [PoolSpec("vllm-slow", int(d.rng.integers(1, 3)), slow, name, gpus)]
    d.traffic = [d.chat(0.3)]
    spec = d.pools[0]
    quick = replace(spec, name="vllm-fast", tier=fast, pods=int(d.rng.integers(3, 6)))
    d.pools = [quick, spec]
    d.hit = d.names(1)
    return quick, spec, pod_rate(spec, d.traffic[0])


def mixed(d: Draw) -> None:
    """The balancer begins to share by count what it had shared by load; the slow pods get more than they can do."""
    quick, spec, limit = two_tiers(d)
    rate = limit * d.strong(0.95, 1.5) * (quick.pods + spec.pods)
    d.traffic = [replace(d.traffic[0], rate=rate)]
    d.router = replace(d.router, policy="least-loaded")
    d.fault("routing", policy=d.one_of("round-robin", "random"))
    d.accepts = ("blended-average-masking",)


def masked(d: Draw) -> None:
    """The KV cache of the slow pods fills up while that of the fast ones has room; the mean of both is normal."""
    quick, spec, _ = two_tiers(d)
    wide = replace(spec.flags, max_seqs=64)
    spec, quick = replace(spec, flags=wide), replace(quick, flags=wide)
    stream = replace(d.traffic[0], prompt=Length(d.spread(700, 1400), 0.4, max=3000))
    each, more = 0.4 * pod_rate(replace(spec, flags=replace(wide, max_seqs=16)), stream), d.strong(2.0, 3.2)
    # Room for what a slow pod holds before, not for what it would have to hold later.
    batch = batch_at(spec, stream, each) ** 0.4 * batch_at(spec, stream, each * more) ** 0.6
    blocks = max(300, int(batch * (stream.prompt.mean() + stream.output.mean() / 2) / 16))
    d.pools = [quick, replace(spec, flags=replace(wide, blocks=blocks))]
    d.traffic = [replace(stream, rate=each * (quick.pods + spec.pods))]
    d.router = replace(d.router, policy="round-robin")
    d.fault("traffic", rate=more)
    # That the mean hides it is a second reading of what unequal pods behind an equal balancer suffer.
    d.root, d.accepts = "mixed-tier-balancing", ("kv-capacity-bound", "kv-preemption-thrash")


def rebalancing(d: Draw) -> None:
    """The balancer of experts comes back with synchronous moves at a short interval."""
    tier = d.one_of("h100-80", "h200-141", "a100-80")
    d.pool()
    d.pools = [PoolSpec("vllm", 2, tier, "mixtral-8x7b", 8, flags=replace(d.pools[0].flags, balancedness_log=True))]
    d.traffic = [d.chat(d.between(0.2, 0.4))]
    victim = d.victim()
    flags = {"rebalance_every": int(d.strong(150, 30)), "rebalance_pause": d.between(0.26, 0.6)}
    relaunch(d, victim, flags=flags)
    d.hit = (victim,)


def ranks(d: Draw) -> None:
    """A gateway names one data-parallel rank in a large share of the requests."""
    tier, name, gpus = d.one_of(
        ("h100-80", "llama-3.1-8b", 1), ("h200-141", "qwen3-30b-a3b", 1), ("h200-141", "qwen3-32b", 1)
    )
    d.pools = [PoolSpec("vllm", int(d.rng.integers(1, 3)), tier, name, gpus)]
    stream = d.chat(d.between(0.3, 0.45))
    each = d.one_of(2, 4, 4)
    d.pools = [replace(d.pools[0], ranks=each)]
    d.traffic = [replace(stream, rate=stream.rate * each)]
    victim = d.victim()
    d.fault("rank", pods=[victim], gpu=int(d.rng.integers(each)), share=d.strong(0.5, 0.95))
    d.hit = (victim,)


CAUSES: dict[str, Drawing] = {
    "ep-hot-expert": hot_expert,
    "blended-average-masking": masked,
    "dp-rank-imbalance": ranks,
    "eplb-rebalance-overhead": rebalancing,
    "gpu-clock-throttle": throttled,
    "gpu-ecc-degradation": memory_errors,
    "gpu-lost": lost,
    "interconnect-degraded": bad_links,
    "mixed-tier-balancing": mixed,
    "slow-gpu": slow,
}
