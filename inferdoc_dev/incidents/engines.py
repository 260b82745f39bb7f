"""How causes are drawn: limits of one engine (batch, prompts, front end, grammars, images, tools) and ends of its
process."""

from __future__ import annotations

import msgspec

from inferdoc.simulate.autoscaler import pod_rate
from inferdoc.simulate.pod import step_time
from inferdoc.simulate.scenario import Length, Stream
from inferdoc_dev.incidents.generator import Draw, Drawing, kv_tokens

replace = msgspec.structs.replace


def flags(d: Draw, **fields: object) -> None:
    """Other flags for the first pool."""
    spec = d.pools[0]
    d.pools[0] = replace(spec, flags=replace(spec.flags, **fields))


def batch_cap(d: Draw) -> None:
    """--max-num-seqs far below what the machine could run; more requests than it lets in at once."""
    d.pool()
    d.traffic = [d.chat(0.4)]
    flags(d, max_seqs=int(d.one_of(8, 12, 16)))
    stream, spec = d.traffic[0], d.pools[0]
    rate = min(pod_rate(spec, stream), 3.0)
    flags(d, max_seqs=max(4, int(spec.flags.max_seqs * rate / pod_rate(spec, stream))))
    rate = pod_rate(d.pools[0], stream)
    d.traffic = [replace(stream, rate=rate * spec.pods * d.between(0.4, 0.6))]
    d.fault("traffic", rate=d.strong(1.7, 3.0))
    d.hit, d.accepts = d.names(), ("demand-beyond-capacity",)


def saturation(d: Draw) -> None:
    """A batch without a limit that binds: long contexts of many streams slow each step down."""
    d.pool(pods=2)
    d.traffic = [d.chat(0.4)]
    prompt = Length(d.spread(1200, 2500), 0.3, max=6000)
    output = Length(d.spread(500, 900), 0.3, max=2000)
    stream = replace(d.traffic[0], prompt=prompt, output=output)
    flags(d, max_seqs=256)
    spec = d.pools[0]
    most = 0.8 * kv_tokens(spec) / (prompt.mean() + output.mean() / 2)
    full = pod_rate(replace(spec, flags=replace(spec.flags, max_seqs=max(2, min(256, int(most))))), stream)
    rate, more = d.strong(0.6, 0.85) * full * spec.pods, d.between(2.5, 4.0)
    d.traffic = [replace(stream, rate=rate / more)]
    d.fault("traffic", rate=more)
    d.hit, d.accepts = d.names(), ("demand-beyond-capacity", "prefill-compute-bound")


def graph_cliff(d: Draw) -> None:
    """Captured graphs end below the batch that a few more clients in a closed loop make."""
    d.pool()
    d.traffic = [d.chat(0.3)]
    captured = int(d.one_of(8, 16, 24))
    flags(d, max_seqs=4 * captured, graphs=captured)
    clients = int(captured * d.between(0.7, 0.85)) * d.pools[0].pods
    d.traffic = [replace(d.traffic[0], rate=0.0, clients=clients)]
    d.router = replace(d.router, policy="least-loaded")
    d.fault("traffic", rate=d.strong(1.5, 2.0))
    d.hit = d.names()


def head_of_line(d: Draw) -> None:
    """Documents come among chats: on prefill pods each takes whole steps for itself, and the chats behind it wait; on
    pods that do both, one is first in the queue until the KV cache has room for it."""
    d.accepts = ("long-prefill-interference", "kv-oversized-request")
    if d.rng.random() < 0.6:
        d.split(2, 2, d.between(3, 6), d.spread(400, 900))
        alone, share, answers = d.pools[0], d.strong(0.2, 0.4), Length(100, 0.3, max=300)
        documents = Stream(Length(d.spread(14000, 22000), 0.1, max=26000), answers, start=d.onset)
        d.traffic.append(replace(documents, rate=share * alone.pods * pod_rate(alone, documents)))
        d.hit = d.names(0)
        return
    d.pool(pods=2, long_prefill=int(d.one_of(128, 256)))
    d.traffic = [d.chat(d.between(0.3, 0.45))]
    spec = d.pools[0]
    longest = d.spread(10000, 18000)
    live = d.streams(d.traffic[0].rate / spec.pods)
    d.pool_blocks(int((live * 2.5 + longest * d.between(1.4, 1.8)) / 16) + 200)
    answers = Length(d.spread(150, 300), 0.3, max=500)
    documents = Stream(Length(longest, 0.1, max=int(longest * 1.25)), answers, start=d.onset)
    seconds = answers.mean() * step_time(spec).step(16, 16 * 800 + longest, 0, 0.0, 16).seconds
    seconds += 1.0 / pod_rate(replace(spec, role="prefill"), documents)
    d.traffic.append(replace(documents, rate=spec.pods * d.strong(0.4, 0.7) / seconds))
    d.hit = d.names()


