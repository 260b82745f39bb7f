"""What a panel shows, free of any product's format."""

from __future__ import annotations

from dataclasses import dataclass, field

from inferdoc.catalogue.load import Catalogue
from inferdoc.catalogue.signal import Band, Signal
from inferdoc.generate.board_spec import PanelSpec, Viz


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


UNITS = {
    "s": "s",
    "ratio": "percentunit",
    "1/s": "cps",
    "bytes/s": "Bps",
    "bytes": "bytes",
    "W": "watt",
    "C": "celsius",
    "MiB": "mbytes",
    "bool": "bool_yes_no",
    "s/token": "s",
}
"""Units that Grafana knows; the others are plain numbers with the unit on the axis."""
SWINGS = 5
"""An axis reaches over so many of the smallest changes that matter: what is less is noise, and looks like it."""
COUNTED = ("requests", "replicas", "count", "GPUs")
"""Units of what is counted: as a single number it is good or bad by being there at all."""
ANY_VALUE = ("C",)
"""Units whose zero is no lower end worth showing."""


def unit_of(signal: Signal) -> str:
    return UNITS.get(signal.unit, "short")


def bounds(signal: Signal, steps: tuple[ColourStep, ...]) -> AxisBounds:
    """From zero; up to the top of a share, unless it is one of which a little is already bad."""
    if signal.unit in ANY_VALUE:
        return AxisBounds()
    if signal.unit == "bool":
        return AxisBounds(0, 1)
    limits = [step.value for step in steps if step.value is not None]
    little = signal.harm == "up" and (not limits or max(limits) <= (signal.top or 0) / 2)
    if signal.top is not None and not little:
        return AxisBounds(0, signal.top)
    return AxisBounds(0, soft=float(f"{SWINGS * signal.floor:g}") or None)


def colour_steps(names: tuple[str, ...], catalogue: Catalogue) -> tuple[ColourStep, ...]:
    """The objective of one of the signals, else the band of the first."""
    return objective_steps(names, catalogue) or steps(names[0], catalogue.signals_of_rules[names[0]], catalogue)


def panel_steps(spec: PanelSpec, catalogue: Catalogue) -> tuple[ColourStep, ...]:
    """Colours of a panel. Of a stat without band or objective: whether there is any of what it counts."""
    signal = catalogue.signals_of_rules[spec.signals[0]]
    if spec.below is not None:
        return (ColourStep("green", None), ColourStep("red", 1))
    found = colour_steps(spec.signals, catalogue)
    if spec.viz != "stat" or found != PLAIN or signal.unit not in COUNTED:
        return found
    if signal.harm == "down":
        return (ColourStep("red", None), ColourStep("green", signal.floor))
    return found if signal.harm != "up" else (ColourStep("green", None), ColourStep("yellow", signal.floor))


def objective_steps(names: tuple[str, ...], catalogue: Catalogue) -> tuple[ColourStep, ...]:
    """Threshold lines at the objectives of one of the signals: red from the loosest on, yellow from the others."""
    targets = sorted({slo.target for slo in catalogue.slos if slo.signal in names})
    if not targets:
        return ()
    found = [ColourStep("green", None), *(ColourStep("yellow", target) for target in targets[:-1])]
    return (*found, ColourStep("red", targets[-1]))


def steps(name: str, signal: Signal, catalogue: Catalogue) -> tuple[ColourStep, ...]:
    """Threshold lines of the signal's band: where it is watched and where it is bad."""
    band = next(
        (b for b in catalogue.tiers.bands.values() if b.signal == name and b.roles in ((), ("decode", "both"))), None
    )
    if band is None:
        return PLAIN
    if band.high is not None or (band.low is None and signal.harm != "down"):
        return _upwards(band)
    return _downwards(band)


def _upwards(band: Band) -> tuple[ColourStep, ...]:
    beyond = [v for v in (band.warn, band.bad) if v is not None and (band.high is None or v >= band.high)]
    limits = sorted({*beyond, *([band.high] if band.high is not None else [])})
    if len(limits) == 1:
        colour = "red" if band.bad == limits[0] else "yellow"
        return (ColourStep("green", None), ColourStep(colour, limits[0]))
    colours = ("yellow", "orange", "red") if len(limits) == 3 else ("yellow", "red")
    return (ColourStep("green", None), *map(ColourStep, colours, limits))


def _downwards(band: Band) -> tuple[ColourStep, ...]:
    limits = sorted({v for v in (band.bad, band.warn, band.low) if v is not None})
    if len(limits) == 1:
        return (ColourStep("red" if band.bad == limits[0] else "yellow", None), ColourStep("green", limits[0]))
    return (ColourStep("red", None), ColourStep("yellow", limits[0]), ColourStep("green", limits[-1]))


def any_of(colour: str) -> tuple[ColourStep, ...]:
    """Green at none, this colour from one on."""
    return (ColourStep("green", None), ColourStep(colour, 1))


def view_panel(
    spec: PanelSpec,
    title: str,
    description: str,
    queries: tuple[Query, ...],
    *,
    unit: str = "short",
    steps: tuple[ColourStep, ...] = PLAIN,
    bounds: AxisBounds = AxisBounds(),
    axis: str = "",
    drill: tuple[tuple[str, str], ...] = (),
    columns: dict[str, str] | None = None,
    first: tuple[str, ...] = (),
    opens: dict[str, str] | None = None,
    word: bool = False,
    nothing: str = "no data",
) -> Panel:
    """The panel of a view, with what its board file says of it."""
    return Panel(
        title=spec.title or title,
        description=description,
        viz=spec.viz,
        queries=queries,
        unit=spec.unit or unit,
        axis=axis,
        steps=steps,
        links=(),
        width=spec.width,
        height=spec.height or HEIGHTS[spec.viz],
        stack=spec.stack,
        instant=spec.viz != "timeseries",
        bounds=bounds,
        drill=drill,
        columns=columns or {},
        first=first,
        opens=opens or {},
        names=len(queries) > 1,
        word=word,
        nothing=nothing,
    )
