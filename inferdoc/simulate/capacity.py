"""How much traffic a fleet can sustain, so that scenarios can say load instead of requests per second."""

from __future__ import annotations

from collections.abc import Sequence

from inferdoc.simulate.pod import engine_config, step_time
from inferdoc.simulate.scenario import PoolSpec, Stream

BATCH_STEP = 0.05
"""Seconds per step up to which a batch still counts as healthy: 50 ms per token (20 tokens/s for each reader)."""


def pod_rate(spec: PoolSpec, stream: Stream) -> float:
    """Requests/s of one pod, every step as long as its share of prompts and streams makes it."""
    config, timing = engine_config(spec), step_time(spec)
    prefixes = stream.prefixes
    shared = prefixes.tokens * prefixes.share if prefixes.count and prefixes.stable else 0.0
    unique = stream.prompt.mean() + (0.0 if prefixes.stable else prefixes.tokens * prefixes.share)
    output = stream.output.mean()
    prefill = timing.step(0, 0.0, 2048, 512.0, 4).seconds / 2048 * unique
    if spec.role == "prefill":
        return 1.0 / prefill
    context = unique + shared + output / 2
    room = (config.blocks - 1) * config.block_size * 0.8
    batch = max(1, int(min(config.max_seqs, room / context)))
    gain = 1.0
    chance = 1.0
    for p in spec.flags.accept:
        chance *= p
        gain += chance
    if spec.role == "decode":
        prefill = 0.0
    while batch > 1 and timing.step(batch * (1 + config.draft), batch * context, 0, 0.0, batch).seconds > BATCH_STEP:
        batch = int(batch * 0.9)
    step = timing.step(batch * (1 + config.draft), batch * context, 0, 0.0, batch).seconds
    return 1.0 / (prefill + output / gain * step / batch)


def sustainable(pools: Sequence[PoolSpec], stream: Stream) -> float:
    """Requests/s of the whole fleet: the weaker of the two sides where prefill and decode are apart."""
    rates = {
        role: sum(p.pods * p.ranks * pod_rate(p, stream) for p in pools if p.role == role)
        for role in ("both", "prefill", "decode")
    }
    return rates["both"] if rates["both"] else min(rates["prefill"], rates["decode"])
