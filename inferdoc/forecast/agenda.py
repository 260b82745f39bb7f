"""Reads what no history shows: holidays, and planned events that multiply the load.

Users announce a launch, a campaign, a migration. An event multiplies the forecast of its hours. A past event is treated
as a gap: learned as demand, it would come back a week later."""

from __future__ import annotations

import csv
import gzip
import io
import math
import re
import sys
import zlib
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any, BinaryIO
from zoneinfo import ZoneInfo

import numpy as np

from inferdoc.errors import InferdocError, SourceError
from inferdoc.extras import needed
from inferdoc.forecast.calendar import zone_of
from inferdoc.forecast.series import Kind, LoadSeries, on_grid, stamp
from inferdoc.times import length_of

FACTOR = re.compile(r"[x×](\d+(?:\.\d+)?)")


@dataclass(frozen=True)
class PlannedEvent:
    """From start to end, Unix seconds, the load is `factor` times the usual one."""

    start: int
    end: int
    factor: float
    title: str = ""

    @property
    def text(self) -> str:
        """In words: `Launch: x3 from 2026-12-01T09:00:00Z to 2026-12-01T11:00:00Z`."""
        head = f"{self.title}: " if self.title else ""
        return f"{head}x{self.factor:g} from {stamp(self.start)} to {stamp(self.end)}"


def event_of(text: str, zone: ZoneInfo) -> PlannedEvent:
    """An event written as `2026-12-01T09:00,2h,x3`: when it begins on the clock of the zone (or with an offset of its
    own), how long it lasts, and by what the load is multiplied. Raises InferdocError."""
    parts = [part.strip() for part in text.split(",")]
    factor = FACTOR.fullmatch(parts[2]) if len(parts) == 3 else None
    if factor is None:
        raise InferdocError(f"--event {text}: write when, how long and how much: 2026-12-01T09:00,2h,x3")
    try:
        begin = datetime.fromisoformat(parts[0])
    except ValueError as fault:
        raise InferdocError(f"--event {text}: `{parts[0]}` is not a time; write 2026-12-01T09:00") from fault
    start = round((begin if begin.tzinfo else begin.replace(tzinfo=zone)).timestamp())
    return checked(PlannedEvent(start, start + round(length_of(parts[1], "--event")), float(factor[1])))


def checked(event: PlannedEvent) -> PlannedEvent:
    """The event. Raises InferdocError where it lasts no time."""
    if event.end <= event.start:
        raise InferdocError(f"event {event.text}: it ends before it begins")
    return event


def without_events(series: LoadSeries, events: Collection[PlannedEvent]) -> LoadSeries:
    """The series with the events of its past as gaps, each with a note."""
    for event in events:
        mask = _inside(series.start, series.step, len(series.values), event) > 0
        if np.isfinite(series.values[mask]).any():
            series = series.with_gaps(mask, f"a planned event of the past is taken as a gap: {event.text}")
    return series


def factors(start: int, step: int, count: int, events: Collection[PlannedEvent]) -> np.ndarray:
    """float64[count]: by what each bin of a forecast is multiplied; a bin that an event covers in part, in part."""
    made = np.ones(count)
    for event in events:
        made *= 1.0 + (event.factor - 1.0) * _inside(start, step, count, event)
    return made


def _inside(start: int, step: int, count: int, event: PlannedEvent) -> np.ndarray:
    """float64[count]: the share of each bin that lies within an event."""
    begins = start + step * np.arange(count, dtype=np.float64)
    return np.asarray(np.clip(np.minimum(begins + step, event.end) - np.maximum(begins, event.start), 0.0, None) / step)


TITLE = re.compile(rf"^(?P<title>.*?)(?:^|\s){FACTOR.pattern}\s*$", re.DOTALL)


def read_calendar(
    path: str, zone: ZoneInfo, begin: int, end: int
) -> tuple[tuple[date, ...], tuple[PlannedEvent, ...], list[str]]:
    """(holidays, events, titles of what is neither) of a calendar file between two Unix times.

    A title that ends in a factor ("Launch x3") is an event; a whole day without one is a holiday. What recurs is
    expanded; a time without a zone is one of `zone`. Raises InferdocError where the file is no calendar.
    """
    holidays, events, others = set[date](), list[PlannedEvent](), dict[str, None]()
    for entry in _entries(path, begin, end):
        title, first, last = str(entry.get("SUMMARY", "")).strip(), entry.start, entry.end
        factor = TITLE.match(title)
        if factor is not None:
            span = _seconds(first, zone), _seconds(last, zone)
            events.append(checked(PlannedEvent(*span, float(factor[2]), factor["title"].rstrip(" :-"))))
        elif not isinstance(first, datetime):
            holidays.update(first + timedelta(days=day) for day in range(max(1, (last - first).days)))
        else:
            others[title or "an entry without a title"] = None
    return tuple(sorted(holidays)), tuple(events), list(others)


