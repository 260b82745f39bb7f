"""How causes are drawn: prefill and decode apart."""

from __future__ import annotations

import msgspec

from inferdoc.simulate.autoscaler import pod_rate
from inferdoc.simulate.pod import step_time
from inferdoc_dev.incidents.generator import Draw, Drawing

replace = msgspec.structs.replace


def ratio(d: Draw) -> None:
    """The mix shifts: longer prompts for prefill pods that have no room, or longer answers for decode pods."""
    prefill, decode = int(d.rng.integers(1, 3)), int(d.rng.integers(2, 4))
    d.split(prefill, decode, 1.0, d.spread(2500, 5000))
    d.pools[1] = replace(d.pools[1], link=50e9)
    stream, before, after = d.traffic[0], d.between(0.4, 0.6), d.strong(1.15, 2.0)
    most = prefill * pod_rate(d.pools[0], stream)
    if d.rng.random() < 0.5:
        d.traffic = [replace(stream, rate=before * most)]
        d.fault("traffic", prompt=after / before)
        d.hit = d.names(0)
        return
    rate = 0.35 * most
    context = stream.prompt.mean() + stream.output.mean()
    step = step_time(d.pools[1]).step(32, 32 * context, 0, 0.0, 32).seconds
    batch = rate / decode * stream.output.mean() * step
    flags = replace(d.pools[1].flags, max_seqs=max(4, int(batch / before)))
    d.pools[1] = replace(d.pools[1], flags=flags)
    d.traffic = [replace(stream, rate=rate)]
    d.fault("traffic", output=after / before)
    d.hit = d.names(1)


def failing_reads(d: Draw) -> None:
    policy = d.one_of("fail", "recompute")
    d.split(2, 2, d.between(2, 5), d.spread(800, 2500))
    d.pools[1] = replace(d.pools[1], flags=replace(d.pools[1].flags, on_failed_read=policy))
    hit = d.names(1) if d.rng.random() < 0.5 else ("vllm-decode-1",)
    d.fault("read-failure", pods=list(hit), share=d.strong(0.1, 0.8))
    d.hit = hit


def corruption(d: Draw) -> None:
    """Broken memory: some answers of one pod come from logits with NaN; the engine is configured to detect them."""
    d.pool(nan_check=True)
    d.traffic = [d.chat(d.between(0.2, 0.4))]
    victim = d.victim()
    d.fault("corrupt", pods=[victim], share=d.strong(0.05, 0.5))
    d.hit = (victim,)


CAUSES: dict[str, Drawing] = {
    "pd-ratio-imbalance": ratio,
    "kv-load-failure": failing_reads,
    "silent-output-corruption": corruption,
}
