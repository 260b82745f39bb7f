"""Which engine a reading of a signal is of: engines differ in names, and a fleet rarely runs all of them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from msgspec import structs

from inferdoc.catalogue.aliases import HISTOGRAM_PARTS
from inferdoc.catalogue.signal import Exporter, Metric, Reading, Signal

MAIN = "vllm"
"""The engine that signals, advice, rules and boards are written for. What others show is declared in their files."""


def declared_series(exporters: Iterable[Exporter]) -> dict[str, tuple[Exporter, Metric]]:
    """Current name of a series -> who exposes it, and its declaration."""
    return {
        name + part: (exporter, metric)
        for exporter in exporters
        for name, metric in exporter.metrics.items()
        for part in ("", *(HISTOGRAM_PARTS if metric.type in ("histogram", "summary") else ()))
    }


def engines_there(exporters: Iterable[Exporter], names: Collection[str]) -> list[Exporter]:
    """The engines of which a series is there. names: of the series of a source."""
    families = {name.replace(":", "_") for name in names}
    engines = (exporter for exporter in exporters if exporter.page == "engine" and exporter.family)
    return [engine for engine in engines if any(name.startswith(f"{engine.family}_") for name in families)]


def engines_of(reading: Reading, series: Mapping[str, tuple[Exporter, Metric]]) -> set[str]:
    """The ids of the engines whose series a reading needs. series: as `declared_series` has them."""
    owners = (series[name][0] for name in reading.series if name in series)
    return {owner.exporter for owner in owners if owner.page == "engine"}


def of_engines(
    signals: Mapping[str, Signal], exporters: Iterable[Exporter], engines: Collection[str]
) -> dict[str, Signal]:
    """The signals without the readings of other engines than these; one that has no other is left as it is."""
    series = declared_series(exporters)
    found = {}
    for name, signal in signals.items():
        kept = tuple(reading for reading in signal.readings if engines_of(reading, series) <= set(engines))
        found[name] = signal if len(kept) in (0, len(signal.readings)) else structs.replace(signal, readings=kept)
    return found
