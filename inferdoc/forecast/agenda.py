"""Reads what no history shows: holidays, and planned events that multiply the load.

Users announce a launch, a campaign, a migration. An event multiplies the forecast of its hours. A past event is treated
as a gap: learned as demand, it would come back a week later."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np

from inferdoc.errors import InferdocError
from inferdoc.extras import needed
from inferdoc.forecast.calendar import zone_of
from inferdoc.forecast.series import LoadSeries, stamp
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
