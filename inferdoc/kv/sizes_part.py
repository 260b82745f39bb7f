"""Numbers of a prefix cache: hits and savings now, at other sizes, and memory of the tiers below."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from inferdoc.capacity.memory import KV_DTYPES, SPARSE_LAYER_BYTES, KvLayers, kv_bytes_per_token
from inferdoc.capacity.reuse import PrefixCache
from inferdoc.errors import InferdocError
from inferdoc.kv.live import CachedPool
from inferdoc.kv.sizes import FROM_GAPS, FROM_PAIRS, GROWN, SIZES_TITLE, HitsAt, followed, used_share
from inferdoc.sizing.build import ENDS
from inferdoc.sizing.model import Predicted, SizedPart, number, part
from inferdoc.sizing.request import model_known, shape_named

if TYPE_CHECKING:
    from inferdoc.catalogue.load import Catalogue


NVME = 7.0
"""GB/s that one NVMe drive reads (PCIe Gen4 x4)."""
MOST_GIB, MOST_GBPS = 1e6, 1e5


@dataclass(frozen=True)
class TiersBelow:
    """host_gib, nvme_gib: for the KV of one replica, None where none is given; nvme: bytes/s of its drives; host:
    bytes/s of each GPU to host memory; gpus: of an engine, gpus_known: whether anything shows that; kv_bytes: of a
    token on each GPU, None where the model is not known; dtype: of the KV cache; latent: every GPU holds the same."""

    host_gib: float | None
    nvme_gib: float | None
    nvme: float
    host: float
    gpus: int
    gpus_known: bool
    kv_bytes: float | None
    dtype: str
    latent: bool = False

    @property
    def replica_bytes(self) -> float | None:
        """Bytes of a token in a tier that all GPUs of a replica share."""
        return None if self.kv_bytes is None else self.kv_bytes * (1 if self.latent else self.gpus)


def tiers_for_request(options: Mapping[str, Any], pool: CachedPool, catalogue: Catalogue) -> TiersBelow:
    """Every option checked. Raises InferdocError."""
    gib, gbps = (MOST_GIB, "GiB"), (MOST_GBPS, "GB/s")
    for flag, (most, unit) in (("host-gib", gib), ("nvme-gib", gib), ("nvme-gbps", gbps)):
        given = options.get(flag.replace("-", "_"))
        if given is not None and not 0 < given <= most:
            raise InferdocError(f"--{flag} {given:g}: expected {unit}, above 0 and at most {most:,.0f}")
    of_pod = options.get("gpus") or pool.gpus
    gpus = None if of_pod is None else max(1, of_pod // pool.engines)
    layers = _layers(options, pool, catalogue)
    dtype = _dtype(options.get("kv_dtype") or pool.settings.get("cache_dtype", "auto"))
    return TiersBelow(
        options.get("host_gib"),
        options.get("nvme_gib"),
        (options.get("nvme_gbps") or NVME) * 1e9,
        catalogue.tiers.host_rate(pool.pool.tier),
        gpus or 1,
        gpus is not None,
        None if layers is None else _bytes(layers, dtype, gpus or 1),
        dtype,
        layers is not None and bool(layers.latent),
    )


def _layers(options: Mapping[str, Any], pool: CachedPool, catalogue: Catalogue) -> KvLayers | None:
    given = options.get("model")
    if given is None and model_known(pool.pool.model, catalogue) is None:
        return None
    return shape_named(given or pool.pool.model, catalogue).kv


def _bytes(layers: KvLayers, dtype: str, gpus: int) -> float:
    if dtype not in (SPARSE_LAYER_BYTES if layers.sparse else KV_DTYPES):
        raise InferdocError(f"--kv-dtype {dtype}: this model's KV cache has one of {', '.join(SPARSE_LAYER_BYTES)}")
    return kv_bytes_per_token(layers, dtype, gpus)


def _dtype(label: str) -> str:
    """From the cache_dtype label of vLLM: fp8_e4m3 -> fp8; auto is that of the weights, 16 bits."""
    return next((name for name in KV_DTYPES if label.startswith(name)), "bf16")


def memory_of(gib: float, below: TiersBelow, pool: CachedPool) -> float | None:
    """So many GiB as times the KV cache of a replica; None where the bytes of a token are not known."""
    return None if below.replica_bytes is None else math.floor(gib * 2**30 / below.replica_bytes) / pool.capacity


NOW = "prefix cache now"


def saved(pool: CachedPool, below: TiersBelow, share: float, end: int) -> float:
    """GPUs (replicas where their GPUs are unknown) that would compute such a share of the prompt tokens: tokens/s x
    seconds a token x GPUs. end: 0, 1 or 2 for the low, middle and high of the seconds."""
    assert pool.prefill is not None
    return share * pool.total(pool.looked) / pool.seconds * pool.prefill[end] * below.gpus


def unit_of(below: TiersBelow) -> str:
    """What is saved is counted in."""
    return "GPUs" if below.gpus_known else "replicas"


@part(NOW)
def now_part(pool: CachedPool, below: TiersBelow) -> Iterator[Predicted]:
    """Hits, what is written, how long a block lives, and what the hits save."""
    looked, hits = pool.total(pool.looked), pool.total(pool.hits)
    generated, seconds = pool.total(pool.generated), pool.seconds
    of_pod = seconds * pool.pods
    used = used_share(pool)
    cache = PrefixCache(pool.capacity, used, (looked - hits) / of_pod, generated / of_pod)
    counters = "vllm:prefix_cache_queries_total, vllm:prefix_cache_hits_total"
    yield number(
        ("hits", "prompt tokens that hit", "ratio"),
        hits / looked,
        formula="hits / lookups",
        inputs={"hits": (hits, "tokens"), "lookups": (looked, "tokens")},
        source=counters,
    )
    yield number(
        ("looked_rate", "prompt tokens looked up", "tokens/s"),
        looked / seconds,
        formula="lookups / seconds with traffic, all pods",
        inputs={"lookups": (looked, "tokens"), "time": (seconds, "s")},
        source=counters,
    )
    yield number(
        ("block_life", "an unused block lives", "s"),
        cache.life,
        formula="KV tokens x (1 - use) / tokens written per second",
        inputs={
            "KV tokens of a pod": (pool.capacity, "tokens"),
            "use": (used, "ratio"),
            "computed": (cache.computed, "tokens/s"),
            "generated": (cache.generated, "tokens/s"),
        },
        source="vllm:cache_config_info, vllm:kv_cache_usage_perc, token counters; no block of it hits",
    )
    if followed(pool):
        yield from _followed(pool)
    from_below = pool.total(pool.below)
    if from_below > 0:
        yield number(
            ("below", "tier below serves", "ratio"),
            from_below / looked,
            formula="external hits / lookups",
            inputs={"external hits": (from_below, "tokens"), "lookups": (looked, "tokens")},
            source="vllm:external_prefix_cache_hits_total: what its memory hits, measured",
        )
    if pool.prefill is not None:
        yield number(
            ("saved", "hits save, mean of the time", unit_of(below)),
            {end: saved(pool, below, pool.served, at) for at, end in enumerate(ENDS)},
            formula="hits, also of a tier below, x lookups per second x prefill seconds a token x GPUs an engine",
            inputs={"prefill": (pool.prefill[1], "s/token"), "GPUs of an engine": (below.gpus, "")},
            source="vllm:request_prefill_time_seconds over computed tokens, in the quietest third",
            assumed=not below.gpus_known,
        )


def _followed(pool: CachedPool) -> Iterator[Predicted]:
    counts = pool.counts(pool.busy)
    yield number(
        ("last_use", "last use to eviction, measured", "s"),
        counts.life,
        formula="sum / count",
        inputs={"blocks followed": (counts.lives, "")},
        source="vllm:kv_block_idle_before_evict_seconds",
    )
    yield number(
        ("gaps_told", "hits with a reported gap", "ratio"),
        counts.reported,
        formula="4/3 x gaps / (blocks followed x hits / tokens written)",
        inputs={"gaps": (float(counts.gaps.sum()), ""), "other hits, mean gap": (counts.unreported_gap, "s")},
        source="vllm:kv_block_reuse_gap_seconds: the last three gaps of a block",
    )


SAVED = "saved against now, GPUs busy with prefill"
FORMULAS = {
    FROM_GAPS: "hits x share of gaps up to the life of a block; size = what is written in a life, summed over lives",
    GROWN: (
        "hits + gaps beyond the life of now, as exponentials that end as they begin to; up to hits + 2 s x "
        "log2(life / life of now), s = hits whose gap is beyond half of it"
    ),
    FROM_PAIRS: "isotonic fit of hits on the life of a block, at each life x (m - use) / (1 - use) x written / then",
}
SOURCES = {
    FROM_GAPS: "vllm:kv_block_reuse_gap_seconds, _lifetime_, _idle_before_evict_; law of working sets (Denning)",
    GROWN: "the same; how gaps go on beyond the life of a block is assumed",
    FROM_PAIRS: "vllm:prefix_cache_hits_total and the life of a block, by pod and hour",
}


@part(SIZES_TITLE)
def sizes_part(pool: CachedPool, rows: Mapping[str, HitsAt]) -> Iterator[Predicted]:
    """Hits by size."""
    for number_of, (title, row) in enumerate(rows.items()):
        yield number(
            (f"hits_{number_of}", title, "ratio"),
            {"low": row.low, "middle": row.hits, "high": row.high},
            formula=FORMULAS[row.ground],
            inputs={"memory": (row.memory, "times"), "a block lives": (row.life, "s")},
            source=SOURCES[row.ground],
            assumed=row.ground == GROWN,
        )


def gains_part(pool: CachedPool, below: TiersBelow, rows: Mapping[str, HitsAt]) -> list[SizedPart]:
    """GPUs that other sizes save (below zero: that they cost more); nothing where prefill was not timed."""
    if pool.prefill is None:
        return []
    now = pool.served
    middle = pool.prefill[1]
    numbers = []
    for number_of, (title, row) in enumerate(rows.items()):
        low, hits, high = (_served(pool, share) for share in (row.low, row.hits, row.high))
        ends = [saved(pool, below, share - now, at) for share in (low, high) for at in (0, 2)]
        numbers.append(
            number(
                (f"saved_{number_of}", title, unit_of(below)),
                {"low": min(ends), "middle": saved(pool, below, hits - now, 1), "high": max(ends)},
                formula="(hits then - hits now) x lookups per second x prefill seconds per token x GPUs of an engine",
                inputs={
                    "hits then": (hits, "ratio"),
                    "hits now": (now, "ratio"),
                    "prefill": (middle, "s/token"),
                    "GPUs of an engine": (below.gpus, ""),
                },
                source=f"hits: {row.ground}; prefill: {pool.name} in its quietest third",
                assumed=row.ground == GROWN or not below.gpus_known,
            )
        )
    return [SizedPart(SAVED if below.gpus_known else SAVED.replace("GPUs", "replicas"), numbers)]


def _served(pool: CachedPool, hits: float) -> float:
    """Share of the prompt tokens that is not computed where so many hit: a tier below still serves what it does now."""
    return max(hits, pool.served) if pool.total(pool.below) > 0 else hits
