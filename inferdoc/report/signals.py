"""The signal table: newest values per pod, beside the target bands of the tier."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec
import numpy as np

from inferdoc.catalogue.load import Catalogue
from inferdoc.catalogue.signal import Band
from inferdoc.config import Config
from inferdoc.diagnose.api import read_window
from inferdoc.diagnose.words import figure
from inferdoc.errors import SourceError
from inferdoc.fleet.members import Assignment, Member, resolve
from inferdoc.source.base import Source
from inferdoc.times import Moment

LOOK_BACK = "10m"


@dataclass(frozen=True)
class Row:
    """One signal of one pod: its newest value; band: the target band of its tier, or None."""

    signal: str
    pod: str
    tier: str
    role: str
    value: float
    unit: str
    band: Band | None

    @property
    def outside(self) -> bool:
        """Whether the value lies outside its band."""
        low, high = (self.band.low, self.band.high) if self.band else (None, None)
        return (low is not None and self.value < low) or (high is not None and self.value > high)


def listing(catalogue: Catalogue) -> str:
    """Every declared signal: id, unit, title."""
    return "\n".join(
        f"{name:<32} {signal.unit:<10} {signal.title}" for name, signal in sorted(catalogue.signals.items())
    )


def readings(source: Source, config: Config, catalogue: Catalogue, until: Moment, *, only_bands: bool) -> list[Row]:
    """The newest value of every signal of every engine pod. Raises SourceError where the source holds nothing."""
    wanted = list(catalogue.tiers.bands) if only_bands else list(catalogue.signals)
    basis = ["running", "generation_tokens_rate", "request_rate", "output_len_mean", "gpu_util"]
    names = list(dict.fromkeys(n for n in (*basis, *wanted) if n in catalogue.signals))
    frame, _ = read_window(source, names, catalogue, LOOK_BACK, None, until)
    fleet = resolve(frame, catalogue.tiers, [Assignment(p.pod, p.role, p.tier) for p in config.pods])
    if not fleet.members:
        raise SourceError(
            f"{source.location}: no engine in the last {LOOK_BACK} before {until}; inferdoc doctor says what is visible"
        )
    members = fleet.by_key()
    rows = []
    for name in wanted:
        if name not in frame:
            continue
        matrix = frame[name]
        for entity, values in zip(matrix.entities, matrix.values, strict=True):
            member = members.get(entity.member)
            known = np.flatnonzero(np.isfinite(values))
            if member is None or not len(known):
                continue
            band = _band(catalogue, member, name)
            if band is not None or not only_bands:
                rows.append(
                    Row(
                        name,
                        str(entity),
                        member.tier,
                        member.role,
                        float(values[known[-1]]),
                        catalogue.signals[name].unit,
                        band,
                    )
                )
    return rows


def _band(catalogue: Catalogue, member: Member, signal: str) -> Band | None:
    """The band of a signal on the tier of a pod, where its role is one the band speaks of."""
    tier = catalogue.tiers.tiers.get(member.tier)
    band = (tier.bands.get(signal) if tier else None) or catalogue.tiers.bands.get(signal)
    if band is None or (band.roles and member.role not in band.roles):
        return None
    return band if band.low is not None or band.high is not None else None


def as_text(rows: list[Row]) -> str:
    """A table; the mark ! stands before values outside their band."""
    lines = [f"  {'signal':<28} {'pod':<24} {'value':>16}  band"]
    for row in rows:
        limits = ""
        if row.band is not None:
            low = figure(row.band.low, row.unit) if row.band.low is not None else ""
            high = figure(row.band.high, row.unit) if row.band.high is not None else ""
            limits = f"{low} to {high}" if low and high else (f"at least {low}" if low else f"at most {high}")
        mark, value = "!" if row.outside else " ", figure(row.value, row.unit)
        lines.append(f"{mark} {row.signal:<28} {row.pod:<24} {value:>16}  {limits}".rstrip())
    return "\n".join(lines)


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
    return msgspec.json.format(msgspec.json.encode(found), indent=2).decode()
