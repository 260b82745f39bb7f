"""Rule sets: which alerts are built together, from alerts/sets.yaml, and what a set has cost."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Literal

import msgspec

from inferdoc.catalogue.content import content_file
from inferdoc.catalogue.document import decode, locate
from inferdoc.errors import CatalogueError

RuleSetName = Literal["pages", "standard", "full"]
NAMES: tuple[RuleSetName, ...] = ("pages", "standard", "full")
FILE, COST = "sets.yaml", "cost.yaml"


class RuleSets(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """alerts/sets.yaml: names of alerts. standard: those beside the pages."""

    pages: tuple[str, ...]
    standard: tuple[str, ...]


class SetCost(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """What a set cost a Prometheus as measured. series: recorded; share: of the raw series; cpu_seconds: a minute."""

    series: int
    share: float
    cpu_seconds: float


class Costs(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """alerts/cost.yaml: the measurement of `benchmarks/rule_cost.py`. measured: date, commit and command."""

    measured: str
    pods: int
    sets: dict[RuleSetName, SetCost]


def alerts_of_set(name: RuleSetName, known: Collection[str], overlays: tuple[Path, ...] = ()) -> frozenset[str] | None:
    """The names of the alerts of a set; None for all. known: every alert that there is, built or disabled.

    Raises CatalogueError where alerts/sets.yaml is wrong.
    """
    if name == "full":
        return None
    path = _file(FILE, overlays)
    found = decode(path, RuleSets)
    for key, names in (("pages", found.pages), ("standard", found.standard)):
        for index, each in enumerate(names):
            if each not in known:
                raise CatalogueError(f"{locate(path, (key, index))}: no alert is called {each!r}")
    return frozenset(found.pages if name == "pages" else (*found.pages, *found.standard))


def cost_of_set(name: RuleSetName, overlays: tuple[Path, ...] = ()) -> str:
    """What a set cost when it was measured, in words. Raises CatalogueError where alerts/cost.yaml is wrong."""
    found = decode(_file(COST, overlays), Costs)
    cost = found.sets[name]
    return (
        f"cost at {found.pods} pods: {cost.series:,} recorded series ({cost.share:.1%} of the raw series), "
        f"{cost.cpu_seconds:.2f} s of CPU a minute (measured {found.measured})"
    )


def _file(name: str, overlays: tuple[Path, ...]) -> Path:
    path = content_file("alerts", name, overlays)
    if path is None:
        raise CatalogueError(f"alerts/{name}: not found; reinstall inferdoc or restore the file")
    return path
