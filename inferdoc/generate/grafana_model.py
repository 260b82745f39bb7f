"""What grafanalib writes, brought to Grafana's current model: objects for data sources, ids and places, nothing that
Grafana has dropped."""

from __future__ import annotations

from typing import Any

from inferdoc.generate.board_panel import ColourStep, Panel, Query
from inferdoc.generate.links import BOARD, address

SCHEMA_VERSION = 41
COLUMNS = 24
DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}

TOP_LEVEL = (
    "annotations", "description", "editable", "fiscalYearStartMonth", "graphTooltip", "id", "links", "panels",
    "refresh", "schemaVersion", "tags", "templating", "time", "timepicker", "timezone", "title", "uid", "version",
    "weekStart",
)  # fmt: skip
LEFT_OVER = ("cacheTimeout", "span", "minSpan", "height", "error", "editable", "maxDataPoints", "hideTimeOverride")
TARGET_LEFT_OVER = ("intervalFactor", "step", "metric", "target", "query", "instant", "interval", "hide", "format")


def normalised(raw: dict[str, Any]) -> dict[str, Any]:
    """The dashboard in today's model: objects for data sources, ids and places, nothing that Grafana has dropped."""
    raw["schemaVersion"] = SCHEMA_VERSION
    raw["fiscalYearStartMonth"], raw["weekStart"], raw["version"], raw["id"] = 0, "", 1, None
    raw["timepicker"] = {}
    raw["panels"] = _placed([_normal_panel(panel) for panel in raw["panels"]])
    raw["templating"] = {"list": [_normal_variable(each) for each in raw["templating"]["list"]]}
    raw["links"] = [_boards_link(), *(_normal_link(link) for link in raw["links"])]
    return {key: raw[key] for key in TOP_LEVEL if key in raw}


def _normal_panel(panel: dict[str, Any]) -> dict[str, Any]:
    if panel["type"] == "row":
        inside = [_normal_panel(each) for each in panel["panels"]]
        return {"type": "row", "title": panel["title"], "collapsed": panel["collapsed"], "panels": inside}
    if panel["type"] == "text":
        options = {
            **panel["options"],
            "code": {"language": "plaintext", "showLineNumbers": False, "showMiniMap": False},
        }
        kept = {"type": "text", "title": panel["title"], "options": options, "transparent": True}
        return {**kept, "gridPos": dict(panel["gridPos"])}
    found = {key: value for key, value in panel.items() if key not in LEFT_OVER and value not in (None, [], "")}
    found["datasource"] = DATASOURCE
    found["targets"] = [_normal_target(target, number) for number, target in enumerate(panel["targets"])]
    found["fieldConfig"] = _normal_fields(panel["fieldConfig"])
    if not found.get("transparent"):
        found.pop("transparent", None)
    if "legend" in found.get("options", {}):
        found["options"]["legend"]["showLegend"] = True
    if panel["type"] == "stat":
        found["options"]["wideLayout"] = True
    return found


def _normal_target(target: dict[str, Any], number: int) -> dict[str, Any]:
    kept = {key: value for key, value in target.items() if key not in TARGET_LEFT_OVER}
    if target.get("format") == "table":
        kept["format"] = "table"
    how = {"instant": True, "range": False} if target["instant"] else {"instant": False, "range": True}
    name = chr(ord("A") + number)
    return {**kept, **how, "refId": name, "datasource": DATASOURCE, "editorMode": "code", "exemplar": False}


def _normal_fields(fields: dict[str, Any]) -> dict[str, Any]:
    """Defaults without what is empty; the first threshold begins below everything."""
    defaults = {
        key: value
        for key, value in fields["defaults"].items()
        if value not in (None, "") and value != [] and value != {}
    }
    custom = defaults.get("custom")
    if custom is not None:
        custom = {key: value for key, value in custom.items() if value is not None}
        if "scaleDistribution" in custom:
            custom["scaleDistribution"] = {"type": custom["scaleDistribution"].get("type", "linear")}
        defaults["custom"] = custom
    for place, step in enumerate(defaults["thresholds"]["steps"]):
        step["value"] = None if place == 0 else step["value"]
    return {"defaults": defaults, "overrides": fields.get("overrides", [])}


