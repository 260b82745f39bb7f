"""How causes are drawn: KV cache, prefixes and transfers of KV."""

from __future__ import annotations

import msgspec

from inferdoc.simulate.autoscaler import pod_rate
from inferdoc.simulate.scenario import Length, Prefixes, Stream
from inferdoc_dev.incidents.generator import Draw, Drawing, kv_request_bytes

replace = msgspec.structs.replace


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


def eviction(d: Draw) -> None:
    """Prefixes fill most of what live requests leave free; prompts of the usual length that share nothing push them
    out. (Long ones would stall the streams as well, which is another cause.)"""
    d.pool(pods=2, kv_metrics=bool(d.rng.random() < 0.5))
    count, tokens = int(d.rng.integers(20, 50)), int(d.spread(1500, 3000))
    d.traffic = [d.chat(d.between(0.25, 0.4), Prefixes(count, tokens, 1.0, 0.3))]
    spec = replace(d.pools[0], flags=replace(d.pools[0].flags, max_seqs=128))
    d.pools[0] = spec
    live = d.streams(d.traffic[0].rate / spec.pods)
    d.pool_blocks(int((count * tokens * 1.2 + live * 2 + 60_000 * d.between(0.2, 0.5)) / 16))
    unique = Stream(Length(tokens, 0.3, max=8000), Length(300, 0.4, max=900), start=d.onset)
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


CAUSES: dict[str, Drawing] = {
    "kv-capacity-bound": capacity_bound,
    "kv-preemption-thrash": thrash,
    "kv-handshake-failure": handshake,
    "kv-lease-expiry": lease,
    "kv-transfer-backlog": backlog,
    "kv-transport-degraded": transport,
    "prefix-eviction-cascade": eviction,
    "prefix-unstable-prompt": unstable,
}
