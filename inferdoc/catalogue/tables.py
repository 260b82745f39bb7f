"""The small tables of the catalogue: flags of vLLM, named models, counts of right findings, markers, health rows."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

import msgspec

from inferdoc.catalogue.recipe import Certainty
from inferdoc.catalogue.signal import HealthRow, Marker, Signal

Version = tuple[int, ...]


class Flag(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """since: the release that brought it (None: older than any that was looked at); until: the last that had it (None:
    it is there); instead: what to say for a flag that is gone."""

    since: str | None = None
    until: str | None = None
    instead: str | None = None


class Flags(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """`vllm-flags.yaml`. landmarks: metric families that every page has from a release on."""

    flags: dict[str, Flag] = {}
    landmarks: dict[str, str] = {}

    def older_than(self, names: Collection[str]) -> str | None:
        """The earliest release that the engines are older than, by the names of the series that a source has; None
        where no engine is seen or nothing is missing. Filters that drop series make engines look older."""
        seen = {name.removesuffix("_total").removesuffix("_count") for name in names if name.startswith("vllm:")}
        if not seen:
            return None
        missing = [release for family, release in self.landmarks.items() if family not in seen]
        return min(missing, key=version, default=None)

    def too_new(self, flags: Iterable[str], older_than: str) -> Mapping[str, str]:
        """Those of some flags that came with this release or a later one, each with the release."""
        limit = version(older_than)
        came = {flag: self.flags[flag].since for flag in flags if flag in self.flags}
        return {flag: since for flag, since in came.items() if since is not None and version(since) >= limit}

    def problems(self) -> list[str]:
        """What is wrong with the table, one line each."""
        found = [f"{name}: a flag that is gone says what to say instead" for name, f in self.flags.items() if _mute(f)]
        releases = [(name, r) for name, f in self.flags.items() for r in (f.since, f.until) if r is not None]
        for name, release in [*releases, *self.landmarks.items()]:
            if not all(part.isdigit() for part in release.split(".")):
                found.append(f'{name}: "{release}" is not a release such as 0.31')
        return found


def _mute(flag: Flag) -> bool:
    return flag.until is not None and not flag.instead


def version(release: str) -> Version:
    """0.11.1 as (0, 11, 1)."""
    return tuple(int(part) for part in release.split("."))


class Bin(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """right, of: how many first findings of a certainty named an accepted cause."""

    certainty: Certainty
    right: int
    of: int


class Calibration(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """`diagnostics/calibration.yaml`: the counts, and what they were counted on."""

    bins: tuple[Bin, ...] = ()
    counted_on: str = ""

    def probability(self, certainty: Certainty) -> float:
        """0..1: how often a finding of this certainty is right."""
        right = sum(each.right for each in self.bins if each.certainty == certainty)
        of = sum(each.of for each in self.bins if each.certainty == certainty)
        return round((right + 1) / (of + 2), 2)


class KnownModel(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """title: the name under which its makers publish it; parameters, active (per token; of a dense model all): as they
    count them; config: the keys of its config.json that sizing reads."""

    title: str
    parameters: float
    config: dict[str, Any]
    source: str
    active: float | None = None


class KnownModels(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """By short name."""

    models: dict[str, KnownModel] = {}


class SignalFile(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """A `signals*.yaml`: signals by id."""

    signals: dict[str, Signal]


class MarkerFile(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """`changes.yaml`: what shows that something was changed."""

    markers: tuple[Marker, ...] = ()


class HealthFile(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """`health.yaml`: the monitoring table."""

    rows: tuple[HealthRow, ...] = ()
