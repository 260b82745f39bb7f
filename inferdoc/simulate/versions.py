"""Older pages: what vLLM 0.11 and 0.15 show of the same engine, from what the catalogue knows of each name."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import lru_cache

from inferdoc.simulate.items import Item

BEFORE_RENAME = {"vllm:inter_token_latency_seconds": "vllm:time_per_output_token_seconds"}
"""Old names that stood beside the new ones up to 0.11 (collectors/vllm.yaml, `formerly`)."""


def _number(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".")[:3])


@lru_cache(maxsize=1)
def _since() -> dict[str, tuple[int, ...]]:
    from inferdoc.catalogue.load import load_catalogue

    metrics = load_catalogue().exporters["vllm"].metrics
    return {name: _number(str(metric.since)) for name, metric in metrics.items() if metric.since}


def at_version(items: Iterable[Item], version: str) -> Iterator[Item]:
    """The page as an older vLLM gives it: families that came later are absent, both names stand where both did."""
    wanted = _number(version)
    if wanted >= (0, 32):
        yield from items
        return
    for item in items:
        if _since().get(item.name, (0,)) > (*wanted, 99):
            continue
        if (
            item.name == "vllm:request_success_total"
            and wanted < (0, 13)
            and dict(item.labels)["finished_reason"]
            in (
                "error",
                "repetition",
            )
        ):
            continue
        yield item
        if wanted <= (0, 11) and item.name in BEFORE_RENAME:
            yield replace(item, name=BEFORE_RENAME[item.name])
