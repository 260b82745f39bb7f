"""The document of KV economics: what the prefix cache of a pool saves now, what another size or a tier of memory below
it would, and whose prefixes are worth keeping."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from inferdoc.capacity.service_level import reload_seconds_per_token
from inferdoc.errors import InferdocError
from inferdoc.kv.live import GENERATED, HITS, LOOKED, CachedPool, increases_by_label, pool_for_request
from inferdoc.kv.sizes import (
    GROWN,
    KV_SCHEMA_ID,
    MOST_USED,
    CurvePoint,
    HitsAt,
    KvAnswer,
    LifeHits,
    MeasuredHits,
    by_gaps,
    by_pairs,
    followed,
    life_hits,
    used_share,
)
from inferdoc.kv.sizes_part import TiersBelow, gains_part, memory_of, now_part, sizes_part, tiers_for_request
from inferdoc.sizing.model import Inputs, Predicted, SizedPart, number
from inferdoc.source.prometheus_errors import shorten
from inferdoc.version import __version__
from inferdoc.words import figure, how_many

if TYPE_CHECKING:
    from inferdoc.catalogue.load import Catalogue
    from inferdoc.config import Config
    from inferdoc.source.identified import Identified


SIZES = {"0.5x the cache": 0.5, "2x the cache": 2.0, "10x the cache": 10.0}
DRAWN = (*(float(each) for each in np.geomspace(0.25, 1.0, 13)), *np.geomspace(1.0, 10.0, 21)[1:].tolist())
FEW = 6
"""Pieces of time that are too few to draw from (own choice)."""
ALL = 0.995
"""So many hits are no prediction: some tokens of a prompt are always new."""
FLAG = "start vLLM with --kv-cache-metrics (0.12 or later)"


def kv_for_request(source: Identified, config: Config, catalogue: Catalogue, options: Mapping[str, Any]) -> KvAnswer:
    """The answer that the values of the command's options request. Raises InferdocError."""
    pool = pool_for_request(source, config, catalogue, options)
    below = tiers_for_request(options, pool, catalogue)
    doubts = _doubts(pool)
    pairs = life_hits(pool)
    rows = _other_sizes(pool, below, pairs, doubts)
    parts = [now_part(pool, below)]
    if rows:
        parts += [sizes_part(pool, rows), *gains_part(pool, below, rows)]
    parts += tiers_part(pool, below, doubts)
    if options.get("tenant_label"):
        parts += tenants_part(source, catalogue, pool, options["tenant_label"], doubts)
    used = used_share(pool)
    curve = [
        each
        for each in (by_gaps(pool, DRAWN) if followed(pool) else [])
        if used < MOST_USED * each.memory and (each.memory <= 1.0 or each.hits < ALL)
    ]
    return KvAnswer(
        KV_SCHEMA_ID,
        __version__,
        pool.name,
        pool.pool.model,
        pool.pool.tier,
        pool.pods,
        round(pool.seconds / 3600.0, 2),
        _summary(pool, rows),
        parts,
        [CurvePoint(each.memory, each.hits, each.low, each.high, each.life) for each in curve],
        [MeasuredHits(float(life), float(hits)) for life, hits in zip(pairs.life, pairs.hits, strict=True)],
        doubts,
        _notes(pool, rows, pairs),
    )


def _other_sizes(pool: CachedPool, below: TiersBelow, pairs: LifeHits, doubts: list[str]) -> dict[str, HitsAt]:
    """By what they are called. A size that nothing shows becomes a doubt."""
    sizes = _sizes(pool, below, doubts)
    used, rises = used_share(pool), pairs.rises()
    gaps = followed(pool)
    rows: dict[str, HitsAt] = {}
    for title, memory in sizes.items():
        if used >= MOST_USED * memory:
            doubts.append(f"{title}: running requests alone hold {used:.0%} of the KV cache; it would preempt them")
            continue
        measured = by_pairs(pool, pairs, memory) if rises and (memory > 1.0 or not gaps) else None
        if measured is not None:
            rows[title] = measured
        elif gaps:
            (row,) = by_gaps(pool, [memory])
            if row.hits < ALL:
                rows[title] = row
            else:
                doubts.append(f"{title}: gaps do not end within the life of a block; from {row.low:.0%} on all can hit")
        elif rises:
            doubts.append(f"{title}: beyond the lives that the pods showed; {FLAG}")
    return rows


