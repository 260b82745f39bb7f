"""Pages of another engine: what the simulator's vLLM counts, under that engine's names, labels and bucket bounds.

`pages/<engine>.yaml` says which series stands for which. A series that is not named there is not on the page: what the
other engine does not show is not shown.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path

import msgspec
import numpy as np
import yaml

from inferdoc.catalogue.load import load_catalogue
from inferdoc.simulate.stats import Item

FOLDER = Path(__file__).parent / "pages"


class Renamed(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """of: a series of vLLM's, those of its series that match; to: the other engine's; labels: that this series has
    beside those of every series; times: what it is multiplied by; value: the label that holds its value. Several
    that come to one series add up."""

    of: str
    to: str
    match: dict[str, str] = {}
    labels: dict[str, str] = {}
    times: float = 1.0
    value: str | None = None


class EnginePage(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """exporter: of the other engine; keeps: its name of a label by that of the simulator; labels: that every
    series has; process: whether the page tells when its process began."""

    exporter: str
    series: tuple[Renamed, ...]
    keeps: dict[str, str] = {}
    labels: dict[str, str] = {}
    process: bool = False


@lru_cache
def engine_page(name: str) -> EnginePage:
    """How an engine writes its page, checked against what is declared of it."""
    page = msgspec.convert(yaml.safe_load((FOLDER / f"{name}.yaml").read_text("utf-8")), EnginePage)
    declared = load_catalogue().exporters[page.exporter].metrics
    unknown = {one.to for one in page.series} - declared.keys()
    assert not unknown, f"{name}: the catalogue declares no {sorted(unknown)}"
    return page


def translated(items: Iterable[Item], name: str) -> Iterator[Item]:
    """The page of the engine `name`."""
    page = engine_page(name)
    ways: dict[str, list[Renamed]] = {}
    for one in page.series:
        ways.setdefault(one.of, []).append(one)
    added: dict[tuple[object, ...], Item] = {}
    for item in items:
        for way in ways.get(item.name, ()):
            own = dict(item.labels)
            if any(own.get(label) != value for label, value in way.match.items()):
                continue
            told = _item(item, way, page, own)
            key = told.name, told.labels
            before = added.get(key)
            added[key] = told if before is None else _sum(before, told)
    yield from added.values()


def _item(item: Item, way: Renamed, page: EnginePage, own: Mapping[str, str]) -> Item:
    kept = {name: own[told] for name, told in page.keeps.items() if told in own}
    labels = tuple(sorted({**page.labels, **kept, **way.labels}.items()))
    metric = load_catalogue().exporters[page.exporter].metrics[way.to]
    if item.kind == "histogram" and metric.type == "histogram":
        bounds = tuple(metric.bounds) or item.bounds
        values = rebinned(item, [bound / way.times for bound in bounds])
        return Item("histogram", way.to, labels, [*values[:-1], values[-1] * way.times], bounds, item.created)
    kind = "gauge" if metric.type == "info" else metric.type
    value = item.values[-1] if item.kind == "histogram" else item.values[0]
    if way.value is not None:
        value = float(own[way.value])
    return Item(kind, way.to, labels, [value * way.times], created=None if kind == "gauge" else item.created)


def rebinned(item: Item, bounds: Sequence[float]) -> list[float]:
    """The values of a histogram with other bounds: observations lie evenly in their bucket, as everywhere."""
    *cells, count, total = item.values
    below = np.interp(bounds, [0.0, *item.bounds], [0.0, *cells[:-1]])
    return [*np.floor(below).tolist(), count, count, total]


def _sum(one: Item, other: Item) -> Item:
    values = [a + b for a, b in zip(one.values, other.values, strict=True)]
    return Item(one.kind, one.name, one.labels, values, one.bounds, one.created)
