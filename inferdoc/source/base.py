"""The interface behind which the judge cannot distinguish the sources."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np

from inferdoc.source.histograms import QuantileRequest, Quantiles
from inferdoc.source.reads import Grid, Matcher, Read, ReadResult

SourceKind = Literal["store", "prometheus"]


@dataclass
class Scrapes:
    """When one target was scraped: labels of the target, times_ms int64[n], up float64[n] (1 or 0). again: when the
    same process was scraped under other labels of a target, int64[m] of each."""

    labels: dict[str, str]
    times_ms: np.ndarray
    up: np.ndarray
    again: tuple[np.ndarray, ...] = ()


@dataclass
class InfoSeries:
    """One series of an info metric with all its labels, read with `last` on a grid: values float64[grid.count]."""

    labels: dict[str, str]
    values: np.ndarray


@dataclass
class Cost:
    """What reading took so far. split: queries that a server found too large, and that were sent in halves; slowest:
    the query that took longest and its seconds, of a server."""

    queries: int = 0
    samples: int = 0
    seconds: float = 0.0
    split: int = 0
    slowest: tuple[float, str] | None = None


class Incomplete(str):
    """A warning of which the consequence is that part of the data was not read: nothing is healthy by what is left."""

    __slots__ = ()


def incomplete(warnings: Iterable[str]) -> list[str]:
    """What was not read, one line each; empty where everything was."""
    return [str(line) for line in warnings if isinstance(line, Incomplete)]


class Source(Protocol):
    """A place metrics are read from. kind: "store" or "prometheus"; location: a path or URL without secrets;
    warnings: one line each, for the report, `Incomplete` where something was not read; cost: running total."""

    kind: SourceKind
    location: str
    warnings: list[str]
    cost: Cost

    def expect(self, names: Collection[str], since_ms: int | None = None) -> None:
        """Series names that will be requested, and from when on, so that a source that reads whole pages reads each
        page once."""

    def identify(self, start_ms: int, end_ms: int) -> None:
        """Look at the label sets of a time range, to find out which labels show what a series is about. Raises
        SourceError."""

    def label_names(self, start_ms: int, end_ms: int) -> set[str] | None:
        """Names of the labels that series of the time range have, None where the source cannot tell."""

    def latest_ms(self) -> int | None:
        """Time of the newest sample, or None when the source holds none."""

    def scrape_errors(self) -> dict[str, str]:
        """Why the newest scrape of a target failed, by instance, as a server reports it; empty where none does."""

    def names(self, start_ms: int, end_ms: int) -> set[str]:
        """Series names (with `_bucket`, `_total`...) that have a sample in the time range."""

    def scrapes(self, start_ms: int, end_ms: int) -> list[Scrapes]:
        """Every scrape of every target, from `up`, sorted by labels. Of a time range longer than six hours only
        the last hour is reported scrape by scrape (`inferdoc.source.scrape_times` says how the rest is)."""

    def evaluate(self, reads: Sequence[Read], grid: Grid, match: tuple[Matcher, ...] = ()) -> dict[Read, ReadResult]:
        """All reads on the grid; `match` (the user's -l, --model, --namespace) is added to every selector. Every read
        has a result; its rows are sorted by key, and rows without any value are left out."""

    def quantiles(
        self, requested: Sequence[QuantileRequest], grid: Grid, match: tuple[Matcher, ...] = ()
    ) -> dict[QuantileRequest, Quantiles | None]:
        """Quantiles on the grid, None where no histogram is whole."""

    def info(self, name: str, grid: Grid, match: tuple[Matcher, ...] = ()) -> list[InfoSeries]:
        """Every series of an info metric, unaggregated."""