def _sizes(pool: CachedPool, below: TiersBelow, doubts: list[str]) -> dict[str, float]:
    sizes = dict(SIZES)
    if below.dtype in ("bf16", "fp16"):
        sizes["FP8 KV cache (2x the tokens)"] = 2.0
    for what, gib in (("host memory", below.host_gib), ("NVMe", below.nvme_gib)):
        if gib is None:
            continue
        memory = memory_of(gib, below, pool)
        if memory is None:
            doubts.append(f"{what}: model {pool.pool.model} is not known; give --model with its config.json")
        elif memory <= 1.0:
            doubts.append(f"{what}: {gib:g} GiB hold {memory:.2f} times what the GPUs do: all of it lies there already")
        else:
            sizes[f"{what} of {gib:g} GiB ({memory:.1f}x)"] = memory
    return sizes


def _doubts(pool: CachedPool) -> list[str]:
    if pool.blocks is None:
        return [f"gaps between uses are not counted: {FLAG} to learn what other sizes would hit"]
    if not (pool.blocks.number > 0).any():
        return [
            "no block that was followed was evicted: a larger cache adds nothing, and what a smaller one loses is open"
        ]
    if not followed(pool):
        return ["no evicted block was used twice after it was written: the histogram of gaps is empty; wait for more"]
    return []


def _summary(pool: CachedPool, rows: Mapping[str, HitsAt]) -> str:
    share = pool.total(pool.hits) / pool.total(pool.looked)
    words = f"{figure(share, 'ratio')} of the prompt tokens hit"
    twice, half = rows.get("2x the cache"), rows.get("0.5x the cache")
    if half is not None:
        words += f"; with half the cache {figure(half.hits, 'ratio')}"
    if twice is not None:
        words += f", with twice {figure(twice.hits, 'ratio')} (at most {figure(twice.high, 'ratio')})"
    return words


def _notes(pool: CachedPool, rows: Mapping[str, HitsAt], pairs: LifeHits) -> list[str]:
    notes = []
    if pool.pool.role == "decode":
        notes.append("its pods decode alone: the KV of prompts comes by transfer; look at the prefill pool as well")
    if rows and len(pool.draws) < FEW:
        notes.append(f"{how_many(len(pool.draws), 'piece')} of time alone: chance is wider than the ranges show")
    if pool.total(pool.below) > 0:
        notes.append("a tier below serves prompts already: other sizes save what goes beyond what both hold")
    if any(row.ground == GROWN for row in rows.values()):
        notes.append("gaps longer than a block lives are never seen: what a larger cache gains is extrapolated")
    if pool.total(pool.hits) > 0 and len(pairs.life) and not pairs.rises():
        notes.append(_no_curve(pairs))
    return notes


def _no_curve(pairs: LifeHits) -> str:
    """Why the measured pairs give no curve."""
    low, high = pairs.span
    lives = f"{figure(low, 's')} to {figure(high, 's')} over hours and pods"
    if not pairs.differ:
        return f"the life of blocks hardly differed ({lives}): nothing of other sizes was measured"
    return (
        f"hits did not rise with the life of blocks ({lives}): where gaps shrink as traffic grows that says nothing of "
        "other sizes"
    )


TIERS = "bring back or compute again"