def _entries(path: str, begin: int, end: int) -> list[Any]:
    """The entries of a calendar between two times, what recurs once for each time."""
    with needed("icalendar", "--calendar"):
        import icalendar
    with needed("recurring-ical-events", "--calendar"):
        import recurring_ical_events
    try:
        text = Path(path).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as fault:
        raise InferdocError(f"{path}: cannot be read as text: {fault}") from fault
    between = (datetime.fromtimestamp(begin, UTC), datetime.fromtimestamp(end, UTC))
    try:
        return list(recurring_ical_events.of(icalendar.Calendar.from_ical(text)).between(*between))
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError) as fault:
        raise InferdocError(f"{path}: not a calendar as RFC 5545 has it: {fault}") from fault


def _seconds(moment: date, zone: ZoneInfo) -> int:
    """Unix seconds of a time, or of the midnight at which a day begins."""
    if not isinstance(moment, datetime):
        moment = datetime(moment.year, moment.month, moment.day)
    return round((moment if moment.tzinfo else moment.replace(tzinfo=zone)).timestamp())


def dates_of(path: str | None) -> tuple[date, ...]:
    """The dates of a holiday file: YYYY-MM-DD at the start of a line; the rest of the line, blank lines and # are left
    out."""
    if path is None:
        return ()
    try:
        lines = Path(path).read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as fault:
        raise InferdocError(f"{path}: cannot be read as text: {fault}") from fault
    found = []
    for number, line in enumerate(lines, start=1):
        word = line.split("#")[0].replace(",", " ").split()
        if not word:
            continue
        try:
            found.append(date.fromisoformat(word[0]))
        except ValueError as fault:
            raise InferdocError(f"{path}: line {number}: `{word[0][:30]}` is not a date; write YYYY-MM-DD") from fault
    return tuple(found)


@dataclass(frozen=True)
class Agenda:
    """holidays: local dates; events: in the order of time; others: titles of a calendar that say neither."""

    holidays: tuple[date, ...] = ()
    events: tuple[PlannedEvent, ...] = ()
    others: tuple[str, ...] = ()

    @property
    def note(self) -> str | None:
        """A line about the calendar entries that were left out."""
        few = ", ".join(self.others[:3]) + ", ..." * (len(self.others) > 3)
        return f"neither a whole day nor a factor (x3) in the calendar's: {few}" if self.others else None


def agenda_for(
    zone: str, begin: int, end: int, holidays: str | None, calendar: str | None, events: Sequence[str]
) -> Agenda:
    """The holidays and events of --holidays, --calendar and --event; of a calendar, those between two Unix times. zone:
    IANA name. Raises InferdocError."""
    clock = zone_of(zone)
    days, planned, others = dates_of(holidays), [event_of(text, clock) for text in events], list[str]()
    if calendar is not None:
        more, launches, others = read_calendar(calendar, clock, begin, end)
        days, planned = (*days, *more), [*planned, *launches]
    planned.sort(key=lambda event: event.start)
    return Agenda(tuple(sorted(set(days))), tuple(planned), tuple(others))


MAX_BYTES = 512 * 1024 * 1024
TENANTS, OTHERS = 100, "all other tenants"
"""Tenants that are kept separate: a file may contain thousands."""
GAPS = {"", "nan", "null", "na", "none"}


def from_csv(path: str, kind: Kind = "amount", stdin: BinaryIO | None = None) -> LoadSeries:
    """The series in `path` (`-` = standard input). Rows in any order; equal duplicates are dropped, unequal ones are an
    error that names the line; empty or NaN values and missing rows are gaps. Raises SourceError, one line."""
    where = "standard input" if path == "-" else path
    text = _text(path, where, stdin)
    times, by_tenant = _columns(text, where)
    order = np.argsort(times, kind="stable")
    parts = [on_grid(times[order], values[order], kind, where) for values in by_tenant.values()]
    series = parts[0]
    if len(parts) > 1:
        named = [replace(part, name=tenant) for part, tenant in zip(parts, by_tenant, strict=True)]
        series = replace(series, values=np.sum([part.values for part in named], axis=0), parts=tuple(named))
    if not np.isfinite(series.values).any():
        raise SourceError(f"{where}: every value is empty; a forecast needs numbers in the column `value`")
    name = "load" if path == "-" else Path(path).name.removesuffix(".gz").removesuffix(".csv")
    return replace(series, name=name)


