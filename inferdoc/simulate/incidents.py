"""How each cause, and each kind of control, is drawn: the mechanism that changes and by how much."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from inferdoc.simulate.capacity import pod_rate
from inferdoc.simulate.generator import Draw, Recipe, kv_request_bytes
from inferdoc.simulate.pod import step_time
from inferdoc.simulate.scenario import Length, PoolSpec, Prefixes, Stream

replace = msgspec.structs.replace


def retry_storm(d: Draw) -> None:
    d.pool()
    d.traffic = [d.chat(d.between(0.35, 0.6), timeout=d.between(15, 40), retries=int(d.rng.integers(3, 8)))]
    d.fault("traffic", rate=d.strong(1.8, 4.0))
    d.hit, d.accepts = d.names(), ("demand-beyond-capacity",)


def cpu(d: Draw) -> None:
    """The host needs 1.2 ms a step and more with the batch; short enough of cores it outlasts the GPU's part."""
    d.pool(pods=int(d.rng.integers(2, 5)))
    d.traffic = [d.chat(d.between(0.25, 0.45))]
    step = step_time(d.pools[0]).step(8, 8 * 800, 0, 0.0, 8).seconds
    victim = d.victim()
    d.fault("cpu", pods=[victim], cpu=max(0.01, 1.3e-3 / (step * d.strong(1.1, 3.0))))
    d.hit = (victim,)


def demand(d: Draw) -> None:
    d.pool()
    d.traffic = [d.chat(d.between(0.35, 0.6))]
    d.fault("traffic", rate=d.strong(1.6, 4.0))
    d.hit = d.names()


def down(d: Draw) -> None:
    d.pool(pods=int(d.rng.integers(2, 6)))
    d.traffic = [d.chat(d.between(0.15, 0.4))]
    victim = d.victim()
    d.fault("kill", pods=[victim])
    d.hit = (victim,)


def hung(d: Draw) -> None:
    d.pool(pods=int(d.rng.integers(2, 6)))
    d.traffic = [d.chat(d.between(0.2, 0.4))]
    d.router = replace(d.router, policy="round-robin")
    victim = d.victim()
    d.fault("hang", pods=[victim])
    d.hit = (victim,)


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


def capacity_bound(d: Draw) -> None:
    """Prompts of which a handful fills the cache, answers too short to outgrow it."""
    d.pool(watermark=0.02)
    d.traffic = [d.chat(0.3)]
    prompt = Length(d.spread(4000, 8000), 0.15, max=14000)
    stream = replace(d.traffic[0], prompt=prompt, output=Length(d.spread(150, 350), 0.3, max=700))
    fit = d.between(6, 12)
    d.pool_blocks(int(fit * (prompt.mean() + stream.output.mean()) / 16))
    spec = replace(d.pools[0], flags=replace(d.pools[0].flags, max_seqs=64))
    d.pools[0] = spec
    rate = pod_rate(spec, stream)
    d.traffic = [replace(stream, rate=rate * spec.pods * d.between(0.35, 0.5))]
    d.fault("traffic", rate=d.strong(1.8, 3.5))
    d.hit, d.accepts = d.names(), ("demand-beyond-capacity",)


def handshake(d: Draw) -> None:
    d.split(2, 2, d.between(2, 5), d.spread(600, 1500), late=1)
    d.router = replace(d.router, policy=d.one_of("round-robin", "random"))
    new = "vllm-decode-2"
    d.faults = []
    d.fault("scale-out", pods=[new])
    d.faults.append(msgspec.structs.replace(d.faults[0], kind="side-channel", at=0.0))
    d.hit = (new,)


def lease(d: Draw) -> None:
    d.split(2, 2, d.between(2, 5), d.spread(600, 1500))
    d.fault("handover", share=d.strong(0.03, 0.7), seconds=d.between(35, 70))
    d.hit = d.names(0)


def thrash(d: Draw) -> None:
    """Answers outgrow a cache that was sized for shorter ones."""
    d.pool(pods=2)
    d.traffic = [d.chat(d.between(0.35, 0.5))]
    stream, spec = d.traffic[0], replace(d.pools[0], flags=replace(d.pools[0].flags, max_seqs=128))
    factor = d.strong(1.7, 4.0)
    longer = replace(stream, output=replace(stream.output, median=stream.output.median * factor, max=4000))
    d.pools[0] = spec
    now = d.streams(stream.rate / spec.pods)
    d.traffic = [longer]
    later = d.streams(stream.rate / spec.pods)
    d.traffic = [stream]
    d.pool_blocks(int(max(now * 2.2, min(later * 0.8, now * 4)) / 16) + 200)
    d.fault("traffic", output=factor)
    d.hit = d.names()


