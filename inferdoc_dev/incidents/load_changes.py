"""How causes are drawn: load changes. They are what a diagnosis names first only where nothing local explains the harm;
where a limit of the engines binds, that is listed first and the load change is its change. Both shapes are drawn."""

from __future__ import annotations

import msgspec

from inferdoc.simulate.autoscaler import pod_rate
from inferdoc.simulate.scenario import Length, Stream
from inferdoc_dev.incidents.generator import Draw, Drawing, batch_at, kv_tokens, pace

replace = msgspec.structs.replace
SLOWER = 1.15
"""A full batch whose streams are slower than before by this factor has no room for a larger one; below it the
limit on the batch is what binds (the line that the catalogue draws)."""
LENGTHENED = ("long-prefill-interference", "demand-beyond-capacity", "kv-capacity-bound", "kv-preemption-thrash")
"""What longer prompts or answers lead to: where one of these explains the impact, the load change is listed behind
it."""


def batch_limit(d: Draw, limit: int) -> None:
    """--max-num-seqs of the first pool."""
    spec = d.pools[0]
    d.pools[0] = replace(spec, flags=replace(spec.flags, max_seqs=limit))


def limit_binds(d: Draw, later: Stream) -> bool:
    """Whether the limit on the batch is all that keeps the pods from the later traffic."""
    spec, now = d.pools[0], d.traffic[0]
    full = spec.flags.max_seqs
    before = pace(spec, now, batch_at(spec, now, now.rate / spec.pods))
    fills = later.rate / spec.pods * later.output.mean() * pace(spec, later, full) > full
    return fills and pace(spec, later, full) < SLOWER * before


def demand(d: Draw) -> None:
    """More requests than the pool finishes: chats that meet a low limit on the batch, or long answers whose full batch
    leaves the machine nothing to spare."""
    d.pool()
    more = d.strong(1.3, 2.5)
    if d.rng.random() < 0.5:
        load = d.between(0.35, 0.6)
        d.traffic = [d.chat(load)]
        d.accepts = ("batch-cap-reached",)
    else:
        load = d.between(0.3, 0.45)
        prompt, output = Length(d.spread(1200, 2500), 0.3, max=6000), Length(d.spread(400, 700), 0.3, max=1800)
        stream = replace(d.chat(0.4), prompt=prompt, output=output)
        # No fuller than leaves the KV cache with room, which would be another limit.
        batch_limit(d, max(8, min(128, int(0.5 * kv_tokens(d.pools[0]) / (prompt.mean() + output.mean())))))
        spec = d.pools[0]
        most = batch_at(spec, stream, pod_rate(spec, stream))
        batch_limit(d, max(8, most))
        d.traffic = [replace(stream, rate=load * pod_rate(d.pools[0], stream) * spec.pods)]
        d.accepts = ("prefill-compute-bound", "decode-batch-saturation")
    more /= load
    if limit_binds(d, replace(d.traffic[0], rate=more * d.traffic[0].rate)):
        d.root = "batch-cap-reached"
    d.fault("traffic", rate=more)
    d.hit = d.names()


def longer_prompts(d: Draw) -> None:
    """Among many streams longer prompts hold up each token of the others; among few they only wait for themselves."""
    d.pool()
    crowded = bool(d.rng.random() < 0.5)
    d.traffic = [d.chat(d.between(0.35, 0.5) if crowded else d.between(0.05, 0.1))]
    d.fault("traffic", prompt=d.strong(1.5, 4.0))
    d.root = "long-prefill-interference" if crowded else None
    d.hit, d.accepts = d.names(), (*LENGTHENED, "prefill-compute-bound", "decode-batch-saturation")


def endless_answers(d: Draw) -> None:
    """A lost stop token: most answers run to a limit that lies several times above their former length."""
    d.pool()
    load, longer = d.between(0.3, 0.5), d.strong(2.0, 6.0)
    d.traffic = [d.chat(load)]
    if d.rng.random() < 0.5:
        batch_limit(d, 8 * d.pools[0].flags.max_seqs)
    answer = d.traffic[0].output
    if limit_binds(d, replace(d.traffic[0], output=replace(answer, median=longer * answer.median))):
        d.root = "batch-cap-reached"
    d.fault("traffic", output=longer, stop_share=d.strong(0.4, 0.05))
    d.hit, d.accepts = d.names(), (*LENGTHENED, "batch-cap-reached", "decode-batch-saturation")


CAUSES: dict[str, Drawing] = {
    "prompt-growth": longer_prompts,
    "runaway-generation": endless_answers,
    "demand-beyond-capacity": demand,
}
