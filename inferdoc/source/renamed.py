"""Series under the names that a source has for them, read as those that exporters declare."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace

import numpy as np

from inferdoc.catalogue.recognise_names import NameMatch, NameReader
from inferdoc.source.histograms import Quantiles
from inferdoc.source.reads import Matcher, Read, ReadResult, literal

BOUND = "le"


class Renamed:
    """The names that a source was seen to have, and the declared series that they stand for."""

    def __init__(self, reader: NameReader) -> None:
        self.reader = reader
        self._seen: set[str] = set()
        self.found: dict[str, NameMatch] = {}
        self._stored: dict[str, list[NameMatch]] = {}

    def __bool__(self) -> bool:
        return bool(self._stored)

    def learn(self, names: Collection[str]) -> set[str]:
        """Look at names, and return the declared series that some of them stand for."""
        if not self._seen.issuperset(names):
            self._seen.update(names)
            self.found = {each.name: each for each in self.reader.read(self._seen)}
            self._stored = {}
            for each in self.found.values():
                self._stored.setdefault(each.series, []).append(each)
        return {self.found[name].series for name in self.found.keys() & names}

    def stored(self, names: Iterable[str]) -> set[str]:
        """Some names, and those under which a source has the same series."""
        requested = set(names)
        return requested.union(each.name for name in requested & self._stored.keys() for each in self._stored[name])

    def reads(self, read: Read) -> dict[Read, float]:
        """What to read for a read, and the factor of its values: the declared name first."""
        others = self._stored.get(read.name, ())
        found = {
            replace(read, name=each.name, match=_bounds_in_unit(read.match, each.factor)): each.factor
            for each in others
        }
        return found if others and read.name not in self._seen else {read: 1.0, **found}


def in_declared_unit(read: Read, result: ReadResult, factor: float) -> ReadResult:
    """The rows in the declared unit: of buckets their bounds change, of counts of observations nothing."""
    if factor == 1.0 or read.name.endswith("_count"):
        return result
    if not read.name.endswith("_bucket"):
        return ReadResult(result.by, result.keys, result.values * factor)
    if BOUND not in result.by:
        return result
    at = result.by.index(BOUND)
    keys = [(*key[:at], _bound(key[at], factor), *key[at + 1 :]) for key in result.keys]
    return ReadResult(result.by, keys, result.values)


def _bounds_in_unit(match: tuple[Matcher, ...], factor: float) -> tuple[Matcher, ...]:
    """The matchers with the bounds of buckets that they name as a page in another unit writes them."""
    if factor == 1.0:
        return match
    return tuple(
        (label, "=~" if op in ("=", "=~") else "!~", _written(value, factor)) if label == BOUND else (label, op, value)
        for label, op, value in match
    )


def _written(bounds: str, factor: float) -> str:
    """Bounds of a matcher in another unit, as a regular expression for all ways to write them."""
    numbers = [_bound(each, 1 / factor) for each in bounds.replace("[.]", ".").split("|")]
    return "|".join(f"{literal(each)}([.]0)?" for each in dict.fromkeys(numbers))


def _bound(text: str, factor: float) -> str:
    try:
        return f"{float(text) * factor:.12g}" if np.isfinite(float(text)) else text
    except ValueError:
        return text


def scaled(outcome: Quantiles | None, factor: float) -> Quantiles | None:
    """Quantiles in another unit."""
    if outcome is None or factor == 1.0:
        return outcome
    return Quantiles(outcome.keys, outcome.values * factor, outcome.bounds * factor)
