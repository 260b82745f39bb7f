"""Weeks of a fleet with prefill and decode apart, on two tiers, as OpenMetrics, with its truth.

Each replica is a server whose waits are exponential (M/M/1): at a share r of its saturation a first token, or the gap
between two tokens, takes longer than x with the chance exp(-(x - base) (1 - r) / (base r)). What a replica serves at an
objective follows exactly, and with the expected load how many replicas are needed at any moment. Replicas come and go
by yesterday's load at the same time, and each start fails its scrapes until its model is loaded."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

DAY = 86_400
PROMPT, OUTPUT = 1500.0, 200.0
"""Tokens of a request."""
OBJECTIVES = {"prefill": ("ttft", 2.5), "decode": ("itl", 0.1)}
BOUNDS = {"prefill": (0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 10.0), "decode": (0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.25)}
HISTOGRAM = {"prefill": "vllm:time_to_first_token_seconds", "decode": "vllm:inter_token_latency_seconds"}
PARTS = ("_bucket", "_sum", "_count")
"""Of a histogram, each written as a family of its own."""
TAIL = math.log(100.0)
"""A p99 is so many means above the base."""


@dataclass(frozen=True)
class Tiered:
    """One pool. share: of all requests; saturation: tokens/s of one replica; base: seconds at rest of a first token or
    of a gap; cold: seconds from the first scrape to the first page."""

    role: str
    tier: str
    share: float
    saturation: float
    base: float
    cold: int

    @property
    def name(self) -> str:
        return f"{self.role}-{self.tier}"

    @property
    def tokens(self) -> float:
        """Tokens of one request that this side works on."""
        return PROMPT if self.role == "prefill" else OUTPUT

    @property
    def usable(self) -> float:
        """Tokens/s of one replica at which the p99 meets its objective exactly."""
        ratio = (OBJECTIVES[self.role][1] / self.base - 1.0) / TAIL
        return self.saturation * ratio / (1.0 + ratio)


FLEET = (
    Tiered("prefill", "h100-80", 0.65, 8000.0, 0.3, 150),
    Tiered("prefill", "a100-80", 0.35, 6000.0, 0.5, 450),
    Tiered("decode", "h100-80", 0.65, 1200.0, 0.010, 150),
    Tiered("decode", "a100-80", 0.35, 700.0, 0.012, 450),
)


@dataclass
class Weeks:
    """start: Unix seconds, a midnight; scrape: seconds between two; peak: requests/s at noon of a working day."""

    start: int
    days: int = 21
    scrape: int = 150
    peak: float = 24.0
    pools: Sequence[Tiered] = FLEET
    namespace: str = "prod"
    seed: int = 1
    times: np.ndarray = field(init=False)

    def __post_init__(self) -> None:
        self.times = self.start + np.arange(0, self.days * DAY + 1, self.scrape)
        self._rng = np.random.default_rng(self.seed)
        slow = np.cumsum(self._rng.normal(0, 0.012, len(self.times)))
        fade = np.exp(-np.arange(600) * self.scrape / (4 * 3600))
        self.noise = np.exp(0.25 * np.tanh(np.convolve(np.diff(slow, prepend=0.0), fade)[: len(self.times)]))

    @property
    def end(self) -> int:
        return self.start + self.days * DAY

    def expected(self, times: np.ndarray) -> np.ndarray:
        """Requests/s of the whole fleet: a working day around noon, half of it at weekends (UTC)."""
        hour = times % DAY / 3600
        weekend = (times // DAY + 3) % 7 >= 5
        return self.peak * (0.12 + 0.88 * np.exp(-(((hour - 12) / 3.5) ** 2)) * np.where(weekend, 0.5, 1.0))

    def needed(self, pool: Tiered, times: np.ndarray, utilisation: float) -> np.ndarray:
        """Replicas that carry the expected load at a share of what each serves."""
        return np.ceil(self.expected(times) * pool.share * pool.tokens / (utilisation * pool.usable)).astype(np.int64)

    def lines(self) -> Iterator[str]:
        """OpenMetrics text with timestamps, family by family."""
        families: dict[str, tuple[str, list[str]]] = {}
        for pool in self.pools:
            for labels, name, kind, values in self._series(pool):
                told = families.setdefault(name, (kind, []))[1]
                sample = (
                    f"{name}_total" if kind == "counter" and not name.endswith(("_bucket", "_sum", "_count")) else name
                )
                shown = np.flatnonzero(np.isfinite(values)).tolist()
                told += [f"{sample}{{{labels}}} {values[i]:.9g} {self.times[i]}" for i in shown]
        for name, (kind, told) in families.items():
            yield f"# TYPE {name} {'unknown' if name.endswith(PARTS) else kind}"
            yield from told
        yield "# EOF"

    def write(self, path: Path) -> Path:
        with path.open("w", encoding="utf-8") as stream:
            stream.writelines(f"{line}\n" for line in self.lines())
        return path

    def _series(self, pool: Tiered) -> Iterator[tuple[str, str, str, np.ndarray]]:
        arriving = self.expected(self.times) * self.noise * pool.share
        before = np.concatenate([arriving[: DAY // self.scrape], arriving[: -(DAY // self.scrape)]])
        count = np.ceil(before * pool.tokens / (0.95 * pool.usable)).astype(np.int64)
        count = _held(count, 3600 // self.scrape)
        each = arriving / count * self.scrape
        for number in range(int(count.max())):
            yield from self._pod(pool, number, count > number, each)

    def _pod(
        self, pool: Tiered, number: int, alive: np.ndarray, each: np.ndarray
    ) -> Iterator[tuple[str, str, str, np.ndarray]]:
        """A pod of a slot: alive while the slot is wanted, a new process each time. each: requests per scrape."""
        born = np.maximum.accumulate(np.where(alive & ~np.roll(alive, 1), np.arange(len(alive)), 0))
        age = (np.arange(len(alive)) - born) * self.scrape
        page = alive & (age >= np.where(born == 0, 0, pool.cold))
        target = (
            f'job="vllm",instance="{pool.name}-{number}:8000",pod="{pool.name}-{number}",namespace="{self.namespace}"'
        )
        target += f',role="{pool.role}",tier="{pool.tier}"'
        engine = f'{target},model_name="m",engine="0"'

        def shown(values: np.ndarray) -> np.ndarray:
            return np.where(page, values, np.nan)

        def counted(values: np.ndarray) -> np.ndarray:
            total = np.cumsum(np.where(page, values, 0.0))
            return shown(total - total[born])

        requests = self._rng.poisson(each).astype(np.float64)
        share = np.clip(requests * pool.tokens / self.scrape / pool.saturation, 0.001, 0.995)
        mean = pool.base * share / (1 - share)
        events = requests if pool.role == "prefill" else requests * OUTPUT
        yield target, "up", "gauge", np.where(alive, page.astype(float), np.nan)
        yield target, "process_start_time_seconds", "gauge", shown(self.times[born].astype(float))
        yield engine, "vllm:num_requests_running", "gauge", shown(np.round(requests / self.scrape * 4.0))
        yield engine, "vllm:num_requests_waiting", "gauge", shown(np.zeros(len(alive)))
        yield f'{engine},finished_reason="stop"', "vllm:request_success", "counter", counted(requests)
        computed = requests * (PROMPT if pool.role == "prefill" else 0.0)
        yield engine, "vllm:prompt_tokens", "counter", counted(requests * PROMPT)
        yield f'{engine},source="local_compute"', "vllm:prompt_tokens_by_source", "counter", counted(computed)
        written = requests * (1.0 if pool.role == "prefill" else OUTPUT)
        yield engine, "vllm:generation_tokens", "counter", counted(written)
        for bound in BOUNDS[pool.role]:
            within = 1.0 - np.exp(-np.maximum(bound - pool.base, 0.0) / mean)
            yield f'{engine},le="{bound}"', f"{HISTOGRAM[pool.role]}_bucket", "counter", counted(events * within)
        yield f'{engine},le="+Inf"', f"{HISTOGRAM[pool.role]}_bucket", "counter", counted(events)
        yield engine, f"{HISTOGRAM[pool.role]}_count", "counter", counted(events)
        yield engine, f"{HISTOGRAM[pool.role]}_sum", "counter", counted(events * (pool.base + mean))


def _held(count: np.ndarray, width: int) -> np.ndarray:
    """The highest of the last `width` values: a scaler that lets go late."""
    padded = np.concatenate([np.full(width - 1, count[0]), count])
    return np.lib.stride_tricks.sliding_window_view(padded, width).max(axis=1)
