"""One diagnosis under way: what was asked, what was read, who is who."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from inferdoc.catalogue.aliases import Aliases
from inferdoc.catalogue.engines import engines_there
from inferdoc.catalogue.load import Catalogue
from inferdoc.catalogue.signal import Exporter
from inferdoc.fleet.lineage import Lineage
from inferdoc.fleet.members import Assignment, Wanted
from inferdoc.judging.context import Context
from inferdoc.judging.findings import Links
from inferdoc.judging.focus import Focus
from inferdoc.judging.lifetime import Lifetime
from inferdoc.judging.scan import Scan
from inferdoc.judging.stored import StoredBaseline
from inferdoc.judging.visibility import Visibility, scraped_once
from inferdoc.source.assemble import read_signals
from inferdoc.source.base import InfoSeries, Scrapes, Source
from inferdoc.source.frame import SignalFrame
from inferdoc.source.reads import Grid, Matcher


@dataclass
class Options:
    """What the user chose. match: label matchers for every selector; wanted: what the report is about; baseline: (from,
    until) in milliseconds, a stored one, or the life of the processes; stored: the folder of the baselines that a
    window without history is held against (None: none is); lenient: a name of `wanted` that is nobody's is passed over
    with a warning; deep: whether all pods are read in full, however many."""

    match: tuple[Matcher, ...] = ()
    wanted: Wanted = field(default_factory=Wanted)
    assignments: Sequence[Assignment] = ()
    baseline: tuple[int, int] | StoredBaseline | Lifetime | None = None
    stored: Path | None = None
    links: Links = field(default_factory=Links)
    catalogue: Catalogue | None = None
    lenient: bool = False
    deep: bool = False


@dataclass
class Session:
    """source, catalogue, options: what was asked; frame: the signals of history and window; scrapes: when targets were
    scraped; infos: the info metrics that tell of changes, by current name; older_than: the vLLM release that the
    engines are older than, where their pages show it; lineage: which pod took over from which; context: where
    conditions are evaluated; focus: the pods that the report is about; names: of the series that the source has;
    scan: of the whole fleet, where a part of it was read."""

    source: Source
    catalogue: Catalogue
    options: Options
    frame: SignalFrame
    scrapes: Sequence[Scrapes]
    infos: dict[str, list[InfoSeries]]
    older_than: str | None
    lineage: Lineage
    context: Context
    focus: Focus = field(default_factory=Focus)
    names: Collection[str] = ()
    scan: Scan | None = None

    @cached_property
    def aliases(self) -> Aliases:
        """Older names of metrics."""
        return self.catalogue.aliases

    @cached_property
    def engines(self) -> list[Exporter]:
        """The engines that are there."""
        return engines_there(self.catalogue.exporters.values(), self.names)

    @property
    def visibility(self) -> Visibility:
        """What can be seen, and why the rest cannot."""
        return Visibility(self.catalogue, self.names, self.frame.signals, scraped_once(self.scrapes))

    def read(self, signals: Sequence[str], grid: Grid) -> SignalFrame:
        """More signals, or other times, of the same part of the fleet."""
        return read_signals(self.source, signals, grid, self.catalogue.signals, self.aliases, self.options.match)
