"""Panels of `inferdoc headroom` and `inferdoc cost`: room at the SLO, its clock, and where the money goes."""

from __future__ import annotations

from inferdoc.catalogue.load import Catalogue
from inferdoc.generate.board_panel import AxisBounds, ColourStep, Panel, Query
from inferdoc.generate.board_scope import matched
from inferdoc.generate.board_spec import PanelSpec
from inferdoc.generate.board_view import view_panel
from inferdoc.generate.links import GeneratedLinks
from inferdoc.source.reads import selector

HEADROOM = "Empty? Run inferdoc headroom -o prometheus for the textfile collector of a node exporter."
COST = "Empty? Run inferdoc cost -o prometheus for the textfile collector of a node exporter."
POOL = ("pool", "model_name", "role", "tier")
FULL = (ColourStep("green", None), ColourStep("yellow", 0.9), ColourStep("red", 1.0))
"""S22 of the audit: above 0.9 the next burst breaks the SLO."""


def _of_pool(name: str, **labels: str) -> str:
    """The series of a name, of the models, roles and tiers that are chosen, once however often it is scraped."""
    match = tuple((label, "=", value) for label, value in labels.items())
    by = ", ".join((*POOL, *("lost",) * (name == "inferdoc_headroom_after_loss")))
    return f"max by ({by}) ({selector(name, (*match, *matched(POOL[1:])))})"  # type: ignore[arg-type]


def headroom(spec: PanelSpec, catalogue: Catalogue, links: GeneratedLinks) -> Panel:
    """A row for each pool."""
    crossing = _of_pool("inferdoc_headroom_crossing_timestamp_seconds", path="earliest")
    return view_panel(
        spec,
        "Room of every pool at its SLO",
        f"Load at its peak over what the replicas carry, replicas to spare at the peak, and the clock. {HEADROOM}",
        (
            Query(_of_pool("inferdoc_headroom_used", load="peak"), "Peak over usable", unit="percentunit", steps=FULL),
            Query(_of_pool("inferdoc_headroom_replicas", what="counted"), "Replicas", unit="short"),
            Query(_of_pool("inferdoc_headroom_replicas", what="to_spare"), "To spare", unit="short"),
            Query(f"{crossing} - time()", "May cross in", unit="dtdurations"),
            Query(_of_pool("inferdoc_headroom_replicas", what="to_add"), "To add by then", unit="short"),
        ),
        columns={"pool": "Pool", "model_name": "Model", "role": "Role", "tier": "Tier"},
        nothing="no headroom reported",
    )


def headroom_after_loss(spec: PanelSpec, catalogue: Catalogue, links: GeneratedLinks) -> Panel:
    """A line for each pool and kind of loss."""
    return view_panel(
        spec,
        "Peak on the others after a loss",
        f"Above 100 % the peak does not hold without the pod, the fullest node or the fullest zone. {HEADROOM}",
        (Query(_of_pool("inferdoc_headroom_after_loss"), "{{pool}}, {{lost}}"),),
        unit="percentunit",
        steps=(ColourStep("green", None), ColourStep("red", 1.0)),
        bounds=AxisBounds(0, soft=1.0),
        axis="of what is left",
    )


def cost_by_part(spec: PanelSpec, catalogue: Catalogue, links: GeneratedLinks) -> Panel:
    """A line for each part of the bill."""
    return view_panel(
        spec,
        "GPU time by what it went into",
        f"GPU-hours of the billed window; the parts add up to the whole. {COST}",
        (Query("sum by (part) (max by (name, part) (inferdoc_cost_gpu_hours))", "{{part}}"),),
        bounds=AxisBounds(0),
        axis="GPU-hours",
    )


def cost_per_million(spec: PanelSpec, catalogue: Catalogue, links: GeneratedLinks) -> Panel:
    """A line for each row of the bill."""
    return view_panel(
        spec,
        "A million output tokens, all in",
        f"All of the cost over the output tokens; nothing without a price. {COST}",
        (
            Query(
                'max by (name, currency) (inferdoc_cost_per_million_tokens{tokens="output_all_in"})',
                "{{name}}, {{currency}}",
            ),
        ),
        bounds=AxisBounds(0),
        axis="money",
    )
