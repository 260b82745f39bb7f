"""A store with an hour of a fleet: each pod serves requests whose latencies are drawn, and all share busier minutes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from inferdoc.store.importer import import_file
from inferdoc.store.store import Store

BEGIN = 1_790_000_000
SCRAPE = 15
TTFT = (0.05, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 10.0)
GAP = (0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.5)
"""Some of vLLM's buckets."""


@dataclass(frozen=True)
class Pod:
    """rate: requests/s; slower: of all of its latencies; failing: share of its requests; prompt: mean tokens; hits:
    share of them in the prefix cache; began: seconds into the hour at which its process starts; cold: seconds after it
    for which it is four times as slow."""

    name: str
    rate: float = 4.0
    slower: float = 1.0
    failing: float = 0.0
    prompt: float = 1000.0
    began: int = -86_400
    cold: int = 0
    model: str = "llama"
    hits: float = 0.0


def fleet(stable: int = 3, **candidate: float) -> list[Pod]:
    """Stable pods, and one candidate."""
    return [*(Pod(f"llama-stable-{n}") for n in range(stable)), Pod("llama-canary-0", **candidate)]  # type: ignore[arg-type]


def store(path: Path, pods: Sequence[Pod], seconds: int = 3600, seed: int = 0) -> Path:
    """A store of the pods over so many seconds."""
    rng = np.random.default_rng(seed)
    busier = np.exp(rng.normal(0, 0.15, size=seconds // 60 + 1))
    lines = [line for pod in pods for line in _lines(pod, seconds, busier, rng)]
    page = path.with_suffix(".om")
    page.write_text("\n".join([*lines, "# EOF"]) + "\n", "utf-8")
    with Store.open(path, "w") as target:
        import_file(target, page)
    return path


def _lines(pod: Pod, seconds: int, busier: np.ndarray, rng: np.random.Generator) -> list[str]:
    target = f'namespace="llm",pod="{pod.name}",instance="{pod.name}:8000",job="vllm"'
    labels = f'{target},model_name="{pod.model}",engine="0"'
    total: dict[str, float] = {}
    series: dict[str, list[tuple[int, float]]] = {}
    for at in range(max(0, pod.began), seconds + 1, SCRAPE):
        slow = pod.slower * busier[at // 60] * (4.0 if at - pod.began < pod.cold else 1.0)
        for name, value in _events(pod, labels, slow, rng).items():
            total[name] = total.get(name, 0.0) + value
        now = total | {
            f"up{{{target}}}": 1.0,
            f'vllm:cache_config_info{{{labels},block_size="16",cache_dtype="auto"}}': 1.0,
            f"process_start_time_seconds{{{target}}}": float(BEGIN + pod.began),
            f"vllm:num_requests_running{{{labels}}}": 4.0,
        }
        for name, value in now.items():
            series.setdefault(name, []).append((BEGIN + at, value))
    return [f"{name} {value:.12g} {at}" for name, samples in series.items() for at, value in samples]


def _events(pod: Pod, labels: str, slow: float, rng: np.random.Generator) -> dict[str, float]:
    count = int(rng.poisson(pod.rate * SCRAPE))
    failed = int(rng.binomial(count, pod.failing))
    first = slow * rng.gamma(2.0, 0.2, size=count)
    gap = slow * 0.03 * np.exp(rng.normal(0, 0.3, size=count))
    gaps = slow * 0.03 * np.exp(rng.normal(0, 0.6, size=10 * count))
    found = {
        f'vllm:request_success_total{{{labels},finished_reason="stop"}}': float(count - failed),
        f'vllm:request_success_total{{{labels},finished_reason="error"}}': float(failed),
    }
    for name, bounds, values in (
        ("time_to_first_token_seconds", TTFT, first),
        ("request_time_per_output_token_seconds", GAP, gap),
        ("inter_token_latency_seconds", GAP, gaps),
    ):
        for bound in (*bounds, np.inf):
            le = "+Inf" if bound == np.inf else f"{bound}"
            found[f'vllm:{name}_bucket{{{labels},le="{le}"}}'] = float((values <= bound).sum())
        found[f"vllm:{name}_count{{{labels}}}"] = float(len(values))
        found[f"vllm:{name}_sum{{{labels}}}"] = float(values.sum())
    for name, mean in (("request_prompt_tokens", pod.prompt), ("request_generation_tokens", 200.0)):
        found[f"vllm:{name}_sum{{{labels}}}"] = float(rng.gamma(2.0, mean / 2.0, size=count).sum())
        found[f"vllm:{name}_count{{{labels}}}"] = float(count)
    looked = found[f"vllm:request_prompt_tokens_sum{{{labels}}}"]
    for what, share in (("queries", 1.0), ("hits", pod.hits)):
        found[f"vllm:prefix_cache_{what}_total{{{labels}}}"] = share * looked
    return found
