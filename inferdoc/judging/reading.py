"""What a diagnosis reads: the window that was requested, and the history before it to compare it with.

Whoever looks late requires a window that begins after the trouble did. What was normal stands before it, in the same
source, so the history is read along with the window, on one grid and in one batch: `frame.begin` says where the window
begins on it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from inferdoc.catalogue.aliases import Aliases
from inferdoc.catalogue.load import Catalogue
from inferdoc.errors import SourceError, TooSlowError
from inferdoc.judging import telemetry
from inferdoc.source.assemble import read_signals
from inferdoc.source.base import Incomplete, Scrapes, Source
from inferdoc.source.frame import SignalFrame
from inferdoc.source.grid import LOOK_MS, make_grid, scrape_interval_ms
from inferdoc.source.plan import series_names
from inferdoc.source.reads import Grid, Matcher
from inferdoc.source.scrape_times import TAIL_MS, WHOLE_MS
from inferdoc.times import Moment, resolve_window

LEAST_HISTORY_MS = 30 * 60_000
"""A short window is compared with half an hour before it."""
MOST_HISTORY_MS = 6 * 3_600_000
"""A longer window holds most of what it is compared with itself."""


LEAST_PART_MS = 10 * 60_000
"""Of a window that cannot be read in time, at least so much is tried."""


def history_ms(window_ms: int) -> int:
    """How far before a window its history reaches: as long as the window, within limits."""
    return min(max(window_ms, LEAST_HISTORY_MS), max(MOST_HISTORY_MS - window_ms, LEAST_HISTORY_MS))


def names_of(needed: Sequence[str], catalogue: Catalogue, aliases: Aliases) -> set[str]:
    """The series that these signals, and the info metrics that show changes, are read from."""
    markers = [alias for m in catalogue.markers if m.info is not None for alias in aliases.of(m.info)]
    return series_names(needed, catalogue.signals, aliases).union(markers)


def read_window(
    source: Source,
    needed: Sequence[str],
    catalogue: Catalogue,
    since: Moment | None,
    from_: Moment | None,
    until: Moment,
    match: tuple[Matcher, ...] = (),
    plateaus: Sequence[tuple[str, float]] = (),
    history: bool = False,
) -> tuple[SignalFrame, list[Scrapes]]:
    """The signals of a window, and every scrape in it; with `history` also of the time range before it, as far as the
    source goes back. A window longer than the data is clipped to the data; one that cannot be read in time to its
    newest part, and a warning says so. plateaus: of a benchmark, by pod
    (`add_telemetry`)."""
    latest = source.latest_ms()
    aliases = catalogue.aliases
    names = names_of(needed, catalogue, aliases)
    from_ms, until_ms = resolve_window(since, from_, until, latest)
    if latest is None:
        return SignalFrame(make_grid(from_ms, until_ms, scrape_interval_ms([]))), []
    spans = _spans(until_ms - from_ms, history)
    for (window_ms, lead_ms), smaller in zip(spans, [*spans[1:], None], strict=True):
        from_ms = until_ms - window_ms
        source.expect(names, from_ms - lead_ms)
        try:
            source.identify(from_ms - lead_ms, until_ms)
            scrapes = source.scrapes(from_ms - lead_ms, until_ms)
            recent = _recent(source, scrapes, from_ms - lead_ms, until_ms)
            grid, begin = _grid(scrapes, recent, from_ms, until_ms, lead_ms, until == "latest")
            frame = read_signals(source, needed, grid, catalogue.signals, aliases, match)
        except SourceError as error:
            if smaller is None or not (lead_ms or isinstance(error, TooSlowError)):
                raise
            part = f"only the last {smaller[0] // 60_000} minutes of the window"
            less = "less of the history before the window" if lead_ms else part
            source.warnings.append((str if lead_ms else Incomplete)(f"{error}; reading {less}"))
            continue
        break
    frame.begin, frame.until_ms = begin, max(grid.end_ms, until_ms // grid.step_ms * grid.step_ms + 1)
    return frame, list(telemetry.add_telemetry(frame, catalogue.signals, scrapes, plateaus))


def _spans(window_ms: int, history: bool) -> list[tuple[int, int]]:
    """Lengths of window and history to try, longest first: a server may refuse the longer range, or the source be too
    slow for it."""
    longest = history_ms(window_ms)
    leads = [longest, *([LEAST_HISTORY_MS] if longest > LEAST_HISTORY_MS else []), 0] if history else [0]
    parts = [window_ms // divisor for divisor in (4, 16, 64) if window_ms // divisor >= LEAST_PART_MS]
    return [(window_ms, lead) for lead in leads] + [(part, 0) for part in parts]


def _recent(source: Source, scrapes: Sequence[Scrapes], from_ms: int, until_ms: int) -> Sequence[Scrapes]:
    """The newest ten minutes scrape by scrape. Of a long range only its last hour is: where the data end before it, one
    entry stands for each step of the query, which is not the scrape interval."""
    newest = max((int(s.times_ms[-1]) for s in scrapes if len(s.times_ms)), default=until_ms)
    if until_ms - from_ms <= WHOLE_MS or newest - LOOK_MS >= until_ms - TAIL_MS:
        return scrapes
    return source.scrapes(newest - LOOK_MS, newest)


def _grid(
    scrapes: Sequence[Scrapes], recent: Sequence[Scrapes], from_ms: int, until_ms: int, lead_ms: int, to_newest: bool
) -> tuple[Grid, int]:
    """The grid over history and window, and the step at which the window begins. The step follows from the window. The
    grid ends with the newest scrape of any target: steps after it would count as time in which no fault is seen.
    recent: the newest ten minutes scrape by scrape, by which the interval is known."""
    newest = max((int(s.times_ms[-1]) for s in scrapes if len(s.times_ms)), default=None)
    oldest = min((int(s.times_ms[0]) for s in scrapes if len(s.times_ms)), default=from_ms)
    interval = _interval_ms(scrapes, recent, max(from_ms, oldest), until_ms, until_ms - from_ms + lead_ms)
    ended = newest is not None and from_ms < newest < until_ms - UNSEEN_SCRAPES * interval
    window = make_grid(max(from_ms, oldest), until_ms, interval, newest if to_newest or ended else None)
    begin = max(0, (window.start_ms - max(from_ms - lead_ms, oldest)) // window.step_ms)
    return replace(window, start_ms=window.start_ms - begin * window.step_ms, count=window.count + begin), begin


UNSEEN_SCRAPES = 5
"""A rate covers as many: a source that lags by fewer still shows the end of the window."""
FEW_SCRAPES = 5
"""Fewer in ten minutes show no interval: a pod that was just born, a server that was away."""
COARSER = 1.5
"""An interval that is longer by this factor is another one, and no jitter."""


def _interval_ms(
    scrapes: Sequence[Scrapes], newest_scrapes: Sequence[Scrapes], from_ms: int, until_ms: int, span_ms: int
) -> int:
    """The scrape interval of the last ten minutes, or a longer one of any ten minutes of the window: read at the finer
    interval, what was scraped rarely would be gaps, and rates over too few samples. span_ms: length of what was
    read; of a long one the older part is not kept scrape by scrape."""
    newest = max((int(s.times_ms[-1]) for s in scrapes if len(s.times_ms)), default=0)
    recent = scrape_interval_ms(_between(newest_scrapes, newest - LOOK_MS, newest))
    begin = from_ms if span_ms <= WHOLE_MS else max(from_ms, until_ms - TAIL_MS)
    ends = range(newest - LOOK_MS, begin + LOOK_MS - 1, -LOOK_MS)
    pieces = [_between(scrapes, end - LOOK_MS, end) for end in ends]
    longest = max((scrape_interval_ms(each) for each in pieces if _is_known(each)), default=recent)
    return longest if longest >= COARSER * recent else recent


def _is_known(scrapes: Iterable[Scrapes]) -> bool:
    """Whether most of the targets were scraped often enough to show an interval."""
    counts = [len(each.times_ms) for each in scrapes if len(each.times_ms)]
    return sum(count > FEW_SCRAPES for count in counts) > len(counts) / 2


def _between(scrapes: Iterable[Scrapes], begin_ms: int, end_ms: int) -> list[Scrapes]:
    kept = []
    for target in scrapes:
        inside = (target.times_ms >= begin_ms) & (target.times_ms <= end_ms)
        kept.append(Scrapes(target.labels, target.times_ms[inside], target.up[inside]))
    return kept
