"""Formulas of a service level: waits and queues, replicas, goodput and price."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

Z90, Z95 = 1.282, 1.645
"""Of the standard normal."""


def queue_seconds(service: float, rate: float, variation: float = 0.0) -> float:
    """Mean wait for one prefill server: M/D/1, rate x D^2 / (2 (1 - rate x D)) (as DistServe has it), times 1 + C^2
    where service times vary (Pollaczek and Khinchine). service: seconds; rate: requests/s; variation: C, standard
    deviation over mean. Infinite from full use on."""
    busy = rate * service
    return rate * service**2 * (1.0 + variation**2) / (2.0 * (1.0 - busy)) if busy < 1.0 else math.inf


def queue_variance(service: float, rate: float, variation: float = 0.0) -> float:
    """Variance of the same wait, seconds squared: W^2 + rate x E[D^3] / (3 (1 - rate x D)) (Takacs). Service times are
    taken as lognormal, of which E[D^3] = D^3 (1 + C^2)^3."""
    busy = rate * service
    if busy >= 1.0:
        return math.inf
    third = service**3 * (1.0 + variation**2) ** 3
    return queue_seconds(service, rate, variation) ** 2 + rate * third / (3.0 * (1.0 - busy))


def slot_wait(slots: float, busy: float, occupied: float, variation: float = 0.0) -> tuple[float, float]:
    """Share of the requests that wait for one of so many slots (of KV cache, of --max-num-seqs) of which so many are
    busy on average, and how long these wait on average: Erlang's C, and occupied (1 + C^2) / 2 / (slots - busy) (Allen
    and Cunneen). occupied: seconds for which a request keeps its slot; variation: C of these. 0..1 and seconds; all of
    them for ever from full use on."""
    whole = max(1, int(slots))
    if busy >= whole:
        return 1.0, math.inf
    blocked = 1.0
    for slot in range(1, whole + 1):
        blocked = busy * blocked / (slot + busy * blocked)
    waits = blocked / (1.0 - busy / whole * (1.0 - blocked))
    return waits, occupied * (1.0 + variation**2) / 2.0 / (whole - busy)


def gamma_quantile(mean: float, variance: float, z: float = Z95) -> float:
    """A quantile of what is never negative, from mean and variance, taken as gamma (Wilson and Hilferty); z: of the
    standard normal, 1.645 for 95 %."""
    if not math.isfinite(mean) or variance <= 0.0 or mean <= 0.0:
        return mean
    shape = mean**2 / variance
    return float(mean * max(0.0, 1.0 - 1.0 / (9.0 * shape) + z / (3.0 * math.sqrt(shape))) ** 3)


def p95_with_some_waiting(mean: float, variance: float, waits: float, wait: float) -> float:
    """95th percentile of a time that is taken as gamma, to which some requests add a wait of their own: those over it
    for the one reason and those over it for the other make up a twentieth. waits: share that waits; wait: their mean
    seconds, taken as exponential."""
    alone = gamma_quantile(mean, variance)
    if waits <= 0.0 or wait <= 0.0:
        return alone
    if not math.isfinite(wait):
        return math.inf

    def beyond(seconds: float) -> float:
        late = waits * math.exp(-max(0.0, seconds - mean) / wait)
        if variance <= 0.0 or mean <= 0.0:
            return late
        shape = mean**2 / variance
        z = ((seconds / mean) ** (1.0 / 3.0) - 1.0 + 1.0 / (9.0 * shape)) * 3.0 * math.sqrt(shape)
        return late + math.erfc(z / math.sqrt(2.0)) / 2.0

    low, high = alone, alone + wait * max(0.0, math.log(waits / 0.01)) + 4.0 * math.sqrt(max(0.0, variance))
    for _ in range(40):
        middle = (low + high) / 2.0
        low, high = (middle, high) if beyond(middle) > 0.05 else (low, middle)
    return high


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
    reach = max(0.0, Z95**2 - 2.0 * math.log(max(1.0, p95 / mean)))
    return math.sqrt(math.exp((Z95 - math.sqrt(reach)) ** 2) - 1.0)


def lognormal_p95(mean: float, variation: float) -> float:
    """The 95th percentile of a lognormal of this mean and standard deviation over mean."""
    sigma = math.sqrt(math.log(1.0 + variation**2))
    return mean * math.exp(Z95 * sigma - sigma**2 / 2.0)


def live_context_variation(prompt: tuple[float, float], output: tuple[float, float]) -> float:
    """Standard deviation over mean of the context of a running request. prompt, output: mean tokens and C. A running
    answer is somewhere in a lognormal one that was met by its length: E[x^2] = O^2 (1 + C^2)^3 / 3."""
    (prompts, of_prompts), (answers, of_answers) = prompt, output
    done = answers * (1.0 + of_answers**2) / 2.0
    squared = answers**2 * (1.0 + of_answers**2) ** 3 / 3.0
    return math.sqrt((prompts * of_prompts) ** 2 + squared - done**2) / (prompts + done)


def live_context_tokens(prompt: float, output: float, output_variation: float = 0.0) -> float:
    """Mean context of a running request at a moment: its prompt, and half of an answer, long answers being met more
    often: O (1 + C^2) / 2. Tokens."""
    return prompt + output * (1.0 + output_variation**2) / 2.0


BREAKER = 0.85
"""A breaker opens at 80-90 % of the largest safe queue (field guide to sizing LLM inference, section 9.4)."""
HEADROOM = 1.2
"""A fifth to spare over a measured load (field guide, section 9.1: 1.2 where it is stable, 1.5 where it is new)."""
HEADROOM_NEW = 1.5
"""The same for a load that nobody has measured."""


def joint_share(shares: Sequence[float]) -> tuple[float, float]:
    """Bounds of the share of requests that meet all of several objectives, from the share that meets each: histograms
    do not show more. (low, high), 0..1."""
    return max(0.0, sum(shares) - (len(shares) - 1)), min(shares)


def replicas_needed(peak: float, usable: float, safety: float) -> int:
    """Replicas for a peak: ceil(peak x safety / usable), both in the same unit per second; 0 where there is no load."""
    return math.ceil(round(peak * safety / usable, 9))


def safe_queue_depth(acceptable_wait_seconds: float, completions_per_second: float) -> float:
    """Little's law: the longest queue whose wait stays acceptable, times the breaker share. Requests.

    The rate is the sustainable completion rate, never the arrival rate: in a spike the latter loosens the limit.
    """
    return BREAKER * acceptable_wait_seconds * completions_per_second


def queued_tokens(ttft_seconds: float, prefill_seconds_per_token: float) -> float:
    """Prompt tokens that one engine prefills within the time to first token: --max-num-queued-tokens. Tokens."""
    return ttft_seconds / prefill_seconds_per_token


def price_per_million_tokens(price_per_hour: float, tokens_per_second: float) -> float:
    """Price of a million tokens: price x GPUs / (3600 x tokens/s) x 1e6, with the tokens really produced, so that idle
    time is in it."""
    return price_per_hour / (3600.0 * tokens_per_second) * 1e6


def tokens_per_joule(tokens_per_second: float, watts: float) -> float:
    """Tokens per joule of the GPUs alone; a facility takes its PUE times the energy. Tokens and joules of any interval
    give the same."""
    return tokens_per_second / watts


def kwh_per_million_tokens(tokens_per_second: float, watts: float) -> float:
    """Kilowatt-hours per million tokens."""
    return watts / tokens_per_second * 1e6 / 3.6e6


def routed_price(share_small: float, small: float, large: float) -> float:
    """Price where a router sends a share of the requests to a small model and the others to a large one."""
    return share_small * small + (1.0 - share_small) * large


def escalated_price(share_escalated: float, small: float, large: float) -> float:
    """Price where a small model sees every request and hands a share on to a large one."""
    return small + share_escalated * large


COLOCATED_USE = 0.6
"""Use at which a colocated pool still meets both objectives (own choice, to be measured)."""
APART_USE = 0.75
"""The same of pools that do one thing (own choice, to be measured)."""


@dataclass(frozen=True)
class PhaseSeconds:
    """GPU-seconds of one request: prefill and decode."""

    prefill: float
    decode: float

    @property
    def ratio(self) -> float:
        """Prefill GPUs per decode GPU."""
        return self.prefill / self.decode


@dataclass(frozen=True)
class Payoff:
    """GPUs of one pool, of the two pools, each whole replicas; saved: share of the GPUs (of the money where prices
    differ), negative where parting costs more."""

    together: int
    prefill: int
    decode: int
    saved: float


def phase_seconds(
    computed_tokens: float, prefill_rate: float, output_tokens: float, decode_rate: float
) -> PhaseSeconds:
    """From tokens per second and GPU: S / prefill rate and O / decode rate. S: prompt tokens net of prefix hits."""
    return PhaseSeconds(computed_tokens / prefill_rate, output_tokens / decode_rate)


def payoff(
    rate: float,
    seconds: PhaseSeconds,
    gpus: int,
    *,
    together_use: float = COLOCATED_USE,
    apart_use: float = APART_USE,
    prices: tuple[float, float, float] = (1.0, 1.0, 1.0),
) -> Payoff:
    """What two pools save against one at a rate (requests/s), each pool in replicas of so many GPUs, one at least.
    prices: of a GPU-hour in the one pool, the prefill pool, the decode pool."""

    def whole(need: float) -> int:
        return max(1, math.ceil(round(need / gpus, 9))) * gpus

    together = whole(rate * (seconds.prefill + seconds.decode) / together_use)
    prefill, decode = whole(rate * seconds.prefill / apart_use), whole(rate * seconds.decode / apart_use)
    saved = 1.0 - (prefill * prices[1] + decode * prices[2]) / (together * prices[0])
    return Payoff(together, prefill, decode, saved)


def prefill_pods(requests_per_second: float, computed_tokens: float, seconds_per_token: float) -> float:
    """Prefill pods kept busy: arrivals x uncached prompt tokens x seconds per computed token of one pod."""
    return requests_per_second * computed_tokens * seconds_per_token


def decode_pods(requests_per_second: float, output_tokens: float, tokens_per_second: float) -> float:
    """Decode pods kept busy: arrivals x answer tokens over the tokens/s that one pod reaches."""
    return requests_per_second * output_tokens / tokens_per_second


LEAST_NVLINK = 100.0
"""GB/s one way: PCIe Gen5 x16 is 64, the slowest NVLink 300."""


def transfer_seconds(size_bytes: float, link_gigabits: float, efficiency: float) -> float:
    """Time of a transfer on a link: bytes over gigabits/8 (a 400 Gb/s card moves 50 GB/s) times its efficiency."""
    return size_bytes / (link_gigabits / 8 * 1e9 * efficiency)


def reload_seconds_per_token(kv_bytes: float, bandwidth: float) -> float:
    """Seconds to bring a token's KV back at so many bytes/s; worth it where shorter than computing the token."""
    return kv_bytes / bandwidth