def backlog(d: Draw) -> None:
    d.split(3, 2, d.between(4, 8), d.spread(1500, 3500))
    need = d.traffic[0].rate / 2 * kv_request_bytes(d.pools[1], d.traffic[0])
    d.fault("link", pods=list(d.names(1)), factor=min(0.9, need / d.strong(1.02, 1.5) / d.pools[1].link))
    d.hit = d.names(1)


def transport(d: Draw) -> None:
    d.split(2, 2, d.between(2, 4), d.spread(1200, 2500))
    need = d.traffic[0].rate / 2 * kv_request_bytes(d.pools[1], d.traffic[0])
    least = need * 1.8 / d.pools[1].link
    d.fault("link", pods=["vllm-decode-1"], factor=min(0.15, max(least, d.strong(0.15, 0.02))))
    d.hit = ("vllm-decode-1",)


def long_prefill(d: Draw) -> None:
    d.pool(pods=2, budget=d.one_of(4096, 8192, 16384))
    d.traffic = [d.chat(d.between(0.2, 0.4))]
    spec = d.pools[0]
    documents = Stream(Length(d.spread(8000, 20000), 0.2, max=28000), Length(80, 0.3, max=300), start=d.onset)
    alone = replace(spec, role="prefill")
    rate = pod_rate(alone, documents) * spec.pods * d.strong(0.1, 0.6)
    d.traffic.append(replace(documents, rate=rate))
    d.hit = d.names()


def lora(d: Draw) -> None:
    slots = int(d.rng.integers(1, 5))
    d.pool(loras=slots, lora_load=d.between(0.02, 0.15))
    d.traffic = [d.chat(d.between(0.3, 0.5), adapters=slots)]
    d.fault("traffic", adapters=int(slots * d.strong(1.3, 8)) + 1)
    d.hit = d.names()


def absent(d: Draw) -> None:
    d.pool()
    d.traffic = [d.chat(d.between(0.2, 0.5))]
    gone = d.one_of(
        ["vllm:kv_cache_usage_perc"],
        ["vllm:num_preemptions_total", "vllm:prompt_tokens_total"],
        ["vllm:num_requests_running", "vllm:num_requests_waiting"],
        ["vllm:generation_tokens_total"],
    )
    victim = d.victim()
    d.fault("drop-series", pods=[victim], families=gone)
    d.hit = (victim,)


def eviction(d: Draw) -> None:
    """Prefixes fill most of what live requests leave free; long unique prompts push them out."""
    d.pool(pods=2, kv_metrics=bool(d.rng.random() < 0.5))
    count, tokens = int(d.rng.integers(20, 50)), int(d.spread(1500, 3000))
    d.traffic = [d.chat(d.between(0.25, 0.4), Prefixes(count, tokens, 1.0, 0.3))]
    spec = replace(d.pools[0], flags=replace(d.pools[0].flags, max_seqs=128))
    d.pools[0] = spec
    live = d.streams(d.traffic[0].rate / spec.pods)
    d.pool_blocks(int((count * tokens * 1.2 + live * 2 + 60_000 * d.between(0.5, 1.2)) / 16))
    unique = Stream(Length(d.spread(5000, 10000), 0.3, max=20000), Length(200, 0.4, max=600), start=d.onset)
    rate = pod_rate(replace(d.pools[0], role="prefill"), unique) * spec.pods * d.strong(0.15, 0.6)
    d.traffic.append(replace(unique, rate=rate))
    d.router = replace(d.router, policy="prefix")
    d.hit, d.accepts = d.names(), ("kv-preemption-thrash", "long-prefill-interference")


def unstable(d: Draw) -> None:
    d.pool()
    prefixes = Prefixes(int(d.rng.integers(4, 20)), int(d.strong(500, 4000)), 1.0, d.between(0, 0.8))
    d.traffic = [d.chat(d.between(0.2, 0.35), prefixes)]
    d.router = replace(d.router, policy=d.one_of("prefix", "round-robin", "least-loaded"))
    d.fault("traffic", unstable=True)
    d.hit = d.names()


