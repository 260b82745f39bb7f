"""Numbers of speed: steps and prompts alone, the rate within the objectives, latency at the given rate."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from inferdoc.capacity.reuse import block_life_seconds
from inferdoc.capacity.service_level import longest_stall_seconds, reload_seconds_per_token
from inferdoc.capacity.step_time import ridge_tokens
from inferdoc.sizing.build import (
    End,
    arithmetic_of,
    bandwidth_of,
    first_token_spread,
    flops_of,
    phase_shares,
    weights_of,
)
from inferdoc.sizing.choice import Considered
from inferdoc.sizing.inputs import SizingInputs, TrafficClass
from inferdoc.sizing.model import Inputs, Predicted, at_ends, number, part, widened
from inferdoc.sizing.replica import Replica
from inferdoc.words import how_many

START = "share that starts together x seconds of the other prompts / 2"
SPEED, RATE, LATENCY, CACHE = "speed of a replica", "within the objectives", "at this rate", "prefix cache"


@part(SPEED)
def speed_part(sizing: SizingInputs, taken: Considered) -> Iterator[Predicted]:
    """Prefill and decode by themselves."""
    layout, computed, streams = taken.sized.layout, sizing.traffic.computed, max(1, round(taken.streams))
    prefill, decode = phase_shares(sizing, layout)
    peak: Inputs = {
        "GPUs": (layout.tensor, ""),
        "FLOP/s of one": (flops_of(sizing) / 1e12, "TFLOP/s"),
        "MFU": (prefill.middle, "ratio"),
    }
    width: Inputs = {
        "GPUs": (layout.tensor * layout.data, ""),
        "bandwidth of one": (bandwidth_of(sizing), "bytes/s"),
        "MBU": (decode.middle, "ratio"),
        "streams": (streams, ""),
    }
    assumed = prefill.assumed or decode.assumed
    weights = weights_of(sizing)
    ridge = ridge_tokens(
        flops_of(sizing),
        bandwidth_of(sizing),
        weights.read(1e9) / sizing.shape.parameters,
        prefill.middle / decode.middle,
    )
    yield number(
        ("prefill_seconds", f"prompt of {computed:,.0f} computed tokens", "s"),
        at_ends(taken, lambda replica: replica.prefill(computed)),
        formula="(2 x Pa x S + 2 x L x width x S^2) / (GPUs x FLOP/s x MFU), at least one read of the weights; "
        "+ all-reduces",
        inputs={"Pa": (sizing.shape.active, "parameters"), "S": (computed, "tokens"), **peak},
        source=prefill.source,
        assumed=assumed,
    )
    yield number(
        ("prefill_seconds_per_token", "of it for each token", "s/token"),
        at_ends(taken, lambda replica: replica.prefill(computed) / computed),
        formula="prompt seconds / S",
        inputs={"S": (computed, "tokens")},
        source=prefill.source,
        assumed=assumed,
    )
    yield number(
        ("step_seconds", f"decode step of {how_many(streams * layout.data, 'stream')}", "s"),
        at_ends(taken, lambda replica: replica.step(streams)),
        formula="max(2 x Pa x n / FLOP/s, (weights + streams x context x KV bytes) / bytes/s) + all-reduces "
        "+ 0 to 2 ms",
        inputs={"Pa": (sizing.shape.active, "parameters"), **width},
        source=decode.source,
        assumed=assumed,
    )
    yield number(
        ("ridge_tokens", "arithmetic binds a step from", "tokens"),
        ridge,
        formula="FLOP/s / bytes/s x bytes per weight / 2 x MFU / MBU",
        inputs={"MFU": (prefill.middle, "ratio"), "MBU": (decode.middle, "ratio")},
        source=f"tiers.yaml, {arithmetic_of(sizing).upper()} arithmetic, and the shares above",
        assumed=assumed,
    )


@part(RATE, assumed=True)
def rate_part(sizing: SizingInputs, taken: Considered) -> Iterator[Predicted]:
    """What one replica carries within the objectives."""
    output = sizing.traffic.output.mean
    objectives: Inputs = {"TTFT p95": (sizing.ttft, "s"), "ITL mean": (sizing.itl, "s")}

    def streams(replica: Replica) -> float:
        return float(replica.within(sizing.ttft, sizing.itl)[0])

    def usable(replica: Replica) -> float:
        return replica.rate(streams(replica)) if streams(replica) else 0.0

    _, decode = phase_shares(sizing, taken.sized.layout)
    yield number(
        ("streams", "requests running", "requests"),
        at_ends(taken, lambda replica: streams(replica) * taken.sized.layout.data),
        formula="most streams that keep both objectives, in 0.9 of the KV cache, up to --max-num-seqs",
        inputs=objectives,
        source="own choice of model: see docs/capacity.md",
    )
    yield number(
        ("rate", "requests a replica carries", "1/s"),
        at_ends(taken, usable),
        formula="streams / (answer tokens x ITL); ITL = T + streams x seconds a prompt adds / answer tokens",
        inputs={"answer tokens": (output, "tokens"), **objectives},
        source=f"Little's law; {decode.source}",
    )
    yield number(
        ("itl_bound", "time between tokens then", "s"),
        at_ends(taken, lambda replica: replica.itl(streams(replica)) if streams(replica) else None),
        formula="T + streams x seconds that a prompt adds to its steps / answer tokens",
        inputs={"streams": (taken.streams, "")},
        source=decode.source,
    )
    yield number(
        ("tokens", "answer tokens it makes", "tokens/s"),
        at_ends(taken, lambda replica: usable(replica) * output),
        formula="requests/s x answer tokens",
        inputs={"answer tokens": (output, "tokens")},
        source="arithmetic",
    )


@part(LATENCY, assumed=True)
def latency_part(sizing: SizingInputs, taken: Considered) -> Iterator[Predicted]:
    """At the share of the load that each replica gets."""
    inputs: Inputs = {"rate of a replica": (taken.share(sizing.traffic), "1/s")}

    def streams(replica: Replica) -> float | None:
        return taken.running(sizing.traffic, replica)

    closed = sizing.traffic.concurrent is not None

    def ttft(replica: Replica) -> float | None:
        running = streams(replica)
        return None if running is None else replica.ttft(running)

    def ttft_p95(replica: Replica, each: TrafficClass | None = None) -> float | None:
        running = streams(replica)
        return None if running is None else replica.ttft_p95(running, each, started=closed)

    def started(replica: Replica) -> float | None:
        running = streams(replica)
        return None if running is None else replica.together(running) * replica.start_wait(running)

    def of_start(replica: Replica) -> float:
        running = streams(replica)
        return 0.0 if running is None else replica.together(running)

    def first(at: Callable[[Replica], float | None]) -> dict[End, float | None]:
        return widened(at_ends(taken, at), first_token_spread(sizing), closed=closed)

    def itl(replica: Replica) -> float | None:
        running = streams(replica)
        return None if running is None else replica.itl(running)

    def stall(replica: Replica) -> float:
        chunk = min(replica.limits.batched_tokens, sizing.traffic.computed_p95)
        return longest_stall_seconds(chunk, replica.prefill(chunk) / chunk)

    queue = "outside of the engine + wait for a slot + M/D/1 wait x (1 + C^2) for prompts + steps of its chunks"
    of_ttft: Inputs = {**inputs, "outside of the engine": (taken.at("middle").front, "s")}
    yield number(
        ("running", "requests running on a replica", "requests"),
        at_ends(taken, lambda replica: _times(streams(replica), taken.sized.layout.data)),
        formula="rate x time in the system (Little's law)",
        inputs=inputs,
        source="arithmetic",
    )
    yield number(
        ("ttft_mean", "time to first token, mean", "s"),
        first(ttft),
        formula=f"{queue} + {START}" if closed else queue,
        inputs=of_ttft,
        source="DistServe: M/D/1; Pollaczek and Khinchine; slots of KV cache and --max-num-seqs: Erlang's C",
    )
    if closed:
        yield number(
            ("ttft_start", "of it, behind a common start", "s"),
            at_ends(taken, started),
            formula=START,
            inputs={"share that starts together": (of_start(taken.at("middle")), "ratio"), **inputs},
            source="arithmetic; --requests, else ten requests a stream",
        )
    yield number(
        ("ttft_p95", "time to first token, p95", "s"),
        first(ttft_p95),
        formula=f"{queue}; 95 % of a gamma of mean and variance, with the slot waits of some",
        inputs=of_ttft,
        source="M/G/1: Pollaczek and Khinchine, Takacs; slots of KV cache and --max-num-seqs: Erlang's C",
    )
    for each in sizing.traffic.classes:
        yield number(
            (f"ttft_p95_{each.name}", f"the same of {each.name}", "s"),
            first(partial(ttft_p95, each=each)),
            formula=f"{queue}; its own prompts behind those of all classes",
            inputs=of_ttft,
            source="M/G/1: Pollaczek and Khinchine, Takacs",
        )
    yield number(
        ("itl_mean", "time between tokens, mean", "s"),
        at_ends(taken, itl),
        formula="T + streams x seconds that a prompt adds to its steps / answer tokens",
        inputs=inputs,
        source="arithmetic: as many prompts come by as streams run",
    )
    yield number(
        ("stall", "longest gap between tokens", "s"),
        at_ends(taken, stall),
        formula="one chunk x seconds per token; chunk = --max-num-batched-tokens, or a p95 prompt",
        inputs={"batched tokens": (sizing.limits.batched_tokens, "tokens")},
        source="arithmetic",
    )


@part(CACHE, assumed=True)
def cache_part(sizing: SizingInputs, taken: Considered) -> Iterator[Predicted]:
    """How long an unused block lives at the rate of a replica, and whether host memory is worth it."""
    traffic, layout = sizing.traffic, taken.sized.layout
    share = taken.share(traffic)
    written = share * (traffic.computed + traffic.output.mean)

    def life(replica: Replica) -> float:
        running = replica.streams_at(share, min(replica.room, replica.limits.sequences))
        use = 0.9 if running is None else running * traffic.context / replica.kv.tokens
        return block_life_seconds(replica.kv.tokens * layout.data, min(0.9, use), written)

    def gain(replica: Replica) -> float:
        reload = reload_seconds_per_token(replica.kv.per_token, sizing.host_rate)
        return replica.prefill(traffic.computed) / traffic.computed / reload

    yield number(
        ("block_life", "an unused block lives", "s"),
        at_ends(taken, life),
        formula="KV tokens x (1 - use) / tokens written per second",
        inputs={"tokens written": (written, "tokens/s"), "rate of a replica": (share, "1/s")},
        source="arithmetic; check with vllm:kv_block_idle_before_evict_seconds",
    )
    yield number(
        ("reload_gain", "reload from host, faster by", "times"),
        at_ends(taken, gain),
        formula="prefill seconds per token / (KV bytes per token on a GPU / link)",
        inputs={"link of each GPU": (sizing.host_rate, "bytes/s")},
        source="host_gbps of collectors/tiers.yaml",
    )


def _times(value: float | None, factor: float) -> float | None:
    return None if value is None else value * factor
