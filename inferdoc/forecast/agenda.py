"""What is planned and no history can tell: holidays, and events that multiply the load."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date

from inferdoc.forecast.calendar import zone_of
from inferdoc.forecast.events import PlannedEvent, event_of
from inferdoc.forecast.holidays import dates_of
from inferdoc.forecast.icsfile import read_calendar


@dataclass(frozen=True)
class Agenda:
    """holidays: local dates; events: in the order of time; others: titles of a calendar that say neither."""

    holidays: tuple[date, ...] = ()
    events: tuple[PlannedEvent, ...] = ()
    others: tuple[str, ...] = ()

    @property
    def note(self) -> str | None:
        """What of a calendar was left out, in a line."""
        few = ", ".join(self.others[:3]) + ", ..." * (len(self.others) > 3)
        return f"neither a whole day nor a factor (x3) in the calendar's: {few}" if self.others else None


def agenda_for(
    zone: str, begin: int, end: int, holidays: str | None, calendar: str | None, events: Sequence[str]
) -> Agenda:
    """What --holidays, --calendar and --event say; of a calendar, what lies between two Unix times. zone: IANA name.
    Raises InferdocError."""
    clock = zone_of(zone)
    days, told, others = dates_of(holidays), [event_of(text, clock) for text in events], list[str]()
    if calendar is not None:
        more, launches, others = read_calendar(calendar, clock, begin, end)
        days, told = (*days, *more), [*told, *launches]
    told.sort(key=lambda event: event.start)
    return Agenda(tuple(sorted(set(days))), tuple(told), tuple(others))