def imbalance(d: Draw) -> None:
    d.pool(pods=int(d.rng.integers(3, 6)))
    d.traffic = [d.chat(d.between(0.35, 0.5))]
    victim = d.victim()
    d.fault("routing", pods=[victim], share=d.strong(0.35, 0.85))
    d.hit = (victim,)


def slow(d: Draw) -> None:
    d.pool(pods=int(d.rng.integers(2, 6)))
    d.traffic = [d.chat(d.between(0.2, 0.4))]
    victim = d.victim()
    pace = d.strong(0.85, 0.4)
    gpu = int(d.rng.integers(d.pools[0].gpus))
    d.fault("clock", pods=[victim], gpu=gpu, clock=pace, bandwidth=min(1.0, pace * 1.1), reasons=d.one_of(8, 64, 128))
    d.router = replace(d.router, policy=d.one_of("round-robin", "random"))
    d.hit = (victim,)


def speculation(d: Draw) -> None:
    draft = int(d.rng.integers(2, 6))
    good = tuple(round(d.between(0.75, 0.9), 3) for _ in range(draft))
    d.pool(draft=draft, accept=good)
    d.traffic = [d.chat(d.between(0.2, 0.4))]
    d.fault("acceptance", accept=[round(p * d.strong(0.85, 0.15), 3) for p in good])
    d.hit = d.names()


def artifact(d: Draw) -> None:
    d.pool()
    d.traffic = [d.chat(d.between(0.2, 0.5))]
    victim = d.victim()
    if d.rng.random() < 0.5:
        d.fault("duplicate-target", pods=[victim])
    else:
        d.fault("scrape-gap", pods=[victim], lost=d.strong(0.5, 0.9))
    d.hit = (victim,)


CAUSES: dict[str, Recipe] = {
    "client-retry-storm": retry_storm,
    "cpu-starvation": cpu,
    "demand-beyond-capacity": demand,
    "engine-down": down,
    "engine-hung": hung,
    "ep-hot-expert": hot_expert,
    "kv-capacity-bound": capacity_bound,
    "kv-handshake-failure": handshake,
    "kv-lease-expiry": lease,
    "kv-preemption-thrash": thrash,
    "kv-transfer-backlog": backlog,
    "kv-transport-degraded": transport,
    "long-prefill-interference": long_prefill,
    "lora-thrash": lora,
    "metric-absent-or-renamed": absent,
    "prefix-eviction-cascade": eviction,
    "prefix-unstable-prompt": unstable,
    "routing-imbalance": imbalance,
    "slow-gpu": slow,
    "spec-acceptance-decay": speculation,
    "telemetry-artifact": artifact,
}


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
}
"""Kinds of healthy fleets that look like trouble to a careless eye."""


TOGETHER: dict[str, Callable[[Draw, str], None]] = {
    "engine-down": lambda d, pod: d.fault("kill", pods=[pod]),
    "engine-hung": lambda d, pod: d.fault("hang", pods=[pod]),
    "slow-gpu": lambda d, pod: d.fault("clock", pods=[pod], clock=d.strong(0.6, 0.4), bandwidth=d.strong(0.65, 0.45)),
    "metric-absent-or-renamed": lambda d, pod: d.fault(
        "drop-series", pods=[pod], families=["vllm:kv_cache_usage_perc"]
    ),
    "prefix-unstable-prompt": lambda d, pod: d.fault("traffic", unstable=True),
}
"""Faults that can strike one fleet together, on different pods."""


def two_at_once(first: str, second: str) -> Recipe:
    """Both faults, the second two minutes after the first."""

    def recipe(d: Draw) -> None:
        d.pool(pods=int(d.rng.integers(4, 6)))
        d.traffic = [d.chat(d.between(0.15, 0.3), Prefixes(10, 2500))]
        d.router = replace(d.router, policy="round-robin")
        names = d.names()
        TOGETHER[first](d, names[0])
        d.onset += 120
        TOGETHER[second](d, names[1])
        d.onset -= 120
        d.hit, d.accepts = (names[0],), (first, second)

    return recipe


PAIRS: dict[str, Recipe] = {f"{a}+{b}": two_at_once(a, b) for a in TOGETHER for b in TOGETHER if a != b}
