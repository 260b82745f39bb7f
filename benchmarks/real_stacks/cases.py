"""Which faults are injected into which stack, and which answers are right."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.real_stacks.stacks import Dynamo, Gateway, Places, Stack
from benchmarks.real_vllm.fleet.traffic import Load

ONSET, END = 150.0, 380.0
"""Seconds of a recording. An outage lasts more than three minutes."""
PREFIXES, PREFIX_TOKENS = 16, 2560
PROMPT, OUTPUT = (60, 160), (60, 140)
BURST_SECONDS = 20.0


@dataclass(frozen=True)
class Fault:
    """done: in words; accepted: causes that are right, none for a control; outage: a process no longer serves."""

    done: str
    accepted: Sequence[str] = ()
    outage: bool = False


FAULTS: Mapping[str, Fault] = {
    "control-steady": Fault("nothing"),
    "control-bursts": Fault(f"two bursts of 1.5 times the usual load, {BURST_SECONDS:.0f} s each"),
    "sigstop": Fault("SIGSTOP of one engine", ("engine-hung", "engine-down"), outage=True),
    "sigkill": Fault("SIGKILL of one engine, not started again", ("engine-down",), outage=True),
    "sigkill-prefill": Fault("SIGKILL of one prefill worker, not started again", ("engine-down",), outage=True),
    "sigkill-router": Fault("SIGKILL of the router, not started again", ("no-ready-endpoints",), outage=True),
    # Which limit binds first, places or KV blocks, depends on the stack.
    "load-x3": Fault(
        "three times the usual load", ("demand-beyond-capacity", "batch-cap-reached", "kv-capacity-bound")
    ),
    "unique-prompts": Fault(
        "fresh text ahead of the prefix that prompts share", ("prefix-unstable-prompt", "prefix-cache-bypassed")
    ),
    "random-routing": Fault("the router restarts with random routing", ("prefix-locality-loss",)),
    "few-blocks": Fault(
        "engines restart with fewer KV blocks",
        ("kv-pool-shrunk", "config-regression", "kv-capacity-bound", "kv-preemption-thrash"),
    ),
}


@dataclass(frozen=True)
class StackKind:
    """rate: usual requests/s, some 40% of what the stack can finish; blocks: KV blocks of an engine under few-blocks;
    needs_vllm: whether its engines are vLLM servers."""

    title: str
    build: Callable[[Path, Places], Stack]
    rate: float
    faults: Sequence[str]
    blocks: int = 360
    needs_vllm: bool = False


def vllm_behind(router: str, title: str, faults: Sequence[str]) -> StackKind:
    """Three vLLM servers behind a router."""
    return StackKind(
        f"{title}, 3 vLLM servers",
        lambda folder, places: Gateway(folder, places, router),
        1.7,
        faults,
        blocks=280,
        needs_vllm=True,
    )


STACKS: Mapping[str, StackKind] = {
    "dynamo": StackKind(
        "Dynamo: frontend with KV router, 4 mocker workers",
        lambda folder, places: Dynamo(folder, places),
        2.2,
        [name for name in FAULTS if name != "sigkill-prefill"],
    ),
    "dynamo-pd": StackKind(
        "Dynamo P/D: 2 prefill and 2 decode mocker workers",
        lambda folder, places: Dynamo(folder, places, {"prefill": 2, "decode": 2}),
        1.0,
        ["control-steady", "sigstop", "sigkill", "sigkill-prefill", "load-x3"],
    ),
    "dynamo-sglang": StackKind(
        "Dynamo: 4 mocker workers that mimic SGLang",
        lambda folder, places: Dynamo(folder, places, engine="sglang"),
        2.0,
        ["control-steady", "sigkill", "load-x3"],
    ),
    "sglang-router": vllm_behind(
        "sglang-router", "sglang-router", ["control-steady", "sigstop", "sigkill", "load-x3", "random-routing"]
    ),
    "vllm-router": vllm_behind("vllm-router", "vllm-router", ["control-steady", "sigstop", "load-x3"]),
    "litellm": vllm_behind("litellm", "LiteLLM proxy", ["control-steady", "sigstop", "sigkill"]),
}


def loads(fault: str, rate: float) -> list[Load]:
    """Arrivals of a recording: prompts that share prefixes, and what the fault makes of them."""
    points = [(0.0, rate)]
    if fault == "load-x3":
        points = [(0.0, rate), (ONSET, rate), (ONSET, 3 * rate)]
    if fault == "unique-prompts":
        points = [(0.0, rate), (ONSET, rate), (ONSET, 0.0)]
    if fault == "control-bursts":
        for begin in (ONSET / 2, ONSET):
            points += [(begin, rate), (begin, 1.5 * rate), (begin + BURST_SECONDS, 1.5 * rate)]
            points += [(begin + BURST_SECONDS, rate)]
    usual = Load(points, PROMPT, OUTPUT, prefixes=PREFIXES, prefix_tokens=PREFIX_TOKENS)
    if fault != "unique-prompts":
        return [usual]
    fresh = [(0.0, 0.0), (ONSET, 0.0), (ONSET, rate)]
    return [usual, Load(fresh, PROMPT, OUTPUT, prefixes=PREFIXES, prefix_tokens=PREFIX_TOKENS, unstable=True)]