def _normal_variable(variable: dict[str, Any]) -> dict[str, Any]:
    if variable["type"] == "datasource":
        return {
            "name": variable["name"], "label": variable["label"], "type": "datasource", "query": variable["query"],
            "current": {}, "hide": 0, "includeAll": False, "multi": False, "options": [], "refresh": 1, "regex": "",
            "skipUrlSync": False,
        }  # fmt: skip
    query = variable["query"]
    return {
        "name": variable["name"], "label": variable["label"], "type": "query", "datasource": DATASOURCE,
        "definition": query, "query": {"query": query, "refId": f"Variable-{variable['name']}"},
        "refresh": 2, "sort": 1, "multi": True, "includeAll": True, "allValue": variable["allValue"], "hide": 0,
        "options": [], "regex": "", "current": {"selected": True, "text": ["All"], "value": ["$__all"]},
        "skipUrlSync": False,
    }  # fmt: skip


def _boards_link() -> dict[str, Any]:
    """The other boards, for the same choice and time."""
    return {
        "type": "dashboards", "title": "Dashboards", "url": "", "icon": "external link", "tooltip": "",
        "tags": ["inferdoc"],
        "asDropdown": True, "includeVars": True, "keepTime": True, "targetBlank": False,
    }  # fmt: skip


def _normal_link(link: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "link", "title": link["title"], "url": link["url"], "icon": "doc", "tooltip": "", "tags": [],
        "asDropdown": False, "includeVars": False, "keepTime": False, "targetBlank": True,
    }  # fmt: skip


