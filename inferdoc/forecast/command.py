"""Runs `inferdoc forecast`."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from inferdoc.errors import ExitCode, InferdocError
from inferdoc.escaping import one_line
from inferdoc.forecast.agenda import agenda_for, from_csv
from inferdoc.forecast.calendar import zone_of
from inferdoc.forecast.engine import MAX_HORIZON_DAYS, Request, forecast
from inferdoc.forecast.result import Forecast, to_csv, to_image, to_json, to_table, to_textfile
from inferdoc.forecast.series import DAY, Kind, LoadSeries
from inferdoc.replacing import replace_file
from inferdoc.times import moment_of, seconds_of

if TYPE_CHECKING:
    from inferdoc.catalogue.slo import Slo
    from inferdoc.forecast.fromsource import Gathered
    from inferdoc.forecast.series import LoadUnit
    from inferdoc.source.reads import Matcher

PNG = b"\x89PNG"
SINGLE = ("csv", "png", "svg")


CAPACITY_DAYS = 7
CAPACITY_STEP = 1800
"""Capacity is measured on a week, five minutes of each half hour: a p99 takes all buckets of its histogram, which cost
a server most of what a plan costs it (benchmarks/plan_cost.py)."""


YOUNG_DAYS = 3
"""A history shorter than this is read in every five minutes."""


@dataclass(frozen=True)
class Opened:
    """A source, and what identifies its pools and their SLOs."""

    source: Any
    tiers: Any
    assignments: Any
    slos: tuple[Slo, ...]


@dataclass
class Origin:
    """The origin of loads: a file (`path`), or a source. open: opens the source when it is needed; until: Unix seconds
    up to which it is read (None = its newest sample)."""

    path: str | None = None
    kind: Kind = "amount"
    pool: str | None = None
    load: str | None = None
    namespace: str | None = None
    days: int = 28
    step: int = 300
    open: Callable[[], tuple[Any, Any, Any, tuple[Slo, ...]]] | None = field(default=None, repr=False)
    until: int | None = None

    @cached_property
    def opened(self) -> Opened:
        if self.open is None:
            raise InferdocError("nothing to read: give --input FILE (CSV timestamp,value), --store or --prometheus")
        return Opened(*self.open())

    @property
    def match(self) -> tuple[Matcher, ...]:
        return () if self.namespace is None else (("namespace", "=", self.namespace),)

    @property
    def unit(self) -> LoadUnit | None:
        """The unit of --load; None = by role."""
        from inferdoc.forecast.fromsource import LOADS

        return None if self.load is None else LOADS[self.load]

    def gathered(self, units: Iterable[LoadUnit], step: int) -> Gathered:
        """The load of every pod in the source in some units, over `days`."""
        from inferdoc.forecast.fromsource import STARTED, counted

        return self._gather((STARTED, *counted(*units)), self.days, step)

    def _gather(self, signals: Sequence[str], days: int, step: int, window: int | None = None) -> Gathered:
        from inferdoc.forecast.fromsource import gather

        here = self.opened
        return gather(
            here.source,
            signals,
            here.tiers,
            here.assignments,
            match=self.match,
            days=days,
            until=self.until,
            step=step,
            window=window,
            progress=_progress,
        )

    @cached_property
    def capacity_history(self) -> tuple[Gathered, tuple[Slo, ...]]:
        """Load and latency of every pod, and the objectives."""
        from inferdoc.forecast.capacity import signals_for
        from inferdoc.forecast.fromsource import STEP

        slos = self.opened.slos
        read = partial(self._gather, signals_for(slos), window=STEP)
        made = read(min(self.days, CAPACITY_DAYS), CAPACITY_STEP)
        if made.end - made.first_seen < YOUNG_DAYS * DAY:
            made = read(min(self.days, YOUNG_DAYS), STEP)
        return made, slos

    def series(self) -> list[LoadSeries]:
        """The load series of the selected pools; InferdocError when there is none."""
        if self.path is not None:
            made = from_csv(self.path, self.kind)
            return [made if self.pool is None else replace(made, name=self.pool)]
        from inferdoc.forecast.fromsource import SIGNALS, STEP, load_series

        if self.step % STEP:
            raise InferdocError(f"--step {self.step}s is not a multiple of {STEP // 60} minutes; write 5m, 15m or 1h")
        found = load_series(self.gathered(SIGNALS if self.unit is None else (self.unit,), STEP), self.unit, self.step)
        if self.pool is not None:
            if self.pool not in found:
                raise InferdocError(f"pool `{self.pool}` was not seen; there are {', '.join(found) or 'none'}")
            found = {self.pool: found[self.pool]}
        if not found:
            raise InferdocError(
                "no pool shows this load in the source's last days; `inferdoc doctor` says what is visible"
            )
        return list(found.values())


def spoken_zone(zone: str | None) -> str:
    """The given zone, validated; without one UTC, with a note on stderr, because a zone is never guessed silently."""
    if zone is None:
        print("note: no --tz given, so days and weeks follow UTC; give the zone of the users' clock", file=sys.stderr)
        return "UTC"
    zone_of(zone)
    return zone


def _progress(done: int, of: int) -> None:
    if sys.stderr.isatty() and (done == of or done % 7 == 0):
        print(f"reading day {done} of {of}", file=sys.stderr, flush=True)


def run(
    *,
    origin: Origin,
    horizon: str,
    zone: str | None,
    output: str,
    begin: str | None,
    model: str,
    arima_seconds: float,
    holidays: str | None,
    calendar: str | None,
    events: tuple[str, ...],
    keep_outages: bool,
    target: str | None,
    fail_on_abstain: bool,
) -> int:
    """Reads, forecasts, writes; returns the exit code."""
    clock, ahead = spoken_zone(zone), seconds_of(horizon, "--horizon")
    start = None if begin is None else moment_of(begin, "--from")
    loads = replace(origin, until=start).series()
    until = max(series.end for series in loads) + MAX_HORIZON_DAYS * DAY
    agenda = agenda_for(clock, min(series.start for series in loads), until, holidays, calendar, events)
    if agenda.note is not None:
        print(one_line(f"note: {agenda.note}"), file=sys.stderr)
    request = Request(
        horizon=ahead,
        zone=clock,
        begin=start,
        model=model,
        arima_seconds=arima_seconds,
        holidays=agenda.holidays,
        events=agenda.events,
        keep_outages=keep_outages,
    )
    if len(loads) > 1 and output in SINGLE:
        raise InferdocError(f"-o {output} shows one pool; choose with --pool: {', '.join(s.name for s in loads)}")
    results = [forecast(series, request) for series in loads]
    write(render(loads, results, output), target)
    for result in results:
        for line in remarks(result):
            print(one_line(line if len(results) == 1 else f"{result.name}: {line}"), file=sys.stderr)
    return ExitCode.FINDINGS if fail_on_abstain and any(r.abstained for r in results) else ExitCode.OK


def capacity(*, origin: Origin, begin: str | None, output: str, target: str | None) -> int:
    """`inferdoc forecast --capacity`: what one replica can serve, per pool, from what was known at `begin`."""
    from inferdoc.forecast.capacity import capacities, to_table

    if origin.path is not None:
        raise InferdocError("--capacity needs latencies beside the load: give --store or --prometheus, not --input")
    origin = replace(origin, until=None if begin is None else moment_of(begin, "--from"))
    history, slos = origin.capacity_history
    found = [c for c in capacities(history, slos, origin.unit) if origin.pool in (None, c.pool)]
    if not found:
        raise InferdocError(f"pool `{origin.pool}` was not seen; `inferdoc doctor` says what is visible")
    if output == "json":
        text = json.dumps({"schema": "inferdoc.capacity/v2", "pools": [c.to_dict() for c in found]}, indent=1) + "\n"
    else:
        text = to_table(found)
    write(text.encode(), target)
    return ExitCode.OK


def render(loads: list[LoadSeries], results: list[Forecast], output: str) -> bytes:
    if output in ("png", "svg"):
        return to_image(loads[0], results[0], output)
    if output == "prometheus":
        return to_textfile(results, time.time()).encode()
    if output == "json" and len(results) > 1:
        made = {"schema": "inferdoc.forecasts/v1", "pools": [result.to_dict() for result in results]}
        return (json.dumps(made, indent=1) + "\n").encode()
    form = {"csv": to_csv, "json": to_json, "table": to_table}[output]
    return "\n".join(form(result) for result in results).encode()


def remarks(result: Forecast) -> list[str]:
    """Abstention, fallbacks and notes, for standard error."""
    lines = [f"note: {note}" for note in result.notes]
    if result.abstained:
        shown = "not measurable" if result.skill is None else f"{result.skill:.2f}"
        lines.append(
            f"abstained: {result.reason}; skill {shown}; the numbers are the {result.method}, fit for no schedule"
        )
    return lines


def write(data: bytes, target: str | None) -> None:
    """To standard output, or to a file that is replaced in one step (a scraper never sees half of it)."""
    if target is None:
        if data.startswith(PNG) and sys.stdout.isatty():
            raise InferdocError("a picture is nothing for a terminal: give --out PATH, or redirect the output")
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
        return
    place = Path(target)
    try:
        replace_file(place, data)
    except OSError as fault:
        raise InferdocError(f"{target}: cannot be written: {fault.strerror or fault}") from fault
