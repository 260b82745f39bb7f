"""A board as declared, and its panels with queries, units, descriptions and thresholds from the catalogue."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import msgspec

from inferdoc.catalogue.conditions import leaves
from inferdoc.catalogue.content import content_files
from inferdoc.catalogue.document import decode, locate, nearest
from inferdoc.catalogue.load import Catalogue
from inferdoc.catalogue.signal import Band, Level, Signal
from inferdoc.errors import CatalogueError
from inferdoc.generate.links import GeneratedLinks
from inferdoc.generate.pod_info import chosen
from inferdoc.judging.conditions.render import ENGINE_SIGN, POOL, Rendering
from inferdoc.source.reads import Matcher, selector

Viz = Literal["timeseries", "stat"]
RATE_INTERVAL = "$__rate_interval"
SEEN_WITHIN = "1h"
"""An engine that stopped answering shows as down for so long."""
MOST_RUNBOOKS = 3

SCRAPED: tuple[str, ...] = ("cluster", "job", "instance")
MATCHED: dict[Level, tuple[str, ...]] = {
    "engine": ("cluster", "namespace", "model_name", "pod", "job", "instance"),
    "target": ("cluster", "namespace", "pod", "job", "instance"),
    "gpu": SCRAPED,
    "router": ("cluster", "namespace", "job", "instance"),
    "tenant": ("cluster", "namespace", "job", "instance"),
    "namespace": ("cluster", "namespace"),
}
"""Variables that narrow the series of a level. GPU exporters carry the pod that uses a GPU in another label."""

LINES: dict[Level, tuple[str, ...]] = {
    "engine": ("namespace", "pod", "engine"),
    "target": ("namespace", "pod"),
    "gpu": ("pod", "gpu", "modelName"),
    "router": ("namespace", "name"),
    "tenant": ("namespace", "fairness_id", "priority"),
    "namespace": ("namespace",),
}
LEGENDS: dict[Level, str] = {
    "engine": "{{pod}} {{engine}}",
    "target": "{{pod}}",
    "gpu": "{{pod}} GPU {{gpu}}",
    "router": "{{name}}",
    "tenant": "{{fairness_id}} {{priority}}",
    "namespace": "{{namespace}}",
}
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


class PanelSpec(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """One panel of a board file; see dashboards/fleet-overview.yaml for what the keys mean."""

    signal: str | tuple[str, ...]
    viz: Viz = "timeseries"
    title: str | None = None
    by: tuple[str, ...] | None = None
    sum: bool = False
    unit: str | None = None
    legend: str | None = None
    width: int = 8
    height: int | None = None
    stack: bool = False

    @property
    def signals(self) -> tuple[str, ...]:
        return (self.signal,) if isinstance(self.signal, str) else self.signal


class RowSpec(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    title: str
    panels: tuple[PanelSpec, ...] = ()
    collapsed: bool = False
    text: str | None = None


class BoardSpec(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """A board file."""

    uid: str
    title: str
    description: str
    rows: tuple[RowSpec, ...]
    tags: tuple[str, ...] = ()
    refresh: str = "30s"
    since: str = "1h"


@dataclass(frozen=True)
class Query:
    expr: str
    legend: str
    signal: str


@dataclass(frozen=True)
class ColourStep:
    """From this value on the colour holds; None: from below everything."""

    colour: str
    value: float | None


@dataclass(frozen=True)
class Panel:
    """What a panel shows, free of any product's format."""

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


def load_boards(overlays: tuple[Path, ...] = ()) -> dict[str, tuple[BoardSpec, Path]]:
    """The board files by name. Raises CatalogueError."""
    found = content_files("dashboards", overlays=overlays)
    return {Path(name).stem: (decode(path, BoardSpec), path) for name, path in found.items()}


def panels(
    board: BoardSpec, path: Path, catalogue: Catalogue, links: GeneratedLinks
) -> Iterator[tuple[RowSpec, list[Panel]]]:
    """The rows with their panels. Raises CatalogueError for a signal that is unknown or that no query can show."""
    for row_number, row in enumerate(board.rows):
        made = []
        for number, spec in enumerate(row.panels):
            for name in spec.signals:
                at = ("rows", row_number, "panels", number, "signal")
                if name not in catalogue.signals:
                    raise CatalogueError(f'{locate(path, at)}: no signal "{name}"{nearest(name, catalogue.signals)}')
                if query(spec, name, catalogue) is None:
                    raise CatalogueError(f"{locate(path, at)}: no query can show {name}")
            made.append(panel(spec, catalogue, links))
        yield row, made


