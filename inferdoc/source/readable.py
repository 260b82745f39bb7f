"""`source.read(...)`: signals by name from any source, for notebooks and other tools."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, cast

from inferdoc.errors import InferdocError
from inferdoc.times import Moment, moment_ms

if TYPE_CHECKING:
    from inferdoc.source.base import Source
    from inferdoc.source.frame import SignalFrame
    from inferdoc.source.histograms import QuantileRequest, Quantiles
    from inferdoc.source.page_histograms import Called
    from inferdoc.source.reads import Grid, Matcher, Read
    from inferdoc.source.rule_records import RuleRecords


class Readable:
    """Gives a source its `read`."""

    catalogue: tuple[str, ...] = ()
    """Overlay folders of the catalogue whose signals can be read."""

    def identify(self, start_ms: int, end_ms: int) -> None:
        """Nothing to find out for a source that hands series on as they are stored."""

    def expect(self, names: Collection[str], since_ms: int | None = None) -> None:
        """Series names that will be requested, and from when on; nothing to do for a source that answers by name."""

    def read_along(self, names: Collection[str]) -> None:
        """Series that a later call will ask for as well: a source that reads whole pages reads them with the next ones
        where all fit into memory."""

    def keep(self, names: Collection[str]) -> None:
        """Series that are requested one name at a time (labels, info metrics): a source that cannot keep all samples
        keeps those of these series."""

    def target_count(self) -> int | None:
        """How many targets there are, None where that is not known at once."""
        return None

    def scrape_errors(self) -> dict[str, str]:
        """Why scrapes fail is known to the server that scrapes alone."""
        return {}

    def leave_out(
        self, targets: Sequence[Mapping[str, str]], kept: Sequence[Mapping[str, str]], engines: Collection[str]
    ) -> bool:
        """From now on read nothing of targets with these labels, or of all again; whether the source can. kept: the
        labels of the others; engines: names of metrics of engines, by which others of theirs are known."""
        return False

    def rule_records(self) -> RuleRecords | None:
        """What recording rules left here; None of a source where none do."""
        return None

    def page_quantiles(
        self, requested: Mapping[Read, tuple[Sequence[float], Called]], grid: Grid, match: tuple[Matcher, ...] = ()
    ) -> dict[Read, dict[float, Quantiles | None]]:
        """Some quantiles of the histograms of each read, as far as they are visible page by page: none of a source that
        answers with sums over pages."""
        return {}

    def quantiles(
        self, requested: Sequence[QuantileRequest], grid: Grid, match: tuple[Matcher, ...] = ()
    ) -> dict[QuantileRequest, Quantiles | None]:
        """Quantiles on the grid, from the rates of all buckets. Raises SourceError."""
        from inferdoc.source.histograms import quantiles, settling

        results = cast("Source", self).evaluate(list(dict.fromkeys(each.read for each in requested)), grid, match)
        return {each: quantiles(results[each.read], each.q, settling(grid, each.read.width)) for each in requested}

    def read(
        self,
        signals: Iterable[str],
        start: Moment,
        end: Moment,
        step: float | None = None,
        match: tuple[Matcher, ...] = (),
        window: float | None = None,
    ) -> SignalFrame:
        """Read signals of the catalogue between two moments (RFC 3339, Unix seconds, "now", "latest", a datetime); of a
        declared quantile also others (ttft_p95).

        step: seconds between two values, default the scrape interval (or a thousandth of the time range); match: label
        matchers added to every series; window: seconds that rates, quantiles and gauges look back over (by default some
        scrape intervals); with it and a step the grid is as requested, and nobody needs to know how often scrapes are.
        Returns one float64[entities, times] per signal, in the signal's unit, NaN for gaps; a signal that nothing
        supplies is left out. Raises SourceError where the source cannot be read, InferdocError for an unknown signal or
        an impossible time.
        """
        from inferdoc.catalogue.load import load_catalogue
        from inferdoc.catalogue.quantiles import with_quantiles
        from inferdoc.source.assemble import read_signals
        from inferdoc.source.plan import series_names

        selected = list(signals)
        catalogue = load_catalogue(self.catalogue)
        known = with_quantiles(catalogue.signals, selected)
        for name in selected:
            if name not in known:
                raise InferdocError(f"no signal is called {name!r}: `inferdoc signals --list` names them")
        aliases = catalogue.aliases
        self.expect(series_names(selected, known, aliases))
        if window is not None and step is not None:
            grid = _coarse(moment_ms(start, None, what="start"), moment_ms(end, None, what="end"), step, window)
        else:
            grid = self._grid(start, end, step)
        cast("Source", self).identify(grid.start_ms - grid.rate_ms, grid.end_ms)
        return read_signals(cast("Source", self), selected, grid, known, aliases, match)

    def _grid(self, start: Moment, end: Moment, step: float | None) -> Grid:
        from inferdoc.source.grid import LOOK_MS, make_grid, scrape_interval_ms

        source = cast("Source", self)
        latest_ms = source.latest_ms()
        start_ms, end_ms = moment_ms(start, latest_ms, what="start"), moment_ms(end, latest_ms, what="end")
        if end_ms < start_ms:
            raise InferdocError("the end lies before the start: swap them")
        interval_ms = scrape_interval_ms(source.scrapes(end_ms - LOOK_MS, end_ms))
        grid = make_grid(start_ms, end_ms, interval_ms, latest_ms)
        if step is None:
            return grid
        step_ms = round(step * 1000)
        if step_ms <= 0:
            raise InferdocError(f"step {step} is not a length of time: give seconds above 0")
        count = max(1, (grid.end_ms - start_ms) // step_ms + 1)
        return replace(grid, start_ms=grid.end_ms - (count - 1) * step_ms, step_ms=step_ms, count=count)


def _coarse(start_ms: int, end_ms: int, step: float, window: float) -> Grid:
    """A grid that ends 1 ms after `end`, so that closed and left-open ranges hold the same samples."""
    from inferdoc.source.grid import DEFAULT_INTERVAL_MS
    from inferdoc.source.reads import Grid

    step_ms, window_ms = round(step * 1000), round(window * 1000)
    if step_ms <= 0 or window_ms <= 0 or end_ms < start_ms:
        raise InferdocError(f"step {step}, window {window}: give seconds above 0, and an end after the start")
    count = (end_ms - start_ms) // step_ms + 1
    return Grid(end_ms + 1 - (count - 1) * step_ms, step_ms, count, DEFAULT_INTERVAL_MS, window_ms, window_ms)
