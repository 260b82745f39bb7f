"""What the prefix cache gives now."""

from __future__ import annotations

from inferdoc.capacity.retention import PrefixCache
from inferdoc.kv.inputs import TiersBelow
from inferdoc.kv.live import CachedPool
from inferdoc.kv.sizes import followed, used_share
from inferdoc.sizing.build import ENDS
from inferdoc.sizing.model import Predicted, SizedPart
from inferdoc.sizing.number import number

NOW = "prefix cache now"


def saved(pool: CachedPool, below: TiersBelow, share: float, end: int) -> float:
    """GPUs (replicas where their GPUs are unknown) that would compute such a share of the prompt tokens: tokens/s x
    seconds a token x GPUs. end: 0, 1 or 2 for the low, middle and high of the seconds."""
    assert pool.prefill is not None
    return share * pool.total(pool.looked) / pool.seconds * pool.prefill[end] * below.gpus


def unit_of(below: TiersBelow) -> str:
    """What is saved is counted in."""
    return "GPUs" if below.gpus_known else "replicas"


def now_part(pool: CachedPool, below: TiersBelow) -> SizedPart:
    """Hits, what is written, how long a block lives, and what the hits save."""
    looked, hits = pool.total(pool.looked), pool.total(pool.hits)
    generated, seconds = pool.total(pool.generated), pool.seconds
    of_pod = seconds * pool.pods
    used = used_share(pool)
    cache = PrefixCache(pool.capacity, used, (looked - hits) / of_pod, generated / of_pod, hits / looked)
    counters = "vllm:prefix_cache_queries_total, vllm:prefix_cache_hits_total"
    numbers = [
        number(
            ("hits", "prompt tokens that hit", "ratio"),
            hits / looked,
            formula="hits / lookups",
            inputs={"hits": (hits, "tokens"), "lookups": (looked, "tokens")},
            source=counters,
        ),
        number(
            ("looked_rate", "prompt tokens looked up", "tokens/s"),
            looked / seconds,
            formula="lookups / seconds with traffic, all pods",
            inputs={"lookups": (looked, "tokens"), "time": (seconds, "s")},
            source=counters,
        ),
        number(
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
        ),
    ]
    numbers += _followed(pool) if followed(pool) else []
    from_below = pool.total(pool.below)
    if from_below > 0:
        numbers.append(
            number(
                ("below", "tier below serves", "ratio"),
                from_below / looked,
                formula="external hits / lookups",
                inputs={"external hits": (from_below, "tokens"), "lookups": (looked, "tokens")},
                source="vllm:external_prefix_cache_hits_total: what its memory hits, measured",
            )
        )
    if pool.prefill is not None:
        numbers.append(
            number(
                ("saved", "hits save, mean of the time", unit_of(below)),
                {end: saved(pool, below, pool.served, at) for at, end in enumerate(ENDS)},
                formula="hits, also of a tier below, x lookups per second x prefill seconds a token x GPUs an engine",
                inputs={"prefill": (pool.prefill[1], "s/token"), "GPUs of an engine": (below.gpus, "")},
                source="vllm:request_prefill_time_seconds over computed tokens, in the quietest third",
                assumed=not below.gpus_known,
            )
        )
    return SizedPart(NOW, numbers)


def _followed(pool: CachedPool) -> list[Predicted]:
    counts = pool.counts(pool.busy)
    return [
        number(
            ("last_use", "last use to eviction, measured", "s"),
            counts.life,
            formula="sum / count",
            inputs={"blocks followed": (counts.lives, "")},
            source="vllm:kv_block_idle_before_evict_seconds",
        ),
        number(
            ("gaps_told", "hits with a reported gap", "ratio"),
            counts.reported,
            formula="4/3 x gaps / (blocks followed x hits / tokens written)",
            inputs={"gaps": (float(counts.gaps.sum()), ""), "other hits, mean gap": (counts.unreported_gap, "s")},
            source="vllm:kv_block_reuse_gap_seconds: the last three gaps of a block",
        ),
    ]
