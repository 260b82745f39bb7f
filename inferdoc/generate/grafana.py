"""The one place that knows grafanalib, and what makes its output a dashboard of today.

grafanalib 0.7.1 writes schema 12 with many left-overs; `normalised` brings that to the current model. Only panel kinds
that need no rebuilding are used: Stat, TimeSeries, Text and RowPanel.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from inferdoc.extras import needed
from inferdoc.generate.board import BoardSpec, Panel, RowSpec
from inferdoc.generate.links import GeneratedLinks

with needed("grafanalib", "a dashboard"):
    from grafanalib import core
    from grafanalib._gen import DashboardEncoder

SCHEMA_VERSION = 39
COLUMNS = 24
DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}
BUILT_IN = {"type": "grafana", "uid": "-- Grafana --"}
TEXT_HEIGHT = 5

VARIABLES = (
    ("cluster", "Cluster", "label_values(vllm:num_requests_running, cluster)", ".*"),
    ("namespace", "Namespace", 'label_values(vllm:num_requests_running{cluster=~"$cluster"}, namespace)', ".*"),
    ("model_name", "Model", 'label_values(vllm:num_requests_running{namespace=~"$namespace"}, model_name)', ".+"),
    ("role", "Role", 'label_values(pod:inferdoc_info:last{namespace=~"$namespace"}, role)', ".*"),
    ("tier", "Tier", 'label_values(pod:inferdoc_info:last{namespace=~"$namespace"}, tier)', ".*"),
    ("pool", "Pool", 'label_values(pod:inferdoc_info:last{role=~"$role", tier=~"$tier"}, pool)', ".*"),
    ("pod", "Pod", 'label_values(vllm:num_requests_running{model_name=~"$model_name"}, pod)', ".*"),
    ("job", "Job", "label_values(up, job)", ".+"),
    ("instance", "Instance", 'label_values(up{job=~"$job"}, instance)', ".+"),
)
"""name, label, query, what All stands for: labels that a fleet may lack match when empty."""

TOP_LEVEL = (
    "annotations", "description", "editable", "fiscalYearStartMonth", "graphTooltip", "id", "links", "panels",
    "refresh", "schemaVersion", "tags", "templating", "time", "timepicker", "timezone", "title", "uid", "version",
    "weekStart",
)  # fmt: skip
LEFT_OVER = ("cacheTimeout", "span", "minSpan", "height", "error", "editable", "maxDataPoints", "hideTimeOverride")
TARGET_LEFT_OVER = ("intervalFactor", "step", "metric", "target", "query", "instant", "interval", "hide", "format")


def dashboard(board: BoardSpec, rows: Iterable[tuple[RowSpec, list[Panel]]], links: GeneratedLinks) -> dict[str, Any]:
    """A board in Grafana's classic model."""
    made = core.Dashboard(
        title=board.title,
        description=board.description,
        uid=board.uid,
        tags=list(board.tags),
        refresh=board.refresh,
        time=core.Time(f"now-{board.since}", "now"),
        timezone="browser",
        graphTooltip=core.GRAPH_TOOLTIP_MODE_SHARED_CROSSHAIR,
        editable=False,
        templating=core.Templating([_datasource_variable(), *(_variable(*each) for each in VARIABLES)]),
        panels=[each for row, panels in rows for each in _row(row, panels)],
        links=[core.ExternalLink(uri=links.runbook_base, title="Runbooks")] if links.runbook_base else [],
    )
    return normalised(json.loads(json.dumps(made.to_json_data(), cls=DashboardEncoder)))


def text(document: Mapping[str, Any]) -> str:
    """The file: the same bytes for the same board."""
    return json.dumps(document, indent=2, sort_keys=True, ensure_ascii=False) + "\n"


# ---- what grafanalib is asked for ---------------------------------------------------------------------------------


def _row(row: RowSpec, panels: list[Panel]) -> list[Any]:
    inside = [_panel(each) for each in panels]
    if row.text is not None:
        inside.append(core.Text(title="", content=row.text, gridPos=core.GridPos(TEXT_HEIGHT, COLUMNS, 0, 0)))
    if row.collapsed:
        return [core.RowPanel(title=row.title, collapsed=True, panels=inside)]
    return [core.RowPanel(title=row.title), *inside]


