"""How causes are drawn: what contexts hold of the KV cache, and drafts."""

from __future__ import annotations

import msgspec

from inferdoc.simulate.pod import step_time
from inferdoc.simulate.scenario import Length, Prefixes, Stream
from inferdoc_dev.incidents.generator import Draw, Drawing, kv_request_bytes, kv_tokens
from inferdoc_dev.incidents.prefixes import relaunch, warmed

replace = msgspec.structs.replace


def oversized(d: Draw) -> None:
    """A few clients send contexts that fill most of a cache, one at a time each, beside the chats."""
    d.pool(pods=2, max_len=131_072)
    d.traffic = [d.chat(d.between(0.2, 0.35))]
    spec = replace(d.pools[0], flags=replace(d.pools[0].flags, max_seqs=128))
    d.pools[0] = spec
    live = d.streams(d.traffic[0].rate / spec.pods)
    cache = max(live * d.between(3, 6), 40_000)
    d.pool_blocks(int(cache / 16))
    giant = int(min(cache * d.strong(0.6, 0.9), 110_000))
    output = Length(d.between(1500, 3000), 0.2, max=4000)
    d.traffic.append(Stream(Length(giant, 0.0, max=giant), output, clients=spec.pods, start=d.onset))
    d.router = replace(d.router, policy="round-robin")
    d.hit, d.accepts = d.names(), ("kv-capacity-bound", "kv-preemption-thrash")


def shrunk(d: Draw) -> None:
    """One pod comes back with fewer blocks than its like: another process took the memory."""
    d.pool(pods=int(d.rng.integers(2, 5)))
    chat = d.chat(d.between(0.3, 0.45))
    # No request is longer than what is left: vLLM does not start where one of --max-model-len does not fit.
    d.traffic = [replace(chat, prompt=replace(chat.prompt, max=2000), output=replace(chat.output, max=500))]
    spec = replace(d.pools[0], flags=replace(d.pools[0].flags, max_seqs=128, max_len=2560))
    d.pools[0] = spec
    live = max(d.streams(d.traffic[0].rate / spec.pods), 4000)
    blocks = int(live / d.between(0.25, 0.35) / 16) + 600
    d.pool_blocks(blocks)
    victim = d.victim()
    left = max(int((live / 16) * d.strong(1.0, 0.6)), 165)
    relaunch(d, victim, flags={"blocks": left})
    d.router = replace(d.router, policy=d.one_of("round-robin", "random"))
    d.hit, d.accepts = (victim,), ("kv-capacity-bound", "kv-preemption-thrash")


def offload(d: Draw) -> None:
    """Prefixes live in host memory; the path to it becomes slow."""
    d.pool(pods=int(d.rng.integers(2, 4)))
    count, tokens = int(d.rng.integers(60, 120)), int(d.spread(1500, 4000))
    d.traffic = [d.chat(d.between(0.15, 0.3), Prefixes(count, tokens, 1.0, 0.2))]
    spec, stream = d.pools[0], d.traffic[0]
    live = d.streams(stream.rate / spec.pods)
    d.pool_blocks(int((count * tokens * d.between(0.2, 0.35) + live * 2.5 + 20_000) / 16))
    size = kv_request_bytes(spec, replace(stream, prompt=Length(tokens, 0.0)))
    warmed(d, 300)
    flags = replace(d.pools[0].flags, offload=round(3 * count * size / 2**30, 1))
    d.pools[0] = replace(d.pools[0], flags=flags)
    # No faster than a copy in `wait` seconds, no slower than the loads that arrive.
    wait, loads = d.strong(0.15, 1.2), stream.rate / spec.pods * size
    d.fault("host-link", factor=min(0.5, max(size / wait, 1.15 * loads) / spec.host_link))
    d.hit = d.names()


def too_full_for_drafts(d: Draw) -> None:
    """The batch grows from where memory sets the pace to where computing does."""
    draft = int(d.rng.integers(3, 6))
    good = tuple(round(d.between(0.75, 0.9), 3) for _ in range(draft))
    d.pool(pods=2, draft=draft, accept=good, max_seqs=256)
    length, answer = Length(d.spread(200, 500), 0.4, max=2000), Length(d.spread(400, 800), 0.4, max=2500)
    timing, gain, chance = step_time(d.pools[0]), 1.0, 1.0
    for p in good:
        chance *= p
        gain += chance

    def rate(batch: float) -> float:
        context = batch * (length.mean() + answer.mean() / 2)
        step = timing.step(int(batch * (1 + draft)), context, 0, 0.0, int(batch)).seconds
        return batch * gain / (step * answer.mean())

    def slower(batch: float) -> float:
        return timing.step(int(batch * (1 + draft)), batch * (length.mean() + answer.mean() / 2), 0, 0.0, 1).seconds

    before, later = d.between(8, 14), d.strong(60, 130)
    # A sparse model computes little per token: its steps reach that point in a larger batch.
    most = min(240.0, 0.6 * kv_tokens(d.pools[0]) / (length.mean() + answer.mean()))
    while later < most and slower(later) < 1.4 * slower(before):
        later *= 1.1
    later = min(later, most)
    # Near its best rate a pod's batch would drift towards any limit, the KV cache first.
    spec = d.pools[0]
    d.pools[0] = replace(spec, flags=replace(spec.flags, max_seqs=int(1.4 * later)))
    d.traffic = [Stream(length, answer, rate=rate(before) * 2)]
    d.fault("traffic", rate=rate(later) / rate(before))
    d.hit, d.accepts = d.names(), ("decode-batch-saturation",)


def structured(d: Draw) -> None:
    """Clients turn to tools and JSON: grammars refuse most of what the draft model proposes."""
    draft = int(d.rng.integers(3, 6))
    good = tuple(round(d.between(0.75, 0.9), 3) for _ in range(draft))
    d.pool(draft=draft, accept=good, grammar=d.between(0.3, 0.6))
    d.traffic = [d.chat(d.between(0.2, 0.4))]
    d.fault("traffic", structured=d.strong(0.5, 1.0))
    d.hit = d.names()


CAUSES: dict[str, Drawing] = {
    "kv-oversized-request": oversized,
    "kv-pool-shrunk": shrunk,
    "kv-offload-slow": offload,
    "spec-overhead-at-saturation": too_full_for_drafts,
    "spec-grammar-collapse": structured,
}
