"""What the text format 0.0.4 demands of the lines of a page together.

Source: https://prometheus.io/docs/instrumenting/exposition_formats/ and its parser in Go, prometheus/common expfmt. A
scrape by Prometheus itself asks for none of this, so it is demanded of strict reading only.
"""

from __future__ import annotations

from collections.abc import Sequence

from inferdoc.collect.grammar import LineError, Metadata, read_number
from inferdoc.collect.samples import Series

_BOUNDED = {"histogram": ("le", ("", "_bucket", "_sum", "_count")), "summary": ("quantile", ("", "_sum", "_count"))}


class TextRules:
    """Told every line of metadata in order, and the series above it; raises LineError at what breaks a rule."""

    def __init__(self) -> None:
        self._typed: set[str] = set()
        self._helped: set[str] = set()
        self._sampled: set[str] = set()
        self._looked_at = 0
        self._bounds: dict[str, str] = {}

    def metadata(self, metadata: Metadata, above: Sequence[Series]) -> None:
        """A TYPE or HELP line. above: the series of all lines before it."""
        kind, family, text = metadata
        if kind == "HELP":
            if family in self._helped:
                raise LineError(f"second HELP of {family}: a metric has one")
            if text:
                self._helped.add(family)
        elif kind == "TYPE":
            if family in self._typed:
                raise LineError(f"second TYPE of {family}: a metric has one")
            self._sampled.update(series.name for series in above[self._looked_at :])
            self._looked_at = len(above)
            if family in self._sampled:
                raise LineError(f"TYPE of {family} after its samples: it stands before them")
            self._typed.add(family)
            if text in _BOUNDED:
                label, suffixes = _BOUNDED[text]
                self._bounds.update((family + suffix, label) for suffix in suffixes)

    def sample(self, series: Series) -> None:
        """A sample line: the bound of a bucket and a quantile are numbers."""
        wanted = self._bounds.get(series.name)
        if wanted is None:
            return
        for label, value in series.labels:
            if label == wanted:
                try:
                    read_number(value)
                except LineError:
                    raise LineError(f"label {label} of {series.name} is not a number") from None