def panel(spec: PanelSpec, catalogue: Catalogue, links: GeneratedLinks) -> Panel:
    """One panel of the board."""
    names = spec.signals
    first = catalogue.signals[names[0]]
    unit = spec.unit or UNITS.get(first.unit, "short")
    axis = "" if unit != "short" else first.unit
    plain = f"{first.title} ({axis})" if axis and spec.viz == "stat" else first.title
    return Panel(
        title=spec.title or plain,
        description=_description(names, catalogue),
        viz=spec.viz,
        queries=tuple(found for name in names if (found := query(spec, name, catalogue)) is not None),
        unit=unit,
        axis=axis,
        steps=objective_steps(names, catalogue) or steps(names[0], first, catalogue),
        links=tuple((f"Runbook: {cause}", links.runbook(cause)) for cause in _causes(names, catalogue)),
        width=spec.width,
        height=spec.height or (4 if spec.viz == "stat" else 8),
        stack=spec.stack,
        instant=spec.viz == "stat",
    )


def query(spec: PanelSpec, name: str, catalogue: Catalogue) -> Query | None:
    """The query of a signal in a panel; None where PromQL cannot say the signal."""
    signal = catalogue.signals[name]
    matchers: tuple[Matcher, ...] = tuple((label, "=~", f"${label}") for label in MATCHED[signal.level])
    engines = f"present_over_time({selector(ENGINE_SIGN, matchers)}[{SEEN_WITHIN}])"
    rendering = Rendering(
        catalogue.signals,
        catalogue.tiers,
        window=RATE_INTERVAL,
        extra=matchers,
        by=LINES[signal.level] if spec.by is None or spec.sum else spec.by,
        engines=engines,
        pods=chosen([(label, "=~", f"${label}") for label in (*POOL, "pool")], engines),
    )
    split = spec.by is not None and not spec.sum and _blends(name, rendering)
    if split:
        rendering = replace(rendering, by=tuple(dict.fromkeys((*rendering.labels(name), *POOL))))
    text = rendering.signal(name)
    if text is None:
        return None
    if spec.sum:
        text = f"sum by ({', '.join(spec.by or ())}) ({text})"
    several = len(spec.signals) > 1
    legend = spec.legend if spec.legend is not None else (LEGENDS[signal.level] if spec.by is None else signal.title)
    legend += "".join(f" {{{{{label}}}}}" for label in POOL if split and label not in (spec.by or ()))
    return Query(text, f"{legend} {_difference(name)}" if several else legend, name)


def _blends(name: str, rendering: Rendering) -> bool:
    """Whether a signal of several pods is one number for all: of unlike pods that describes none. Sums and maxima are
    not meant."""
    reading = rendering.reading(name)
    of_pods = rendering.level(name) in ("engine", "target")
    return of_pods and reading is not None and bool(reading.quantile or reading.mean or reading.formula)


def objective_steps(names: tuple[str, ...], catalogue: Catalogue) -> tuple[ColourStep, ...]:
    """Threshold lines at what is promised about one of the signals: red from the loosest on, yellow from the others."""
    targets = sorted({slo.target for slo in catalogue.slos if slo.signal in names})
    if not targets:
        return ()
    steps = [ColourStep("green", None), *(ColourStep("yellow", target) for target in targets[:-1])]
    return (*steps, ColourStep("red", targets[-1]))


def steps(name: str, signal: Signal, catalogue: Catalogue) -> tuple[ColourStep, ...]:
    """Threshold lines of the signal's band: where it is watched and where it is bad."""
    band = next(
        (b for b in catalogue.tiers.bands.values() if b.signal == name and b.roles in ((), ("decode", "both"))), None
    )
    if band is None:
        return (ColourStep("green", None),)
    if band.high is not None or (band.low is None and signal.harm != "down"):
        return _upwards(band)
    return _downwards(band)


def _upwards(band: Band) -> tuple[ColourStep, ...]:
    beyond = [v for v in (band.warn, band.bad) if v is not None and (band.high is None or v >= band.high)]
    limits = sorted({*beyond, *([band.high] if band.high is not None else [])})
    if len(limits) == 1:
        colour = "red" if band.bad == limits[0] else "yellow"
        return (ColourStep("green", None), ColourStep(colour, limits[0]))
    return (ColourStep("green", None), ColourStep("yellow", limits[-2]), ColourStep("red", limits[-1]))


def _downwards(band: Band) -> tuple[ColourStep, ...]:
    limits = sorted({v for v in (band.bad, band.warn, band.low) if v is not None})
    if len(limits) == 1:
        return (ColourStep("red" if band.bad == limits[0] else "yellow", None), ColourStep("green", limits[0]))
    return (ColourStep("red", None), ColourStep("yellow", limits[0]), ColourStep("green", limits[-1]))


def _description(names: tuple[str, ...], catalogue: Catalogue) -> str:
    """What the signals are, what to know about them, what to switch on where nothing shows."""
    parts = []
    for name in names:
        signal = catalogue.signals[name]
        parts.append(f"{signal.title} ({signal.unit}).")
        parts += [f"{text[:1].upper()}{text[1:]}." for text in (signal.note,) if text]
    parts += [f"SLO for {slo.scope.text}: {slo.title}." for slo in catalogue.slos if slo.signal in names]
    enables = dict.fromkeys(catalogue.signals[n].enable for n in names if catalogue.signals[n].enable)
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
