"""Views of what the rules say: alerts that fire, budgets that are left, and how fast they burn."""

from __future__ import annotations

from inferdoc.catalogue.load import Catalogue
from inferdoc.catalogue.slo import FAST, SLOW
from inferdoc.generate.board_panel import AxisBounds, ColourStep, Panel, Query, any_of, view_panel
from inferdoc.generate.board_scope import matched
from inferdoc.generate.board_spec import PanelSpec, board_titles, load_boards
from inferdoc.generate.links import BOARD, GeneratedLinks, drill, with_board
from inferdoc.generate.slo import watched
from inferdoc.judging.conditions.render import number
from inferdoc.source.reads import Matcher, selector

BUDGET_LOW = 0.25
"""Own choice: below a quarter of its budget a service takes no risks."""


def alerts(spec: PanelSpec, catalogue: Catalogue, links: GeneratedLinks) -> Panel:
    """Alerts that fire, by what they are about."""
    boards = {name: board for name, (board, _) in load_boards(catalogue.overlays).items()}
    by = f"alertname, severity, namespace, model_name, pod, {BOARD}"
    since = f"min by ({by}) (time() - ({with_board(_since(), boards)}))"
    return view_panel(
        spec,
        "Firing alerts",
        "Alerts of inferdoc that fire now, before Alertmanager groups and inhibits them.",
        (Query(since, "For", unit="dtdurations"),),
        columns={
            "alertname": "Alert",
            BOARD: "Open",
            "severity": "Severity",
            "namespace": "Namespace",
            "model_name": "Model",
            "pod": "Pod",
        },
        first=("Alert", "For", "Open", "Severity", "Model", "Pod"),
        opens=board_titles(boards),
        nothing="no alert is firing",
    )


def firing(spec: PanelSpec, catalogue: Catalogue, links: GeneratedLinks) -> Panel:
    """How many alerts page, and how many are tickets."""
    return view_panel(
        spec,
        "Firing pages and tickets",
        "Alerts of inferdoc that fire now: critical ones page, warnings are tickets.",
        tuple(
            Query(f"count({_firing(severity)}) or vector(0)", word, steps=any_of(colour))
            for severity, word, colour in (("critical", "pages", "red"), ("warning", "tickets", "orange"))
        ),
        steps=any_of("red"),
    )


def _firing(severity: str = "critical|warning") -> str:
    return selector("ALERTS", (("alertstate", "=", "firing"), *_about(severity)))


def _since() -> str:
    """When the alerts that fire became active, Unix seconds."""
    active = selector("ALERTS_FOR_STATE", _about("critical|warning"))
    return f"{active} and ignoring (alertstate) {_firing()}"


def _about(severity: str) -> tuple[Matcher, ...]:
    return ("component", "=", "inferdoc"), ("severity", "=~", severity), ("namespace", "=~", "$namespace|")


def budget(spec: PanelSpec, catalogue: Catalogue, links: GeneratedLinks) -> Panel:
    """What is left of each error budget, of the pool that has least."""
    objectives = "; ".join(f"{slo.title} ({slo.good:.2%} over {slo.window})" for slo in watched(catalogue))
    return view_panel(
        spec,
        "Error budget left",
        f"Of the pool that has least, over the period of the objective: {objectives}. Below 0 the objective is missed.",
        tuple(
            Query(
                f"min(1 - (sum_over_time({_slo(slo.id, 'bad')}[{slo.window}]) / (sum_over_time({_slo(slo.id, 'all')}"
                f"[{slo.window}]) > 0)) / {number(1 - (slo.good or 0))})",
                slo.id,
            )
            for slo in watched(catalogue)
        ),
        unit="percentunit",
        steps=(ColourStep("red", None), ColourStep("yellow", 0), ColourStep("green", BUDGET_LOW)),
    )


def burn(spec: PanelSpec, catalogue: Catalogue, links: GeneratedLinks) -> Panel:
    """How fast the budgets burn, and at what rate that pages."""
    found = watched(catalogue)
    factors = sorted({round(each.factor(slo.window), 2) for slo in found for each in (FAST[0], SLOW[-1])})
    return view_panel(
        spec,
        "Error budget burn over 1 h",
        "Times faster than the budget allows, of each pool and objective: at 1 it is spent exactly at the end of the "
        "period. The upper line pages.",
        tuple(
            Query(
                f"{_slo(slo.id, 'bad', 'ratio1h')} / {number(1 - (slo.good or 0))}",
                f"{slo.id} {{{{model_name}}}} {{{{role}}}} {{{{tier}}}}",
            )
            for slo in found
        ),
        steps=(
            ColourStep("green", None),
            *(ColourStep("yellow", value) for value in factors[:-1]),
            *(ColourStep("red", value) for value in factors[-1:]),
        ),
        bounds=AxisBounds(0, soft=max(factors, default=None)),
        axis="times",
        drill=drill(("model_name", "role", "tier")),
    )


def _slo(name: str, kind: str, operation: str = "rate5m") -> str:
    scope = ("cluster", "namespace", "model_name", "role", "tier")
    return selector(f"model:inferdoc_slo_{name.replace('-', '_')}_{kind}:{operation}", matched(scope))
