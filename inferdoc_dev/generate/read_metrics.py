"""Which of the declared metrics anything reads: what nothing reads is kept up for nobody."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from inferdoc.catalogue.aliases import HISTOGRAM_PARTS
from inferdoc.catalogue.load import Catalogue
from inferdoc.catalogue.names import load_identity
from inferdoc.catalogue.signal import Exporter

NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")


def read_names(catalogue: Catalogue, texts: Iterable[str] = ()) -> set[str]:
    """The series that signals, changes, identity and the table of flags read, and every name in some texts (PromQL)."""
    ways = [way for signal in catalogue.signals.values() for way in signal.readings]
    read = {name for way in ways for name in (*way.series, *filter(None, (way.quantile, way.mean)))}
    read |= {marker.info for marker in catalogue.markers if marker.info}
    identity = load_identity(catalogue.overlays)
    read |= {*identity.series, identity.containers, *catalogue.flags.landmarks}
    return read.union(*(NAME.findall(text) for text in texts))


def unread(exporter: Exporter, read: set[str]) -> Iterator[str]:
    """The metrics of an exporter that are not among the names read, under none of their spellings and parts."""
    for name, metric in exporter.metrics.items():
        spelled = {name, *(former.name for former in metric.formerly)}
        parts = {each + part for each in spelled for part in HISTOGRAM_PARTS}
        if not read & {*spelled, *parts, name.removesuffix("_total")}:
            yield name
