"""Reads the declarations of objectives, from alerts/slo.yaml and from [[slo]] of the configuration, and checks them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import msgspec

from inferdoc.catalogue.content import content_file
from inferdoc.catalogue.document import decode, locate, nearest
from inferdoc.catalogue.quantiles import NAME, families, quantile_name, share_of, with_quantiles
from inferdoc.catalogue.signal import WIDE, Level, Signal, Tiers
from inferdoc.catalogue.slo import Audience, Kind, Slo, events_of
from inferdoc.config_sections import SloSection
from inferdoc.errors import CatalogueError, InferdocError
from inferdoc.times import length_of

FILE = "slo.yaml"
PERIOD = "30d"


class Latency(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Of the former form: observations of a histogram within a limit, in its unit, are good."""

    histogram: str
    within: float


class Errors(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Of the former form: events of a counter that have these labels are bad."""

    counter: str
    bad: dict[str, str]


class SloEntry(SloSection, forbid_unknown_fields=True, frozen=True):
    """An entry of slo.yaml. objective, latency, errors: the former form, which named series instead of a signal; files
    that have it are read as before."""

    objective: float | None = None
    latency: Latency | None = None
    errors: Errors | None = None

    def _complete(self) -> None:
        if self.objective is None and self.latency is None and self.errors is None:
            super()._complete()
        elif self.objective is None or not 0 < self.objective < 1:
            value = "nothing" if self.objective is None else f"{self.objective:g}"
            raise ValueError(f"objective: a share between 0 and 1 is expected, got {value}")
        elif (self.latency is None) == (self.errors is None):
            raise ValueError("exactly one of latency, errors is needed")
        elif self.signal is not None or self.limits:
            raise ValueError("objective: goes without signal and limits, which say the same")

    def __hash__(self) -> int:
        return hash(msgspec.json.encode(self, order="sorted"))


class SloFile(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """alerts/slo.yaml. period: the window of what names none; min_events: fewer in the long window of a burn rate
    cannot be judged; buckets: bounds of histograms whose servers have others than collectors/ declares."""

    slos: tuple[SloEntry, ...]
    period: str = PERIOD
    min_events: int = 100
    buckets: dict[str, tuple[float, ...]] = {}


@dataclass(frozen=True)
class Objectives:
    """slos: all in force, a promise before the starting point it replaces; min_events, buckets: as in `SloFile`;
    signals: the declared ones, and the quantiles that objectives ask for."""

    slos: tuple[Slo, ...] = ()
    min_events: int = 100
    buckets: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    signals: Mapping[str, Signal] = field(default_factory=dict)


def load_objectives(
    overlays: Iterable[Path], own: Sequence[tuple[str, SloSection]], signals: Mapping[str, Signal], tiers: Tiers
) -> Objectives:
    """All objectives. own: the sections of the configuration with their places. Raises CatalogueError: one line with
    the place, two places where they contradict each other."""
    path = content_file("alerts", FILE, overlays)
    if path is None:
        raise CatalogueError("alerts/slo.yaml: not found; it holds the service level objectives")
    file = decode(path, SloFile)
    slos: list[Slo] = []
    for number, entry in enumerate(file.slos):
        slos += _checked(entry, locate(path, ("slos", number)), file.period, signals, tiers)
    for where, section in own:
        slos += _checked(section, where, file.period, signals, tiers)
    kept = _agreeing(slos)
    needed = with_quantiles(signals, (slo.signal for slo in kept))
    return Objectives(tuple(kept), file.min_events, file.buckets, needed)


def _checked(
    section: SloSection, where: str, period: str, signals: Mapping[str, Signal], tiers: Tiers
) -> Iterator[Slo]:
    try:
        length_of(section.window or period, "window")
    except InferdocError as error:
        raise CatalogueError(f"{where}: {error}") from None
    if section.tier is not None and section.tier not in tiers.tiers:
        hint = nearest(section.tier, tiers.tiers) or f"; there are {', '.join(sorted(tiers.tiers))}"
        raise CatalogueError(f'{where}.tier: no tier is called "{section.tier}"{hint}')
    yield from _objectives(section, where, period, signals)


def _objectives(section: SloSection, where: str, period: str, signals: Mapping[str, Signal]) -> Iterator[Slo]:
    if isinstance(section, SloEntry) and section.objective is not None:
        section = _from_former(section, where, signals)
    if section.signal is not None and section.target is not None:
        name, kind = _signal(section.signal, section.percentile, where, signals)
        yield _slo(section, name, kind, _level(name, signals), section.target, where, period)
    for name, limit in section.limits.items():
        name, kind = _signal(name, None, f"{where}.limits", signals)
        yield _slo(section, name, kind, _level(name, signals), limit, where, period)


def _signal(name: str, percentile: float | None, where: str, signals: Mapping[str, Signal]) -> tuple[str, Kind]:
    """The signal that is compared with the target, and what is counted."""
    known = families(signals)
    if name in known and percentile is None:
        raise CatalogueError(f"{where}.percentile: missing; {name} is a histogram: write for example percentile 99")
    if name in known and percentile is not None:
        return quantile_name(name, percentile), "latency"
    match = NAME.fullmatch(name)
    if match and match["family"] in known:
        if percentile is not None and abs(share_of(name) - percentile / 100) > 1e-9:
            raise CatalogueError(f"{where}.percentile: {name} says another one than {percentile:g}: drop one of them")
        return name, "latency"
    if name not in signals:
        hint = nearest(name, (*known, *signals)) or "; inferdoc signals --list names them"
        raise CatalogueError(f'{where}: no signal is called "{name}"{hint}')
    if percentile is not None:
        raise CatalogueError(
            f"{where}.percentile: {name} has no histogram, so no percentile of it is known: leave it out, "
            f"or take one of {', '.join(sorted(known))}"
        )
    return name, "share" if events_of(signals[name]) is not None else "level"


def _level(name: str, signals: Mapping[str, Signal]) -> Level:
    return with_quantiles(signals, [name])[name].level


def _slo(section: SloSection, name: str, kind: Kind, level: Level, target: float, where: str, period: str) -> Slo:
    if kind == "share" and not target < 1:
        raise CatalogueError(f"{where}.target: {name} is a share of bad events: a number below 1, got {target:g}")
    good = share_of(name) if kind == "latency" else 1 - target if kind == "share" else None
    named = section.cluster, section.namespace, section.model, section.tier, section.role
    scope = Audience(*named, tuple(sorted(section.tenant.items())))
    if level in WIDE and (scope.tier or scope.role):
        raise CatalogueError(
            f"{where}: {name} is counted above the pods, where nothing says tier or role: leave them out"
        )
    parts = (name, *named, *(value for _, value in scope.tenant))
    made = re.sub(r"[^a-z0-9]+", "-", "-".join(part for part in parts if part).lower()).strip("-")
    return Slo(
        id=section.id or made,
        title=section.title or f"{name} at most {target:g}",
        signal=name,
        kind=kind,
        target=target,
        good=None if good is None else round(good, 9),
        window=section.window or period,
        scope=scope,
        agreed=section.promised,
        burn=section.burn and kind != "level",
        where=where,
    )


def _from_former(entry: SloEntry, where: str, signals: Mapping[str, Signal]) -> SloSection:
    """The same objective by its signal. Raises CatalogueError where none reads that series."""
    assert entry.objective is not None
    plain = {name: getattr(entry, name) for name in SloSection.__struct_fields__}
    if entry.latency is not None:
        named = families(signals).items()
        histogram = entry.latency.histogram
        family = next((f for f, name in named if signals[name].readings[0].quantile == histogram), None)
        if family is None:
            raise CatalogueError(
                f"{where}.latency: no signal reads {histogram}; declare one in collectors/signals.yaml"
            )
        changes = {"signal": family, "percentile": 100 * entry.objective, "target": entry.latency.within}
        return SloSection(**{**plain, **changes})
    assert entry.errors is not None
    for name, signal in signals.items():
        counted = events_of(signal)
        if counted is not None and (counted[0].rate, counted[0].match) == (entry.errors.counter, entry.errors.bad):
            return SloSection(**{**plain, "signal": name, "target": round(1 - entry.objective, 9)})
    raise CatalogueError(
        f"{where}.errors: no signal is the share of these events of {entry.errors.counter}; declare one in "
        "collectors/signals.yaml and name it with `signal`"
    )


def _agreeing(slos: Iterable[Slo]) -> list[Slo]:
    """The objectives without starting points that a promise replaces. Raises CatalogueError where two promise unlike
    things about the same, or share a name."""
    kept: dict[tuple[str, Audience], Slo] = {}
    for slo in slos:
        key = (slo.signal, slo.scope)
        known = kept.get(key)
        if known is not None and known.agreed and slo.agreed:
            if (known.target, known.window) != (slo.target, slo.window):
                raise CatalogueError(
                    f"{slo.where}: {slo.signal} for {slo.scope.text} is at most {slo.target:g} over {slo.window} here, "
                    f"and at most {known.target:g} over {known.window} in {known.where}: keep one of them"
                )
            continue
        if known is None or slo.agreed:
            kept[key] = slo
    agreed = [slo for slo in kept.values() if slo.agreed]
    replaced = {(_family(slo.signal), slo.scope) for slo in agreed}
    found = [slo for slo in kept.values() if slo.agreed or (_family(slo.signal), slo.scope) not in replaced]
    taken = {slo.id for slo in agreed}
    found = [slo if slo.agreed or slo.id not in taken else replace(slo, id=f"{slo.id}-start") for slo in found]
    names: dict[str, Slo] = {}
    for slo in found:
        if slo.id in names:
            raise CatalogueError(f'{slo.where}: an objective in {names[slo.id].where} is called "{slo.id}" too')
        names[slo.id] = slo
    return found


def _family(signal: str) -> str:
    match = NAME.fullmatch(signal)
    return match["family"] if match else signal
