"""What a panel shows, free of any product's format."""

from __future__ import annotations

from dataclasses import dataclass, field

from inferdoc.generate.board_spec import Viz


@dataclass(frozen=True)
class ColourStep:
    """From this value on the colour holds; None: from below everything."""

    colour: str
    value: float | None


HEIGHTS = {"stat": 4, "timeseries": 8, "table": 8}
"""Rows of the grid, where a board file says nothing else."""
PLAIN = (ColourStep("text", None),)
"""Nothing is known to be good or bad."""


@dataclass(frozen=True)
class Query:
    """legend: of the lines, or the name of the column; quiet: drawn in the background, to compare with; colour: of
    every line; unit, steps: of a column, where those of the panel are not its own."""

    expr: str
    legend: str
    signal: str = ""
    quiet: bool = False
    colour: str | None = None
    unit: str | None = None
    steps: tuple[ColourStep, ...] = ()


@dataclass(frozen=True)
class AxisBounds:
    """Of the axis. soft: it reaches at least so far, so that noise does not fill the panel."""

    low: float | None = None
    high: float | None = None
    soft: float | None = None


@dataclass(frozen=True)
class Panel:
    """links: (title, address) above the panel; drill: the same for a line or row, with its labels filled in; columns:
    label -> heading, in order; first: headings that come before these; opens: titles by uid of the dashboards that the
    column `board` leads to; names: a stat shows the legends too; word: instead of the number."""

    title: str
    description: str
    viz: Viz
    queries: tuple[Query, ...]
    unit: str
    axis: str
    steps: tuple[ColourStep, ...]
    links: tuple[tuple[str, str], ...]
    width: int
    height: int
    stack: bool
    instant: bool
    bounds: AxisBounds = AxisBounds()
    drill: tuple[tuple[str, str], ...] = ()
    columns: dict[str, str] = field(default_factory=dict)
    first: tuple[str, ...] = ()
    opens: dict[str, str] = field(default_factory=dict)
    names: bool = False
    word: bool = False
    nothing: str = "no data"
