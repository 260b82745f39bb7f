"""The metrics that inferdoc exposes itself, as `collectors/inferdoc.yaml` declares them, filled with values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily, Metric
from prometheus_client.registry import Collector

from inferdoc.catalogue.signal import Exporter

Row = tuple[Mapping[str, str], float]
"""Labels and a value."""


class Families:
    """Builds families. exporter: that of inferdoc itself."""

    def __init__(self, exporter: Exporter) -> None:
        self._declared = exporter.metrics

    def family(self, name: str, rows: Iterable[Row]) -> Metric:
        """One family, with the labels, help and type that are declared. Raises KeyError for an undeclared name, and
        for a row that lacks a label."""
        declared = self._declared[name]
        if declared.type == "info":
            info = InfoMetricFamily(name.removesuffix("_info"), declared.meaning)
            for labels, _ in rows:
                info.add_metric([], {label: labels[label] for label in declared.labels})
            return info
        made = (CounterMetricFamily if declared.type == "counter" else GaugeMetricFamily)(
            name, declared.meaning, labels=declared.labels
        )
        for labels, value in rows:
            made.add_metric([labels[label] for label in declared.labels], value)
        return made

    def families(self, filled: Mapping[str, Iterable[Row]]) -> Iterator[Metric]:
        """A family for each name."""
        for name, rows in filled.items():
            yield self.family(name, rows)

    def text(self, filled: Mapping[str, Iterable[Row]]) -> str:
        """The families in the classic text format, as a textfile collector reads them."""
        registry = CollectorRegistry(auto_describe=False)
        registry.register(_Filled(list(self.families(filled))))
        return generate_latest(registry).decode()


class _Filled(Collector):
    def __init__(self, families: list[Metric]) -> None:
        self._families = families

    def collect(self) -> list[Metric]:
        return self._families
