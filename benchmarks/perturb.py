"""The same recording as it might have been: other scrapes, other names, other clocks. One place for all benchmarks.

Every function takes the samples of a recording as columns and answers new ones; nothing is changed in place. Times are
milliseconds since the epoch. Where chance decides, the caller gives the generator.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from inferdoc.catalogue.signal import Exporter
from inferdoc.collect.openmetrics_file import SampleColumns
from inferdoc.collect.samples import Series

ENGINES = ("vllm:", "vllm_", "sglang:", "sglang_")
"""How the series of an engine begin: a rollout replaces the targets of their jobs."""
CUMULATIVE = ("_total", "_sum", "_count", "_bucket")
STARTS = ("process_start_time_seconds", "_created", "kube_pod_start_time")
"""Gauges that hold when something began."""
MOMENTS = (*STARTS, "_start_time_seconds", "_timestamp_seconds")
"""Gauges that hold a time."""
DEVICE = "DCGM_"
"""Counters of a GPU go on when another pod gets it."""
PARTS = ("", "_total", "_sum", "_count", "_bucket")
REPLICA = re.compile(r"(?P<workload>.+?)-(?P<template>[a-z0-9]{8,10})-[a-z0-9]{5}")
ORDINAL = re.compile(r"(?P<workload>.+?)-\d+")
JITTER_SHARE = 0.45
"""Jitter moves a scrape by less than half an interval, so that their order stays."""


@dataclass(frozen=True)
class Scrapes:
    """What one target showed at one time. of_sample: the scrape of each sample, int64[samples]; target, times_ms: of
    each scrape, in order of target and time, int64[scrapes]."""

    of_sample: NDArray[np.int64]
    target: NDArray[np.int64]
    times_ms: NDArray[np.int64]

    def number(self) -> NDArray[np.int64]:
        """The place of each scrape among those of its target, from 0."""
        first = np.flatnonzero(np.append(True, self.target[1:] != self.target[:-1]))
        return np.arange(len(self.target)) - np.repeat(first, np.diff(np.append(first, len(self.target))))


def scrapes_of(samples: SampleColumns) -> Scrapes:
    """The samples regrouped into scrapes; a target is what has one job and instance."""
    places: dict[tuple[str, str], int] = {}
    of_series = np.array([places.setdefault(_target(each), len(places)) for each in samples.series], np.int64)
    times, at = np.unique(samples.timestamps_ms, return_inverse=True)
    keys, of_sample = np.unique(of_series[samples.series_index] * len(times) + at, return_inverse=True)
    return Scrapes(of_sample, keys // len(times), times[keys % len(times)])


def interval_ms(samples: SampleColumns) -> float:
    """The median spacing of the scrapes of a target."""
    scrapes = scrapes_of(samples)
    steps = np.diff(scrapes.times_ms)[scrapes.target[1:] == scrapes.target[:-1]]
    return float(np.median(steps))


def thinned(samples: SampleColumns, every: int) -> SampleColumns:
    """Each so many scrape of every target, as if it were scraped less often."""
    scrapes = scrapes_of(samples)
    return those(samples, (scrapes.number() % every == 0)[scrapes.of_sample])


def spaced(samples: SampleColumns, spacing_ms: int) -> SampleColumns:
    """The first scrape of every target in each so many milliseconds."""
    scrapes = scrapes_of(samples)
    slot = scrapes.times_ms // spacing_ms
    first = np.append(True, (slot[1:] != slot[:-1]) | (scrapes.target[1:] != scrapes.target[:-1]))
    return those(samples, first[scrapes.of_sample])


def lost(samples: SampleColumns, share: float, chance: np.random.Generator) -> SampleColumns:
    """Without this share of the scrapes: nothing of them was stored."""
    scrapes = scrapes_of(samples)
    kept = chance.random(len(scrapes.target)) >= share
    return those(samples, kept[scrapes.of_sample])


def failed(samples: SampleColumns, share: float, chance: np.random.Generator) -> SampleColumns:
    """This share of the scrapes timed out: `up` is 0, and nothing else is there."""
    scrapes = scrapes_of(samples)
    out = (chance.random(len(scrapes.target)) < share)[scrapes.of_sample]
    up = np.array([each.name == "up" for each in samples.series])[samples.series_index]
    values = np.where(up & out, 0.0, samples.values)
    return those(with_columns(samples, values=values), up | ~out)


def gaps(samples: SampleColumns, count: int, intervals: int, chance: np.random.Generator) -> SampleColumns:
    """Nothing of any target in so many segments of so many intervals each: the server that scrapes was away."""
    times = samples.timestamps_ms
    length = interval_ms(samples) * intervals
    begins = chance.uniform(times.min() + length, times.max() - 2 * length, count)
    away = np.zeros(len(times), bool)
    for begin in begins:
        away |= (times >= begin) & (times < begin + length)
    return those(samples, ~away)


def jittered(samples: SampleColumns, most_ms: float, chance: np.random.Generator) -> SampleColumns:
    """Every scrape up to so much earlier or later; the order stays."""
    scrapes = scrapes_of(samples)
    most = min(most_ms, JITTER_SHARE * interval_ms(samples))
    moved = scrapes.times_ms + np.rint(chance.uniform(-most, most, len(scrapes.target))).astype(np.int64)
    return with_columns(samples, timestamps_ms=moved[scrapes.of_sample])


def begun(samples: SampleColumns, begin_ms: float) -> SampleColumns:
    """Only what was scraped from then on: the source has no earlier data."""
    return those(samples, samples.timestamps_ms >= begin_ms)


def stretched(samples: SampleColumns, factor: float) -> SampleColumns:
    """Everything so many times as slow, from the first sample on: rates of counters fall, times that gauges hold move
    along."""
    origin = int(samples.timestamps_ms.min())
    times = origin + np.rint((samples.timestamps_ms - origin) * factor).astype(np.int64)
    held = _ending(samples, MOMENTS)[samples.series_index]
    held &= samples.values > 0  # 0 is never
    values = np.where(held, origin / 1000 + (samples.values - origin / 1000) * factor, samples.values)
    return with_columns(samples, timestamps_ms=times, values=values)


def former_names(exporters: Iterable[Exporter]) -> dict[str, str]:
    """Current name of a family -> the oldest that the exporter had for it."""
    return {
        name: metric.formerly[-1].name
        for exporter in exporters
        for name, metric in exporter.metrics.items()
        if metric.formerly
    }


def older(samples: SampleColumns, former: Mapping[str, str]) -> SampleColumns:
    """With the names that older releases had. former: by current family name (`former_names`)."""
    names = {name + part: old + part for name, old in former.items() for part in PARTS}
    bare = {name.removesuffix("_total"): old.removesuffix("_total") for name, old in names.items()}
    series = [Series(names.get(each.name, each.name), each.labels) for each in samples.series]
    types = {(names | bare).get(name, name): kind for name, kind in samples.types.items()}
    return with_columns(samples, series=series, types=types)


def replacements(samples: SampleColumns) -> dict[str, str]:
    """The pods of all engines and the names that they get in a rollout: the same workload, another replica set. Also
    the addresses of their targets, and the new ones."""
    jobs = _engine_jobs(samples)
    own = [dict(each.labels) for each in samples.series if _target(each)[0] in jobs]
    new = {pod: _new_pod(pod) for pod in sorted({labels["pod"] for labels in own if labels.get("pod")})}
    for address in sorted({labels["instance"] for labels in own if labels.get("instance")}):
        _, colon, port = address.rpartition(":")
        new[address] = _new_host(address) + colon + port * bool(colon)
    return new


def _engine_jobs(samples: SampleColumns) -> set[str]:
    return {_target(each)[0] for each in samples.series if each.name.startswith(ENGINES)}


def renamed(samples: SampleColumns, names: Mapping[str, str]) -> SampleColumns:
    """Other pods and addresses, from the first sample to the last. names: as `replacements` gives them."""
    return with_columns(samples, series=[_under(names, each) for each in samples.series])


def opaque(samples: SampleColumns) -> dict[str, str]:
    """The pods of all engines and names that tell nothing: no workload, no template, no number."""
    return {pod: f"w{_letters(pod, 12)}" for pod in replacements(samples) if ":" not in pod}


def by_address(samples: SampleColumns) -> tuple[SampleColumns, dict[str, str]]:
    """Without the label `pod` on the pages of engines, and the address by which each pod is known then."""
    names, jobs = replacements(samples), _engine_jobs(samples)
    addresses: dict[str, str] = {}
    series = []
    for each in samples.series:
        labels = dict(each.labels)
        if _target(each)[0] in jobs and labels.get("pod") in names and labels.get("instance"):
            addresses.setdefault(labels.pop("pod"), labels["instance"])
        series.append(Series(each.name, tuple(labels.items())))
    return with_columns(samples, series=series), addresses


def rolled_out(samples: SampleColumns, at_ms: float, names: Mapping[str, str]) -> SampleColumns:
    """Every engine replaced at that time by one of a new name, which goes on with the same work.

    What is cumulative begins again at 0, processes and pods begin at that time. Counters of GPUs go on.
    """
    new = [_under(names, each) for each in samples.series]
    replaced = np.array([a != b for a, b in zip(samples.series, new, strict=True)], bool)
    after = replaced[samples.series_index] & (samples.timestamps_ms > at_ms)
    counted = _cumulative(samples)[samples.series_index]
    starts = _ending(samples, STARTS)[samples.series_index]
    values = np.where(after & counted, samples.values - _standing(samples, at_ms), samples.values)
    values = np.where(after & starts & (values > 0), np.maximum(values, at_ms / 1000), values)
    return _becoming(with_columns(samples, values=values), new, at_ms)


def relabelled(samples: SampleColumns, at_ms: float, labels: Mapping[str, str]) -> SampleColumns:
    """These labels on every series from that time on, where it has no such label: the scrape configuration changed."""
    new = [Series(each.name, tuple(sorted({**labels, **dict(each.labels)}.items()))) for each in samples.series]
    return _becoming(samples, new, at_ms)


def _becoming(samples: SampleColumns, new: Sequence[Series], at_ms: float) -> SampleColumns:
    """Every series another one from that time on. new: in the order of the series."""
    places = {each: number for number, each in enumerate(samples.series)}
    series = list(samples.series)
    for each in new:
        if each not in places:
            places[each] = len(series)
            series.append(each)
    then = np.array([places[each] for each in new])[samples.series_index]
    index = np.where(samples.timestamps_ms > at_ms, then, samples.series_index)
    return with_columns(samples, series=series, series_index=index.astype(np.int32))


def _standing(samples: SampleColumns, at_ms: float) -> NDArray[np.float64]:
    """For each sample what its series stood at at that time: 0 for one that was born later, and after a reset."""
    order = np.lexsort((samples.timestamps_ms, samples.series_index))
    series, times, values = samples.series_index[order], samples.timestamps_ms[order], samples.values[order]
    same = np.append(False, series[1:] == series[:-1])
    before = times <= at_ms
    last = before & ~np.append(same[1:] & before[1:], False)
    base = np.zeros(len(samples.series))
    base[series[last]] = values[last]
    fell = same & ~before & (values < np.append(0.0, values[:-1]))
    falls = np.cumsum(fell)
    first = np.zeros(len(samples.series), np.int64)
    first[series[~same]] = (falls - fell)[~same]
    standing = np.empty(len(values))
    standing[order] = np.where(falls > first[series], 0.0, base[series])
    return standing


def _cumulative(samples: SampleColumns) -> NDArray[np.bool_]:
    return np.array(
        [
            each.name.endswith(CUMULATIVE)
            and not each.name.startswith(DEVICE)
            and samples.types.get(each.name) != "gauge"
            for each in samples.series
        ],
        bool,
    )


def _ending(samples: SampleColumns, endings: tuple[str, ...]) -> NDArray[np.bool_]:
    return np.array([each.name.endswith(endings) for each in samples.series], bool)


def _under(names: Mapping[str, str], series: Series) -> Series:
    return Series(series.name, tuple((label, _value(names, value)) for label, value in series.labels))


def _value(names: Mapping[str, str], value: str) -> str:
    pod, rank, number = value.partition("-rank-")
    return names.get(pod, pod) + rank + number


def _new_pod(pod: str) -> str:
    """The name that a Deployment would give: one template hash for all pods of the workload that had one."""
    replica, ordinal = REPLICA.fullmatch(pod), ORDINAL.fullmatch(pod)
    match = replica or ordinal
    workload, template = match["workload"] if match else pod, replica["template"] if replica else ""
    return f"{workload}-{_letters(workload + template, 9)}-{_letters(pod, 5)}"


def _letters(text: str, count: int) -> str:
    """Letters and digits as Kubernetes draws them: no vowels, no 0, 1 and 3."""
    digest = hashlib.sha256(text.encode()).digest()
    return "".join("bcdfghjklmnpqrstvwxz2456789"[byte % 27] for byte in digest[:count])


def _new_host(address: str) -> str:
    digest = hashlib.sha256(address.encode()).digest()
    return f"10.{digest[0]}.{digest[1]}.{1 + digest[2] % 254}"


def _target(series: Series) -> tuple[str, str]:
    labels = dict(series.labels)
    return labels.get("job", ""), labels.get("instance", "")


def those(samples: SampleColumns, kept: NDArray[np.bool_]) -> SampleColumns:
    """Some of the samples. kept: bool[samples]."""
    return SampleColumns(
        samples.series,
        samples.series_index[kept],
        samples.timestamps_ms[kept],
        samples.values[kept],
        samples.types,
        samples.problems,
    )


def with_columns(
    samples: SampleColumns,
    *,
    series: list[Series] | None = None,
    series_index: NDArray[np.int32] | None = None,
    timestamps_ms: NDArray[np.int64] | None = None,
    values: NDArray[np.float64] | None = None,
    types: dict[str, str] | None = None,
) -> SampleColumns:
    """The samples with some of their columns replaced."""
    return SampleColumns(
        samples.series if series is None else series,
        samples.series_index if series_index is None else series_index,
        samples.timestamps_ms if timestamps_ms is None else timestamps_ms,
        samples.values if values is None else values,
        samples.types if types is None else types,
        samples.problems,
    )
