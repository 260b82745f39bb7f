"""Older pages: what earlier releases of vLLM and of the llm-d router show, from what the catalogue knows of each
name."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import lru_cache
from typing import Literal

from inferdoc.simulate.items import Item

BEFORE_RENAME = {"vllm:inter_token_latency_seconds": "vllm:time_per_output_token_seconds"}
"""Old names that stood beside the new ones up to 0.11 (collectors/vllm.yaml, `formerly`)."""
NEWEST_ROUTER = "0.11"
"""From here on the router has its present names alone."""

Exporter = Literal["vllm", "llm-d-router"]


def _number(version: str) -> tuple[int, ...]:
    """A release as numbers; ">0.10.0" is any that comes after 0.10.0."""
    parts = tuple(int(part) for part in version.lstrip(">").split(".")[:3])
    return (*parts[:-1], parts[-1] + 1) if version.startswith(">") else parts


@lru_cache(maxsize=2)
def _since(exporter: Exporter) -> dict[str, tuple[int, ...]]:
    from inferdoc.catalogue.load import load_catalogue

    metrics = load_catalogue().exporters[exporter].metrics
    return {name: _number(str(metric.since)) for name, metric in metrics.items() if metric.since}


@lru_cache(maxsize=2)
def _former(exporter: Exporter) -> dict[str, list[tuple[tuple[int, ...], str]]]:
    """Current name -> (last release that has it, older name), newest first."""
    from inferdoc.catalogue.load import load_catalogue

    metrics = load_catalogue().exporters[exporter].metrics
    return {
        name: [(_number(str(old.until)), old.name) for old in metric.formerly if old.until]
        for name, metric in metrics.items()
        if metric.formerly
    }


def at_version(items: Iterable[Item], version: str) -> Iterator[Item]:
    """The page as an older vLLM gives it: families that came later are absent or stand under their older name, both
    names stand where both did."""
    is_kept = _number(version)
    if is_kept >= (0, 32):
        yield from items
        return
    for item in items:
        if _since("vllm").get(item.name, (0,)) > (*is_kept, 99):
            yield from _older(item, "vllm", is_kept)
            continue
        if (
            item.name == "vllm:request_success_total"
            and is_kept < (0, 13)
            and dict(item.labels)["finished_reason"]
            in (
                "error",
                "repetition",
            )
        ):
            continue
        yield item
        if is_kept <= (0, 11) and item.name in BEFORE_RENAME:
            yield replace(item, name=BEFORE_RENAME[item.name])


def router_at_version(items: Iterable[Item], version: str) -> Iterator[Item]:
    """The page of an older router: families that came later are absent, and stand under their older name where they
    had one; releases between two renames write both names."""
    is_kept = _number(version)
    for item in items:
        if _since("llm-d-router").get(item.name, (0,)) <= (*is_kept, 99):
            yield item
        if is_kept < _number(NEWEST_ROUTER):
            yield from _older(item, "llm-d-router", is_kept)


def _older(item: Item, exporter: Exporter, is_kept: tuple[int, ...]) -> Iterator[Item]:
    """The item under the name that it had in a release before its present one: the oldest that had not ended."""
    names = [name for until, name in _former(exporter).get(item.name, ()) if until >= is_kept]
    if names:
        yield replace(item, name=names[-1])