def prefill_bound(d: Draw) -> None:
    """Long prompts, short answers: more prompt tokens arrive than the GPUs compute."""
    d.pool(pods=2)
    d.traffic = [d.chat(0.3)]
    prompt = Length(d.spread(3000, 7000), 0.3, max=16000)
    output = Length(d.spread(10, 40), 0.3, max=100)
    # No more at once than the KV cache holds with room to spare, which would be another limit.
    flags(d, max_seqs=max(4, min(64, int(0.6 * kv_tokens(d.pools[0]) / (prompt.mean() + output.mean())))))
    stream = replace(d.traffic[0], prompt=prompt, output=output)
    rate = pod_rate(d.pools[0], stream)
    d.traffic = [replace(stream, rate=rate * d.pools[0].pods * d.between(0.3, 0.45))]
    d.fault("traffic", rate=d.strong(1.9, 3.0))
    d.hit, d.accepts = d.names(), ("demand-beyond-capacity",)


def grammar(d: Draw) -> None:
    """Clients begin to send schemas of their own, large ones, with each request."""
    d.pool(grammar_workers=int(d.one_of(1, 2, 4)))
    stream = d.chat(d.between(0.2, 0.4), structured=d.between(0.3, 0.9), schemas=8, schema_seconds=0.2)
    d.traffic = [stream]
    spec = d.pools[0]
    rate = stream.rate / spec.pods * stream.structured
    seconds = spec.flags.grammar_workers * d.strong(0.5, 0.9) / rate
    d.fault("traffic", schemas=0, schema_seconds=min(8.0, max(0.4, seconds)))
    d.hit = d.names()


def tool_parser(d: Draw) -> None:
    """A parser for another model's format: it finds no call in most answers, and agents ask again."""
    d.pool()
    d.traffic = [d.chat(d.between(0.15, 0.3), tools=d.between(0.4, 1.0))]
    d.fault("parser", share=d.strong(0.5, 1.0))
    d.hit = d.names()


def images(d: Draw) -> None:
    """More images in a request, or images that nobody sent before."""
    d.pool()
    stream = d.chat(d.between(0.15, 0.3), image_pool=60)
    rate = stream.rate / d.pools[0].pods
    after = min(5.0, d.strong(0.6, 0.92) / (0.15 * rate))
    more = d.between(1.0, 1.5)
    d.traffic = [replace(stream, images=after / more)]
    d.fault("traffic", images=more, image_pool=0)
    d.hit = d.names()


def front_end(d: Draw) -> None:
    """The API server needs many times as long for every request and every token it sends."""
    d.pool()
    d.traffic = [d.chat(d.between(0.2, 0.4))]
    stream, spec = d.traffic[0], d.pools[0]
    rate = stream.rate / spec.pods
    each = rate * (0.5e-3 + 1.5e-6 * stream.prompt.mean() + 25e-6 * stream.output.mean())
    victims = d.names() if d.rng.random() < 0.5 else (d.victim(),)
    d.fault("front-end", pods=list(victims), factor=d.strong(0.5, 0.85) / each)
    d.hit = victims


def shedding(d: Draw) -> None:
    """A limit on requests in the engine, set as if it counted only those that wait."""
    d.pool()
    d.traffic = [d.chat(0.4)]
    stream, spec = d.traffic[0], d.pools[0]
    d.traffic = [replace(stream, rate=stream.rate * d.between(0.4, 0.6))]
    flags(d, max_queued=max(2, spec.flags.max_seqs // 2), max_seqs=max(8, spec.flags.max_seqs))
    d.router = replace(d.router, policy=d.one_of("round-robin", "least-loaded"))
    d.fault("traffic", rate=d.strong(2.0, 4.0))
    d.hit = d.names()


def memory(d: Draw) -> None:
    """Memory of the GPUs, or of the host, fills up until the process is gone; it fills up again after the start."""
    d.pool(pods=int(d.rng.integers(2, 5)))
    d.traffic = [d.chat(d.between(0.15, 0.35))]
    d.pools[0] = replace(d.pools[0], cold_start=d.between(60, 150))
    victim = d.victim()
    d.kube = True
    host, fills = bool(d.rng.random() < 0.5), d.strong(260, 120)
    d.fault("oom", pods=[victim], at=d.onset - fills, seconds=fills, host=host)
    d.hit, d.accepts = (victim,), ("engine-crash-loop",)


def crash_loop(d: Draw) -> None:
    """Something ends each process of a pod soon after its start."""
    d.pool(pods=int(d.rng.integers(2, 5)))
    d.traffic = [d.chat(d.between(0.15, 0.35))]
    d.pools[0] = replace(d.pools[0], cold_start=d.between(30, 60))
    victim = d.victim()
    d.kube = True
    lives = d.strong(60, 5)
    d.fault("crash", pods=[victim], at=d.onset - lives, seconds=lives)
    d.hit, d.accepts = (victim,), ("engine-down",)


CAUSES: dict[str, Drawing] = {
    "batch-cap-reached": batch_cap,
    "decode-batch-saturation": saturation,
    "decode-cudagraph-cliff": graph_cliff,
    "fcfs-head-of-line": head_of_line,
    "prefill-compute-bound": prefill_bound,
    "grammar-compile-stall": grammar,
    "tool-parse-failure": tool_parser,
    "multimodal-encoder-bound": images,
    "frontend-bottleneck": front_end,
    "admission-shedding": shedding,
    "engine-oom": memory,
    "engine-crash-loop": crash_loop,
}
