"""The same recording under other ways of scraping: an interval that changes, two servers, buckets of another release.

Every function takes the samples of a recording as columns and answers new ones (as benchmarks/perturb.py does). Times
are milliseconds since the epoch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
from numpy.typing import NDArray
from perturb import ENGINES, rolled_out, scrapes_of, those, with_columns

from inferdoc.collect.openmetrics_file import SampleColumns
from inferdoc.collect.samples import Labels, Series
from inferdoc.simulate.scrape import Scraped

REPLICA = "prometheus_replica"
"""The label that the Prometheus operator gives each of a pair."""


def columns_of(targets: Iterable[Scraped]) -> SampleColumns:
    """What was scraped of a simulated fleet."""
    numbers: dict[Series, int] = {}
    types: dict[str, str] = {}
    index, stamps, values = [], [], []
    for target in targets:
        places: dict[bytes, NDArray[np.int32]] = {}
        for stamp, page in target.pages:
            layout = page.layout
            if layout.digest not in places:
                own = [Series(each.name, _stored(target.labels, each.labels)) for each in layout.series]
                places[layout.digest] = np.array([numbers.setdefault(each, len(numbers)) for each in own], np.int32)
                types |= layout.types
            index.append(places[layout.digest])
            stamps.append(np.full(len(page.values), stamp, np.int64))
            values.append(page.values)
    return SampleColumns(list(numbers), np.concatenate(index), np.concatenate(stamps), np.concatenate(values), types)


def _stored(target: dict[str, str], own: Labels) -> Labels:
    """A label that the target has too is stored as `exported_<name>`, as Prometheus does."""
    exported = {f"exported_{name}" if name in target else name: value for name, value in own}
    return tuple(sorted({**target, **exported}.items()))


def interval_changed(samples: SampleColumns, at_ms: float, before: int, after: int) -> SampleColumns:
    """Each so many scrape of every target before that time, and from then on each so many other."""
    scrapes = scrapes_of(samples)
    number = scrapes.number()
    every = np.where(scrapes.times_ms < at_ms, before, after)
    return those(samples, (number % every == 0)[scrapes.of_sample])


def rounds_lost(samples: SampleColumns, share: float, spacing_ms: int, chance: np.random.Generator) -> SampleColumns:
    """Without this share of the rounds: what all targets showed within so many milliseconds was not stored."""
    number = (samples.timestamps_ms - samples.timestamps_ms.min()) // spacing_ms
    return those(samples, (chance.random(int(number.max()) + 1) >= share)[number])


def paired(samples: SampleColumns) -> SampleColumns:
    """As two servers stored it that scrape the same targets, each at its own moments: every other scrape is of the
    second one, and each series is there twice."""
    scrapes = scrapes_of(samples)
    second = (scrapes.number() % 2)[scrapes.of_sample].astype(np.int32)
    series = [Series(each.name, (*each.labels, (REPLICA, server))) for server in "ab" for each in samples.series]
    return with_columns(samples, series=series, series_index=samples.series_index + second * len(samples.series))


Bounds = dict[str, str | None]
"""`le` as it was -> as the next release has it; None: that bucket is gone."""


def respelt(bounds: Iterable[str]) -> Bounds:
    """Bounds as the other client library spells them: 1.0 as 1, 1 as 1.0."""
    return {each: _respelt(each) for each in bounds}


def _respelt(bound: str) -> str:
    if not np.isfinite(float(bound)):
        return bound
    return bound.removesuffix(".0") if bound.endswith(".0") else f"{bound}.0" if bound.isdigit() else bound


def coarser(bounds: Iterable[str]) -> Bounds:
    """Every other bound is gone: what is cumulative needs no more to be right."""
    finite = sorted((each for each in bounds if np.isfinite(float(each))), key=float)
    return dict.fromkeys(finite[1::2])


def rebucketed(
    samples: SampleColumns, at_ms: float, names: dict[str, str], change: Callable[[list[str]], Bounds], new: bool = True
) -> SampleColumns:
    """Every engine replaced at that time by one of the next release, whose histograms have other buckets. names: as
    `perturb.replacements` gives them; new: the change is the next release's, else it is the one before it."""
    replaced = rolled_out(samples, at_ms, names)
    series = replaced.series
    by_family: dict[str, set[str]] = {}
    for each in series:
        if each.name.startswith(ENGINES) and each.name.endswith("_bucket"):
            by_family.setdefault(each.name, set()).add(dict(each.labels).get("le", ""))
    changes = {name: change(sorted(bounds, key=float)) for name, bounds in by_family.items()}
    other = [_rebound(each, changes.get(each.name, {})) for each in series]
    places = {each: number for number, each in enumerate(series)}
    added = [each for each in other if each is not None and each not in places]
    places |= {each: len(series) + number for number, each in enumerate(dict.fromkeys(added))}
    to = np.array([-1 if each is None else places[each] for each in other], np.int32)
    struck = (replaced.timestamps_ms > at_ms) == new
    index = np.where(struck, to[replaced.series_index], replaced.series_index).astype(np.int32)
    return those(with_columns(replaced, series=list(places), series_index=index), index >= 0)


def _rebound(series: Series, change: Bounds) -> Series | None:
    """A bucket under its new bound; None where the bucket is gone."""
    bound = dict(series.labels).get("le", "")
    if bound not in change:
        return series
    to = change[bound]
    return None if to is None else Series(series.name, tuple((n, to if n == "le" else v) for n, v in series.labels))
