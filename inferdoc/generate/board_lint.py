"""Checks of a generated dashboard: the facts that Grafana's dashboard-linter checks, and some that it lets pass.

Stricter than the linter: units are checked on every panel with numbers, also where `mappings` is an empty list;
counters also where their selector has matchers; ids, places, links and the shape of queries as well.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from importlib.resources import files
from typing import Any

Board = dict[str, Any]

SHOWN = ("stat", "timeseries", "gauge", "table")
GONE = ("graph", "singlestat", "table-old", "grafana-worldmap-panel")
SCHEMA_VERSIONS = range(39, 43)
DATASOURCES = ("$datasource", "${datasource}")
FUNCTIONS = ("label_names", "label_values", "metrics", "query_result")
UNITS = frozenset(
    line
    for line in files("inferdoc.generate").joinpath("grafana-units.txt").read_text("utf-8").splitlines()
    if not line.startswith("#")
)
"""Grafana's registry; any other is a slip, which Grafana would show as a suffix."""

SELECTOR = re.compile(r"([a-zA-Z_:][a-zA-Z0-9_:]*)\{([^}]*)\}")
RATE = re.compile(r"\b(rate|irate|increase)\(([^()\[\]]*(?:\{[^}]*\})?)\[([^\]]+)\]\)")
RECORDED = re.compile(r"[a-z]+:inferdoc_\w+:\w+")
"""Series of recording rules, which speak of pods and no longer of targets."""
OWN = ("ALERTS", "inferdoc_", "model:inferdoc_")
"""Series that Prometheus and inferdoc make: their scope stands in other labels."""
WORD = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
UID = re.compile(r"[A-Za-z0-9_-]{1,40}")


def problems(board: Board) -> list[str]:
    """What is wrong with a dashboard, one line each."""
    return [f"{board.get('title', 'dashboard')}: {line}" for rule in RULES for line in rule(board)]


def panels(board: Board) -> Iterator[dict[str, Any]]:
    """Every panel, those inside collapsed rows too."""
    for panel in board.get("panels", []):
        yield panel
        yield from panel.get("panels", [])


def queries(board: Board) -> Iterator[tuple[dict[str, Any], str]]:
    """Panel and expression of every query."""
    for panel in panels(board):
        for target in panel.get("targets", []):
            yield panel, str(target.get("expr", ""))


def _document(board: Board) -> Iterator[str]:
    if board.get("editable") is not False:
        yield "editable must be false: changes in the browser would be lost"
    if board.get("schemaVersion") not in SCHEMA_VERSIONS:
        yield f"schemaVersion {board.get('schemaVersion')} is none of 39 to 42"
    if not UID.fullmatch(str(board.get("uid", ""))):
        yield "uid must be 1 to 40 letters, digits, - or _"
    for key in ("__inputs", "__requires", "rows", "style", "hideControls", "sharedCrosshair", "gnetId"):
        if key in board:
            yield f"{key} is no longer part of the model"
    if any("libraryPanel" in panel for panel in panels(board)):
        yield "a library panel refers to one server's state"


def _data_source(board: Board) -> Iterator[str]:
    variables = [v for v in _variables(board) if v.get("type") == "datasource"]
    if len(variables) != 1 or variables[0].get("name") != "datasource" or variables[0].get("label") != "Data source":
        yield "one variable of type datasource is needed, named datasource and labelled Data source"
    for panel in panels(board):
        if panel.get("type") in SHOWN:
            for owner in (panel, *panel.get("targets", [])):
                source = owner.get("datasource")
                if not isinstance(source, dict) or source.get("uid") not in DATASOURCES:
                    yield f"{_name(panel)}: datasource must be an object with uid ${{datasource}}"


def _query_variables(board: Board) -> Iterator[str]:
    for variable in _variables(board):
        if variable.get("type") != "query":
            continue
        text = variable.get("query")
        text = text.get("query") if isinstance(text, dict) else text
        called = re.fullmatch(r"(\w+)\((.*)\)", str(text))
        if called is None or called.group(1) not in FUNCTIONS:
            yield f"variable {variable.get('name')}: the query must be one of {', '.join(FUNCTIONS)}"
        if variable.get("refresh") != 2:
            yield f"variable {variable.get('name')}: refresh must be 2, on time range change"
        if text != variable.get("definition"):
            yield f"variable {variable.get('name')}: definition and query differ"


