"""The fleets of the real recordings, as scenarios: flags, load and fault of each, on machines as fast as the lab's.

Step times are those measured in the lab: 58 M parameters on one core decode 1, 8, 16, 32 sequences in 9, 15, 22, 29
ms and compute 1 800 prompt tokens/s; 30 M in 8, 14, 20, 27 ms and 2 800/s; the 7 M one lies near the 4 M one (2, 4,
-, 7 ms). Two pods that share a core take about twice as long while both work. The machine with many KV heads and the
one with adapters are set to the calm part of their recordings; what follows the fault is the simulator's own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from inferdoc.simulate.scenario import (
    EngineFlags,
    Expect,
    Exporters,
    FaultSpec,
    Length,
    MeasuredSteps,
    PoolSpec,
    Prefixes,
    RouterSpec,
    Scenario,
    Stream,
)

BIG = MeasuredSteps(0.0085, 0.0007, 1 / 1800)
MID = MeasuredSteps(0.0075, 0.0006, 1 / 2800)
SMALL = MeasuredSteps(0.0035, 0.00025, 1 / 9000)
SHARED_CORE = MeasuredSteps(0.006, 0.0004, 1 / 5000)
PAIRED = MeasuredSteps(0.005, 0.0004, 1 / 7000)
WITH_KV = MeasuredSteps(0.014, 0.0012, 1 / 3500)
WITH_LORA = MeasuredSteps(0.017, 0.001, 1 / 700)


def between(low: float, high: float) -> Length:
    """About even between two lengths."""
    return Length((low + high) / 2, (high - low) / (high + low) / 1.7, int(low), int(high))


def stream(prompt: tuple[float, float], output: tuple[float, float], **more: Any) -> Stream:
    return Stream(between(*prompt), between(*output), stop_share=0.0, **more)


def pool(speed: MeasuredSteps, blocks: int, seqs: int = 32, pods: int = 1, name: str = "vllm", **more: Any) -> PoolSpec:
    flags = {"budget": 4096, **more.pop("flags", {})}
    return PoolSpec(
        name,
        pods,
        "cpu",
        flags=EngineFlags(blocks=blocks, block_size=32, max_seqs=seqs, max_len=4096, **flags),
        measured=speed,
        **more,
    )


def fault(kind: str, at: float, **more: Any) -> FaultSpec:
    return msgspec.convert({"kind": kind, "at": at, **more}, FaultSpec)


def lab(
    name: str,
    pools: list[PoolSpec],
    streams: list[Stream],
    faults: list[FaultSpec],
    end: float,
    policy: str = "round-robin",
) -> Scenario:
    return Scenario(
        name,
        name,
        Expect(None),
        tuple(pools),
        tuple(streams),
        tuple(faults),
        msgspec.convert({"policy": policy}, RouterSpec),
        Exporters(False, False, False, False),
        end,
        12.0,
        2.0,
        7,
    )


def split(
    speed: MeasuredSteps, blocks: int, decode: int = 1, late: int = 0, link: float = 1e9, **flags: Any
) -> list[PoolSpec]:
    return [
        pool(speed, blocks, name="vllm-prefill", role="prefill", flags=flags),
        pool(speed, blocks, name="vllm-decode", role="decode", pods=decode, late=late, link=link, flags=flags),
    ]


CHAT = ((150, 250), (80, 120))
SHORT = ((80, 160), (50, 80))
WIDE = ((800, 1200), (60, 100))

SCENARIOS: dict[str, Callable[[], Scenario]] = {
    "kv-preemption-thrash": lambda: lab(
        "kv-preemption-thrash",
        [pool(BIG, 200)],
        [stream((150, 250), (70, 110), rate=1.0), stream((100, 200), (500, 900), clients=20, start=88)],
        [],
        190,
    ),
    "demand-beyond-capacity": lambda: lab(
        "demand-beyond-capacity",
        [pool(BIG, 600, 8)],
        [stream(*CHAT, rate=1.4)],
        [fault("traffic", 88, rate=6 / 1.4)],
        190,
    ),
    "prefix-eviction-cascade": lambda: lab(
        "prefix-eviction-cascade",
        [pool(BIG, 420)],
        [
            stream((30, 70), (40, 60), rate=0.85, prefixes=Prefixes(8, 1024, 1.0, 0.0)),
            stream((2800, 3300), (40, 60), rate=0.25, start=90),
        ],
        [fault("traffic", 90, rate=0.6 / 0.85)],
        190,
    ),
    "spec-acceptance-decay": lambda: lab(
        "spec-acceptance-decay",
        [pool(BIG, 600, flags={"draft": 4, "accept": (0.95,) * 4})],
        [stream((150, 250), (100, 160), rate=0.9)],
        [fault("acceptance", 88, accept=[0.001] * 4), fault("traffic", 88, prompt=3.0)],
        190,
    ),
    "long-prefill-interference": lambda: lab(
        "long-prefill-interference",
        [pool(BIG, 700, flags={"budget": 512})],
        [stream((60, 120), (60, 100), rate=1.1), stream((2600, 3200), (8, 12), rate=0.17, start=92)],
        [],
        190,
    ),
    "long-prefill-overload": lambda: lab(
        "long-prefill-overload",
        [pool(BIG, 700)],
        [stream((60, 120), (60, 100), rate=1.6), stream((3300, 3800), (8, 12), rate=0.25, start=90)],
        [],
        190,
    ),
    "prefix-unstable-prompt": lambda: lab(
        "prefix-unstable-prompt",
        [pool(BIG, 600)],
        [stream((30, 60), (40, 60), rate=1.0, prefixes=Prefixes(6, 768, 1.0, 0.0))],
        [fault("traffic", 88, unstable=True)],
        190,
    ),
    "lora-thrash": lambda: lab(
        "lora-thrash",
        [pool(WITH_LORA, 600, flags={"loras": 1, "lora_load": 0.05})],
        [stream((80, 150), (60, 90), rate=1.2, adapters=1)],
        [fault("traffic", 88, adapters=6)],
        190,
    ),
    "engine-hung": lambda: lab(
        "engine-hung", [pool(BIG, 600)], [stream(*CHAT, rate=1.3)], [fault("hang", 90, pods=["vllm-0"])], 170
    ),
    "engine-down": lambda: lab(
        "engine-down", [pool(MID, 600)], [stream(*CHAT, rate=1.5)], [fault("kill", 75, pods=["vllm-0"])], 125
    ),
    "client-retry-storm": lambda: lab(
        "client-retry-storm",
        [pool(BIG, 600, 8)],
        [stream(*CHAT, rate=1.5, timeout=4.0, retries=4)],
        [fault("traffic", 87, rate=5 / 1.5)],
        190,
    ),
    "slow-replica": lambda: lab(
        "slow-replica",
        [pool(PAIRED, 600, pods=2)],
        [stream((80, 160), (80, 140), rate=2.0)],
        [fault("pause", 88, pods=["vllm-1"], share=0.8)],
        190,
    ),
    "routing-imbalance-two-cores": lambda: lab(
        "routing-imbalance-two-cores",
        [pool(SMALL, 600, 4, pods=2)],
        [stream((80, 160), (80, 140), rate=6.5)],
        [fault("routing", 60, pods=["vllm-0"], share=1.0)],
        130,
    ),
    "kv-lease-expiry": lambda: lab(
        "kv-lease-expiry",
        split(SHARED_CORE, 600, lease=12.0),
        [stream((300, 600), (60, 100), rate=1.2)],
        [fault("handover", 80, share=0.6, seconds=20.0)],
        190,
    ),
    "kv-handshake-failure": lambda: lab(
        "kv-handshake-failure",
        split(SHARED_CORE, 600, late=1),
        [stream((300, 600), (60, 100), rate=1.2)],
        [fault("side-channel", 0, pods=["vllm-decode-1"]), fault("scale-out", 80, pods=["vllm-decode-1"])],
        180,
    ),
    "kv-transfer-backlog": lambda: lab(
        "kv-transfer-backlog",
        split(WITH_KV, 3000, link=0.6e9),
        [stream(*WIDE, rate=1.2)],
        [fault("link", 90, pods=["vllm-decode-0"], factor=10e6 / 0.6e9)],
        190,
    ),
    "kv-transfer-loss": lambda: lab(
        "kv-transfer-loss",
        split(WITH_KV, 3000, link=0.6e9),
        [stream(*WIDE, rate=1.2)],
        [fault("link", 84, pods=["vllm-decode-0"], flow=9.3e6)],
        185,
    ),
    "control-steady": lambda: lab(
        "control-steady",
        [pool(BIG, 600)],
        [stream((60, 160), (60, 120), rate=1.0, prefixes=Prefixes(4, 256, 1.0, 0.0))],
        [],
        190,
    ),
    "control-kv-high": lambda: lab(
        "control-kv-high", [pool(BIG, 212)], [stream((800, 800), (100, 100), clients=7)], [], 165
    ),
    "control-unique": lambda: lab(
        "control-unique", [pool(BIG, 600)], [stream((300, 600), (40, 80), rate=0.8)], [], 130
    ),
    "control-bursts": lambda: lab(
        "control-bursts",
        [pool(BIG, 600)],
        [stream(*SHORT, rate=0.7, pattern="bursts", burst=6.7, burst_for=5.0, burst_every=37.0)],
        [],
        155,
    ),
    "control-ramp": lambda: lab(
        "control-ramp", [pool(MID, 600)], [stream(*SHORT, rate=0.3, pattern="ramp", burst=10.0, wave=150.0)], [], 150
    ),
    "control-planned-restart": lambda: lab(
        "control-planned-restart",
        [pool(MID, 600)],
        [stream((100, 200), (60, 100), rate=1.2, stop=55.0), stream((100, 200), (60, 100), rate=1.2, start=100.0)],
        [fault("restart", 60, pods=["vllm-0"], after=28)],
        155,
    ),
    "control-pd": lambda: lab("control-pd", split(WITH_KV, 3000, link=0.6e9), [stream(*WIDE, rate=1.2)], [], 170),
}
"""Every recording but routing-imbalance, whose two pods share one core so closely that the idle one speeds up the
other."""

ONSETS = {
    "kv-preemption-thrash": 88,
    "demand-beyond-capacity": 88,
    "prefix-eviction-cascade": 90,
    "spec-acceptance-decay": 88,
    "long-prefill-interference": 92,
    "long-prefill-overload": 90,
    "prefix-unstable-prompt": 88,
    "lora-thrash": 88,
    "engine-hung": 90,
    "engine-down": 75,
    "client-retry-storm": 87,
    "slow-replica": 88,
    "routing-imbalance-two-cores": 60,
    "kv-lease-expiry": 80,
    "kv-handshake-failure": 80,
    "kv-transfer-backlog": 90,
    "kv-transfer-loss": 84,
}
