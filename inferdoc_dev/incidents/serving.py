"""How causes are drawn: an engine's scheduling, host and process."""

from __future__ import annotations

import msgspec

from inferdoc.simulate.autoscaler import pod_rate
from inferdoc.simulate.pod import step_time
from inferdoc.simulate.scenario import Length, Stream
from inferdoc_dev.incidents.generator import Draw, Drawing

replace = msgspec.structs.replace


def cpu(d: Draw) -> None:
    """The host needs 1.2 ms a step and more with the batch; short enough of cores it outlasts the GPU's part."""
    d.pool(pods=int(d.rng.integers(2, 5)))
    d.traffic = [d.chat(d.between(0.25, 0.45))]
    step = step_time(d.pools[0]).step(8, 8 * 800, 0, 0.0, 8).seconds
    victim = d.victim()
    d.fault("cpu", pods=[victim], cpu=max(0.01, 1.3e-3 / (step * d.strong(1.1, 3.0))))
    d.hit = (victim,)


def down(d: Draw) -> None:
    d.pool(pods=int(d.rng.integers(2, 6)))
    d.traffic = [d.chat(d.between(0.15, 0.4))]
    victim = d.victim()
    d.fault("kill", pods=[victim])
    d.hit = (victim,)


def hung(d: Draw) -> None:
    """With little traffic it hangs while it holds nothing: its page goes on to say that it is idle."""
    d.pool(pods=int(d.rng.integers(2, 6)))
    d.traffic = [d.chat(d.between(0.2, 0.4) if d.rng.random() < 0.7 else d.between(0.01, 0.04))]
    d.router = replace(d.router, policy="round-robin")
    victim = d.victim()
    d.fault("hang", pods=[victim])
    d.hit = (victim,)


def long_prefill(d: Draw) -> None:
    d.pool(pods=2, budget=d.one_of(4096, 8192, 16384))
    d.traffic = [d.chat(d.between(0.2, 0.4))]
    spec = d.pools[0]
    documents = Stream(Length(d.spread(8000, 20000), 0.2, max=28000), Length(80, 0.3, max=300), start=d.onset)
    alone = replace(spec, role="prefill")
    rate = pod_rate(alone, documents) * spec.pods * d.strong(0.1, 0.6)
    d.traffic.append(replace(documents, rate=rate))
    d.hit = d.names()


def lora(d: Draw) -> None:
    slots = int(d.rng.integers(1, 5))
    d.pool(loras=slots, lora_load=d.between(0.02, 0.15))
    d.traffic = [d.chat(d.between(0.3, 0.5), adapters=slots)]
    d.fault("traffic", adapters=int(slots * d.strong(1.3, 8)) + 1)
    d.hit = d.names()


def speculation(d: Draw) -> None:
    draft = int(d.rng.integers(2, 6))
    good = tuple(round(d.between(0.75, 0.9), 3) for _ in range(draft))
    d.pool(draft=draft, accept=good)
    d.traffic = [d.chat(d.between(0.2, 0.4))]
    d.fault("acceptance", accept=[round(p * d.strong(0.85, 0.15), 3) for p in good])
    d.hit = d.names()


CAUSES: dict[str, Drawing] = {
    "cpu-starvation": cpu,
    "engine-down": down,
    "engine-hung": hung,
    "long-prefill-interference": long_prefill,
    "lora-thrash": lora,
    "spec-acceptance-decay": speculation,
}
