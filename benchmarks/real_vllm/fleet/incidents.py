"""The incidents, as data: the fleet, its load, what is done to it and when, and the causes that the mechanism dictates.

Usual loads leave every pod room: some five of its places are taken, and a step takes 25 ms. What is done follows 165 s
of that.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.real_vllm.fleet.deeds import Deed
from benchmarks.real_vllm.fleet.traffic import Load

ONSET = 165.0
END = 315.0
LONG_END = 400.0
"""Of recordings in which pods are replaced one by one, which takes a minute and a half."""
ALWAYS = 0.0
DRAFTS = {"method": "ngram", "num_speculative_tokens": 3, "prompt_lookup_max": 3}
ADAPTERS = 8


@dataclass(frozen=True)
class Incident:
    """One recording of a fleet of `pods`.

    done: what was done, in a sentence; expected: causes that may come first, the preferred one first, none for a
    control; deeds: what is done, none where the loads change by themselves; onset: the second at which it begins;
    hit: positions of the affected pods at that moment, all pods where empty; edge: why the call is debatable, and
    edge_accepts: the first findings that are right there; adapters: how many LoRA adapters are served; scrape: seconds
    between scrapes.
    """

    name: str
    done: str
    expected: tuple[str, ...]
    loads: tuple[Load, ...]
    pods: int = 3
    blocks: int = 3000
    seqs: int = 32
    context: int = 8192
    more: tuple[str, ...] = ()
    adapters: int = 0
    policy: str = "turn"
    deeds: tuple[Deed, ...] = ()
    hit: tuple[int, ...] = ()
    onset: float | None = ONSET
    end: float = END
    edge: str | None = None
    edge_accepts: tuple[str, ...] = ()
    scrape: int = 5

    @property
    def control(self) -> bool:
        return not self.expected

    @property
    def flags(self) -> list[str]:
        return flags(self.blocks, self.seqs, self.context, *self.more)


def flags(blocks: int, seqs: int, context: int = 8192, *more: str, batched: int = 2048) -> list[str]:
    sizes = {
        "max-model-len": context,
        "num-gpu-blocks-override": blocks,
        "max-num-seqs": seqs,
        "max-num-batched-tokens": batched,
    }
    return [*(word for flag, value in sizes.items() for word in (f"--{flag}", str(value))), *more]


def steady(rate: float) -> Sequence[tuple[float, float]]:
    return ((ALWAYS, rate),)


def step(before: float, after: float, at: float = ONSET) -> Sequence[tuple[float, float]]:
    """From one rate (requests/s) to another within 3 s."""
    return ((ALWAYS, before), (at, before), (at + 3, after))


CHAT = Load(steady(4.5))

FAULTS = (
    Incident(
        "engine-killed",
        "one pod of three is killed and not started again; the two that are left have too few places",
        ("engine-down",),
        (CHAT,),
        seqs=7,
        deeds=(Deed(ONSET, "kill", (1,)),),
        hit=(1,),
    ),
    Incident(
        "rollout-smaller-cache",
        "a rollout leaves a quarter of the KV cache; every pod has a new name",
        ("kv-pool-shrunk", "config-regression", "kv-preemption-thrash", "kv-capacity-bound"),
        (Load(steady(3.6), prompt=(400, 800), output=(200, 350)),),
        blocks=1200,
        context=4096,
        deeds=(Deed(ONSET, "rollout", values={"flags": flags(300, 32, 4096)}),),
        end=LONG_END,
        edge="the change and what it brings about are one story; either may lead",
        edge_accepts=("kv-pool-shrunk", "config-regression", "kv-preemption-thrash", "kv-capacity-bound"),
    ),
    Incident(
        "slow-replica",
        "one accelerator of three takes 2.2 times as long for every step",
        ("slow-gpu",),
        (CHAT,),
        deeds=(Deed(ONSET, "turn", (1,), {"slow": 2.2}),),
        hit=(1,),
    ),
    Incident(
        "engine-frozen",
        "the engine core of one pod stands still (SIGSTOP); its API server answers /health, so it stays in rotation",
        ("engine-hung",),
        (Load(steady(4.5), timeout=20.0),),
        deeds=(Deed(ONSET, "freeze", (2,)),),
        hit=(2,),
    ),
    Incident(
        "rollout-fewer-places",
        "a rollout lowers --max-num-seqs from 32 to 3; every pod has a new name",
        ("config-regression", "batch-cap-reached"),
        (CHAT,),
        deeds=(Deed(ONSET, "rollout", values={"flags": flags(3000, 3)}),),
        end=LONG_END,
        edge="the change and what it brings about are one story; either may lead",
        edge_accepts=("config-regression", "batch-cap-reached"),
    ),
    Incident(
        "demand",
        "five times the usual requests, of the same kind; what binds is the accelerator, which computes their prompts",
        ("demand-beyond-capacity",),
        (Load(step(3.0, 15.0), prompt=(900, 1500), output=(60, 120)),),
        pods=2,
        seqs=64,
        blocks=6300,
    ),
    Incident(
        "cache-thrash",
        "clients with long answers join; their live contexts do not fit",
        ("kv-preemption-thrash", "kv-capacity-bound"),
        (Load(steady(2.4)), Load(step(0.0, 1.5), output=(600, 900))),
        pods=2,
        blocks=540,
    ),
    Incident(
        "long-prompts",
        "clients with prompts of 5,000 to 7,500 tokens join short chats",
        ("long-prefill-interference",),
        (Load(steady(3.0)), Load(step(0.0, 0.8), prompt=(5000, 7500), output=(30, 60))),
        pods=2,
        blocks=6000,
    ),
    Incident(
        "unstable-prompts",
        "a client release puts something fresh ahead of the prompt that all requests share",
        ("prefix-unstable-prompt",),
        (
            Load(step(3.0, 0.0), prompt=(60, 160), prefixes=4, prefix_tokens=2000),
            Load(step(0.0, 3.0), prompt=(60, 160), prefixes=4, prefix_tokens=2000, unstable=True),
        ),
        pods=2,
    ),
    Incident(
        "prefixes-evicted",
        "unique prompts of 2,000 to 3,000 tokens push the shared ones out of the cache",
        ("prefix-eviction-cascade", "long-prefill-interference"),
        (
            Load(steady(3.0), prompt=(60, 160), prefixes=24, prefix_tokens=800),
            Load(step(0.0, 2.2), prompt=(2000, 3000), output=(20, 60)),
        ),
        pods=2,
        blocks=1900,
        edge="the unique prompts also stall the streams of everyone else while they are computed",
        edge_accepts=("prefix-eviction-cascade", "long-prefill-interference"),
    ),
    Incident(
        "hot-pod",
        "the router sends most requests to one pod of three",
        ("routing-imbalance",),
        (Load(steady(5.4)),),
        seqs=12,
        deeds=(Deed(ONSET, "route", values={"policy": "hot"}),),
        hit=(0,),
    ),
    Incident(
        "retry-storm",
        "a burst of 25 s makes clients time out; each sends its request again at once, up to six times, and the storm "
        "outlives the burst",
        ("client-retry-storm", "demand-beyond-capacity"),
        (
            Load(
                ((ALWAYS, 2.8), (ONSET, 2.8), (ONSET + 2, 10.0), (ONSET + 25, 10.0), (ONSET + 27, 2.8)),
                timeout=7.0,
                retries=6,
            ),
        ),
        pods=2,
        seqs=8,
        blocks=560,
        edge="the trigger is a burst of demand; the retries keep the pool overloaded after it",
        edge_accepts=("client-retry-storm", "demand-beyond-capacity"),
    ),
    Incident(
        "drafts-rejected",
        "drafted tokens hold with a chance of 0.1 where it was 0.8",
        ("spec-acceptance-decay",),
        (Load(steady(3.0)),),
        pods=2,
        more=("--speculative-config", json.dumps(DRAFTS)),
        deeds=(Deed(-60.0, "turn", (), {"acceptance": 0.8}), Deed(ONSET, "turn", (), {"acceptance": 0.1})),
    ),
    Incident(
        "crash-loop",
        "one pod of three ends 10 s after each start and is started again under its name 10 s later, five times; "
        "meanwhile the others have too few places",
        ("engine-crash-loop",),
        (CHAT,),
        seqs=7,
        deeds=(Deed(ONSET, "crash-loop", (1,), {"times": 5, "back_off": 10.0, "serves": 10.0}),),
        hit=(1,),
        end=345.0,
    ),
    Incident(
        "cpu-quota",
        "a CPU quota lets the processes of one pod run for 40 % of every 100 ms; its accelerator is as quick as before",
        ("cpu-starvation", "frontend-bottleneck"),
        (CHAT,),
        deeds=(Deed(ONSET, "throttle", (2,), {"period": 0.1, "share": 0.4, "part": "all"}),),
        hit=(2,),
    ),
    Incident(
        "adapters-thrash",
        "requests for eight LoRA adapters where two hold places; before, for two",
        ("lora-thrash",),
        (Load(step(2.4, 0.0), adapters=2), Load(step(0.0, 2.4), adapters=ADAPTERS)),
        pods=2,
        more=("--enable-lora", "--max-loras", "2", "--max-lora-rank", "8"),
        adapters=ADAPTERS,
    ),
    Incident(
        "scale-in-too-far",
        "four pods become two at an unchanged load that needs three",
        ("demand-beyond-capacity",),
        (Load(steady(6.0)),),
        pods=4,
        seqs=8,
        blocks=560,
        deeds=(Deed(ONSET, "scale-in", values={"pods": 2, "drain": True}),),
        edge="nothing but the number of pods changed; no cause of the catalogue is called too few replicas",
        edge_accepts=("demand-beyond-capacity", "scale-down-abort", "batch-cap-reached", "unexplained-anomaly"),
    ),
    Incident(
        "locality-lost",
        "the router's prefix affinity is lost: requests go to the pods in turn",
        ("prefix-locality-loss",),
        (Load(steady(4.5), prompt=(60, 160), prefixes=30, prefix_tokens=1600),),
        blocks=1500,
        policy="prefix",
        deeds=(Deed(ONSET, "route", values={"policy": "turn"}),),
    ),
    Incident(
        "front-starved",
        "the API server of one pod runs for 15 % of every half second; its engine core is left alone",
        ("frontend-bottleneck", "cpu-starvation"),
        (CHAT,),
        deeds=(Deed(ONSET, "throttle", (0,), {"period": 0.5, "share": 0.15, "part": "front"}),),
        hit=(0,),
    ),
    Incident(
        "rollout-without-prefix-cache",
        "a rollout turns the prefix cache off; every pod has a new name",
        ("config-regression", "prefix-cache-bypassed"),
        (Load(steady(4.0), prompt=(60, 160), prefixes=4, prefix_tokens=2500),),
        deeds=(Deed(ONSET, "rollout", values={"flags": flags(3000, 32, 8192, "--no-enable-prefix-caching")}),),
        end=LONG_END,
        edge="the change and what it brings about are one story; either may lead",
        edge_accepts=("config-regression", "prefix-cache-bypassed"),
    ),
    Incident(
        "rollout-slower-engine",
        "a rollout brings a release whose steps take 1.8 times as long; every pod has a new name, no flag differs",
        ("config-regression",),
        (CHAT,),
        deeds=(Deed(ONSET, "rollout", values={"knobs": {"slow": 1.8}}),),
        end=LONG_END,
    ),
    Incident(
        "demand-after-rollout",
        "a rollout that changes nothing, and two minutes later five times the usual requests",
        ("demand-beyond-capacity",),
        (Load(step(3.0, 15.0, ONSET + 15), prompt=(900, 1500), output=(60, 120)),),
        pods=2,
        seqs=64,
        blocks=6300,
        deeds=(Deed(60.0, "rollout"),),
        onset=ONSET + 15,
        end=END + 15,
    ),
    Incident(
        "rollout-smaller-chunks",
        "a rollout lowers --max-num-batched-tokens from 2048 to 64; every pod has a new name",
        ("config-regression", "prefill-compute-bound", "batch-cap-reached"),
        (Load(steady(3.0), prompt=(900, 1800), output=(60, 120)),),
        deeds=(Deed(ONSET, "rollout", values={"flags": flags(3000, 32, batched=64)}),),
        end=LONG_END,
        edge="the change and what it brings about are one story; either may lead",
        edge_accepts=("config-regression", "prefill-compute-bound", "batch-cap-reached"),
        scrape=10,
    ),
    Incident(
        "hot-pod-of-five",
        "the router sends most requests to one pod of five",
        ("routing-imbalance",),
        (Load(steady(8.0)),),
        pods=5,
        seqs=12,
        deeds=(Deed(ONSET, "route", values={"policy": "hot"}),),
        hit=(0,),
        scrape=10,
    ),
    Incident(
        "hot-pod-nearly-full",
        "the router sends most requests to one pod of three, whose places were nearly taken before",
        ("routing-imbalance",),
        (Load(steady(9.0), output=(60, 140)),),
        seqs=10,
        deeds=(Deed(ONSET, "route", values={"policy": "hot"}),),
        hit=(0,),
    ),
    Incident(
        "adapters-join",
        "seven LoRA adapters where three hold places; before, three; others need none",
        ("lora-thrash",),
        (Load(steady(1.0)), Load(step(2.0, 0.0), adapters=3), Load(step(0.0, 2.0), adapters=7)),
        pods=2,
        more=("--enable-lora", "--max-loras", "3", "--max-lora-rank", "8"),
        adapters=7,
        scrape=10,
    ),
    Incident(
        "prompts-grow",
        "prompts of everybody grow from 150..450 to 2,200..3,200 tokens",
        ("prompt-growth", "prefill-compute-bound"),
        (Load(step(4.0, 0.0)), Load(step(0.0, 4.0), prompt=(2200, 3200))),
        pods=2,
        seqs=48,
        blocks=9000,
        edge="the longer prompts bind the accelerator",
        edge_accepts=("prompt-growth", "prefill-compute-bound"),
        scrape=10,
    ),
    Incident(
        "answers-grow",
        "answers to half of the requests grow from 80..180 to 900..1,500 tokens",
        ("runaway-generation", "batch-cap-reached"),
        (Load(step(4.0, 2.0)), Load(step(0.0, 2.0), output=(900, 1500))),
        pods=2,
        seqs=24,
        edge="the longer answers fill the places",
        edge_accepts=("runaway-generation", "batch-cap-reached"),
        scrape=10,
    ),
    Incident(
        "burst-over",
        "a minute of five times the usual requests, over before most clients give up",
        ("demand-beyond-capacity", "batch-cap-reached"),
        (Load(((ALWAYS, 3.0), (ONSET, 3.0), (ONSET + 3, 14.0), (ONSET + 60, 14.0), (ONSET + 63, 3.0))),),
        pods=2,
        seqs=12,
        edge="what binds in the burst are the places",
        edge_accepts=("demand-beyond-capacity", "batch-cap-reached"),
        end=345.0,
    ),
)

CONTROLS = (
    Incident(
        "control-rolling-restart",
        "every pod is replaced by one of the same settings and a new name, one by one",
        (),
        (CHAT,),
        deeds=(Deed(120.0, "rollout"),),
        onset=None,
        end=330.0,
    ),
    Incident(
        "control-bursts",
        "bursts of twice the usual load, which the fleet takes",
        (),
        (
            Load(
                tuple(
                    point
                    for begin in (60.0, 140.0, 215.0)
                    for point in ((begin, 2.6), (begin + 2, 5.2), (begin + 22, 5.2), (begin + 24, 2.6))
                )
            ),
        ),
        pods=2,
        onset=None,
        end=280.0,
    ),
    Incident(
        "control-scale-out",
        "two pods become four while the load doubles",
        (),
        (Load(((ALWAYS, 2.6), (100.0, 2.6), (260.0, 5.2))),),
        pods=2,
        deeds=(Deed(150.0, "scale-out", values={"pods": 2}),),
        onset=None,
    ),
    Incident(
        "control-idle-night",
        "the load fades to almost nothing and stays there",
        (),
        (Load(((ALWAYS, 3.0), (60.0, 3.0), (140.0, 0.06))),),
        pods=2,
        onset=None,
        end=300.0,
    ),
    Incident("control-steady", "nothing", (), (CHAT,), onset=None, end=270.0),
    Incident(
        "control-rollout-more-places",
        "a rollout raises --max-num-seqs from 32 to 48, which nothing needs; every pod has a new name",
        (),
        (CHAT,),
        deeds=(Deed(120.0, "rollout", values={"flags": flags(3000, 48)}),),
        onset=None,
        end=330.0,
    ),
)

INCIDENTS = (*FAULTS, *CONTROLS)
