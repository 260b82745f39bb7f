"""What the fleet of a sizing costs, where its tier has a price: an hour, and a million answer tokens."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from inferdoc.capacity.service_level import price_per_million_tokens
from inferdoc.sizing.choice import Considered
from inferdoc.sizing.inputs import SizingInputs
from inferdoc.sizing.model import SizedPart
from inferdoc.sizing.number import at_ends, number
from inferdoc.sizing.replica import Replica

MONEY = "money"


@dataclass(frozen=True)
class GpuPrice:
    """Of a GPU-hour with what comes on top, and its currency."""

    of_gpu_hour: float
    currency: str


def money_part(
    sizing: SizingInputs, taken: Considered, price: GpuPrice, replicas: Callable[[Replica], float | None] | None
) -> SizedPart:
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

    numbers = [
        number(
            ("million_busy", "a million answer tokens, as busy as it may be", unit),
            at_ends(taken, busy),
            formula="GPUs of a replica x price / (3600 x requests/s of a replica x answer tokens) x 1,000,000",
            inputs=inputs,
            source=source,
            assumed=True,
        )
    ]
    if rate is not None and replicas is not None:
        many = at_ends(taken, replicas)
        hourly = {end: None if each is None else each * of_replica for end, each in many.items()}
        of_rate = {
            end: None if each is None else price_per_million_tokens(each, rate * answers)
            for end, each in hourly.items()
        }
        numbers += [
            number(
                ("million", "a million answer tokens, at this rate", unit),
                of_rate,
                formula="GPUs of the fleet x price / (3600 x rate x answer tokens) x 1,000,000: idle time is in it",
                inputs={**inputs, "rate": (rate, "1/s")},
                source=source,
                assumed=True,
            ),
            number(
                ("hour", "an hour of the fleet", unit),
                hourly,
                formula="replicas x GPUs of one x price",
                inputs={"a GPU-hour": (price.of_gpu_hour, unit), "GPUs of one": (gpus, "")},
                source=source,
                assumed=True,
            ),
        ]
    return SizedPart(MONEY, numbers)
