"""Numbers of the fleet: replicas, queue limits, disaggregation, start and cost."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from inferdoc.capacity.service_level import (
    PhaseSeconds,
    phase_seconds,
    price_per_million_tokens,
    queued_tokens,
    safe_queue_depth,
)
from inferdoc.sizing.build import ENDS, End
from inferdoc.sizing.choice import Considered, kv_move_seconds, pool_pair, replicas_for
from inferdoc.sizing.inputs import SizingInputs
from inferdoc.sizing.model import Inputs, Predicted, SizedPart, at_ends, number, part
from inferdoc.sizing.replica import Replica

MONEY = "money"


@dataclass(frozen=True)
class GpuPrice:
    """Of a GPU-hour with what comes on top, and its currency."""

    of_gpu_hour: float
    currency: str


@part(MONEY, assumed=True)
def money_part(
    sizing: SizingInputs, taken: Considered, price: GpuPrice, replicas: Callable[[Replica], float | None] | None
) -> Iterator[Predicted]:
    """A million answer tokens of a replica that is as busy as it may be, and of the fleet at its rate, where there is
    one. replicas: that it takes, None without a rate."""
    answers, gpus = sizing.traffic.output.mean, taken.sized.layout.gpus
    rate = None if taken.replicas is None else taken.share(sizing.traffic) * taken.replicas
    of_replica = gpus * price.of_gpu_hour
    unit, source = price.currency, "[prices] of the configuration"
    inputs = {"a GPU-hour": (price.of_gpu_hour, unit), "answer tokens": (answers, "tokens")}

    def busy(replica: Replica) -> float | None:
        streams, _ = replica.within(sizing.ttft, sizing.itl)
        return price_per_million_tokens(of_replica, replica.rate(streams) * answers) if streams else None

    yield number(
        ("million_busy", "a million answer tokens, as busy as it may be", unit),
        at_ends(taken, busy),
        formula="GPUs of a replica x price / (3600 x requests/s of a replica x answer tokens) x 1,000,000",
        inputs=inputs,
        source=source,
    )
    if rate is not None and replicas is not None:
        many = at_ends(taken, replicas)
        hourly = {end: None if each is None else each * of_replica for end, each in many.items()}
        of_rate = {
            end: None if each is None else price_per_million_tokens(each, rate * answers)
            for end, each in hourly.items()
        }
        yield number(
            ("million", "a million answer tokens, at this rate", unit),
            of_rate,
            formula="GPUs of the fleet x price / (3600 x rate x answer tokens) x 1,000,000: idle time is in it",
            inputs={**inputs, "rate": (rate, "1/s")},
            source=source,
        )
        yield number(
            ("hour", "an hour of the fleet", unit),
            hourly,
            formula="replicas x GPUs of one x price",
            inputs={"a GPU-hour": (price.of_gpu_hour, unit), "GPUs of one": (gpus, "")},
            source=source,
        )


FLEET, QUEUE, APART, START = "fleet", "limits of the queue", "prefill and decode apart", "start of a replica"
WORTH, SHORT_PROMPT, LEAST_PODS, MOST_OF_TTFT = 0.15, 500, 2, 0.2
"""Parting pays from such a saving (own choice) and such prompts (field guide) on, with so many pods a role, and where
the transfer takes no larger share of the objective."""


def _usable(sizing: SizingInputs, replica: Replica) -> float | None:
    streams, _ = replica.within(sizing.ttft, sizing.itl)
    return replica.rate(streams) if streams else None


def replicas_of(sizing: SizingInputs, taken: Considered, replica: Replica) -> float | None:
    """Replicas like this one for the load; None where one keeps no objective."""
    found = replicas_for(sizing, taken.sized.layout, replica, sizing.safety)
    return None if found is None else float(found)


@part(FLEET, assumed=True)
def fleet_part(sizing: SizingInputs, taken: Considered) -> Iterator[Predicted]:
    """Replicas for the load, and for the loss of one."""
    traffic, gpus = sizing.traffic, taken.sized.layout.gpus

    def with_one_lost(replica: Replica) -> float | None:
        found = replicas_for(sizing, taken.sized.layout, replica, 1.0)
        return None if found is None else found + 1.0

    def all_gpus(replica: Replica) -> float | None:
        many = replicas_of(sizing, taken, replica)
        return None if many is None else many * gpus

    if traffic.rate is None:
        load: Inputs = {"requests at once": (float(traffic.concurrent or 0), "requests")}
        given, formula = load, "ceil(requests at once / requests running on a replica within the objectives)"
        source, with_spare = "arithmetic", "the same + 1"
    else:
        load = {"rate": (traffic.rate, "1/s")}
        given, formula = {**load, "safety": (sizing.safety, "")}, "ceil(rate x safety / requests/s of a replica)"
        source = "field guide, section 9.1: 1.2 for a load that is known, 1.5 for a new one"
        with_spare = "ceil(rate / requests/s of a replica) + 1"
    yield number(
        ("replicas", "replicas", "replicas"),
        at_ends(taken, lambda replica: replicas_of(sizing, taken, replica)),
        formula=formula,
        inputs=given,
        source=source,
    )
    yield number(
        ("gpus", "GPUs", "GPUs"),
        at_ends(taken, all_gpus),
        formula="replicas x GPUs of one",
        inputs={"GPUs of one": (gpus, "")},
        source="arithmetic",
    )
    yield number(
        ("replicas_one_lost", "enough with one lost", "replicas"),
        at_ends(taken, with_one_lost),
        formula=with_spare,
        inputs=load,
        source="N+1: a rolling update takes one away as well",
    )


@part(START, assumed=True)
def start_part(sizing: SizingInputs, taken: Considered) -> Iterator[Predicted]:
    """From the creation of a pod to ready, over each storage that its weights may be read from."""
    layout, tiers = taken.sized.layout, sizing.tiers
    weights = taken.sized.memory.weights * layout.gpus
    for path, rate in tiers.storage.items():
        yield number(
            (f"start_{path.replace('-', '_')}", f"weights from {path.replace('-', ' ')}", "s"),
            tiers.start_seconds(sizing.tier_name, weights, path, layout.gpus),
            formula="start of the engine + bytes of the weights / rate of the path",
            inputs={
                "start of the engine": (tiers.engine_start_s.value, "s"),
                "weights": (weights, "bytes"),
                "rate": (rate.value * 1e9, "bytes/s"),
            },
            source=f"{rate.source}; {tiers.engine_start_s.source}",
        )


def worth_parting(part: SizedPart, ttft: float, prompt: float, gpus: int) -> str:
    """What to say of two pools, "" where one is as good. gpus: of a replica."""
    by_name = {each.name: each.value or 0.0 for each in part.numbers}
    saved, move = by_name["saved"], by_name["transfer_seconds"]
    pods = min(by_name["prefill_gpus"], by_name["decode_gpus"]) / gpus
    if saved < WORTH or prompt < SHORT_PROMPT or pods < LEAST_PODS or move > MOST_OF_TTFT * ttft:
        return ""
    return (
        f"prefill and decode apart may save {saved:.0%} of the GPUs: measure it, with some 100 sessions or more, "
        "before you part them"
    )


@part(QUEUE, assumed=True)
def queue_part(sizing: SizingInputs, taken: Considered) -> Iterator[Predicted]:
    """Where vLLM should refuse instead of queueing."""
    assert taken.usable is not None
    computed = sizing.traffic.computed

    def requests(replica: Replica) -> float:
        return float(int(safe_queue_depth(sizing.ttft, _usable(sizing, replica) or 0.0)))

    yield number(
        ("max_num_queued_reqs", "--max-num-queued-reqs", "requests"),
        at_ends(taken, requests),
        formula="0.85 x TTFT objective x requests/s of a replica",
        inputs={"TTFT objective": (sizing.ttft, "s")},
        source="Little's law; field guide, section 9.4: a breaker at 80 to 90 %",
    )
    yield number(
        ("max_num_queued_tokens", "--max-num-queued-tokens", "tokens"),
        at_ends(taken, lambda r: float(int(queued_tokens(sizing.ttft, r.prefill(computed) / computed)))),
        formula="TTFT objective / prefill seconds per token",
        inputs={"TTFT objective": (sizing.ttft, "s")},
        source="arithmetic",
    )


@part(APART, assumed=True)
def disaggregation_part(sizing: SizingInputs, taken: Considered, rows: Sequence[Considered]) -> Iterator[Predicted]:
    """GPU-seconds of the phases, two pools in the layouts that take each the fewest GPUs, and the KV transfer between
    them."""
    layout, traffic = taken.sized.layout, sizing.traffic
    rate = traffic.rate if traffic.rate is not None else taken.usable
    loaded = replace(sizing, traffic=replace(traffic, rate=rate))
    sized = [row.sized for row in rows]

    def seconds(replica: Replica) -> PhaseSeconds:
        streams = max(1, replica.decode_within(sizing.itl))
        alone = replica.prefill(traffic.computed)
        prefill_rate = traffic.computed * layout.data / (alone * layout.gpus)
        decode_rate = streams * layout.data / (replica.step(streams) * layout.gpus)
        return phase_seconds(traffic.computed, prefill_rate, traffic.output.mean, decode_rate)

    pairs = {end: pool_pair(loaded, sized, end) for end in ENDS}
    together = {end: replicas_for(loaded, layout, taken.at(end), sizing.safety) for end in ENDS}

    def saved(end: End) -> float | None:
        pair, many = pairs[end], together[end]
        return None if pair is None or many is None else 1.0 - pair.gpus / (many * layout.gpus)

    gpus = {
        side: {end: None if pair is None else float(getattr(pair, side).gpus) for end, pair in pairs.items()}
        for side in ("prefill", "decode")
    }
    pair = pairs["middle"]
    layouts = (layout, layout) if pair is None else (pair.prefill.layout, pair.decode.layout)
    load: Inputs = {"rate": (rate or 0.0, "1/s"), "safety": (sizing.safety, "")}
    prompts = "ceil(rate x safety / prompts/s of a replica within the TTFT objective less transfer and step) x GPUs"
    yield number(
        ("prefill_gpu_seconds", "prefill of a request", "GPU-s"),
        at_ends(taken, lambda replica: seconds(replica).prefill),
        formula="computed tokens x seconds per token x GPUs",
        inputs={"computed tokens": (traffic.computed, "tokens")},
        source="as the prompt above",
    )
    yield number(
        ("decode_gpu_seconds", "decode of a request", "GPU-s"),
        at_ends(taken, lambda replica: seconds(replica).decode),
        formula="answer tokens x T(B) / B x GPUs, B within the ITL objective without prompts",
        inputs={"answer tokens": (traffic.output.mean, "tokens")},
        source="as the step above",
    )
    yield number(
        ("prefill_per_decode", "prefill GPUs per decode GPU", "GPUs"),
        at_ends(taken, lambda replica: seconds(replica).ratio),
        formula="prefill GPU-seconds / decode GPU-seconds",
        inputs={},
        source="arithmetic",
    )
    yield number(
        ("prefill_gpus", f"GPUs of a prefill pool, {layouts[0]}", "GPUs"),
        gpus["prefill"],
        formula=prompts,
        inputs=load,
        source="M/G/1: Pollaczek and Khinchine, Takacs",
    )
    yield number(
        ("decode_gpus", f"GPUs of a decode pool, {layouts[1]}", "GPUs"),
        gpus["decode"],
        formula="ceil(rate x safety / (B / (answer tokens x T(B)))) x GPUs, B within the ITL objective",
        inputs=load,
        source="Little's law",
    )
    yield number(
        ("saved", "GPUs saved against one pool", "ratio"),
        {end: saved(end) for end in ENDS},
        formula="1 - (prefill + decode GPUs) / GPUs of one pool",
        inputs=load,
        source="arithmetic; worth it above some 15 % (own choice)",
    )
    yield number(
        ("transfer_seconds", "KV transfer of a mean prompt", "s"),
        kv_move_seconds(sizing, layouts, sized),
        formula="prompt tokens x KV bytes on a GPU / (network of a GPU x 0.8)",
        inputs={"prompt": (traffic.prompt.mean, "tokens"), "network": (sizing.nic_gbits / 8 * 1e9, "bytes/s")},
        source="nic_gbits of collectors/tiers.yaml; field guide, section 5.6",
    )
