"""What a source shows and what it lacks."""

from __future__ import annotations

import time

from inferdoc.catalogue.load import Catalogue
from inferdoc.config import Config
from inferdoc.fleet.members import Assignment, Fleet, resolve
from inferdoc.judging.api import needed_signals, read_window
from inferdoc.judging.words import figure
from inferdoc.report.labels import label_lines
from inferdoc.report.wrapping import wrap
from inferdoc.source.base import Scrapes, Source
from inferdoc.source.frame import Entity, SignalFrame
from inferdoc.source.identified import Identified
from inferdoc.times import Moment

LOOK_BACK = "15m"
STALE_SECONDS = 300.0


def examine(source: Source, config: Config, catalogue: Catalogue, until: Moment) -> tuple[list[str], bool]:
    """Lines for people, and whether any engine can be judged. Raises SourceError where the source cannot be read."""
    latest = source.latest_ms()
    lines = [f"source      {source.kind} {source.location}"]
    if latest is None:
        lines.append(
            "newest      no sample at all: is anything scraped into it? inferdoc collect --target URL fills a store"
        )
        return lines, False
    age = time.time() - latest / 1000
    note = "  (old: nothing has been written for a while; diagnose with --until latest)" if age > STALE_SECONDS else ""
    lines.append(f"newest      {figure(max(age, 0.0), 's')} ago{note}")
    wanted = needed_signals(catalogue)
    frame, scrapes = read_window(source, wanted, catalogue, LOOK_BACK, None, until)
    lines.append(
        f"interval    {figure(frame.grid.interval_ms / 1000, 's')}, rates over {figure(frame.grid.rate_ms / 1000, 's')}"
    )
    fleet = resolve(frame, catalogue.tiers, [Assignment(p.pod, p.role, p.tier) for p in config.pods])
    lines += _targets(scrapes, fleet)
    lines += _fleet(fleet)
    if isinstance(source, Identified):
        found = label_lines(source.findings, source.replica, bool(scrapes))
        lines += [part for line in found for part in wrap(line, "labels      ")]
    lines += _missing(frame, catalogue, wanted)
    lines += [f"warning     {warning}" for warning in source.warnings]
    return lines, bool(fleet.members)


def _targets(scrapes: list[Scrapes], fleet: Fleet) -> list[str]:
    down = [fleet.called(Entity.of_labels(t.labels)) for t in scrapes if len(t.up) and t.up[-1] < 0.5]
    line = f"targets     {len(scrapes)}" + (f", down: {', '.join(sorted(down)[:8])}" if down else "")
    return [line]


def _fleet(fleet: Fleet) -> list[str]:
    if not fleet.members:
        return ["engines     none: no vLLM series in the last 15 minutes; scrape the /metrics page of the API port"]
    lines = []
    for number, member in enumerate(fleet.members):
        why = dict(member.why)
        head = "engines" if number == 0 else ""
        role, tier = f"role {member.role} ({why['role']})", f"tier {member.tier} ({why['tier']})"
        place = f", {member.pool.place}" if member.pool.place else ""
        lines.append(f"{head:<11} {member.shown}: model {member.pool.model or '?'}, {role}, {tier}{place}")
    return lines


def _missing(frame: SignalFrame, catalogue: Catalogue, wanted: list[str]) -> list[str]:
    """Absent signals, with the causes that need them and how to switch them on."""
    absent = [name for name in wanted if name not in frame]
    lines = [f"signals     {len(wanted) - len(absent)} of {len(wanted)} visible"]
    for name in absent:
        signal = catalogue.signals[name]
        users = [r.id for r in catalogue.recipes.values() if any(name in c.signals for c in r.symptoms)]
        if users or signal.enable:
            need = f" (needed by {', '.join(users)})" if users else ""
            lines.append(f"  absent    {name}{need}: {signal.enable or 'no exporter in the source supplies it'}")
    return lines