def _placed(panels: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Ids and places: from left to right, a new line where a panel no longer fits, below the highest of the line."""
    number = iter(range(1, 10_000))
    y = 0
    line: list[dict[str, Any]] = []
    for panel in panels:
        panel["id"] = next(number)
        if panel["type"] == "row":
            y, line = y + _height(line), []
            panel["gridPos"] = {"h": 1, "w": COLUMNS, "x": 0, "y": y}
            y += 1
            if panel["collapsed"]:
                for inner in panel["panels"]:
                    inner["id"] = next(number)
                _laid(panel["panels"], y)
        else:
            line.append(panel)
            _laid(line, y)
    return panels


def _laid(panels: list[dict[str, Any]], y: int) -> int:
    """Place panels from y downwards; returns where the next line begins."""
    x = tallest = 0
    for panel in panels:
        width, height = int(panel["gridPos"]["w"]), int(panel["gridPos"]["h"])
        if x + width > COLUMNS:
            x, y, tallest = 0, y + tallest, 0
        panel["gridPos"] = {"h": height, "w": width, "x": x, "y": y}
        x, tallest = x + width, max(tallest, height)
    return y + tallest


def _height(panels: list[dict[str, Any]]) -> int:
    if not panels:
        return 0
    places = [panel["gridPos"] for panel in panels]
    return int(max(p["y"] + p["h"] for p in places) - min(p["y"] for p in places))


NARROW = 80
WIDTHS = {"Model": 230, "Cause": 180, "Alert": 230, "Pod": 180, "Open": 140}
"""px: the least width of a column, and that of those with names."""
SEVERITIES = {"critical": "red", "warning": "orange", "info": "blue"}


def table(panel: Panel) -> dict[str, Any]:
    """A table with a row for each set of labels and a column for each query."""
    values = {f"Value #{ref(place)}": query for place, query in enumerate(panel.queries)}
    if len(values) == 1:
        values = {"Value": panel.queries[0]}
    names = {**panel.columns, **{key: query.legend for key, query in values.items()}}
    order = sorted(names, key=lambda name: panel.first.index(names[name]) if names[name] in panel.first else len(names))
    organised = {
        "excludeByName": {"Time": True},
        "includeByName": {},
        "indexByName": {name: place for place, name in enumerate(order)},
        "renameByName": names,
    }
    overrides = [each for name, query in values.items() for each in _column(names[name], query)]
    overrides += [_empty(kind) for kind in ("string", "number")]
    overrides += [_wide(heading) for heading in panel.columns.values() if heading in WIDTHS]
    overrides += [_words(heading) for heading in panel.columns.values() if heading == "Severity"]
    if panel.opens:
        overrides.append(_open(panel))
    first = next(iter(panel.columns.values()))
    overrides += (
        [{"matcher": {"id": "byName", "options": first}, "properties": [{"id": "links", "value": links_of(panel)}]}]
        if panel.drill
        else []
    )
    return {
        "type": "table",
        "title": panel.title,
        "description": panel.description,
        "gridPos": {"h": panel.height, "w": panel.width, "x": 0, "y": 0},
        "links": [{"title": title, "url": url, "targetBlank": True} for title, url in panel.links],
        "targets": [{"expr": q.expr, "legendFormat": "", "instant": True, "format": "table"} for q in panel.queries],
        "options": {
            "showHeader": True,
            "cellHeight": "sm",
            "sortBy": [{"displayName": names[next(iter(values))], "desc": True}],
        },
        "fieldConfig": {
            "defaults": {
                "unit": panel.unit,
                "noValue": panel.nothing,
                "thresholds": {"mode": "absolute", "steps": colours(panel.steps)},
                "custom": {"align": "auto", "cellOptions": {"type": "auto"}, "filterable": False, "minWidth": NARROW},
            },
            "overrides": overrides,
        },
        "transformations": [{"id": "merge", "options": {}}, {"id": "organize", "options": organised}],
    }


def _column(name: str, query: Query) -> list[dict[str, Any]]:
    properties: list[dict[str, Any]] = [{"id": "unit", "value": query.unit or "short"}]
    if len(query.steps) > 1:
        properties += [
            {"id": "thresholds", "value": {"mode": "absolute", "steps": colours(query.steps)}},
            {"id": "custom.cellOptions", "value": {"type": "color-text"}},
            {"id": "color", "value": {"mode": "thresholds"}},
        ]
    return [{"matcher": {"id": "byName", "options": name}, "properties": properties}]


def _empty(kind: str) -> dict[str, Any]:
    """An empty cell, where an empty table has words of its own."""
    return {"matcher": {"id": "byType", "options": kind}, "properties": [{"id": "noValue", "value": "-"}]}


def _wide(name: str) -> dict[str, Any]:
    return {"matcher": {"id": "byName", "options": name}, "properties": [{"id": "custom.width", "value": WIDTHS[name]}]}


def _open(panel: Panel) -> dict[str, Any]:
    """The title of the dashboard to open next, which leads there.

    Alerts may lack a label, and an empty variable matches nothing: only rows of pools narrow the choice.
    """
    options = {uid: {"text": title, "index": place} for place, (uid, title) in enumerate(panel.opens.items())}
    labels = [label for label in ("model_name", "role", "tier") if "role" in panel.columns]
    link = {"title": "Open", "url": address("${__value.raw}", labels, rows=True), "targetBlank": False}
    properties = [
        {"id": "mappings", "value": [{"type": "value", "options": options}]},
        {"id": "links", "value": [link]},
    ]
    return {"matcher": {"id": "byName", "options": panel.columns[BOARD]}, "properties": properties}


def _words(name: str) -> dict[str, Any]:
    """Severities in their colours."""
    options = {word: {"color": colour, "index": place} for place, (word, colour) in enumerate(SEVERITIES.items())}
    properties = [
        {"id": "mappings", "value": [{"type": "value", "options": options}]},
        {"id": "custom.cellOptions", "value": {"type": "color-text"}},
    ]
    return {"matcher": {"id": "byName", "options": name}, "properties": properties}


def ref(place: int) -> str:
    """A, B, ...: how Grafana calls the queries of a panel."""
    return chr(ord("A") + place)


def colours(steps: tuple[ColourStep, ...]) -> list[dict[str, Any]]:
    return [{"color": step.colour, "value": step.value} for step in steps]


def links_of(panel: Panel) -> list[dict[str, Any]]:
    """Where its lines or rows lead."""
    return [{"title": title, "url": url, "targetBlank": False} for title, url in panel.drill]
