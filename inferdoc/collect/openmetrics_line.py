"""Single lines of OpenMetrics 1.0: to the letter, or as strictly as a scrape of Prometheus reads them.

Stricter than `grammar`: one space between tokens of metadata, no comments, no reserved label names, exemplars checked.
Every refusal is a LineError that says what is wrong.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from decimal import Decimal, InvalidOperation

from inferdoc.collect.grammar import (
    LineError,
    Metadata,
    SampleLine,
    read_labels,
    read_metadata,
    read_number,
    read_sample,
    read_series,
    show,
)
from inferdoc.collect.openmetrics_rules import TYPES, StrictSample
from inferdoc.collect.samples import NO_TIMESTAMP, Series

_BOUNDED = {"histogram": ("le", ("", "_bucket", "_sum", "_count")), "summary": ("quantile", ("", "_sum", "_count"))}


class TextRules:
    """Checks metadata lines in order, with the series above them; raises LineError for a broken rule."""

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
        bound_label = self._bounds.get(series.name)
        if bound_label is None:
            return
        for label, value in series.labels:
            if label == bound_label:
                try:
                    read_number(value)
                except LineError:
                    raise LineError(f"label {label} of {series.name} is not a number") from None


_METADATA = re.compile(r"# (HELP|TYPE|UNIT) ")
_LONGEST_EXEMPLAR = 128
_FAR = 2**63 - 1


def read_strict_metadata(line: str) -> Metadata:
    """A TYPE, HELP or UNIT line; nothing else may begin with `#`, but for the `# EOF` at the end."""
    if not _METADATA.match(line):
        raise LineError(f"{show(line)} is neither HELP, TYPE, UNIT nor # EOF: OpenMetrics has no comments")
    metadata = read_metadata(line, stripped=False)
    if metadata is None:
        raise LineError(f"{show(line)} declares nothing")
    return metadata


def read_scraped_metadata(line: str) -> Metadata:
    """A line of metadata as Prometheus takes it in a scrape (model/textparse/openmetricsparse.go): the type is one of
    the standard's, and a unit ends the name."""
    metadata = read_strict_metadata(line)
    if metadata.kind == "TYPE" and metadata.text not in TYPES:
        raise LineError(f"TYPE of {metadata.family} is {show(metadata.text)}, which is no type of OpenMetrics")
    if metadata.kind == "UNIT" and metadata.text and not metadata.family.endswith(f"_{metadata.text}"):
        raise LineError(f"the name {metadata.family} does not end in its unit {show(metadata.text)}")
    return metadata


def read_scraped_sample(line: str) -> SampleLine:
    """A sample line as Prometheus takes it in a scrape: no comma before the brace, exemplars by the name only."""
    sample = read_sample(line, openmetrics=True, trailing_comma=False)
    if " # " in line and not sample.series.name.endswith(("_total", "_bucket")):
        _, position = read_series(line)
        if " # " in line[position:]:
            raise LineError("exemplar where none may be: only names that end in _total or _bucket have them")
    return sample


def read_strict_sample(line: str) -> tuple[StrictSample, int]:
    """A sample line, and its time in milliseconds or `NO_TIMESTAMP`."""
    series, position = read_series(line, trailing_comma=False)
    if any(name.startswith("__") for name, _ in series.labels):
        raise LineError("a label name begins with __: such names are reserved")
    rest = line[position:]
    if not rest.startswith(" "):
        raise LineError("no space before the value" if rest else "no value")
    text, hash_sign, exemplar = rest[1:].partition(" # ")
    fields = text.split(" ")
    if len(fields) > 2:
        raise LineError(f"unexpected text {show(fields[2])} after value and timestamp")
    moment = _moment(fields[1]) if len(fields) == 2 else None
    if hash_sign:
        _check_exemplar(exemplar)
    return StrictSample(series, read_number(fields[0]), moment, bool(hash_sign)), milliseconds(moment)


def milliseconds(moment: Decimal | None) -> int:
    """Seconds as whole milliseconds, rounded half to even; the furthest there is for times beyond it."""
    if moment is None:
        return NO_TIMESTAMP
    if abs(moment) >= _FAR // 1000:
        return _FAR if moment > 0 else -_FAR
    return round(moment * 1000)


def _moment(text: str) -> Decimal:
    """A time in seconds; nanoseconds count, what is finer does not."""
    try:
        number = read_number(text)
        moment = Decimal(text)
    except (LineError, InvalidOperation):
        number = math.nan
        moment = Decimal(0)
    if not math.isfinite(number):
        raise LineError(f"timestamp {show(text)} is not a number of seconds")
    return moment


def _check_exemplar(text: str) -> None:
    if not text.startswith("{"):
        raise LineError(f"exemplar {show(text)} does not begin with its labels in braces")
    name, labels, position = read_labels(text, 1, "", trailing_comma=False)
    if name:
        raise LineError("an exemplar has labels and no name")
    if any(label.startswith("__") for label in labels):
        raise LineError("a label name begins with __: such names are reserved")
    letters = sum(len(label) + len(value) for label, value in labels.items())
    if letters > _LONGEST_EXEMPLAR:
        raise LineError(f"labels of an exemplar have {letters} letters: at most {_LONGEST_EXEMPLAR}")
    fields = text[position:].split(" ")
    if fields[0] or not 2 <= len(fields) <= 3:
        raise LineError(f"exemplar {show(text)}: one space, a value, and perhaps a timestamp follow its labels")
    read_number(fields[1])
    if len(fields) == 3:
        _moment(fields[2])
