"""What is done to the server. Loads are shares of the capacity measured on the spot, sizes follow from the KV cache."""

from __future__ import annotations

import json
from dataclasses import dataclass

from benchmarks.real_vllm.load import Stream

BLOCK = 32
"""Tokens of a KV block; the CPU attention takes multiples of 32."""

CHAT = Stream(prompt=(150, 250), output=(80, 120))
LONG = Stream(prompt=(100, 200), output=(400, 700))
PATTERN = Stream(prompt=(200, 320), output=(110, 170), repeat=12)
PROSE = Stream(prompt=(200, 320), output=(110, 170), temperature=1.0)
SPECULATION = {"method": "ngram", "num_speculative_tokens": 3, "prompt_lookup_max": 3, "prompt_lookup_min": 1}


@dataclass(frozen=True)
class Scenario:
    """One server under its usual load, then under a fault.

    probe: what capacity is measured with, in a closed loop; usual: the load before, at `share` of
    that capacity; then: the open load after the onset, at `then_share`; more: a closed loop that joins it, of so many
    clients that their live contexts are `cache_share` of the KV cache. calm, struck: seconds before and after.
    """

    name: str
    done: str
    causes: tuple[str, ...]
    blocks: int = 600
    seqs: int = 32
    extra: tuple[str, ...] = ()
    probe: Stream = CHAT
    usual: Stream = CHAT
    share: float = 0.35
    then: Stream = CHAT
    then_share: float = 0.35
    more: Stream | None = None
    cache_share: float = 0.0
    calm: float = 90.0
    struck: float = 100.0

    @property
    def flags(self) -> list[str]:
        sizes = {"max-model-len": 4096, "block-size": BLOCK, "num-gpu-blocks-override": self.blocks}
        words = [w for k, v in (sizes | {"max-num-seqs": self.seqs}).items() for w in (f"--{k}", str(v))]
        return [*words, *self.extra]

    @property
    def cache_tokens(self) -> int:
        """One block is the null block."""
        return (self.blocks - 1) * BLOCK

    @property
    def clients(self) -> int:
        """How many clients of `more` fill `cache_share` of the cache, each half way through its answer."""
        if self.more is None:
            return 0
        live = sum(self.more.prompt) / 2 + sum(self.more.output) / 4
        return round(self.cache_share * self.cache_tokens / live)


SCENARIOS = (
    Scenario(
        "overload",
        "2.5 times what the server can finish, of the same requests",
        ("demand-beyond-capacity",),
        seqs=8,
        then_share=2.5,
        calm=150.0,
        struck=90.0,
    ),
    Scenario(
        "kv-pressure",
        "clients with long answers join; together they need 1.6 times the KV cache",
        ("kv-preemption-thrash", "kv-capacity-bound"),
        blocks=280,
        seqs=48,
        more=LONG,
        cache_share=1.6,
        share=0.2,
        then_share=0.2,
        struck=120.0,
    ),
    Scenario(
        "speculation-decay",
        "the same rate and lengths, but sampled text that the n-gram drafts do not predict",
        ("spec-acceptance-decay",),
        blocks=800,
        extra=("--speculative-config", json.dumps(SPECULATION)),
        probe=PROSE,
        usual=PATTERN,
        share=0.35,
        then=PROSE,
        then_share=0.35,
    ),
)


def expected(scenario: Scenario, preempted_share: float) -> str:
    """The cause that the mechanism dictates. preempted_share: preemptions per running request and second, read from the
    server's own page; from 0.02/s on the cache is lost to recomputation, below it requests wait for room."""
    if len(scenario.causes) == 1:
        return scenario.causes[0]
    return scenario.causes[0] if preempted_share >= 0.02 else scenario.causes[1]
