"""The panels of a board with queries, units, descriptions and thresholds from the catalogue."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from inferdoc.catalogue.conditions import leaves
from inferdoc.catalogue.document import locate, nearest
from inferdoc.catalogue.load import Catalogue
from inferdoc.catalogue.signal import Level
from inferdoc.errors import CatalogueError
from inferdoc.generate.board_panel import HEIGHTS, Panel, Query, bounds, colour_steps, panel_steps, unit_of
from inferdoc.generate.board_scope import MATCHED, engines, matched, pods
from inferdoc.generate.board_spec import BoardSpec, PanelSpec, RowSpec
from inferdoc.generate.board_views import VIEWS, view
from inferdoc.generate.links import GeneratedLinks, drill
from inferdoc.judging.conditions.render import POOL, Rendering, clause, number

RATE_INTERVAL = "$__rate_interval"
MOST_RUNBOOKS = 3

LINES: dict[Level, tuple[str, ...]] = {
    "engine": ("namespace", "pod"),
    "target": ("namespace", "pod"),
    "gpu": ("namespace", "pod", "gpu"),
    "router": ("namespace", "name"),
    "tenant": ("namespace", "fairness_id", "priority"),
    "namespace": ("namespace",),
}
LEGENDS: dict[Level, str] = {
    "engine": "{{pod}}",
    "target": "{{pod}}",
    "gpu": "{{pod}} GPU {{gpu}}",
    "router": "{{namespace}} {{name}}",
    "tenant": "{{fairness_id}} {{priority}}",
    "namespace": "{{namespace}}",
}
OF_PODS: tuple[Level, ...] = ("engine", "target", "gpu")
"""Levels whose series belong to a pod, which has a role and a tier."""
HEADINGS = {"model_name": "Model", "role": "Role", "tier": "Tier", "pod": "Pod", "engine": "Rank", "gpu": "GPU"}


def panels(
    board: BoardSpec, path: Path, catalogue: Catalogue, links: GeneratedLinks
) -> Iterator[tuple[RowSpec, list[Panel]]]:
    """The rows with their panels. Raises CatalogueError for a signal that is unknown or that no query can show."""
    for row_number, row in enumerate(board.rows):
        made = []
        for number_, spec in enumerate(row.panels):
            _refuse(
                spec,
                locate(path, ("rows", row_number, "panels", number_, "view" if spec.view else "signal")),
                catalogue,
            )
            made.append(view(spec, catalogue, links) if spec.view else panel(spec, catalogue, links))
        yield row, made


def _refuse(spec: PanelSpec, at: str, catalogue: Catalogue) -> None:
    if bool(spec.view) == bool(spec.signals):
        raise CatalogueError(f"{at}: a panel shows either signals or a view")
    if spec.view and spec.view not in VIEWS:
        raise CatalogueError(f'{at}: no view "{spec.view}"{nearest(spec.view, VIEWS)}')
    for name in spec.signals:
        if name not in catalogue.signals_of_rules:
            raise CatalogueError(f'{at}: no signal "{name}"{nearest(name, catalogue.signals_of_rules)}')
        if query(spec, name, catalogue) is None:
            raise CatalogueError(f"{at}: no query can show {name}")


def panel(spec: PanelSpec, catalogue: Catalogue, links: GeneratedLinks) -> Panel:
    """One panel of the board that shows signals."""
    names = spec.signals
    first = catalogue.signals_of_rules[names[0]]
    unit = spec.unit or unit_of(first)
    axis = "" if unit != "short" else first.unit
    plain = f"{first.title} ({axis})" if axis and spec.viz == "stat" else first.title
    steps = panel_steps(spec, catalogue)
    labels = _labels(spec, first.level)
    columns = {label: HEADINGS.get(label, label) for label in labels} if spec.viz == "table" else {}
    return Panel(
        title=spec.title or plain,
        description=_description(spec, catalogue),
        viz=spec.viz,
        queries=tuple(_queries(spec, catalogue)),
        unit=unit,
        axis=axis if spec.viz == "timeseries" else "",
        steps=steps,
        links=tuple(
            (f"Runbook: {cause}", page) for cause in _causes(names, catalogue) if (page := links.runbook(cause))
        ),
        width=spec.width,
        height=spec.height or HEIGHTS[spec.viz],
        stack=spec.stack,
        instant=spec.viz != "timeseries",
        bounds=bounds(first, steps),
        names=spec.viz == "stat" and (len(names) > 1 or bool(spec.by)),
        drill=drill(labels, rows=spec.viz == "table"),
        columns=columns,
    )


def _queries(spec: PanelSpec, catalogue: Catalogue) -> Iterator[Query]:
    for name in spec.signals:
        found = query(spec, name, catalogue)
        if found is None:
            continue
        signal = catalogue.signals_of_rules[name]
        if spec.viz == "table":
            heading = spec.names.get(name) or signal.title
            unit = "short" if heading.endswith("/s") else unit_of(signal)
            found = replace(found, legend=heading, unit=unit, steps=colour_steps((name,), catalogue))
        if spec.worst is None:
            yield found
        else:
            yield from _worst(spec, found, catalogue)


def _worst(spec: PanelSpec, found: Query, catalogue: Catalogue) -> Iterator[Query]:
    """The members that were worst at some time of the range shown, and the median of all like ones to hold them
    against: on a fleet of 64 pods nobody reads 64 lines."""
    signal = catalogue.signals_of_rules[found.signal]
    labels = ", ".join(_labels(spec, signal.level))
    pick, extreme = ("bottomk", "min") if signal.harm == "down" else ("topk", "max")
    past = f"{extreme}_over_time({clause(found.expr)}[$__range:{RATE_INTERVAL}] @ end())"
    yield replace(found, expr=f"{clause(found.expr)}\nand on ({labels}) {pick}({spec.worst}, {past})")
    if signal.unit == "bool":
        return
    like = ", ".join(label for label in POOL if signal.level in OF_PODS)
    legend = "median {{role}} {{tier}}" if like else "median"
    yield Query(f"quantile by ({like}) (0.5, {found.expr})", legend, found.signal, quiet=True)
    if like:
        yield from _limits_of_tiers(found, catalogue)


def _limits_of_tiers(found: Query, catalogue: Catalogue) -> Iterator[Query]:
    """The limit of each tier whose pods are shown, where the band of the signal is another on other tiers."""
    limits = dict[str, float]()
    for tier in catalogue.tiers.tiers:
        band = next((each for each in catalogue.tiers.bands_of(tier) if each.signal == found.signal), None)
        limit = None if band is None else band.bad if band.bad is not None else band.high
        if limit is not None:
            limits[tier] = limit
    if len(set(limits.values())) < 2:
        return
    lines = (f'label_replace(vector({number(limit)}), "tier", "{tier}", "", "")' for tier, limit in limits.items())
    yield Query(
        f"({' or '.join(lines)})\nand on (tier) {clause(found.expr)}", "limit {{tier}}", found.signal, quiet=True
    )


def _labels(spec: PanelSpec, level: Level) -> tuple[str, ...]:
    """Labels of the series that a panel shows."""
    if spec.by is not None:
        return spec.by
    return (*LINES[level], *POOL) if spec.worst is not None and level in OF_PODS else LINES[level]


def query(spec: PanelSpec, name: str, catalogue: Catalogue) -> Query | None:
    """The query of a signal in a panel; None where PromQL cannot say the signal."""
    signal = catalogue.signals_of_rules[name]
    labels = _labels(spec, signal.level)
    rendering = Rendering(
        catalogue.signals_of_rules,
        catalogue.tiers,
        window=RATE_INTERVAL,
        extra=matched(MATCHED[signal.level]),
        by=(spec.of or LINES[signal.level]) if spec.over or spec.below is not None else labels,
        engines=engines(),
        pods=pods(signal.level, spec.roles, spec.only),
        called=catalogue.aliases.called,
    )
    split = not spec.over and spec.by is not None and _blends(name, rendering)
    if split:
        rendering = replace(rendering, by=tuple(dict.fromkeys((*labels, *POOL))))
    text = rendering.signal(name)
    if text is None:
        return None
    if spec.over:
        text = f"{spec.over} by ({', '.join(labels)}) ({text})"
    if spec.below is not None:
        text = f"count({clause(text)} < {number(spec.below)}) or vector(0)"
    legend = spec.legend if spec.legend is not None else (LEGENDS[signal.level] if spec.by is None else signal.title)
    legend += "".join(f" {{{{{label}}}}}" for label in POOL if split and label not in (spec.by or ()))
    return Query(
        text, f"{legend} {spec.names.get(name) or _difference(name)}" if len(spec.signals) > 1 else legend, name
    )


def _blends(name: str, rendering: Rendering) -> bool:
    """Whether a signal of several pods is one number for all: of unlike pods that describes none. Sums and maxima are
    not meant."""
    reading = rendering.reading(name)
    of_pods = rendering.level(name) in OF_PODS
    return of_pods and reading is not None and bool(reading.quantile or reading.mean or reading.formula)


def _description(spec: PanelSpec, catalogue: Catalogue) -> str:
    """What the signals are, what to know about them, what to switch on where nothing shows."""
    parts = []
    names = spec.signals
    for name in names:
        signal = catalogue.signals_of_rules[name]
        parts.append(f"{signal.title} ({signal.unit}).")
        parts += [f"{text[:1].upper()}{text[1:]}." for text in (signal.note,) if text]
    if spec.worst is not None:
        parts.append(f"The {spec.worst} worst of the time shown, and the median of each role and tier (dashed).")
        if any(True for name in names for _ in _limits_of_tiers(Query("", "", name), catalogue)):
            parts.append("Limits are those of the tiers (dashed).")
    if spec.roles:
        parts.append(
            f"Of the pods whose role is {' or '.join(spec.roles)}: with prefill and decode apart, both count a request."
        )
    parts += [f"SLO for {slo.scope.text}: {slo.title}." for slo in catalogue.slos if slo.signal in names]
    enables = dict.fromkeys(catalogue.signals_of_rules[n].enable for n in names if catalogue.signals_of_rules[n].enable)
    parts += [f"Empty? {str(text)[:1].upper()}{str(text)[1:]}." for text in enables]
    return " ".join(parts)


def _causes(names: tuple[str, ...], catalogue: Catalogue) -> list[str]:
    """Causes whose first signs these signals are: the runbooks a panel links to."""
    found = []
    for recipe in catalogue.recipes.values():
        signs = [leaf.signal for condition in recipe.symptoms for leaf in leaves(condition)]
        ranks = [place for place, sign in enumerate(signs) if sign in names]
        if ranks and recipe.alert is not None and recipe.alert.none_because is None:
            found.append((ranks[0], recipe.id))
    return [cause for _, cause in sorted(found)[:MOST_RUNBOOKS]]


def _difference(name: str) -> str:
    """ttft_p99 -> p99."""
    return name.rsplit("_", 1)[-1]
