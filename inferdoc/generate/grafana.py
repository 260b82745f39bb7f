"""A board in Grafana's classic model, schema 41, with the marks on its time axis."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from inferdoc.generate.board_panel import Panel, Query
from inferdoc.generate.board_scope import MATCHED, matched
from inferdoc.generate.board_spec import BoardSpec, RowSpec
from inferdoc.generate.grafana_model import (
    COLUMNS,
    DATASOURCE,
    base_of,
    colours,
    links_of,
    placed,
    ref,
    table,
    target_of,
)
from inferdoc.generate.links import GeneratedLinks
from inferdoc.judging.conditions.render import ENGINE_SIGN
from inferdoc.source.reads import selector

TAG = "inferdoc"
SCHEMA_VERSION = 41
TEXT_HEIGHT = 5
QUIET = (
    {"id": "custom.lineStyle", "value": {"fill": "dash", "dash": [8, 8]}},
    {"id": "color", "value": {"mode": "fixed", "fixedColor": "#8e8e8e"}},
)
"""How a line to compare with is drawn."""
SHORT_NAMES = {"id": "renameByRegex", "options": {"regex": "(^|.* )[^ /]+/([^/]+)", "renamePattern": "$1$2"}}
"""Models without the organisation before them: legends are short of room."""

SIGN = "vllm:num_requests_running"
INFO = "pod:inferdoc_info:last"
VARIABLES = (
    ("cluster", "Cluster", f"label_values({SIGN}, cluster)"),
    ("namespace", "Namespace", f'label_values({SIGN}{{cluster=~"$cluster"}}, namespace)'),
    ("model_name", "Model", f'label_values({SIGN}{{cluster=~"$cluster", namespace=~"$namespace"}}, model_name)'),
    ("role", "Role", f'label_values({INFO}{{cluster=~"$cluster", namespace=~"$namespace"}}, role)'),
    ("tier", "Tier", f'label_values({INFO}{{cluster=~"$cluster", namespace=~"$namespace"}}, tier)'),
    (
        "pool",
        "Pool",
        f'label_values({INFO}{{cluster=~"$cluster", namespace=~"$namespace", role=~"$role", tier=~"$tier"}}, pool)',
    ),
    (
        "pod",
        "Pod",
        f'label_values({SIGN}{{cluster=~"$cluster", namespace=~"$namespace", model_name=~"$model_name"}}, pod)',
    ),
)
"""name, label, query. All of them match what lacks the label, too."""
EVERYTHING = ".*"


def dashboard(
    board: BoardSpec, rows: Iterable[tuple[RowSpec, list[Panel]]], links: GeneratedLinks, settings: Iterable[str] = ()
) -> dict[str, Any]:
    """A board in Grafana's classic model. settings: labels of vllm:cache_config_info whose change is marked."""
    return {
        "annotations": marks(DATASOURCE, tuple(settings)),
        "description": board.description,
        "editable": False,
        "fiscalYearStartMonth": 0,
        "graphTooltip": 1,  # one crosshair for all panels
        "id": None,
        "links": [BOARDS_LINK, *([_runbooks_link(links.runbook_base)] if links.runbook_base else [])],
        "panels": placed([each for row, panels in rows for each in _row(row, panels)]),
        "refresh": board.refresh,
        "schemaVersion": SCHEMA_VERSION,
        "tags": [TAG, *(tag for tag in board.tags if tag != TAG)],
        "templating": {"list": [DATASOURCE_VARIABLE, *(_variable(*each) for each in VARIABLES)]},
        "time": {"from": f"now-{board.since}", "to": "now"},
        "timepicker": {},
        "timezone": "browser",
        "title": board.title,
        "uid": board.uid,
        "version": 1,
        "weekStart": "",
    }


