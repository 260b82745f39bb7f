"""The declaration of a board: rows of panels, each of a signal or of a named view."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import msgspec

from inferdoc.catalogue.content import content_files
from inferdoc.catalogue.document import decode

Viz = Literal["timeseries", "stat", "table"]
Feature = Literal["adapters", "drafts", "ranks"]
Over = Literal["sum", "max", "min"]


class PanelSpec(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """One panel of a board file; see dashboards/fleet-overview.yaml for what the keys mean."""

    signal: str | tuple[str, ...] = ()
    view: str | None = None
    viz: Viz = "timeseries"
    title: str | None = None
    by: tuple[str, ...] | None = None
    of: tuple[str, ...] | None = None
    over: Over | None = None
    below: float | None = None
    roles: tuple[str, ...] = ()
    only: Feature | None = None
    worst: int | None = None
    names: dict[str, str] = {}
    unit: str | None = None
    legend: str | None = None
    width: int = 8
    height: int | None = None
    stack: bool = False

    @property
    def signals(self) -> tuple[str, ...]:
        return (self.signal,) if isinstance(self.signal, str) else self.signal


class RowSpec(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """title: none for a row without a heading; text: instead of panels."""

    title: str = ""
    panels: tuple[PanelSpec, ...] = ()
    collapsed: bool = False
    text: str | None = None


class BoardSpec(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """A board file. question: what a reader comes with, for the page that shows all boards; causes: ids or
    patterns (`kv-*`) of the findings that lead here."""

    uid: str
    title: str
    description: str
    rows: tuple[RowSpec, ...]
    question: str = ""
    causes: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    refresh: str = "30s"
    since: str = "1h"


def board_titles(boards: Mapping[str, BoardSpec]) -> dict[str, str]:
    """Titles without the name of the product, by uid."""
    plain = {each.uid: each.title.removeprefix("inferdoc: ") for each in boards.values()}
    return {uid: f"{title[:1].upper()}{title[1:]}" for uid, title in plain.items()}


def load_boards(overlays: tuple[Path, ...] = ()) -> dict[str, tuple[BoardSpec, Path]]:
    """The board files by name. Raises CatalogueError."""
    found = content_files("dashboards", overlays=overlays)
    return {Path(name).stem: (decode(path, BoardSpec), path) for name, path in found.items()}