def _panels(board: Board) -> Iterator[str]:
    for panel in panels(board):
        kind = panel.get("type")
        if kind in GONE:
            yield f"{_name(panel)}: panel type {kind} is gone"
        if kind not in SHOWN:
            continue
        if not panel.get("title") or not panel.get("description"):
            yield f"{_name(panel)}: title and description are needed"
        if not panel.get("targets"):
            yield f"{_name(panel)}: no queries"
        fields = panel.get("fieldConfig", {})
        unit = fields.get("defaults", {}).get("unit")
        if unit not in UNITS:
            yield f"{_name(panel)}: unit {unit!r} is not one of those in use"
        if fields.get("defaults", {}).get("mappings") == []:
            yield f"{_name(panel)}: an empty mappings keeps linters from looking at the unit"
        steps = fields.get("defaults", {}).get("thresholds", {}).get("steps", [])
        values = [step.get("value") for step in steps[1:]]
        if not steps or steps[0].get("value") is not None or values != sorted(values):
            yield f"{_name(panel)}: thresholds begin with a value of null and rise"


def _targets(board: Board) -> Iterator[str]:
    for panel in panels(board):
        targets = panel.get("targets", [])
        names = [target.get("refId") for target in targets]
        if names != [chr(ord("A") + number) for number in range(len(names))]:
            yield f"{_name(panel)}: refIds must be A, B, ... in order"
        for target in targets:
            if bool(target.get("range")) == bool(target.get("instant")):
                yield f"{_name(panel)}: a query is either range or instant"


def _expressions(board: Board) -> Iterator[str]:
    for panel, expr in queries(board):
        if not expr or expr.count("(") != expr.count(")") or expr.count("{") != expr.count("}"):
            yield f"{_name(panel)}: not an expression: {expr!r}"
        for function, _, window in RATE.findall(expr):
            if function != "increase" and window != "$__rate_interval":
                yield f"{_name(panel)}: {function} over [{window}]; use $__rate_interval"
        for metric, inside in SELECTOR.findall(expr):
            if not RECORDED.fullmatch(metric) and not metric.startswith(OWN) and 'cluster=~"$cluster"' not in inside:
                yield f'{_name(panel)}: {metric} lacks cluster=~"$cluster"'
        yield from _bare(panel, expr)


def _bare(panel: dict[str, Any], expr: str) -> Iterator[str]:
    """Selectors without matchers, and counters that nothing turns into a rate."""
    outside = RATE.sub(" ", expr)
    for metric, _ in SELECTOR.findall(outside):
        if metric.endswith("_total"):
            yield f"{_name(panel)}: counter {metric} without rate or increase"
    plain = re.sub(r"\b(?:by|on|ignoring|without|group_left|group_right) \([^)]*\)", " ", SELECTOR.sub(" ", expr))
    for word in WORD.findall(re.sub(r"\[[^\]]*\]|\"[^\"]*\"", " ", plain)):
        if word.startswith(OWN):
            continue
        if "_total" in word or word.startswith(("vllm:", "DCGM_")):
            yield f"{_name(panel)}: {word} without matchers"


def _places(board: Board) -> Iterator[str]:
    ids = [panel.get("id") for panel in panels(board)]
    if None in ids or len(set(ids)) != len(ids):
        yield "panel ids must be there and differ"
    for group in (board.get("panels", []), *(p["panels"] for p in board.get("panels", []) if p.get("panels"))):
        taken: dict[tuple[int, int], str] = {}
        for panel in group:
            place = panel.get("gridPos", {})
            if place.get("x", 0) + place.get("w", 25) > 24:
                yield f"{_name(panel)}: wider than the grid"
            for cell in _cells(place):
                if cell in taken:
                    yield f"{_name(panel)}: lies over {taken[cell]}"
                    break
                taken[cell] = _name(panel)
    for panel in board.get("panels", []):
        if panel.get("type") == "row" and not panel.get("collapsed") and panel.get("panels"):
            yield f"{_name(panel)}: an open row holds no panels; they stand beside it"


def _links(board: Board) -> Iterator[str]:
    for panel in panels(board):
        for link in panel.get("links", []):
            if not re.match(r"https?://[^\s]+$", str(link.get("url", ""))):
                yield f"{_name(panel)}: {link.get('url')!r} is no address"


def _cells(place: dict[str, int]) -> Iterator[tuple[int, int]]:
    for x in range(place.get("x", 0), place.get("x", 0) + place.get("w", 0)):
        for y in range(place.get("y", 0), place.get("y", 0) + place.get("h", 0)):
            yield x, y


def _variables(board: Board) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = board.get("templating", {}).get("list", [])
    return found


def _name(panel: dict[str, Any]) -> str:
    return f"panel {panel.get('title') or panel.get('id')}"


RULES: tuple[Callable[[Board], Iterator[str]], ...] = (
    _document,
    _data_source,
    _query_variables,
    _panels,
    _targets,
    _expressions,
    _places,
    _links,
)
