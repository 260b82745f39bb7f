"""What grafanalib writes, brought to Grafana's current model: objects for data sources, ids and places, nothing that
Grafana has dropped."""

from __future__ import annotations

from typing import Any

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