def text(document: Mapping[str, Any]) -> str:
    """The file: the same bytes for the same board."""
    return json.dumps(document, indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def _row(row: RowSpec, panels: list[Panel]) -> list[dict[str, Any]]:
    inside = [table(each) if each.viz == "table" else _panel(each) for each in panels]
    if row.text is not None:
        inside.append(_text_panel(row.text))
    if row.collapsed:
        return [_row_panel(row.title, inside)]
    return [_row_panel(row.title), *inside] if row.title else inside


def _row_panel(title: str, inside: list[dict[str, Any]] | None = None) -> dict[str, Any]:
    return {"type": "row", "title": title, "collapsed": inside is not None, "panels": inside or []}


def _text_panel(content: str) -> dict[str, Any]:
    code = {"language": "plaintext", "showLineNumbers": False, "showMiniMap": False}
    options = {"content": content, "mode": "markdown", "code": code}
    size = {"h": TEXT_HEIGHT, "w": COLUMNS}
    return {"type": "text", "title": "", "options": options, "transparent": True, "gridPos": size}


def _panel(panel: Panel) -> dict[str, Any]:
    """A stat or a time series."""
    is_stat = panel.viz == "stat"
    found: dict[str, Any] = {
        **base_of(panel),
        "targets": [target_of(place, query, panel.instant) for place, query in enumerate(panel.queries)],
        "fieldConfig": {
            "defaults": {**_defaults(panel), **({} if is_stat else _axis(panel))},
            "overrides": [each for place, query in enumerate(panel.queries) for each in _override(place, query)],
        },
        "options": _stat_options(panel) if is_stat else _line_options(),
    }
    if not is_stat and any("{{model_name}}" in query.legend for query in panel.queries):
        found["transformations"] = [SHORT_NAMES]
    return found


def _defaults(panel: Panel) -> dict[str, Any]:
    found: dict[str, Any] = {
        "color": {"mode": "thresholds" if panel.viz == "stat" else "palette-classic"},
        "thresholds": {"mode": "absolute", "steps": colours(panel.steps)},
        "noValue": panel.nothing,
        "unit": panel.unit,
        "links": links_of(panel),
    }
    return {key: value for key, value in found.items() if value not in (None, "", [])}


def _axis(panel: Panel) -> dict[str, Any]:
    """How lines are drawn, and how far their axis reaches."""
    custom = {
        "axisLabel": panel.axis, "axisPlacement": "auto", "axisSoftMax": panel.bounds.soft, "barAlignment": 0,
        "drawStyle": "line", "fillOpacity": 15 if panel.stack else 0, "gradientMode": "none",
        "hideFrom": {"legend": False, "tooltip": False, "viz": False}, "lineInterpolation": "linear", "lineWidth": 1,
        "pointSize": 5, "scaleDistribution": {"type": "linear"}, "showPoints": "never", "spanNulls": False,
        "stacking": {"group": "A", "mode": "normal" if panel.stack else "none"},
        "thresholdsStyle": {"mode": "dashed" if len(panel.steps) > 1 else "off"},
    }  # fmt: skip
    found = {"min": panel.bounds.low, "max": panel.bounds.high}
    return {
        **{key: value for key, value in found.items() if value is not None},
        "custom": {key: value for key, value in custom.items() if value is not None},
    }


def _stat_options(panel: Panel) -> dict[str, Any]:
    return {
        "colorMode": "value", "graphMode": "none", "justifyMode": "auto", "orientation": "auto", "wideLayout": True,
        "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
        "textMode": "name" if panel.word else "value_and_name" if panel.names else "value",
    }  # fmt: skip


def _line_options() -> dict[str, Any]:
    legend = {"calcs": [], "displayMode": "list", "placement": "bottom", "showLegend": True}
    return {"legend": legend, "tooltip": {"mode": "multi", "sort": "desc"}}


def _override(place: int, query: Query) -> list[dict[str, Any]]:
    """What sets the lines of one query apart."""
    properties: list[dict[str, Any]] = list(QUIET) if query.quiet else []
    if query.colour is not None:
        properties.append({"id": "color", "value": {"mode": "fixed", "fixedColor": query.colour}})
    if query.steps:
        properties.append({"id": "thresholds", "value": {"mode": "absolute", "steps": colours(query.steps)}})
    matcher = {"id": "byFrameRefID", "options": ref(place)}
    return [{"matcher": matcher, "properties": properties}] if properties else []


DATASOURCE_VARIABLE = {
    "name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus", "current": {}, "hide": 0,
    "includeAll": False, "multi": False, "options": [], "refresh": 1, "regex": "", "skipUrlSync": False,
}  # fmt: skip
BOARDS_LINK = {
    "type": "dashboards", "title": "Dashboards", "url": "", "icon": "external link", "tooltip": "", "tags": [TAG],
    "asDropdown": True, "includeVars": True, "keepTime": True, "targetBlank": False,
}  # fmt: skip
"""The other boards, for the same choice and time."""


def _variable(name: str, label: str, query: str) -> dict[str, Any]:
    return {
        "name": name, "label": label, "type": "query", "datasource": DATASOURCE, "definition": query,
        "query": {"query": query, "refId": f"Variable-{name}"}, "refresh": 2, "sort": 1, "multi": True,
        "includeAll": True, "allValue": EVERYTHING, "hide": 0, "options": [], "regex": "", "skipUrlSync": False,
        "current": {"selected": True, "text": ["All"], "value": ["$__all"]},
    }  # fmt: skip


def _runbooks_link(url: str) -> dict[str, Any]:
    return {
        "type": "link", "title": "Runbooks", "url": url, "icon": "doc", "tooltip": "", "tags": [],
        "asDropdown": False, "includeVars": False, "keepTime": False, "targetBlank": True,
    }  # fmt: skip


BUILT_IN = {"type": "grafana", "uid": "-- Grafana --"}
STEP = "60s"
JUST = "2m"
"""A change is marked where it was not there so long ago."""
BEFORE = "5m"
ALERTS = (
    'ALERTS{alertstate="firing", component="inferdoc", severity=~"critical|warning",'
    ' namespace=~"$namespace|", pod=~"$pod|"}'
)


def marks(datasource: dict[str, str], settings: tuple[str, ...]) -> dict[str, Any]:
    """The list of a dashboard. settings: labels of vllm:cache_config_info that somebody sets."""
    found = [
        _mark("Alerts of inferdoc", ALERTS, "red", "{{alertname}}", "{{severity}} {{model_name}} {{pod}}"),
        _mark("New engine pods", _new_pods(), "blue", "New engine pods", "{{namespace}} {{model_name}}"),
        _mark("Engine restarts", _restarts(), "orange", "{{pod}} restarted", "{{namespace}}"),
    ]
    if settings:
        text = " ".join(f"{label}={{{{{label}}}}}" for label in settings)
        found.append(
            _mark("Settings changed", _settings(settings), "purple", "Settings of {{model_name}} changed", text)
        )
    return {"list": [_built_in(), _incidents(), *({**mark, "datasource": datasource} for mark in found)]}


def _mark(name: str, expr: str, colour: str, title: str, text: str) -> dict[str, Any]:
    return {
        "name": name, "expr": expr, "iconColor": colour, "titleFormat": title, "textFormat": text,
        "enable": True, "hide": False, "step": STEP, "useValueForTime": False,
    }  # fmt: skip


def _new_pods() -> str:
    """Engine pods of a rollout or a scale-out; a fleet that is scraped for the first time is none."""
    engine = selector(ENGINE_SIGN, matched(MATCHED["engine"]))
    known = f"group by (cluster, namespace, model_name) ({engine} offset {BEFORE})"
    now = f"group by (cluster, namespace, model_name, pod) ({engine})"
    new = f"{now} unless on (cluster, namespace, pod) {engine} offset {JUST}"
    return f"count by (cluster, namespace, model_name) ({new}) and on (cluster, namespace, model_name) {known}"


def _restarts() -> str:
    """Engines whose process restarted under the same name."""
    started = selector("process_start_time_seconds", matched(MATCHED["target"]))
    engine = selector(ENGINE_SIGN, matched(MATCHED["engine"]))
    return (
        f"sum by (cluster, namespace, pod) (changes({started}[{JUST}]) and on (cluster, namespace, pod) {engine}) > 0"
    )


def _settings(labels: tuple[str, ...]) -> str:
    """Settings that no engine of the model had a little ago."""
    by = ", ".join(("cluster", "namespace", "model_name", *labels))
    configs = selector("vllm:cache_config_info", matched(MATCHED["engine"]))
    known = f"group by (cluster, namespace, model_name) ({configs} offset {BEFORE})"
    return (
        f"(group by ({by}) ({configs}) unless group by ({by}) ({configs} offset {BEFORE})) "
        f"and on (cluster, namespace, model_name) {known}"
    )


def _incidents() -> dict[str, Any]:
    """Annotations that the output `grafana` of `inferdoc serve` writes, by their tag."""
    target = {"type": "tags", "tags": ["inferdoc"], "matchAny": False, "limit": 100}
    return {
        "datasource": BUILT_IN, "enable": True, "hide": False, "iconColor": "red", "name": "Incidents",
        "target": target,
    }  # fmt: skip


def _built_in() -> dict[str, Any]:
    return {
        "builtIn": 1, "datasource": BUILT_IN, "enable": True, "hide": True, "iconColor": "rgba(0, 211, 255, 1)",
        "name": "Annotations & Alerts", "type": "dashboard",
    }  # fmt: skip
