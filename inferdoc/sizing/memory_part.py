"""Numbers of memory: what lies on a GPU, and the KV tokens and requests that fit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from inferdoc.capacity.memory import KV_DTYPES, SPARSE_LAYER_BYTES, least_gpus, safe_concurrency
from inferdoc.sizing.build import GpuMemory, kv_cost_of, memory_of, weights_of
from inferdoc.sizing.choice import Considered
from inferdoc.sizing.inputs import SizingInputs
from inferdoc.sizing.model import Predicted, SizedPart, at_ends, number, part
from inferdoc.sizing.replica import Replica

MOST_CONTEXT = 1e9
"""Tokens that stand for a context without end."""
MEMORY, KV = "memory of one GPU", "KV cache"


@part(MEMORY)
def memory_part(sizing: SizingInputs, taken: Considered) -> Iterator[Predicted]:
    """Bytes by part; they add up to what --gpu-memory-utilization leaves."""
    memory, layout, shape = taken.sized.memory, taken.sized.layout, sizing.shape
    limits = sizing.limits
    of_all = weights_of(sizing)
    per_weight = (of_all.dense + of_all.routed) / shape.parameters
    weights = {"P": (shape.parameters, "parameters"), "bytes per weight": (per_weight, "bytes")}
    shared = {"TP": (layout.tensor, ""), "PP": (layout.pipeline, ""), "DP": (layout.data, "")}
    yield number(
        ("memory", "shown by the driver", "bytes"),
        memory.total,
        formula="memory_gib of the tier x 2^30",
        inputs={"memory": (memory.total, "bytes")},
        source=sizing.tier.memory_gib.source,
    )
    yield number(
        ("free", "free (--gpu-memory-utilization)", "bytes"),
        memory.total - memory.usable,
        formula="memory x (1 - utilization)",
        inputs={"utilization": (limits.memory_share, "ratio")},
        source="vLLM 0.32",
    )
    yield number(
        ("weights", "weights", "bytes"),
        memory.weights,
        formula="P x bytes per weight / (TP x PP); experts also / DP; embeddings in 16 bits",
        inputs={**weights, **shared},
        source="as vLLM logs it at start (its pull request 10511)",
        assumed=shape.counted,
    )
    yield number(
        ("activations", "activations", "bytes"),
        memory.activations,
        formula="2 x batched tokens x hidden x c; c = 10, 6, 5, 5 for TP 1, 2, 4, 8",
        inputs={"batched tokens": (limits.batched_tokens, ""), "hidden": (shape.hidden, "")},
        source="aiconfigurator 0.12",
        assumed=True,
    )
    yield number(
        ("logits", "logits", "bytes"),
        memory.logits,
        formula="4 x max-num-seqs x vocabulary",
        inputs={"max-num-seqs": (limits.sequences, ""), "vocabulary": (shape.vocabulary, "")},
        source="vLLM 0.32: logits in 32 bits",
    )
    yield from _adapters(sizing, memory)
    yield number(
        ("other", "context, graphs, buffers", "bytes"),
        memory.other,
        formula="2.5 GiB, and 0.37 GiB of communication buffers beyond one GPU",
        inputs={},
        source="aiconfigurator 0.12, its safety figure of 3.5 GiB less 1",
        assumed=True,
    )
    yield _kv_room(sizing, taken, memory)


def _adapters(sizing: SizingInputs, memory: GpuMemory) -> Iterator[Predicted]:
    limits, shape = sizing.limits, sizing.shape
    if not limits.adapters:
        return
    sizes = {"adapters": (limits.adapters, ""), "rank": (limits.adapter_rank, ""), "layers": (shape.layers, "")}
    yield number(
        ("adapters", "LoRA slots", "bytes"),
        memory.adapters,
        formula="max-loras x layers x sum of in + out of the adapted matrices x max-lora-rank x 2 / TP",
        inputs=sizes,
        source="vLLM reserves the slots at start",
        assumed=True,
    )


def _kv_room(sizing: SizingInputs, taken: Considered, memory: GpuMemory) -> Predicted:
    read = sizing.measured
    if read is not None and read.kv_tokens is not None and read.layout == taken.sized.layout:
        return number(
            ("kv_room", "the engine's KV cache", "bytes"),
            at_ends(taken, lambda replica: replica.kv.tokens * replica.kv.per_token),
            formula="KV tokens that the engine says x bytes per token; replaces what the parts above leave",
            inputs={"KV tokens": (read.kv_tokens, "tokens")},
            source="vllm:cache_config_info of the live pool",
        )
    return number(
        ("kv_room", "left for the KV cache", "bytes"),
        at_ends(taken, lambda replica: replica.kv.tokens * replica.kv.per_token),
        formula="memory x --gpu-memory-utilization - all of these; 1 GiB more, or 1 GiB and 5 % of the weights less",
        inputs={"memory": (memory.total, "bytes"), "utilization": (sizing.limits.memory_share, "ratio")},
        source="vLLM 0.32; published figures spread so; field guide, section 2: alignment takes 3 to 8 %",
        assumed=True,
    )


def kv_part(sizing: SizingInputs, taken: Considered, rows: Sequence[Considered]) -> SizedPart:
    """KV tokens of a replica and the requests that they hold."""
    layout, kv, traffic = taken.sized.layout, sizing.shape.kv, sizing.traffic
    cost = kv_cost_of(sizing, layout)
    per_token, windows = cost.per_token, cost.in_window * cost.window
    of_value = SPARSE_LAYER_BYTES if kv.sparse else KV_DTYPES
    shape = {"layers that grow": (kv.growing, ""), "KV heads": (kv.kv_heads, ""), "head size": (kv.head_size, "")}
    latent = {"layers": (kv.growing, ""), "latent values": (kv.latent, "")}
    of_tokens = {"prompt": (traffic.prompt.mean, "tokens"), "answer": (traffic.output.mean, "tokens")}
    numbers = [
        number(
            ("kv_bytes_per_token", "a token takes on each GPU", "bytes"),
            per_token,
            formula="layers x latent x bytes"
            if kv.latent
            else "2 x layers x max(1, KV heads / TP) x head size x bytes",
            inputs={
                **(latent if kv.latent else shape),
                "bytes": (of_value[sizing.kv_dtype], ""),
                "TP": (layout.tensor, ""),
            },
            source=f"{kv.attention}: the model's config.json and vLLM 0.32",
        ),
        number(
            ("kv_tokens", "tokens that a replica holds", "tokens"),
            at_ends(taken, lambda replica: replica.kv.tokens * layout.data),
            formula="floor(room / bytes per token) x DP",
            inputs={"bytes per token": (per_token, "bytes"), "DP": (layout.data, "")},
            source="vLLM 0.32; an engine prints its own at start",
            assumed=True,
        ),
        number(
            ("context_mean", "context of a request, mean", "tokens"),
            traffic.context,
            formula="prompt + answer x (1 + C^2) / 2",
            inputs={**of_tokens, "C": (traffic.output.variation, "")},
            source="a running answer is half done; long ones run longer",
            assumed=traffic.output.assumed,
        ),
        number(
            ("context_p95", "context of a request, p95", "tokens"),
            traffic.context_p95,
            formula="mean + root of the squared excess of prompt and answer",
            inputs={"prompt p95": (traffic.prompt.p95, "tokens"), "answer p95": (traffic.output.p95, "tokens")},
            source="own choice: prompts and answers are seldom long together",
            assumed=traffic.prompt.assumed or traffic.output.assumed,
        ),
        number(
            ("concurrency_p95", "requests at p95 context", "requests"),
            at_ends(
                taken,
                lambda replica: float(
                    int(safe_concurrency(replica.kv.tokens, replica.kv.context(traffic.context_p95))) * layout.data
                ),
            ),
            formula="0.9 x KV tokens / p95 context",
            inputs={"p95 context": (traffic.context_p95, "tokens")},
            source="field guide, section 9.3",
            assumed=True,
        ),
        number(
            ("longest_context", "longest context that fits", "tokens"),
            at_ends(taken, lambda replica: longest_context(sizing, replica)),
            formula="(room - windows - state) / bytes per token, at most the model's longest context",
            inputs={"longest context of the model": (sizing.shape.max_len, "tokens")},
            source="vLLM 0.32: one request has to fit the KV cache of its rank",
            assumed=True,
        ),
        _least(sizing, rows),
    ]
    if windows or cost.state:
        numbers.insert(
            1,
            number(
                ("kv_bytes_fixed", "a request takes besides", "bytes"),
                windows + cost.state,
                formula="windowed layers x window x bytes per token and layer + state of linear layers / TP",
                inputs={
                    "windowed layers": (kv.windowed, ""),
                    "window": (kv.window, "tokens"),
                    "state": (cost.state, "bytes"),
                },
                source="the model's config.json; at most: a request shorter than the window takes less",
            ),
        )
    return SizedPart(KV, numbers)


def longest_context(sizing: SizingInputs, replica: Replica) -> float:
    """Tokens of the longest request that fits the KV cache of a rank, at most those that the model takes."""
    fits = replica.kv.cost.longest(replica.kv.tokens * replica.kv.per_token)
    return float(int(min(fits, sizing.shape.max_len or MOST_CONTEXT)))


def _least(sizing: SizingInputs, rows: Sequence[Considered]) -> Predicted:
    """Of the layouts looked at."""
    by_gpus = {row.sized.layout.gpus: row.sized.layout for row in reversed(rows)}

    def tokens_of(gpus: int) -> int:
        layout = by_gpus[gpus]
        longest = kv_cost_of(sizing, layout).longest(memory_of(sizing, layout).kv)
        return int(min(longest, 1e12))

    least = least_gpus(tokens_of, sizing.traffic.context_p95, sorted(by_gpus))
    assert least is not None
    return number(
        ("least_gpus", "fewest GPUs for one of them", "GPUs"),
        float(least),
        formula="smallest TP x PP x DP whose KV cache holds one request of p95 context",
        inputs={"p95 context": (sizing.traffic.context_p95, "tokens")},
        source="arithmetic, of the layouts looked at",
    )