def _text(path: str, where: str, stdin: BinaryIO | None) -> str:
    try:
        raw = (stdin or sys.stdin.buffer).read(MAX_BYTES + 1) if path == "-" else Path(path).read_bytes()
    except OSError as fault:
        raise SourceError(f"{where}: cannot be read: {fault.strerror or fault}") from fault
    if raw[:2] == b"\x1f\x8b":
        try:
            raw = gzip.GzipFile(fileobj=io.BytesIO(raw)).read(MAX_BYTES + 1)
        except (OSError, EOFError, zlib.error) as fault:
            raise SourceError(f"{where}: broken gzip ({fault}); was the file cut short?") from fault
    if len(raw) > MAX_BYTES:
        raise SourceError(f"{where}: more than {MAX_BYTES >> 20} MiB of text; aggregate the rows into bins first")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as fault:
        raise SourceError(
            f"{where}: not UTF-8 text (byte {fault.start}); expected CSV with the header timestamp,value"
        ) from fault


def _columns(text: str, where: str) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Moments (Unix seconds), and the load of each tenant at each of them: one without a row at a moment of which
    others have one was idle. A file without the column is of one tenant. Those with little load are one together."""
    rows = _rows(text)
    header = next(rows, None)
    if header is None:
        raise SourceError(f"{where}: empty; expected CSV with the header timestamp,value")
    names = [cell.strip().lower() for cell in header[1]]
    if "timestamp" not in names or "value" not in names:
        shown = ",".join(header[1])[:60]
        raise SourceError(f"{where}: line {header[0]}: header `{shown}` lacks timestamp,value; put that line first")
    at, of = names.index("timestamp"), names.index("value")
    whose = names.index("tenant") if "tenant" in names else None
    loads: dict[str, dict[float, float]] = {}
    for line, cells in rows:
        if len(cells) <= max(at, of, whose or 0):
            raise SourceError(
                f"{where}: line {line}: {len(cells)} column(s), expected {len(names)}; is the line cut short?"
            )
        moment, value = _moment(cells[at], where, line), _value(cells[of], where, line)
        tenant = "" if whose is None else cells[whose].strip()
        before = loads.setdefault(tenant, {}).setdefault(moment, value)
        if before != value and not (math.isnan(before) and math.isnan(value)):
            raise SourceError(
                f"{where}: line {line}: {cells[at].strip()} occurs twice with different values ({before:g}, {value:g})"
                f"{'' if whose is None else f' for tenant {tenant}'}"
            )
    if not loads:
        raise SourceError(f"{where}: a header but no data rows")
    moments = dict.fromkeys(moment for load in loads.values() for moment in load)
    by_tenant: dict[str, np.ndarray] = {}
    for place, tenant in enumerate(sorted(loads, key=lambda name: _sum(loads[name]), reverse=True)):
        values = np.array([loads[tenant].get(moment, 0.0) for moment in moments])
        if place < TENANTS:
            by_tenant[tenant] = values
        else:
            by_tenant[OTHERS] = by_tenant.get(OTHERS, 0.0) + values
    return np.fromiter(moments, dtype=np.float64), by_tenant


def _sum(load: dict[float, float]) -> float:
    return math.fsum(value for value in load.values() if not math.isnan(value))


def _rows(text: str) -> Iterator[tuple[int, list[str]]]:
    reader = csv.reader(io.StringIO(text, newline=""))
    for cells in reader:
        if any(cell.strip() for cell in cells):
            yield reader.line_num, cells


def _moment(cell: str, where: str, line: int) -> float:
    cell = cell.strip()
    try:
        seconds = float(cell)
    except ValueError:
        seconds = math.nan
        try:
            parsed = datetime.fromisoformat(cell)
        except ValueError as fault:
            raise SourceError(
                f"{where}: line {line}: timestamp `{cell[:40]}` is neither RFC 3339 nor Unix seconds"
            ) from fault
        if parsed.tzinfo is None:
            raise SourceError(
                f"{where}: line {line}: timestamp `{cell[:40]}` has no zone; write it in UTC with a Z at the end"
            ) from None
        seconds = parsed.astimezone(UTC).timestamp()
    if not 0 <= seconds < 253402300800:
        hint = " (milliseconds? give seconds)" if seconds > 253402300800 else ""
        raise SourceError(f"{where}: line {line}: timestamp `{cell[:40]}` is out of range{hint}")
    return seconds


def _value(cell: str, where: str, line: int) -> float:
    cell = cell.strip()
    if cell.lower() in GAPS:
        return math.nan
    try:
        value = float(cell)
    except ValueError as fault:
        raise SourceError(
            f"{where}: line {line}: value `{cell[:40]}` is not a number (leave it empty for a gap)"
        ) from fault
    if value < 0:
        raise SourceError(
            f"{where}: line {line}: negative value {cell}; load is never below zero (a counter? take its rate)"
        )
    if math.isinf(value):
        raise SourceError(f"{where}: line {line}: value {cell} is not finite (leave it empty for a gap)")
    return value
