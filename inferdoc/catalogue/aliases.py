"""Under which names a metric may be exposed, newest first."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from msgspec import structs

from inferdoc.catalogue.signal import Exporter, Metric, Reading, Signal

HISTOGRAM_PARTS = ("_bucket", "_count", "_sum")


class Aliases:
    """Current name of a series -> every name it may stand under, in the order in which they are tried."""

    def __init__(self, exporters: Iterable[Exporter]) -> None:
        self._names: dict[str, tuple[str, ...]] = {}
        self._former: dict[str, tuple[str, ...]] = {}
        self._called: dict[str, dict[str, str]] = {}
        for exporter in exporters:
            for name, metric in exporter.metrics.items():
                unique = tuple(dict.fromkeys((name, *(former.name for former in metric.formerly))))
                if metric.type in ("histogram", "summary"):
                    for part in HISTOGRAM_PARTS:
                        self._names[name + part] = tuple(n + part for n in unique)
                if metric.type != "histogram":
                    self._names[name] = unique
                if before := tuple(dict.fromkeys(former.name for former in metric.formerly)):
                    of_type = HISTOGRAM_PARTS if metric.type in ("histogram", "summary") else ("",)
                    self._former |= {name + part: tuple(each + part for each in before) for part in of_type}
                if exporter.called:
                    parts = ("", *HISTOGRAM_PARTS)
                    self._called |= {each + part: exporter.called for each in unique for part in parts}

    def of(self, name: str) -> tuple[str, ...]:
        """Every spelling of a series name; a name that no exporter declares stands for itself."""
        return self._names.get(name, (name,))

    @property
    def former(self) -> Mapping[str, tuple[str, ...]]:
        """Former names by series."""
        return self._former

    @property
    def called(self) -> Mapping[str, Mapping[str, str]]:
        """By series name, what its exporter calls labels, by the usual name."""
        return self._called

    def label(self, name: str, usual: str) -> str:
        """What a label is called on series of this name."""
        return self._called.get(name, {}).get(usual, usual)

    def known(self, name: str) -> bool:
        """Whether an exporter declares the name."""
        return name in self._names


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
