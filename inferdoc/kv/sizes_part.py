"""Hits with other sizes, and what they would save."""

from __future__ import annotations

from collections.abc import Mapping

from inferdoc.kv.inputs import TiersBelow
from inferdoc.kv.live import CachedPool
from inferdoc.kv.model import SIZES_TITLE
from inferdoc.kv.now_part import saved, unit_of
from inferdoc.kv.sizes import FROM_GAPS, FROM_PAIRS, GROWN, HitsAt
from inferdoc.sizing.model import SizedPart
from inferdoc.sizing.number import number

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


def sizes_part(pool: CachedPool, rows: Mapping[str, HitsAt]) -> SizedPart:
    """Hits by size."""
    return SizedPart(
        SIZES_TITLE,
        [
            number(
                (f"hits_{number_of}", title, "ratio"),
                {"low": row.low, "middle": row.hits, "high": row.high},
                formula=FORMULAS[row.ground],
                inputs={"memory": (row.memory, "times"), "a block lives": (row.life, "s")},
                source=SOURCES[row.ground],
                assumed=row.ground == GROWN,
            )
            for number_of, (title, row) in enumerate(rows.items())
        ],
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
