"""Under which names a metric may be exposed, newest first."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from inferdoc.catalogue.signal import Exporter

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
