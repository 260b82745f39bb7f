"""The document of a sizing, and the 13 steps of the field guide filled in from it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from inferdoc.capacity.memory import KV_TARGET
from inferdoc.capacity.service_level import LEAST_NVLINK
from inferdoc.capacity.step_time import best_draft_length, speculative_speedup
from inferdoc.sizing.build import End, arithmetic_of, by_parts, phase_shares
from inferdoc.sizing.choice import Considered, best, considered, one_at_a_time
from inferdoc.sizing.fleet_part import (
    APART,
    GpuPrice,
    disaggregation_part,
    fleet_part,
    money_part,
    queue_part,
    replicas_of,
    start_part,
    worth_parting,
)
from inferdoc.sizing.inputs import SizingInputs, TokenLength
from inferdoc.sizing.live import BackTest
from inferdoc.sizing.load_part import cache_part, latency_part, rate_part, speed_part
from inferdoc.sizing.memory_part import kv_part, longest_context, memory_part
from inferdoc.sizing.model import (
    SIZE_SCHEMA_ID,
    Inputs,
    LayoutLooked,
    Predicted,
    SizeAnswer,
    SizedPart,
    at_ends,
    number,
    part,
)
from inferdoc.sizing.replica import Replica
from inferdoc.words import figure, how_many

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


MOST_OVER_PCIE = 2
"""GPUs beyond which an all-reduce over PCIe takes half of a step."""
NODE = 8
"""GPUs of a node."""
MIDDLE: End = "middle"


def answered(sizing: SizingInputs, test: BackTest | None = None, price: GpuPrice | None = None) -> SizeAnswer:
    """The sizing. test: of the shares of a live pool on its own history; price: None where the tier has none. Raises
    InferdocError where no layout fits or keeps the objectives."""
    rows = considered(sizing)
    fitting = [row for row in rows if row.sized.replicas is not None]
    if fitting and not sizing.objectives_given and all(row.usable is None for row in fitting):
        sizing = one_at_a_time(sizing)
        rows = considered(sizing)
    taken = best(sizing, rows)
    layout = taken.sized.layout
    loaded, open_loop = taken.replicas is not None, sizing.traffic.concurrent is None
    parts = [
        memory_part(sizing, taken),
        kv_part(sizing, taken, rows),
        speed_part(sizing, taken),
        rate_part(sizing, taken),
        *([latency_part(sizing, taken), fleet_part(sizing, taken)] if loaded else []),
        start_part(sizing, taken),
        *([] if price is None else [_money(sizing, taken, price)]),
        *([queue_part(sizing, taken), disaggregation_part(sizing, taken, rows)] if open_loop else []),
        cache_part(sizing, taken),
        *([drafting_part(sizing, taken)] if sizing.drafting is not None else []),
    ]
    parts += [] if test is None else [back_test_part(test)]
    replicas = taken.replicas
    return SizeAnswer(
        SIZE_SCHEMA_ID,
        sizing.shape.name,
        sizing.dtype,
        sizing.kv_dtype,
        sizing.tier_name,
        str(layout),
        layout.gpus,
        replicas,
        layout.gpus * (replicas or 1),
        sizing.traffic.rate,
        _summary(sizing, taken),
        parts,
        [_looked(row, taken) for row in rows],
        [*sizing.assumed, *_shares_assumed(sizing, taken)],
        [*_notes(sizing, taken), *_parting(sizing, taken, parts)],
    )


def _money(sizing: SizingInputs, taken: Considered, price: GpuPrice) -> SizedPart:
    if taken.replicas is None:
        return money_part(sizing, taken, price, None)
    return money_part(sizing, taken, price, lambda replica: replicas_of(sizing, taken, replica))


def _summary(sizing: SizingInputs, taken: Considered) -> str:
    layout, traffic = taken.sized.layout, sizing.traffic
    usable = figure(taken.usable, "1/s")
    of_one = f"{how_many(layout.gpus, 'GPU')} a replica ({layout}), which carries about {usable} "
    of_one += f"(bound by {taken.bound})"
    if taken.replicas is None:
        return of_one
    many = f"{how_many(taken.replicas, 'replica')}, {how_many(taken.replicas * layout.gpus, 'GPU')}"
    if traffic.rate is None:
        return f"{many} for {how_many(traffic.concurrent or 0, 'request')} at once: {of_one}"
    return f"{many} for {figure(traffic.rate, '1/s')} at the peak: {of_one}"


def _looked(row: Considered, taken: Considered) -> LayoutLooked:
    fits = row.sized.replicas is not None
    tokens = int(row.at(MIDDLE).kv.tokens) * row.sized.layout.data if fits else 0
    more = "more GPUs" if row.replicas is not None else "more GPUs per request"
    why = row.why or ("" if row is taken else more if row.gpus != taken.gpus else "as many GPUs, larger replicas")
    return LayoutLooked(str(row.sized.layout), row.sized.layout.gpus, fits, tokens, row.usable, row.replicas, why)


def _shares_assumed(sizing: SizingInputs, taken: Considered) -> list[str]:
    shares = zip(("prefill", "decode"), phase_shares(sizing, taken.sized.layout), strict=True)
    found = [f"share reached in {phase}: {share.source}" for phase, share in shares if share.assumed]
    if sizing.dtype not in ("bf16", "fp16", "fp8") or (sizing.dtype == "fp8" and arithmetic_of(sizing) == "bf16"):
        found.append(f"{sizing.dtype} weights are unpacked and multiplied in BF16")
    host = "1 ms of a step is" if sizing.measured is not None else "0 to 2 ms of a step are"
    if sizing.measured is None:
        found.append("a request spends no time before it reaches the engine: tokenising and router are not in here")
    return [*found, f"{host} host time that no GPU work hides", "a mean prompt meets a mean answer"]


def _parting(sizing: SizingInputs, taken: Considered, parts: Sequence[SizedPart]) -> list[str]:
    apart = next((part for part in parts if part.title == APART), None)
    if apart is None:
        return []
    note = worth_parting(apart, sizing.ttft, sizing.traffic.prompt.mean, taken.sized.layout.gpus)
    return [note] if note else []


def _notes(sizing: SizingInputs, taken: Considered) -> list[str]:
    layout, shape = taken.sized.layout, sizing.shape
    notes = []
    prefill, _ = phase_shares(sizing, layout)
    if by_parts(sizing) and prefill.assumed:
        notes.append(prefill.source)
    tokens = longest_context(sizing, taken.at(MIDDLE))
    if shape.max_len > tokens:
        notes.append(
            f"the model's longest context of {shape.max_len:,} tokens is more than the KV cache holds: give vLLM a "
            f"--max-model-len of at most {tokens:,.0f}"
        )
    if sizing.tier.link_gbps.value < LEAST_NVLINK and layout.tensor > MOST_OVER_PCIE:
        notes.append(f"TP {layout.tensor} over PCIe: the all-reduces take half of a step and more; replicas are better")
    if layout.tensor > NODE:
        notes.append(f"TP {layout.tensor} is sized as if all its GPUs hung on one switch, as they do within a node")
    kv_heads = shape.kv.kv_heads
    if not shape.kv.latent and layout.tensor > kv_heads:
        notes.append(f"TP {layout.tensor} over {kv_heads} KV heads: each is kept {layout.tensor // kv_heads} times")
    if taken.at(MIDDLE).room < 4:
        notes.append(f"fewer than 4 requests fit {KV_TARGET:.0%} of the KV cache: one long prompt fills it")
    return notes


BACK_TEST = "back-test on the pool's own history"


@part(BACK_TEST)
def back_test_part(test: BackTest) -> Iterator[Predicted]:
    """Errors and coverage."""
    inputs: Inputs = {"readings": (test.readings, "")}
    off = "median of |predicted / measured - 1| over the second half, from the rate alone; shares of the first half"
    within = "readings of the second half inside the predicted range"
    rows = [
        (("itl_error", "time between tokens, off by", "ratio"), test.itl, off),
        (("ttft_error", "time to first token, off by", "ratio"), test.ttft, off),
        (("itl_within", "between tokens, inside the range", "ratio"), test.itl_within, within),
        (("ttft_within", "first token, inside the range", "ratio"), test.ttft_within, within),
    ]
    if test.kv_tokens is not None:
        what = "KV tokens predicted, over those that the engine says, - 1; from then on the engine's own count"
        rows.append((("kv_tokens_error", "KV tokens, off by", "ratio"), test.kv_tokens, what))
    source = "the pool's own metrics"
    for title, value, how in rows:
        yield number(title, value, formula=how, inputs=inputs, source=source)


DRAFTS = "speculation"


@part(DRAFTS, assumed=True)
def drafting_part(sizing: SizingInputs, taken: Considered) -> Iterator[Predicted]:
    """At the streams that the objectives allow without drafts."""
    drafting, streams = sizing.drafting, max(1, round(taken.streams))
    assert drafting is not None
    length = len(drafting.accepted)

    def best(replica: Replica) -> int:
        return best_draft_length(drafting.accepted, drafting.cost, lambda k: _longer(replica, streams, k))

    def speed(replica: Replica, drafts: int) -> float:
        return speculative_speedup(drafting.accepted, drafts, drafting.cost, lambda k: _longer(replica, streams, k))

    inputs = {"streams": (streams, ""), "cost of a draft": (drafting.cost, "steps")}
    source = "Leviathan, Kalman, Matias; r(k) = a step over k + 1 times the tokens against a plain one"
    formula = "(1 + A1 + ... + Ak) / (r(k) + k x c)"
    yield number(
        ("speedup", f"speed with drafts of {length}", "times"),
        at_ends(taken, lambda replica: speed(replica, length)),
        formula=formula,
        inputs=inputs,
        source=source,
    )
    yield number(
        ("best_draft", "draft length that yields most", "tokens"),
        at_ends(taken, lambda replica: float(best(replica))),
        formula=f"the k, of 0 to {length}, with the highest of these",
        inputs=inputs,
        source=source,
    )
    yield number(
        ("best_speedup", "speed with that", "times"),
        at_ends(taken, lambda replica: speed(replica, best(replica))),
        formula=formula,
        inputs=inputs,
        source=source,
    )


def _longer(replica: Replica, streams: int, drafts: int) -> float:
    return replica.step(streams, drafts + 1) / replica.step(streams)
