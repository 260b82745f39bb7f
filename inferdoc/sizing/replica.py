"""One replica under load: seconds of its steps and prompts, and the rate at which it still meets the objectives.

The streams of a data-parallel rank are the free variable: from them follow time between tokens, rate and wait, and all
of these grow with them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from math import exp, inf

from inferdoc.capacity.memory import KvCost, safe_concurrency
from inferdoc.capacity.model_shape import ModelShape
from inferdoc.capacity.service_level import (
    colocated_itl_seconds,
    p95_with_some_waiting,
    queue_seconds,
    queue_variance,
    slot_wait,
)
from inferdoc.capacity.step_time import (
    Machine,
    StepRates,
    Weights,
    attention_flop,
    expert_exchange_seconds,
    pipeline_bubble,
    prefill_seconds,
    prefill_steps,
    step_seconds,
)
from inferdoc.sizing.inputs import EngineLimits, Parallelism, TrafficClass, TrafficInputs

LATE = 0.05
"""Share of requests that may wait for a slot: objectives are about the 95th percentile."""
FEW, MANY = 0.01, 100.0
"""Streams that stand for none where a share of them is taken; prompts in a step of which only the mean counts."""
UNIFORM_WIDTH = 12**0.5
"""From the first to the last of lengths that are equally likely, over their standard deviation."""
MICRO_BATCHES = 16
"""Batches in flight of a pipeline, for its bubble (own choice; 16 % at four stages)."""


@dataclass(frozen=True)
class KvSpace:
    """tokens: that one data-parallel rank holds; cost: of a request on one GPU."""

    tokens: float
    cost: KvCost

    @property
    def per_token(self) -> float:
        """Bytes of a token on one GPU."""
        return self.cost.per_token

    def context(self, tokens: float) -> float:
        """Tokens of cache that a request of so much context takes, windows and state included."""
        return self.cost.bytes(tokens) / self.cost.per_token


@dataclass(frozen=True)
class Replica:
    """decode: the GPUs that read the weights of a step together (TP x DP); prompt: those that compute one prompt (TP);
    host: seconds of a step that no GPU work hides; collectives: seconds of the all-reduces of a step over so many
    tokens; overlap: whether prompts and streams of a step overlap, arithmetic of the ones with memory traffic of the
    others; front: seconds to the first token that a request spends outside of the engine; bus: bytes/s of a GPU to the
    others; parts: what a step is summed up from, None where whole steps were measured; eager: seconds in which the host
    launches the kernels of a step with prompts one by one, since no graph of it was captured; mixes: whether such a
    step serves streams too."""

    shape: ModelShape
    layout: Parallelism
    decode: Machine
    prompt: Machine
    weights: Weights
    kv: KvSpace
    traffic: TrafficInputs
    limits: EngineLimits
    host: float
    collectives: Callable[[float], float]
    overlap: bool
    front: float = 0.0
    bus: float = 100e9
    parts: StepRates | None = None
    eager: float = 0.0
    mixes: bool = True

    def with_shares(self, mfu: float, mbu: float) -> Replica:
        """The same on GPUs that reach other shares."""
        decode, prompt = (replace(machine, mfu=mfu, mbu=mbu) for machine in (self.decode, self.prompt))
        return replace(self, decode=decode, prompt=prompt)

    def step(self, streams: float, of_each: int = 1) -> float:
        """Seconds of a decode step of so many streams per rank, of each so many tokens (drafts and one more); of a
        pipeline, through all stages."""
        tokens = streams / self.layout.pipeline * of_each
        return self._on_gpu(streams, of_each) + self._talk(tokens) + self.host

    def _on_gpu(self, streams: float, of_each: int = 1) -> float:
        """Of it, seconds of arithmetic or memory traffic."""
        if self.parts is not None:
            rank = streams / self.layout.pipeline
            return self._matrices(rank * of_each) + self._cached(rank)
        batch = streams / self.layout.pipeline * self.layout.data
        of_stages = self.layout.tensor * self.layout.pipeline
        kv_read = batch * self.kv.context(self.traffic.context) * self.kv.per_token * of_stages
        return step_seconds(self.decode, self.weights, tokens=batch * of_each, kv_read=kv_read)

    def _matrices(self, of_rank: float) -> float:
        """Of a step by parts, seconds of the matrices over so many tokens of every rank."""
        assert self.parts is not None
        return self.parts.matrices(of_rank, of_rank * self.layout.data)

    def _cached(self, of_rank: float) -> float:
        """Of a step by parts, seconds to attend to the cache of so many streams of a rank, through all stages."""
        assert self.parts is not None
        context = self.traffic.context
        return self.parts.cached(of_rank, self.kv.cost.bytes(context) * self.layout.pipeline, context)

    def _prompt(self, tokens: float) -> float:
        """Of a step by parts, seconds of the attention of a prompt over itself."""
        assert self.parts is not None
        return self.parts.prompt(self._attention(tokens))

    def _attention(self, tokens: float) -> float:
        """FLOP of the attention of a prompt over itself."""
        kv = self.shape.kv
        return attention_flop(self.shape.attention_width, kv.growing, kv.windowed, kv.window, tokens)

    def _talk(self, tokens: float) -> float:
        """Seconds in which the GPUs of a step over so many tokens of a rank talk to each other."""
        if not self.shape.experts or self.layout.data == 1:
            return self.collectives(tokens)
        shape, ranks = self.shape, self.layout.data
        exchange = expert_exchange_seconds(shape.expert_layers, tokens, shape.chosen, shape.hidden, ranks, self.bus)
        return self.collectives(tokens) + exchange

    def prefill(self, tokens: float, prompts: float = 1.0) -> float:
        """Seconds of a step over so many prompts (or a part of one) of so many tokens and nothing else: the longer of
        the GPUs and of the host that launches their kernels."""
        whole = prompts * tokens
        if self.parts is not None:
            gpu = self.parts.matrices(whole, whole) + prompts * self._prompt(tokens)
        else:
            traffic = self.weights.read(whole) / (self.decode.gpus * self.decode.bandwidth * self.decode.mbu)
            gpu = max(prompts * self._arithmetic(tokens), traffic)
        return max(gpu + self._talk(whole), self.eager)

    def _arithmetic(self, tokens: float) -> float:
        return prefill_seconds(self.prompt, 2.0 * self.shape.active * tokens + self._attention(tokens))

    def chunks(self, tokens: float, streams: float) -> int:
        """Steps over which a prompt is spread."""
        return prefill_steps(tokens, self.limits.batched_tokens, streams if self.mixes else 0.0)

    def mixed(self, streams: float, tokens: float, parts: float) -> float:
        """Seconds of a step that holds so many chunks of prompts of so many tokens beside the streams. Where arithmetic
        and memory traffic overlap the longer of the two counts, else the prompts come on top. An engine that does not
        mix them takes a step for the prompts and one for the streams."""
        if not parts:
            return self.step(streams)
        stages, batch = self.layout.pipeline, streams / self.layout.pipeline
        chunk = tokens / self.chunks(tokens, streams)
        prompts = parts / (1.0 - pipeline_bubble(stages, MICRO_BATCHES))
        if not self.mixes:
            return self.prefill(tokens, prompts * chunk / tokens) + self.step(streams)
        if self.parts is not None:
            gpu = (
                self._matrices(batch + prompts * chunk)
                + self._cached(batch)
                + prompts * self._prompt(tokens) * chunk / tokens
            )
        else:
            of_prompts = prompts * self._arithmetic(tokens) * chunk / tokens
            of_streams = 2.0 * self.shape.active * batch / (self.prompt.gpus * self.prompt.flops * self.prompt.mfu)
            gpu = self._on_gpu(streams)
            gpu = max(gpu, of_streams + of_prompts) if self.overlap else gpu + of_prompts
        return max(gpu + self._talk(batch + parts * chunk), self.eager) + self.host

    def itl(self, streams: float) -> float:
        """Mean seconds between tokens with so many streams per rank, prompts of the others on the same GPUs."""
        return self._pace(streams, self._met(streams))

    def _met(self, streams: float) -> float:
        """Streams that a request meets: in a closed loop all but itself (arrival theorem)."""
        return streams if self.traffic.concurrent is None else max(0.0, streams - 1.0)

    def _pace(self, streams: float, prompted: float) -> float:
        """Mean seconds of a step of so many streams per rank, beside the prompts of so many: while a stream makes its
        O tokens as many prompts come by as there are streams, so a step holds B x chunks / O of their chunks on
        average. More come during a long step than during a short one, and make the next one long: their number spreads
        wider than a Poisson one, by 1 / (1 - u^2) where prompts take the share u of the time."""
        tokens = self.traffic.computed
        mean = prompted / self.layout.pipeline * self.chunks(tokens, streams) / self.traffic.output.mean
        if not self.overlap:
            more = self.mixed(streams, tokens, 1.0) - self.step(streams)
            return colocated_itl_seconds(self.step(streams), mean, more, 1.0)
        plain, seconds, spread = self.step(streams), 0.0, 1.0
        for _ in range(2):
            seconds = sum(share * self.mixed(streams, tokens, parts) for parts, share in _counts(mean, spread))
            spread = 1.0 / (1.0 - max(0.0, 1.0 - plain / seconds) ** 2)
        return seconds

    def service(self, streams: float) -> float:
        """Seconds by which a mean prompt lengthens the steps of a rank."""
        running = max(streams, FEW)
        return (self._pace(running, running) - self.step(running)) * self.traffic.output.mean / running

    def rate(self, streams: float) -> float:
        """Requests/s of the replica that keep so many streams per rank running (Little's law)."""
        return self.layout.data * streams / (self.traffic.output.mean * self._pace(streams, streams))

    def ttft(self, streams: float) -> float:
        """Mean seconds to the first token: outside of the engine, half of the step under way, other prompts, and the
        steps of its chunks; of a closed loop, as a load generator measures it, with its common start."""
        waits, wait = self._slots(streams)
        steady = self.front + self._under_way(streams) + self.computing(streams) + self._queue(streams)[0]
        return steady + waits * wait + self.together(streams) * self.start_wait(streams)

    def together(self, streams: float) -> float:
        """Share of the requests of a closed loop that come at the same time as those of all streams, 0..1: the first of
        each stream; all of them where prompts go before streams and outputs are equally long, since then all end
        together too. Ends that spread over a longer time than the prompts take break the waves up."""
        first, output = self.traffic.first_share, self.traffic.output
        if self.mixes or first <= 0.0:
            return first
        prompts = 2.0 * self.start_wait(streams)
        ends = UNIFORM_WIDTH * output.variation * output.mean * self.step(streams)
        return max(first, prompts / (prompts + ends)) if prompts else first

    def start_wait(self, streams: float) -> float:
        """Mean seconds for which the first requests of a closed loop wait, since all of them start together: half of
        the steps over the prompts of the others. 0 where requests arrive at a rate."""
        others, tokens = self._met(streams), self.traffic.computed
        if self.traffic.concurrent is None or others <= 0.0:
            return 0.0
        steps = prefill_steps(others * tokens, self.limits.batched_tokens, 0.0)
        return steps * self.prefill(tokens, others / steps) / 2

    def ttft_p95(self, streams: float, of: TrafficClass | None = None, *, started: bool = False) -> float:
        """The same at the 95th percentile, of waits and lengths of prompts together. of: a class of the traffic;
        started: with the common start of a closed loop, which objectives leave out."""
        wait, variance = self._queue(streams)
        prompts = self.traffic if of is None else of
        alone = self._computing(streams, prompts.computed)
        spread = variance + (alone * prompts.prompt.variation) ** 2
        slots = (self.together(streams), self.start_wait(streams)) if started else self._slots(streams)
        return self.front + self._under_way(streams) + p95_with_some_waiting(wait + alone, spread, *slots)

    def _under_way(self, streams: float) -> float:
        """Seconds until the engine takes a request, half of the step under way or of those between two looks at the
        queue; none of a request that meets no other."""
        return self.limits.receive * self.itl(streams) / 2 if self._met(streams) > 0.0 else 0.0

    def computing(self, streams: float) -> float:
        """Seconds from the first step that holds a part of a mean prompt to its first token."""
        return self._computing(streams, self.traffic.computed)

    def _computing(self, streams: float, tokens: float) -> float:
        chunks = self.chunks(tokens, streams)
        return chunks * (self.mixed(streams, tokens, 1.0) if self.mixes else self.prefill(tokens, 1.0 / chunks))

    def _queue(self, streams: float) -> tuple[float, float]:
        """Mean and variance of the wait for other prompts: those that came before, and those that came meanwhile, since
        a step takes all that wait as far as its budget goes."""
        streams = self._met(streams)
        if streams <= 0.0:
            return 0.0, 0.0
        service, arriving = self.service(streams), self.rate(streams) / self.layout.data
        variation = self.traffic.prompt.variation
        together = 1.0 + arriving * service
        mean, variance = (of(service, arriving, variation) for of in (queue_seconds, queue_variance))
        return mean * together, variance * together**2

    def _slots(self, streams: float) -> tuple[float, float]:
        """Share that waits for room in the KV cache, or for one of --max-num-seqs, and their mean wait. Requests of
        different context fill the cache as fewer of the same would: both sides over 1 + C^2 (Hayward). In a closed loop
        no more than the streams arrive, and none waits."""
        if self.traffic.concurrent is not None:
            return 0.0, 0.0
        output = self.traffic.output
        occupied, unlike = output.mean * self.itl(streams), 1.0 + self.traffic.context_variation**2
        cache = self.kv.tokens / self.kv.context(self.traffic.context)
        room = slot_wait(cache / unlike, streams / unlike, occupied, output.variation)
        return max(room, slot_wait(self.limits.sequences, streams, occupied, output.variation))

    @property
    def room(self) -> float:
        """Streams per rank that 90 % of the KV cache hold at their mean context; 1 where the whole cache holds one."""
        context = self.kv.context(self.traffic.context)
        return max(safe_concurrency(self.kv.tokens, context), float(self.kv.tokens >= context))

    def within(self, ttft: float, itl: float) -> tuple[float, str]:
        """The most streams per rank that keep both objectives and fit, and what binds. Below 1 where a single one is
        there so seldom that few wait for it; 0 where not even that keeps them."""
        most = int(min(self.room, self.limits.sequences))
        bound = "KV cache" if self.room < self.limits.sequences else "--max-num-seqs"

        def kept(streams: float) -> bool:
            return self.itl(max(1.0, streams)) <= itl and all(
                self.ttft_p95(streams, each) <= limit for each, limit in self._limits(ttft)
            )

        if most >= 1 and kept(most):
            return most, bound
        low, high = 0, max(most, 1)
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if kept(middle) else (low, middle)
        bound = "time between tokens" if self.itl(low + 1) > itl else "time to first token"
        if low or most < 1 or not kept(FEW):
            return low, bound
        return _largest(kept, FEW, 1.0), bound

    def _limits(self, ttft: float) -> Iterator[tuple[TrafficClass | None, float]]:
        """Objectives for the time to first token: of each class, of all requests where there are none."""
        for each in self.traffic.classes:
            yield each, ttft if each.ttft is None else each.ttft
        if not self.traffic.classes:
            yield None, ttft

    def decode_within(self, itl: float) -> int:
        """The most streams per rank that keep the time between tokens where prompts are computed elsewhere."""
        low, high = 0, int(max(1.0, min(self.room, self.limits.sequences))) + 1
        while high - low > 1:
            middle = (low + high) // 2
            kept = self.step(middle) <= itl and self._slots(middle)[0] <= LATE
            low, high = (middle, high) if kept else (low, middle)
        return low

    def decode_step_at(self, rate: float) -> float:
        """Seconds of a step at so many requests/s of a rank, where prompts are computed elsewhere."""
        output = self.traffic.output.mean
        return self.step(_largest(lambda streams: streams / (output * self.step(streams)) < rate, FEW, self.room))

    def prompt_seconds(self, rate: float, of: TrafficClass | None = None) -> tuple[float, float]:
        """Mean and 95th percentile of the seconds in which a replica that does nothing else computes a prompt, with the
        wait for others, at so many requests/s. of: a class of the traffic."""
        service, variation = self.prefill(self.traffic.computed), self.traffic.prompt.variation
        arriving = rate / self.layout.data
        wait = queue_seconds(service, arriving, variation)
        alone = service if of is None else self.prefill(of.computed)
        own = variation if of is None else of.prompt.variation
        spread = queue_variance(service, arriving, variation) + (alone * own) ** 2
        return self.front + wait + alone, self.front + p95_with_some_waiting(wait + alone, spread, 0.0, 0.0)

    def prompts_within(self, ttft: float, beside: float) -> float:
        """Most requests/s of a replica that computes prompts alone, at which the 95th percentile is within the
        objective less the seconds beside it; 0 where not even one prompt is."""
        most = self.layout.data / self.prefill(self.traffic.computed)

        def kept(rate: float) -> bool:
            return all(self.prompt_seconds(rate, each)[1] + beside <= limit for each, limit in self._limits(ttft))

        return _largest(kept, 0.0, most) if kept(0.0) else 0.0

    def streams_at(self, rate: float, most: float) -> float | None:
        """Streams per rank at a rate (requests/s of the replica); None where it takes more than `most`."""
        if self.rate(most) < rate:
            return None
        return _largest(lambda streams: self.rate(streams) < rate, 0.0, most)


def _largest(kept: Callable[[float], bool], low: float, high: float) -> float:
    """Where a condition that is true at the low end and false at the high end turns, to a billionth."""
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if kept(middle) else (low, middle)
    return low


def _counts(mean: float, spread: float) -> Iterator[tuple[float, float]]:
    """Counts and their shares, to a millionth: Poisson where their variance over their mean (spread) is 1, else
    negative binomial; of many the mean alone, about which they lie close."""
    if mean > MANY:
        yield mean, 1.0
        return
    wider = spread > 1.0 + 1e-9
    size = mean / (spread - 1.0) if wider else inf
    share, count, left = spread**-size if wider else exp(-mean), 0, 1.0
    while left > 1e-6 and count < 10 * MANY:
        yield float(count), share
        left -= share
        share *= (mean + count * (spread - 1.0)) / spread / (count + 1)
        count += 1
