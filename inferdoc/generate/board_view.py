"""What the views of a board are made with."""

from __future__ import annotations

from inferdoc.generate.board_panel import HEIGHTS, PLAIN, AxisBounds, ColourStep, Panel, Query
from inferdoc.generate.board_spec import PanelSpec


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
    bounds: AxisBounds = AxisBounds(),  # noqa: B008
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