def tiers_part(pool: CachedPool, below: TiersBelow, doubts: list[str]) -> list[SizedPart]:
    """Seconds a token of both, by tier; a doubt where one side is not known."""
    if pool.prefill is None:
        doubts.append("tiers below: prefill was not timed; see doctor for vllm:request_prefill_time_seconds")
        return []
    if below.kv_bytes is None or below.replica_bytes is None:
        doubts.append(f"tiers below: model {pool.pool.model} is not known; give --model with its config.json")
        return []
    if not below.gpus_known:
        doubts.append(
            "GPUs of a pod are unknown: one for each engine is taken; give --gpus, or [[pods]] of the configuration"
        )
    low, middle, high = pool.prefill
    numbers = [
        number(
            ("compute", "compute a token again", "s/token"),
            {"low": low, "middle": middle, "high": high},
            formula="prefill seconds / computed tokens",
            inputs={},
            source="vllm:request_prefill_time_seconds, in the quietest third of the time",
        )
    ]
    host = f"{below.host / 1e9:g} GB/s for each of its GPUs, as host_gbps of its tier says"
    numbers += _tier(pool, below, "host memory", (below.kv_bytes, below.host), host)
    if pool.reload is not None:
        numbers += _tier(pool, below, "host memory, measured", (below.replica_bytes, 1.0 / pool.reload), "its offload")
    if reload_seconds_per_token(below.replica_bytes, below.nvme) > middle:
        doubts.append("NVMe: slower than computing again, so what it holds saves no time; more drives or FP8 KV do")
    drives = f"drives that read {below.nvme / 1e9:g} GB/s together (--nvme-gbps)"
    numbers += _tier(pool, below, "NVMe", (below.replica_bytes, below.nvme), drives)
    return [SizedPart(TIERS, numbers)]


def _tier(
    pool: CachedPool, below: TiersBelow, title: str, path: tuple[float, float], source: str
) -> Iterator[Predicted]:
    """path: bytes of a token on it, and its bytes/s."""
    assert pool.prefill is not None
    low, middle, high = pool.prefill
    reload = reload_seconds_per_token(*path)
    name = title.replace(", ", "_").replace(" ", "_").lower()
    inputs: Inputs = {"KV of a token": (path[0], "bytes"), "path": (path[1], "bytes/s")}
    yield number(
        (f"reload_{name}", f"from {title}", "s/token"),
        reload,
        formula="KV bytes of a token / bytes per second",
        inputs=inputs,
        source=source,
        assumed=True,
    )
    yield number(
        (f"gain_{name}", "  faster by", "times"),
        {"low": low / reload, "middle": middle / reload, "high": high / reload},
        formula="seconds to compute / seconds to bring back; below 1 it is slower",
        inputs=inputs,
        source=f"{source}; KV in {below.dtype}",
        assumed=True,
    )


MOST = 12
"""Tenants that are listed, those with the most lookups."""
LONGEST = 40
"""Characters of a tenant's name in a title; the name of its number has all."""
LABEL = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")


def tenants_part(
    source: Identified, catalogue: Catalogue, pool: CachedPool, label: str, doubts: list[str]
) -> list[SizedPart]:
    """Prompt tokens that hit for each token that a tenant writes into the cache, best first: what its share of the
    memory brings. Raises InferdocError."""
    if not LABEL.fullmatch(label):
        raise InferdocError(f"--tenant-label {label}: expected the name of a label")
    where = (pool.keys, label)
    looked, hits, generated = (
        increases_by_label(source, catalogue, pool.intervals, name, where) for name in (LOOKED, HITS, GENERATED)
    )
    tenants = sorted((each for each in looked if looked[each] > 0), key=lambda each: -looked[each])
    if len(tenants) < 2:
        doubts.append(
            f'tenants: label "{label}" has {len(tenants)} values on vllm:prefix_cache_queries_total; engines count '
            "tenants together unless each has engines, or a label, of its own"
        )
        return []
    rows = []
    for tenant in tenants[:MOST]:
        written = looked[tenant] - hits.get(tenant, 0.0) + generated.get(tenant, 0.0)
        rows.append((hits.get(tenant, 0.0) / written if written > 0 else 0.0, tenant, written))
    numbers = [
        number(
            (f"tenant_{tenant}", shorten(tenant, LONGEST), "tokens"),
            worth,
            formula="hits / (lookups - hits + generated)",
            inputs={
                "hits": (hits.get(tenant, 0.0), "tokens"),
                "lookups": (looked[tenant], "tokens"),
                "written": (written, "tokens"),
            },
            source=f"vllm:prefix_cache_*_total and vllm:generation_tokens_total by {label}",
        )
        for worth, tenant, written in sorted(rows, reverse=True)
    ]
    if len(tenants) > MOST:
        doubts.append(f"tenants: {len(tenants) - MOST} more with fewer lookups are not listed")
    return [SizedPart(f"hits for each token written, by {label}", numbers)]
