"""Scenarios: the fleet, its traffic, and its faults.

Times are seconds from the start of the simulation. A fault changes a mechanism (a clock, a
link, what clients send), never a metric; the only exception is what happens to the scrapes themselves.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from inferdoc.simulate.surroundings import FlowSpec, ScaleOn, ScalerSpec, Surroundings

Role = Literal["both", "prefill", "decode"]
Policy = Literal["round-robin", "least-loaded", "prefix", "random"]


class EngineFlags(msgspec.Struct, forbid_unknown_fields=True, frozen=True, omit_defaults=True):
    """Engine flags. blocks: --num-gpu-blocks-override (default: what fits beside the weights); pool: share of that;
    max_seqs, budget (--max-num-batched-tokens), long_prefill (--long-prefill-token-threshold), max_len, watermark,
    draft (speculative tokens), accept (chance per position), loras (--max-loras), prefix_caching, kv_metrics, lease
    (s), grammar (chance that a drafted token fits the grammar of a structured answer), offload (GiB of host memory for
    KV, --kv-offloading-size), on_failed_read (kv_load_failure_policy), nan_check (VLLM_COMPUTE_NANS_IN_LOGITS),
    balancedness_log (the expert balance in the log, as inferdoc's log reader writes it), memory_share
    (--gpu-memory-utilization), cache_dtype (--kv-cache-dtype), kernels (time of a step over that with the usual
    kernels: another attention backend, eager mode, debug options), python (version of the image's interpreter),
    rebalance_every (eplb_config.step_interval with use_async false: steps between two rearrangements of the experts),
    rebalance_pause (s that each stops the engine), graphs (largest decode batch with a captured CUDA graph, 0: all),
    api_servers (--api-server-count), max_queued (--max-num-queued-reqs, 0: no limit), grammar_workers (threads that
    compile grammars)."""

    blocks: int | None = None
    pool: float = 1.0
    block_size: int = 16
    max_seqs: int = 256
    budget: int = 8192
    long_prefill: int = 0
    max_len: int = 32768
    watermark: float = 0.0
    draft: int = 0
    accept: tuple[float, ...] = ()
    draft_cost: float = 0.08
    loras: int = 0
    lora_load: float = 0.03
    prefix_caching: bool = True
    kv_metrics: bool = False
    lease: float = 30.0
    balancedness_log: bool = False
    grammar: float = 0.4
    offload: float = 0.0
    on_failed_read: Literal["fail", "recompute"] = "fail"
    nan_check: bool = False
    memory_share: float = 0.92
    cache_dtype: str = "auto"
    kernels: float = 1.0
    python: str = "3.12.9"
    rebalance_every: int = 0
    rebalance_pause: float = 0.0
    graphs: int = 0
    api_servers: int = 1
    max_queued: int = 0
    grammar_workers: int = 4


class MeasuredSteps(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Step times of a machine that was measured instead of a tier. Seconds: fixed, per stream, per prompt token."""

    fixed: float
    per_stream: float
    per_prompt_token: float
    kv_bytes: int = 12288


class StepParts(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Step times of a machine by the parts that grow and shrink with hardware and settings. Seconds: weights (to read
    them once), kv_token (to read one token of KV), token (arithmetic of one token), token_distance (of its attention
    for each token before it), fixed (of a step, whatever is in it), draft (of the rest, per drafted token of a stream),
    front (of a request before the engine sees it). routed, routed_token: share of the weights, and of the arithmetic of
    a token, that lies in experts; chosen: share of them that one token chooses. kv_bytes: of a token."""

    weights: float
    kv_token: float
    token: float
    token_distance: float = 0.0
    fixed: float = 0.0
    draft: float = 0.0
    front: float = 2e-3
    routed: float = 0.0
    routed_token: float = 0.0
    chosen: float = 1.0
    kv_bytes: int = 131072


class PoolSpec(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Like pods. gpus: per pod, or per rank where there are several ranks (--data-parallel-size); late: pods that exist
    but get no traffic before a fault says so; link: bytes/s at which one decode pod reads KV; host_link: bytes/s
    between one pod's GPUs and host memory; parts: steps by parts instead of the tier's."""

    name: str
    pods: int
    tier: str = "h100-80"
    model: str = "llama-3.1-8b"
    gpus: int = 1
    role: Role = "both"
    flags: EngineFlags = EngineFlags()
    link: float = 12.5e9
    link_flow: float | None = None
    host_link: float = 50e9
    late: int = 0
    measured: MeasuredSteps | None = None
    parts: StepParts | None = None
    cold_start: float = 120.0
    scaler: ScalerSpec | None = None
    version: str = "0.32"
    ranks: int = 1


class Length(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """A heavy-tailed length in tokens: log-normal around the median, cut at min and max; sigma 0 is a fixed length.
    quantiles: instead of these, lengths at even steps of the share that is shorter, from 0 to 1."""

    median: float
    sigma: float = 0.5
    min: int = 1
    max: int = 100_000
    quantiles: tuple[float, ...] = ()

    def mean(self) -> float:
        if self.quantiles:
            return (sum(self.quantiles) - (self.quantiles[0] + self.quantiles[-1]) / 2) / (len(self.quantiles) - 1)
        return float(min(self.median * 2.718281828 ** (self.sigma**2 / 2), self.max))


class Prefixes(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Shared beginnings of prompts. count: how many; tokens: of each; share: of the requests that have one; zipf: how
    uneven their use is (0: even); stable: false if something unique precedes them; rendered: false where the
    engines' chat template puts something unique there, which the router's rendering does not; popular: share of these
    requests that use the first one besides."""

    count: int = 0
    tokens: int = 0
    share: float = 1.0
    zipf: float = 0.8
    stable: bool = True
    rendered: bool = True
    popular: float = 0.0


class Stream(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """One kind of traffic. rate: requests/s of the whole fleet, or load: share of what the fleet can sustain;
    pattern: poisson, bursts (`burst` times the rate for `burst_for` s every `burst_every` s), waves (a day of `wave`
    s, amplitude `burst`), ramp (from the rate to `burst` times it and back over `wave` s), measured (`rate` times one
    after another of `rates`, for `burst_every` s each, the first of them before second 0 as well); clients: a closed
    loop of so many clients instead of a rate; adapters: how many distinct ones; timeout: s a client waits for the whole
    answer, retries: how often it sends it again at once; logprobs: share that requests the log-probabilities of its
    prompt, which vLLM computes without the prefix cache; structured: share whose answer a grammar constrains, that of
    one of `schemas` (0: each its own), which takes schema_seconds to compile; tools: share that offers tools; images:
    mean number per request, of `image_pool` distinct ones (0: each new); turns: mean number of turns of a conversation,
    each with the whole conversation as its prefix, `think` s (mean) after the answer; phase: s by which a wave is
    ahead; start, stop: s."""

    prompt: Length
    output: Length
    rate: float = 0.0
    load: float = 0.0
    clients: int = 0
    pattern: Literal["poisson", "bursts", "waves", "ramp", "measured"] = "poisson"
    rates: tuple[float, ...] = ()
    burst: float = 1.0
    burst_for: float = 5.0
    burst_every: float = 60.0
    wave: float = 3600.0
    prefixes: Prefixes = Prefixes()
    adapters: int = 0
    adapter_share: float = 1.0
    timeout: float | None = None
    first_token_timeout: float | None = None
    retries: int = 0
    stop_share: float = 0.8
    tenant: str = "default"
    priority: int = 0
    logprobs: float = 0.0
    structured: float = 0.0
    schemas: int = 8
    schema_seconds: float = 0.0
    tools: float = 0.0
    images: float = 0.0
    image_pool: int = 100
    turns: float = 1.0
    think: float = 20.0
    phase: float = 0.0
    start: float = 0.0
    stop: float | None = None


class RouterSpec(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """policy; spill: a prefix's home is left when its load is so many times the mean, plus a few; detect: s until a
    dead pod leaves the rotation; handover: s between the two legs of a split request; refresh: s between two readings
    of a pod (0: the default of llm-d, 50 ms); in_flight: it counts what it sent since; cores: of its processor, 0 for
    as many as it wants; timeout: s after which the proxy in front cuts a request; flow: flow control; version: release
    whose metric names its page has."""

    policy: Policy = "least-loaded"
    spill: float = 1.5
    detect: float = 10.0
    handover: float = 0.003
    refresh: float = 0.0
    in_flight: bool = True
    cores: float = 0.0
    timeout: float | None = None
    flow: FlowSpec | None = None
    version: str = "0.11"


class FaultSpec(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """One change of mechanism. at, until: s; pods: names it hits (all where empty; of a pod that a rollout replaced,
    its successor); flags, version: what a restart or a rollout changes; surge: share of a pool that a rollout starts
    at a time; early: new pods are scraped while they load; the other fields belong to kinds."""

    kind: Literal[
        "traffic",
        "clock",
        "cpu",
        "link",
        "side-channel",
        "hot-expert",
        "interconnect",
        "hang",
        "kill",
        "restart",
        "scale-in",
        "scale-out",
        "routing",
        "handover",
        "acceptance",
        "clear-prefixes",
        "scrape-gap",
        "duplicate-target",
        "drop-series",
        "pause",
        "poll",
        "refresh",
        "router-cores",
        "gateway-timeout",
        "unlabel",
        "stop",
        "scaler",
        "read-failure",
        "host-link",
        "corrupt",
        "cooling",
        "power-limit",
        "power-brake",
        "xid",
        "gpu-lost",
        "rank",
        "front-end",
        "parser",
        "oom",
        "crash",
        "rollout",
        "grow",
    ]
    at: float
    until: float | None = None
    pods: tuple[str, ...] = ()
    stream: int = 0
    rate: float | None = None
    prompt: float | None = None
    output: float | None = None
    prefix_count: int | None = None
    adapters: int | None = None
    popular: float | None = None
    logprobs: float | None = None
    structured: float | None = None
    stop_share: float | None = None
    unstable: bool = False
    template: bool = False
    flags: dict[str, Any] = {}
    gpu: int = 0
    clock: float = 1.0
    bandwidth: float = 1.0
    reasons: int = 0
    cpu: float = 1.0
    factor: float = 1.0
    flow: float | None = None
    hot: float = 1.0
    share: float = 0.0
    seconds: float = 0.0
    accept: tuple[float, ...] = ()
    policy: Policy | None = None
    after: float | None = None
    lost: float = 0.5
    families: tuple[str, ...] = ()
    metric: ScaleOn | None = None
    most: int | None = None
    window: float | None = None
    gpus: tuple[int, ...] | None = None
    xid: int = 0
    rows: int = 0
    errors: float = 0.0
    target: float | None = None
    schemas: int | None = None
    schema_seconds: float | None = None
    images: float | None = None
    image_pool: int | None = None
    host: bool = False
    version: str | None = None
    surge: float = 0.25
    early: bool = False


class Expect(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """What a diagnosis should say. cause: None for a control; accepts: causes that are right too; pods: those it hits;
    not_visible: why metrics cannot show the cause, where they cannot; root: the first finding by design, where `cause`
    is a load change that only brings it about (and is listed as its change) or another view of its impact; pool: the
    pool that is hit as a whole, with the pods that come and go."""

    cause: str | None
    accepts: tuple[str, ...] = ()
    pods: tuple[str, ...] = ()
    onset: float | None = None
    not_visible: str | None = None
    root: str | None = None
    pool: str | None = None


class Exporters(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Who is scraped besides the engines. kube_lineage: kube-state-metrics also shows the owner of a pod and since when
    it exists."""

    dcgm: bool = True
    dcgm_profiling: bool = False
    router: bool = True
    cadvisor: bool = True
    kube: bool = False
    kube_lineage: bool = False


class Scenario(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """A whole simulation. start: Unix time of its beginning, seconds; warmup: s simulated before the first scrape;
    surroundings: everything beside fleet and fault, None for a bare recording."""

    id: str
    title: str
    expect: Expect
    pools: tuple[PoolSpec, ...]
    traffic: tuple[Stream, ...]
    faults: tuple[FaultSpec, ...] = ()
    router: RouterSpec = RouterSpec()
    exporters: Exporters = Exporters()
    duration: float = 1500.0
    warmup: float = 60.0
    scrape: float = 15.0
    seed: int = 1
    start: float = 1_795_000_000.0
    namespace: str = "sim"
    surroundings: Surroundings | None = None
