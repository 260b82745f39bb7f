"""The 13 steps of a sizing, in the order of the field guide, filled in from one sizing."""

from __future__ import annotations

from inferdoc.sizing.inputs import SizingInputs, TokenLength
from inferdoc.sizing.model import SizeAnswer
from inferdoc.words import figure

NOT_GIVEN = "not sized: {}"


def sizing_steps(sizing: SizingInputs, answer: SizeAnswer) -> list[tuple[str, str]]:
    """Title and result of each step. sizing: the inputs of the answer."""
    numbers = {each.name: each for part in answer.parts for each in part.numbers}

    def shown(name: str, missing: str = "no bound") -> str:
        each = numbers.get(name)
        return missing if each is None or each.value is None else figure(each.value, each.unit)

    traffic, limits = sizing.traffic, sizing.limits
    load = f"{figure(traffic.rate, '1/s')} at the peak" if traffic.rate else f"{traffic.concurrent or 1} concurrent"
    apart = "prefill_gpus" in numbers
    return [
        (
            "workload",
            (
                f"{_length(traffic.prompt)} prompt and {_length(traffic.output)} output tokens, {load}; objectives: "
                f"TTFT p95 {figure(sizing.ttft, 's')}, ITL {figure(sizing.itl, 's')}"
            ),
        ),
        (
            "hardware",
            (
                f"{answer.tier}: {shown('memory')}, {sizing.tier.memory_gbps.value:,.0f} GB/s, "
                f"{sizing.tier.bf16_tflops.value:,.0f} TFLOPS in BF16, link {sizing.tier.link_gbps.value:,.0f} GB/s"
            ),
        ),
        ("quantisation", f"weights {answer.dtype}, KV cache {answer.kv_dtype}"),
        (
            "memory of a GPU",
            (
                f"weights {shown('weights')}, activations {shown('activations')}, rest {shown('other')}; "
                f"{shown('kv_room')} for the KV cache"
            ),
        ),
        (
            "KV cache",
            (
                f"{shown('kv_bytes_per_token')} a token; {shown('concurrency_p95')} at p95 context, longest context "
                f"{shown('longest_context')}"
            ),
        ),
        ("parallelism", f"{answer.layout}; one p95 request fits from {shown('least_gpus')} on"),
        (
            "batching",
            (
                f"{shown('streams')} within the objectives, {shown('rate')} a replica; "
                f"--max-num-seqs {limits.sequences}, --max-num-batched-tokens {limits.batched_tokens}"
            ),
        ),
        (
            "prefill and decode",
            f"disaggregated {shown('prefill_gpus')} + {shown('decode_gpus')}, saved {shown('saved')} of the GPUs"
            if apart
            else NOT_GIVEN.format("give --rate"),
        ),
        (
            "speculation",
            f"{shown('speedup')} the speed; best draft length {shown('best_draft')}"
            if "speedup" in numbers
            else NOT_GIVEN.format("give --accepted, the live draft acceptance by position"),
        ),
        (
            "prefix cache",
            (
                f"{traffic.prefix_share:.0%} of the prompt tokens cached; an unused block lives "
                f"{shown('block_life', 'as long as its replica')}"
            ),
        ),
        (
            "replicas",
            (
                f"{shown('replicas')}, {shown('gpus')} at {sizing.safety:g} times the rate; "
                f"{shown('replicas_one_lost')} with one lost"
            )
            if "replicas" in numbers
            else NOT_GIVEN.format("give --rate or --concurrency"),
        ),
        (
            "admission and start",
            (
                f"--max-num-queued-reqs {shown('max_num_queued_reqs', 'not sized')}; a start from local NVMe takes "
                f"{shown('start_nvme')}, from an object store {shown('start_object_store')}"
            ),
        ),
        (
            "cost and check",
            f"{shown('hour')} an hour, {shown('million')} for a million output tokens at this rate"
            if "hour" in numbers
            else NOT_GIVEN.format("give --price for cost"),
        ),
    ]


def _length(length: TokenLength) -> str:
    return f"{length.mean:,.0f} (p95 {length.p95:,.0f})"
