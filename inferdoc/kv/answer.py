"""The document of KV economics: what the prefix cache of a pool gives now, and what another size or tier would."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from inferdoc.kv.live import CachedPool, pool_as_asked
from inferdoc.kv.model import KV_SCHEMA_ID, CurvePoint, KvAnswer, MeasuredHits
from inferdoc.kv.now_part import now_part
from inferdoc.kv.pairs import LifeHits, life_hits
from inferdoc.kv.sizes import GROWN, MOST_HELD, HitsAt, by_gaps, by_pairs, followed, held
from inferdoc.kv.sizes_part import gains_part, sizes_part
from inferdoc.kv.tenants import tenants_part
from inferdoc.kv.tiers_part import tiers_part
from inferdoc.kv.wanted import TiersBelow, memory_of, tiers_as_asked
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


def kv_as_asked(source: Identified, config: Config, catalogue: Catalogue, asked: Mapping[str, Any]) -> KvAnswer:
    """The answer that the values of the command's options ask for. Raises InferdocError."""
    pool = pool_as_asked(source, config, catalogue, asked)
    below = tiers_as_asked(asked, pool, catalogue)
    doubts = _doubts(pool)
    pairs = life_hits(pool)
    rows = _other_sizes(pool, below, pairs, doubts)
    parts = [now_part(pool, below)]
    if rows:
        parts += [sizes_part(pool, rows), *gains_part(pool, below, rows)]
    parts += tiers_part(pool, below, doubts)
    if asked.get("tenant_label"):
        parts += tenants_part(source, catalogue, pool, asked["tenant_label"], doubts)
    used = held(pool)
    curve = [
        each
        for each in (by_gaps(pool, DRAWN) if followed(pool) else [])
        if used < MOST_HELD * each.memory and (each.memory <= 1.0 or each.hits < ALL)
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
    """By what they are called. A size that nothing tells becomes a doubt."""
    wanted = _sizes(pool, below, doubts)
    used, rises = held(pool), pairs.rises()
    gaps = followed(pool)
    rows: dict[str, HitsAt] = {}
    for title, memory in wanted.items():
        if used >= MOST_HELD * memory:
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
    """Why the measured pairs tell no curve."""
    low, high = pairs.span
    lives = f"{figure(low, 's')} to {figure(high, 's')} over hours and pods"
    if not pairs.told:
        return f"the life of blocks hardly differed ({lives}): nothing of other sizes was measured"
    return (
        f"hits did not rise with the life of blocks ({lives}): where gaps shrink as traffic grows that says nothing of "
        "other sizes"
    )
