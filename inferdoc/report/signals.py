"""The signal table: newest values per pod, beside the target bands of the tier."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from inferdoc.catalogue.load import Catalogue
from inferdoc.catalogue.signal import WIDE, Band, Level
from inferdoc.catalogue.slo import in_force
from inferdoc.config import Config
from inferdoc.errors import SourceError
from inferdoc.escaping import page
from inferdoc.fleet.members import Fleet, Member, assignments_of, resolve
from inferdoc.judging.reading import read_window
from inferdoc.judging.telemetry import GPU_SIGNALS
from inferdoc.report.printable import indented_json
from inferdoc.report.wrapping import WIDEST, Columns, marked
from inferdoc.source.base import Source
from inferdoc.source.frame import Entity, SignalFrame
from inferdoc.times import Moment
from inferdoc.words import figure

PARTS = re.compile(r"(\d{1,18})")


def natural(name: str) -> tuple[tuple[int, int, str], ...]:
    """A key to sort by, in which numbers inside a name count as numbers."""
    parts = PARTS.split(name)
    return tuple((0, int(part), "") if part.isdecimal() and part.isascii() else (1, 0, part) for part in parts)


LOOK_BACK = "10m"
SETTLED_SECONDS, SETTLED_SCRAPES = 120, 5
"""What lasts for less is a burst: the catalogue of failure modes counts from 20 s and five scrapes on (own choice)."""
TELEMETRY_NEEDS = ("generation_tokens_rate", "prefill_tokens_rate", *GPU_SIGNALS)
"""What the derived signals are made of."""


@dataclass(frozen=True)
class Row:
    """One signal of one pod: its newest value; band: the target band of its tier, or the SLO in force, or None."""

    signal: str
    pod: str
    tier: str
    role: str
    value: float
    unit: str
    band: Band | None
    namespace: str = ""

    @property
    def outside(self) -> bool:
        """Whether the value lies outside its band."""
        low, high = (self.band.low, self.band.high) if self.band else (None, None)
        return (low is not None and self.value < low) or (high is not None and self.value > high)


def listing(catalogue: Catalogue) -> str:
    """Every declared signal: id, unit, title."""
    return _table([("id", "unit", "title"), *((n, s.unit, s.title) for n, s in sorted(catalogue.signals.items()))], ())


def readings(
    source: Source,
    config: Config,
    catalogue: Catalogue,
    until: Moment,
    signals: Sequence[str] | None = None,
    settled: bool = False,
) -> list[Row]:
    """The newest value of the signals (None: all) of every engine pod, and of the routers that serve them; settled: the
    median of the newest, so that no burst passes for a state. Raises SourceError where the source holds nothing."""
    names_in_order = list(catalogue.signals if signals is None else signals)
    basis = ["running", "generation_tokens_rate", "request_rate", "output_len_mean", "gpu_util"]
    names = list(dict.fromkeys(n for n in (*basis, *names_in_order) if n in catalogue.signals))
    names += [n for n in TELEMETRY_NEEDS if n in catalogue.signals and n not in names]
    plateaus = [(p.pod, p.tokens_per_second) for p in config.pods if p.tokens_per_second]
    frame, _ = read_window(source, names, catalogue, LOOK_BACK, None, until, plateaus=plateaus)
    fleet = resolve(frame, catalogue.tiers, assignments_of(config.pods))
    if not fleet.members:
        raise SourceError(
            f"{source.location}: no engine in the last {LOOK_BACK} before {until}; inferdoc doctor says what is visible"
        )
    rows = []
    for name in names_in_order:
        signal = catalogue.signals[name]
        for entity, value in _newest(frame, name, settled):
            member = _owner(fleet, entity, signal.level)
            if member is None:
                continue
            wide = signal.level in WIDE
            pool = member.pool
            band = _slo(catalogue, member, name) or _band(catalogue, member, name)
            who = str(entity) if entity.pod == member.pod or wide else f"{member.pod} {entity.get('gpu')}".strip()
            tier, role = ("", "") if wide else (pool.tier, pool.role)
            rows.append(Row(name, who, tier, role, value, signal.unit, band, pool.namespace))
    return sorted(rows, key=lambda row: (names_in_order.index(row.signal), natural(row.pod)))


def _newest(frame: SignalFrame, name: str, settled: bool) -> Iterator[tuple[Entity, float]]:
    """Every entity of a signal with its newest value, or the median of its newest values."""
    count = max(SETTLED_SCRAPES, SETTLED_SECONDS * 1000 // frame.grid.step_ms) if settled else 1
    if name in frame:
        for entity, values in zip(frame[name].entities, frame[name].values, strict=True):
            known = values[np.isfinite(values)]
            if len(known):
                yield entity, float(np.median(known[-count:]))


def _owner(fleet: Fleet, entity: Entity, level: Level) -> Member | None:
    """The pod a series is about; of a series above the pods any pod of its namespace."""
    if level in WIDE:
        return next((m for m in fleet.members if entity.get("namespace") in ("", m.pool.namespace)), None)
    if level == "gpu":
        return next((m for m in fleet.members if m.owns_gpu(entity)), None)
    return fleet.by_key().get(entity.member)


def _slo(catalogue: Catalogue, member: Member, signal: str) -> Band | None:
    """The SLO of a signal as a target range."""
    objectives = (slo for slo in catalogue.slos if slo.agreed)
    found = in_force(objectives, member.pool).get(signal)
    return None if found is None else Band(signal, f"SLO {found.id}", high=found.target)


def _band(catalogue: Catalogue, member: Member, signal: str) -> Band | None:
    """The band of a signal on the tier of a pod, where its role is one the band speaks of."""
    for band in catalogue.tiers.bands_of(member.tier):
        if band.signal == signal and (not band.roles or member.role in band.roles):
            return band if band.low is not None or band.high is not None else None
    return None


def as_text(rows: list[Row]) -> str:
    """A table; ! marks values outside their target range."""
    cells = [
        (
            marked("!" if row.outside else " ", row.signal),
            row.pod,
            figure(row.value, row.unit),
            limits(row.band, row.unit),
        )
        for row in rows
    ]
    return _table([(marked(" ", "signal"), "pod", "value", "band"), *cells], right=(2,))


def _table(rows: Sequence[Sequence[str]], right: Sequence[int]) -> str:
    columns = Columns(rows, WIDEST, right=right)
    return page(line for row in rows for line in columns.lines(row))


def limits(band: Band | None, unit: str) -> str:
    """A band in words; empty without one."""
    if band is None:
        return ""
    low = figure(band.low, unit) if band.low is not None else ""
    high = figure(band.high, unit) if band.high is not None else ""
    return f"{low} to {high}" if low and high else f"at least {low}" if low else f"at most {high}"


def as_json(rows: list[Row]) -> str:
    """The same as JSON."""
    found = [
        {
            "signal": r.signal,
            "pod": r.pod,
            "tier": r.tier,
            "role": r.role,
            "value": r.value,
            "unit": r.unit,
            "outside": r.outside,
            "low": r.band.low if r.band else None,
            "high": r.band.high if r.band else None,
        }
        for r in rows
    ]
    return indented_json(found)
