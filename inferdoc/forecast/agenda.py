"""Reads what no history shows: holidays, and planned events that multiply the load."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from inferdoc.errors import InferdocError
from inferdoc.extras import needed
from inferdoc.forecast.calendar import zone_of
from inferdoc.forecast.events import FACTOR, PlannedEvent, checked, event_of

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
