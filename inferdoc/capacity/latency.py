"""Time to first token and between tokens, from the seconds of prefill and of a step."""

from __future__ import annotations

import math


def queue_seconds(service: float, rate: float, variation: float = 0.0) -> float:
    """Mean wait for one prefill server: M/D/1, rate x D^2 / (2 (1 - rate x D)) (as DistServe has it), times 1 + C^2
    where service times vary (Pollaczek and Khinchine). service: seconds; rate: requests/s; variation: C, standard
    deviation over mean. Infinite from full use on."""
    busy = rate * service
    return rate * service**2 * (1.0 + variation**2) / (2.0 * (1.0 - busy)) if busy < 1.0 else math.inf


def queue_quantile_seconds(service: float, rate: float, variation: float = 0.0, quantile: float = 0.95) -> float:
    """A quantile of the same wait: who waits at all (a share of rate x D) waits exponentially long (heavy traffic)."""
    busy = rate * service
    if not 0.0 < busy < 1.0:
        return 0.0 if busy <= 0.0 else math.inf
    mean_of_waiting = queue_seconds(service, rate, variation) / busy
    return max(0.0, mean_of_waiting * math.log(busy / (1.0 - quantile)))


def colocated_itl_seconds(step: float, streams: float, prefill: float, output_tokens: float) -> float:
    """Mean time between tokens where prefill shares the GPU: T(B) + B x prefill seconds / O: while a stream makes its O
    tokens, as many prompts as there are streams come by."""
    return step + streams * prefill / output_tokens


def longest_stall_seconds(chunk_tokens: float, seconds_per_token: float) -> float:
    """The longest gap between two tokens: one full chunk of a prompt."""
    return chunk_tokens * seconds_per_token


def lognormal_variation(mean: float, p95: float) -> float:
    """Standard deviation over mean of lengths with this mean and 95th percentile, taken as lognormal; where no
    lognormal has so long a tail, that of the longest."""
    z = 1.645
    reach = max(0.0, z**2 - 2.0 * math.log(max(1.0, p95 / mean)))
    return math.sqrt(math.exp((z - math.sqrt(reach)) ** 2) - 1.0)


def live_context_tokens(prompt: float, output: float, output_variation: float = 0.0) -> float:
    """Mean context of a running request at a moment: its prompt, and half of an answer, long answers being met more
    often: O (1 + C^2) / 2. Tokens."""
    return prompt + output * (1.0 + output_variation**2) / 2.0