def _panel(panel: Panel) -> Any:
    common = {
        "title": panel.title,
        "description": panel.description,
        "dataSource": "${datasource}",
        "targets": [core.Target(expr=q.expr, legendFormat=q.legend, instant=panel.instant) for q in panel.queries],
        "thresholds": [{"color": step.colour, "value": step.value} for step in panel.steps],
        "links": [{"title": title, "url": url, "targetBlank": True} for title, url in panel.links],
        "gridPos": core.GridPos(panel.height, panel.width, 0, 0),
    }
    if panel.viz == "stat":
        return core.Stat(
            **common,
            format=panel.unit,
            reduceCalc="lastNotNull",
            graphMode="none",
            noValue="no data",
            color={"mode": "thresholds"},
        )
    return core.TimeSeries(
        **common,
        unit=panel.unit,
        axisLabel=panel.axis,
        fillOpacity=10 if panel.stack else 0,
        stacking={"mode": "normal" if panel.stack else "none", "group": "A"},
        legendDisplayMode="list",
        showPoints="never",
        tooltipMode="multi",
        tooltipSort="desc",
        thresholdsStyleMode="line" if len(panel.steps) > 1 else "off",
    )


def _datasource_variable() -> Any:
    return core.Template(name="datasource", label="Data source", type="datasource", query="prometheus", refresh=1)


def _variable(name: str, label: str, query: str, all_value: str) -> Any:
    return core.Template(
        name=name,
        label=label,
        query=query,
        dataSource="${datasource}",
        refresh=2,
        sort=1,
        multi=True,
        includeAll=True,
        allValue=all_value,
    )


# ---- what is made of it -------------------------------------------------------------------------------------------


def normalised(raw: dict[str, Any]) -> dict[str, Any]:
    """The dashboard in today's model: objects for data sources, ids and places, nothing that Grafana has dropped."""
    raw["schemaVersion"] = SCHEMA_VERSION
    raw["fiscalYearStartMonth"], raw["weekStart"], raw["version"], raw["id"] = 0, "", 1, None
    raw["timepicker"] = {}
    raw["panels"] = _placed([_normal_panel(panel) for panel in raw["panels"]])
    raw["templating"] = {"list": [_normal_variable(each) for each in raw["templating"]["list"]]}
    raw["links"] = [_normal_link(link) for link in raw["links"]]
    raw["annotations"] = {"list": [_built_in_annotation(), _alerts_annotation()]}
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
    how = {"instant": True, "range": False} if target["instant"] else {"instant": False, "range": True}
    name = chr(ord("A") + number)
    return {**kept, **how, "refId": name, "datasource": DATASOURCE, "editorMode": "code", "exemplar": False}


def _normal_fields(fields: dict[str, Any]) -> dict[str, Any]:
    """Defaults without what is empty; the first threshold begins below everything."""
    defaults = {key: value for key, value in fields["defaults"].items() if value not in (None, [], {})}
    custom = defaults.get("custom")
    if custom is not None:
        custom = {key: value for key, value in custom.items() if value is not None}
        scale = custom.get("scaleDistribution", {})
        custom["scaleDistribution"] = {"type": scale.get("type", "linear")}
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


def _normal_link(link: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "link", "title": link["title"], "url": link["url"], "icon": "doc", "tooltip": "", "tags": [],
        "asDropdown": False, "includeVars": False, "keepTime": False, "targetBlank": True,
    }  # fmt: skip


def _built_in_annotation() -> dict[str, Any]:
    return {
        "builtIn": 1, "datasource": BUILT_IN, "enable": True, "hide": True, "iconColor": "rgba(0, 211, 255, 1)",
        "name": "Annotations & Alerts", "type": "dashboard",
    }  # fmt: skip


def _alerts_annotation() -> dict[str, Any]:
    """When which alert of inferdoc fired."""
    return {
        "datasource": DATASOURCE, "enable": True, "iconColor": "red", "name": "Alerts of inferdoc",
        "expr": 'ALERTS{alertstate="firing", component="inferdoc", namespace=~"$namespace", pod=~"$pod"}',
        "titleFormat": "{{alertname}}", "textFormat": "{{severity}} {{pod}}", "useValueForTime": False,
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
