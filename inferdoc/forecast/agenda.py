"""What is planned and no history can tell: holidays, and events that multiply the load."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date

from inferdoc.forecast.calendar import zone_of
from inferdoc.forecast.engine import MAX_HORIZON_DAYS
from inferdoc.forecast.events import PlannedEvent, event_of
from inferdoc.forecast.holidays import dates_of
from inferdoc.forecast.icsfile import read_calendar
from inferdoc.forecast.series import DAY, LoadSeries


@dataclass(frozen=True)
class Agenda:
    """holidays: local dates; events: in the order of time; others: titles of a calendar that say neither."""

    holidays: tuple[date, ...] = ()
    events: tuple[PlannedEvent, ...] = ()
    others: tuple[str, ...] = ()


def agenda_for(
    loads: Sequence[LoadSeries], zone: str, holidays: str | None, calendar: str | None, events: Sequence[str]
) -> Agenda:
    """What --holidays, --calendar and --event say of the time of some loads, and after them. zone:
    IANA name. Raises InferdocError."""
    clock = zone_of(zone)
    days, told, others = dates_of(holidays), [event_of(text, clock) for text in events], list[str]()
    if calendar is not None:
        until = max(series.end for series in loads) + MAX_HORIZON_DAYS * DAY
        more, launches, others = read_calendar(calendar, clock, min(series.start for series in loads), until)
        days, told = (*days, *more), [*told, *launches]
    told.sort(key=lambda event: event.start)
    return Agenda(tuple(sorted(set(days))), tuple(told), tuple(others))
