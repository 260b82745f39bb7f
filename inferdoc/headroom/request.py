"""From what a user asked for to the headroom of every pool."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial
from typing import Any

from inferdoc.catalogue.load import Catalogue
from inferdoc.config import Config
from inferdoc.errors import InferdocError
from inferdoc.fleet.members import assignments_of
from inferdoc.forecast.agenda import agenda_for
from inferdoc.forecast.command import Origin
from inferdoc.forecast.defaults import MODELS, SETTLE_SECONDS
from inferdoc.forecast.engine import MAX_HORIZON_DAYS, Request
from inferdoc.forecast.fromsource import pool_name
from inferdoc.forecast.series import DAY
from inferdoc.headroom.answer import answered
from inferdoc.headroom.model import HeadroomAnswer
from inferdoc.headroom.pairs import Phases
from inferdoc.headroom.reading import read_fleet
from inferdoc.headroom.where import whereabouts
from inferdoc.prewarm.fleet_wish import PerPool
from inferdoc.slo.goodput import goodput
from inferdoc.slo.history import read_history
from inferdoc.slo.model import Goodput, Unjudged
from inferdoc.source.base import incomplete
from inferdoc.source.identified import Identified
from inferdoc.times import moment_ms, seconds_of

DEFAULT_SINCE, DEFAULT_HISTORY, DEFAULT_HORIZON = "7d", "28d", "7d"


def headroom_as_asked(
    source: Identified, config: Config, catalogue: Catalogue, asked: Mapping[str, Any]
) -> HeadroomAnswer:
    """The headroom as asked. asked: the values of the command's options by name; zone: checked. Raises
    InferdocError."""
    since = seconds_of(asked.get("since") or DEFAULT_SINCE, "--since")
    horizon = seconds_of(asked.get("horizon") or DEFAULT_HORIZON, "--horizon")
    history = seconds_of(asked.get("history") or DEFAULT_HISTORY, "--history")
    latest = source.latest_ms()
    if latest is None:
        raise InferdocError("the source holds no samples: collect some first")
    until = min(moment_ms(asked.get("until") or "now", latest, what="--until"), latest) // 1000
    assignments = assignments_of(config.pods)
    origin = Origin(
        pool=asked.get("pool"),
        namespace=asked.get("namespace"),
        days=max(1, math.ceil(max(history, since) / DAY)),
        open=lambda: (source, catalogue.tiers, assignments, catalogue.slos),
        until=until,
    )
    given = asked.get("replicas") or PerPool(None)
    fleet = read_fleet(origin, since, given.of)
    known = {*fleet.pools, *fleet.left_out}
    if not known:
        names = sorted(map(pool_name, fleet.gathered.pools()))
        raise InferdocError(f"no pool is called `{origin.pool}`; there are {', '.join(names)}")
    unknown = sorted(set(given.own) - known)
    if unknown:
        raise InferdocError(f"--replicas: no pool is called `{unknown[0]}`; there are {', '.join(sorted(known))}")
    told: list[Goodput] = []
    unjudged: list[Unjudged] = []
    if fleet.pools:
        events = read_history(source, catalogue, assignments, f"{since}s", until, origin.match)
        told, unjudged = goodput(events, catalogue.slos, [each.pool for each in fleet.pools.values()])
    places = whereabouts(source, fleet.gathered.members, fleet.end)
    ahead = fleet.end + MAX_HORIZON_DAYS * DAY
    plans = (asked.get("holidays"), asked.get("calendar"), asked.get("events") or ())
    agenda = agenda_for(asked["zone"], fleet.gathered.start, ahead, *plans)
    request = Request(
        horizon=horizon,
        zone=asked["zone"],
        model=asked.get("model") or MODELS[0],
        arima_seconds=SETTLE_SECONDS if asked.get("arima_seconds") is None else asked["arima_seconds"],
        holidays=agenda.holidays,
        events=agenda.events,
    )
    notes = [f"incomplete: {line}" for line in incomplete(source.warnings)]
    notes += [] if agenda.note is None else [agenda.note]
    phases = Phases(origin, config, catalogue)
    within = {one.place: one for one in told}
    return answered(
        source.location, fleet, within, unjudged, places, request, partial(phases.apart, fleet.pools), notes
    )
