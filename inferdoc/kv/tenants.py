"""Whose prefixes are worth keeping, where a label of the engines' series tells tenants."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from inferdoc.errors import InferdocError
from inferdoc.kv.counted import increases_by_label
from inferdoc.kv.live import GENERATED, HITS, LOOKED, CachedPool
from inferdoc.sizing.model import SizedPart
from inferdoc.sizing.number import number
from inferdoc.source.prometheus_errors import shorten

if TYPE_CHECKING:
    from inferdoc.catalogue.load import Catalogue
    from inferdoc.source.identified import Identified

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
        increases_by_label(source, catalogue, pool.stretches, name, where) for name in (LOOKED, HITS, GENERATED)
    )
    tenants = sorted((each for each in looked if looked[each] > 0), key=lambda each: -looked[each])
    if len(tenants) < 2:
        doubts.append(
            f'tenants: label "{label}" tells {len(tenants)} of them on vllm:prefix_cache_queries_total; engines count '
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
