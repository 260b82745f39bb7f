"""From the options of the command to the document: every pool with its headroom, after a loss too, and what cannot be
evaluated."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from inferdoc.catalogue.load import Catalogue
from inferdoc.config import Config
from inferdoc.errors import InferdocError
from inferdoc.fleet.members import Pool, assignments_of
from inferdoc.forecast import MODELS, SETTLE_SECONDS
from inferdoc.forecast.agenda import agenda_for
from inferdoc.forecast.command import Origin
from inferdoc.forecast.engine import MAX_HORIZON_DAYS, Request, forecast
from inferdoc.forecast.fromsource import pool_name
from inferdoc.forecast.result import Forecast
from inferdoc.forecast.series import DAY, LoadSeries
from inferdoc.headroom.capacity_forecast import clock_words, headroom_clock, with_growth
from inferdoc.headroom.pairs import Phases
from inferdoc.headroom.reading import (
    HEADROOM_SCHEMA_ID,
    LIMIT_SEEN,
    NOW_BINS,
    FleetReading,
    HeadroomAnswer,
    LeftOut,
    LoadPoint,
    Lost,
    PhasesApart,
    PoolHeadroom,
    PoolReading,
    read_fleet,
)
from inferdoc.headroom.room import Whereabouts, losses, room_part, whereabouts
from inferdoc.prewarm.plan_options import PerPool
from inferdoc.slo.attainment import goodput, place_text
from inferdoc.slo.history import read_history
from inferdoc.slo.model import Goodput, Unjudged
from inferdoc.source.base import incomplete
from inferdoc.source.identified import Identified
from inferdoc.times import moment_ms, rfc3339, seconds_of
from inferdoc.version import __version__
from inferdoc.words import figure, how_many

DEFAULT_SINCE, DEFAULT_HISTORY, DEFAULT_HORIZON = "7d", "28d", "7d"


def headroom_for_request(
    source: Identified, config: Config, catalogue: Catalogue, options: Mapping[str, Any]
) -> HeadroomAnswer:
    """The requested headroom. options: the values of the command's options by name; zone: checked. Raises
    InferdocError."""
    since = seconds_of(options.get("since") or DEFAULT_SINCE, "--since")
    horizon = seconds_of(options.get("horizon") or DEFAULT_HORIZON, "--horizon")
    history = seconds_of(options.get("history") or DEFAULT_HISTORY, "--history")
    latest = source.latest_ms()
    if latest is None:
        raise InferdocError("the source holds no samples: collect some first")
    until = min(moment_ms(options.get("until") or "now", latest, what="--until"), latest) // 1000
    assignments = assignments_of(config.pods)
    origin = Origin(
        pool=options.get("pool"),
        namespace=options.get("namespace"),
        days=max(1, math.ceil(max(history, since) / DAY)),
        open=lambda: (source, catalogue.tiers, assignments, catalogue.slos),
        until=until,
    )
    given = options.get("replicas") or PerPool(None)
    fleet = read_fleet(origin, since, given.of)
    known = {*fleet.pools, *fleet.left_out}
    if not known:
        names = sorted(map(pool_name, fleet.gathered.pools()))
        raise InferdocError(f"no pool is called `{origin.pool}`; there are {', '.join(names)}")
    unknown = sorted(set(given.own) - known)
    if unknown:
        raise InferdocError(f"--replicas: no pool is called `{unknown[0]}`; there are {', '.join(sorted(known))}")
    kept: list[Goodput] = []
    unjudged: list[Unjudged] = []
    if fleet.pools:
        events = read_history(source, catalogue, assignments, f"{since}s", until, origin.match)
        kept, unjudged = goodput(events, catalogue.slos, [each.pool for each in fleet.pools.values()])
    places = whereabouts(source, fleet.gathered.members, fleet.end)
    ahead = fleet.end + MAX_HORIZON_DAYS * DAY
    plans = (options.get("holidays"), options.get("calendar"), options.get("events") or ())
    agenda = agenda_for(options["zone"], fleet.gathered.start, ahead, *plans)
    request = Request(
        horizon=horizon,
        zone=options["zone"],
        model=options.get("model") or MODELS[0],
        arima_seconds=SETTLE_SECONDS if options.get("arima_seconds") is None else options["arima_seconds"],
        holidays=agenda.holidays,
        events=agenda.events,
    )
    notes = [f"incomplete: {line}" for line in incomplete(source.warnings)]
    notes += [] if agenda.note is None else [agenda.note]
    phases = Phases(origin, config, catalogue)
    within = {one.place: one for one in kept}
    return answered(
        source.location, fleet, within, unjudged, places, request, partial(phases.apart, fleet.pools), notes
    )


DRAWN_STEP = 1800
"""Seconds of a point of the plot."""


def answered(
    location: str,
    fleet: FleetReading,
    good: Mapping[Pool, Goodput],
    unjudged: Sequence[Unjudged],
    places: Whereabouts,
    request: Request,
    apart: Callable[[list[str]], list[PhasesApart]],
    notes: Sequence[str] = (),
) -> HeadroomAnswer:
    """The whole document. good: requests within the objectives by place; unjudged: why of the others; request: of the
    forecasts; apart: prefill and decode of its pools, adds what is unknown; notes: on what was requested."""
    pools = []
    for reading in fleet.pools.values():
        refused = [one.because for one in unjudged if one.place == place_text(reading.pool)]
        pools.append(_pool(reading, fleet, good.get(reading.pool), refused, places, request))
    doubts = _of_all(pools)
    return HeadroomAnswer(
        schema_=HEADROOM_SCHEMA_ID,
        inferdoc_version=__version__,
        source=location,
        from_=rfc3339(fleet.begin),
        until=rfc3339(fleet.end),
        zone=request.zone,
        horizon_hours=request.horizon / 3600,
        pools=pools,
        apart=apart(doubts),
        left_out=[LeftOut(name, why) for name, why in fleet.left_out.items()],
        undetermined=doubts,
        notes=list(notes),
    )


def _of_all(pools: Sequence[PoolHeadroom]) -> list[str]:
    """What is unknown of every pool, taken out of each."""
    shared = (
        [each for each in pools[0].undetermined if all(each in pool.undetermined for pool in pools)] if pools else []
    )
    for pool in pools:
        pool.undetermined = [each for each in pool.undetermined if each not in shared]
    return shared


def _pool(
    reading: PoolReading,
    fleet: FleetReading,
    good: Goodput | None,
    refused: Sequence[str],
    places: Whereabouts,
    request: Request,
) -> PoolHeadroom:
    doubts = [f"requests within the SLO: {why}" for why in refused]
    lost = losses(reading, places, doubts)
    series = reading.load.series.coarser(NOW_BINS * reading.load.series.step, from_end=True)
    ahead, growth = with_growth(series, forecast(series, request))
    clock = headroom_clock(reading, ahead, growth)
    room = room_part(reading, good)
    middle, _ = reading.knee
    limit = reading.limit if reading.knee[0] is not None else "the highest load that was served well"
    return PoolHeadroom(
        pool=reading.name,
        model=reading.pool.model,
        role=reading.pool.role,
        tier=reading.pool.tier,
        replicas=reading.replicas,
        unit=reading.served.unit.value,
        summary="; ".join([_at_peak(reading), _after(lost), clock_words(clock, limit)]),
        parts=[room],
        lost=lost,
        clock=clock,
        usable=reading.carries,
        knee=None if middle is None else middle * reading.replicas,
        undetermined=doubts,
        notes=_notes(reading, ahead),
        drawn=_drawn(series, ahead, fleet.begin),
    )


def _at_peak(reading: PoolReading) -> str:
    share = reading.load.peak / reading.carries
    least = "" if reading.knee[0] is not None else ", which is no more than the highest load that it was seen to carry"
    return f"its peak takes {figure(share, 'ratio')} of the usable rate{least}"


def _after(lost: Sequence[Lost]) -> str:
    """What it holds, and the first loss that it does not."""
    words = []
    for one in lost:
        name = f"{one.what} ({one.name})" if one.name else one.what
        words.append({"yes": f"the loss of {name} holds", "no": f"the loss of {name} does not hold"}.get(one.holds, ""))
        if not words[-1]:
            words[-1] = f"it is unsure whether the loss of {name} holds"
    return ", ".join(words)


def _notes(reading: PoolReading, ahead: Forecast) -> list[str]:
    notes = [*reading.capacity.notes()]
    served = reading.served
    if served.verdict not in LIMIT_SEEN:
        notes.append(
            "what a replica carries is a lower bound, so room is at least this, and a crossing leaves what is known"
        )
    elif served.low is None:
        notes.append("the knee was seen in fewer than half of the resampled hours: it is weak")
    seen = served.highest
    if served.rate is not None and reading.load.peak / reading.replicas > seen:
        notes.append(f"its peak is above the highest load a replica was seen at, {figure(seen, served.unit.value)}")
    if reading.replicas != len(reading.ready):
        there = how_many(len(reading.ready), "replica")
        notes.append(f"{there} now; the {reading.replicas} of its peak count, as it scales between them")
    return [*notes, *ahead.notes]


def _drawn(series: LoadSeries, ahead: Forecast, begin: int) -> list[LoadPoint]:
    """The load since `begin` (Unix seconds) and the forecast, both at the step of the plot."""
    wide = series.coarser(DRAWN_STEP) if series.step < DRAWN_STEP else series
    times = wide.start + wide.step * (np.arange(len(wide.values)) + 0.5)
    points = [
        LoadPoint(float(at), float(load) if np.isfinite(load) else None)
        for at, load in zip(times, wide.values, strict=True)
        if at >= begin
    ]
    every = max(1, DRAWN_STEP // ahead.step)
    count = len(ahead.p50) // every
    rows = [path[: count * every].reshape(count, every).mean(axis=1) for path in (ahead.p50, ahead.p95)]
    points += [
        LoadPoint(float(ahead.start + (i + 0.5) * every * ahead.step), None, float(q50), float(q95))
        for i, (q50, q95) in enumerate(zip(*rows, strict=True))
    ]
    return points
