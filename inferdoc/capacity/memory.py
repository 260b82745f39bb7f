"""Memory of one GPU: weights, what is neither weights nor KV cache, and the KV tokens that fit beside them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

GIB = 2**30
WEIGHT_DTYPES: Mapping[str, float] = {
    "bf16": 2.0, "fp16": 2.0, "fp8": 1.0, "int8": 1.0, "int4": 0.52, "mxfp4": 0.531, "nvfp4": 0.5625,
}  # fmt: skip
"""Bytes per weight, scales included (int4 in groups of 128)."""
ALIGNMENT = 1.05
"""Weights in memory over weights counted, with an allowance: alignment and padding take 3 to 8 % (field guide, section
2)."""
LOADED = 1.0
"""The same as vLLM logs it of 16-bit weights: 14.96 GiB of 8.03e9 parameters, 7.48 on each of two GPUs (pull
request 10511), 3.74 on each of four."""
MEMORY_SHARE = 0.92
"""vLLM's default --gpu-memory-utilization since 0.20 (0.90 before)."""
KV_TARGET = 0.9
"""Share of the KV cache to plan for (field guide, section 9.3)."""
ACTIVATION_FACTORS: Mapping[int, float] = {1: 10.0, 2: 6.0, 4: 5.0, 8: 5.0}
"""Live activations per token in values of the hidden size, by tensor parallelism (AIConfigurator)."""
NCCL_BYTES = 0.37 * GIB
"""Communication buffers of a GPU: 0.34 to 0.39 GiB (AIConfigurator)."""
REST_BYTES = 2.5 * GIB
"""CUDA context, graphs, fragments. AIConfigurator's 3.5 GiB is a safety figure; 1 GiB less is expected, which brings
the sum with activations and logits to 4 GiB for a 70B on H100 and 3 GiB for an 8B on L40S."""
NON_KV_SPREAD = 1.0 * GIB
"""Published figures of the memory beside weights and KV cache differ by so much (4 to 6 GiB in all on large GPUs)."""


def weight_bytes(parameters: float, unquantised: float, bytes_per_weight: float) -> float:
    """Bytes of all weights of a model: those of embeddings and head stay at 2 bytes where the rest is quantised."""
    return (parameters - unquantised) * bytes_per_weight + unquantised * max(2.0, bytes_per_weight)


def weight_bytes_per_gpu(
    weights: float, *, tensor_parallel: int = 1, pipeline_parallel: int = 1, alignment: float = ALIGNMENT
) -> float:
    """Bytes of weights on one GPU of so many that share them: weights x 1.05 / (TP x PP)."""
    return weights * alignment / (tensor_parallel * pipeline_parallel)


def activation_bytes(batched_tokens: int, hidden: int, tensor_parallel: int = 1) -> float:
    """Bytes of live activations of one GPU at --max-num-batched-tokens: 2 x T x H x c (AIConfigurator)."""
    factor = ACTIVATION_FACTORS[max(size for size in ACTIVATION_FACTORS if size <= max(1, tensor_parallel))]
    return 2.0 * batched_tokens * hidden * factor


def logit_bytes(sequences: int, vocabulary: int) -> float:
    """Bytes of the logits of --max-num-seqs requests in 32 bits."""
    return 4.0 * sequences * vocabulary


def lora_bytes(adapters: int, rank: int, layers: int, widths: Sequence[tuple[int, int]], tensor_parallel: int) -> float:
    """Bytes of adapter slots on one GPU: vLLM reserves max_loras x max_lora_rank at start. widths: (in, out) of each
    adapted matrix of a layer."""
    return adapters * layers * sum(a + b for a, b in widths) * rank * 2.0 / tensor_parallel


def kv_tokens(gpu_bytes: float, weights: float, other: float, bytes_per_token: float, share: float) -> int:
    """KV tokens that fit one GPU, and so its group: floor((u x memory - weights - other) / bytes per token). Negative
    where the weights alone do not fit. Once an engine has started, what it prints replaces this."""
    return math.floor((share * gpu_bytes - weights - other) / bytes_per_token)


def least_gpus(tokens_of: Callable[[int], int], needed: float, sizes: Sequence[int]) -> int | None:
    """The smallest group (of `sizes`, rising) whose KV tokens reach those needed; None where none does."""
    return next((gpus for gpus in sizes if tokens_of(gpus) >= needed), None)


def safe_concurrency(capacity_tokens: float, live_context_tokens: float) -> float:
    """Running requests that fit 90 % of the KV cache at a live context. Requests."""
    return KV_TARGET * capacity_tokens / live_context_tokens
