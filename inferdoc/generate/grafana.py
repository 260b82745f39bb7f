"""The one place that knows grafanalib, and what makes its output a dashboard of today.

grafanalib 0.7.1 writes schema 12 with many left-overs; `normalised` brings that to the current model. Only panel kinds
that need no rebuilding are used: Stat, TimeSeries, Text and RowPanel; tables, whose shape it has wrong, stand in
grafana_table.py.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from inferdoc.extras import needed
from inferdoc.generate.board_panel import Panel, Query
from inferdoc.generate.board_scope import MATCHED, matched
from inferdoc.generate.board_spec import BoardSpec, RowSpec
from inferdoc.generate.grafana_model import COLUMNS, DATASOURCE, colours, links_of, normalised, ref, table
from inferdoc.generate.links import GeneratedLinks
from inferdoc.judging.conditions.render import ENGINE_SIGN
from inferdoc.source.reads import selector

with needed("grafanalib", "a dashboard"):
    from grafanalib import core
    from grafanalib._gen import DashboardEncoder

TAG = "inferdoc"
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
    shown = [(row, panels) for row, panels in rows]
    made = core.Dashboard(
        title=board.title,
        description=board.description,
        uid=board.uid,
        tags=[TAG, *(tag for tag in board.tags if tag != TAG)],
        refresh=board.refresh,
        time=core.Time(f"now-{board.since}", "now"),
        timezone="browser",
        graphTooltip=core.GRAPH_TOOLTIP_MODE_SHARED_CROSSHAIR,
        editable=False,
        templating=core.Templating([_datasource_variable(), *(_variable(*each) for each in VARIABLES)]),
        panels=[each for row, panels in shown for each in _row(row, panels)],
        links=[core.ExternalLink(uri=links.runbook_base, title="Runbooks")] if links.runbook_base else [],
    )
    found = normalised(json.loads(json.dumps(made.to_json_data(), cls=DashboardEncoder)))
    found["annotations"] = marks(DATASOURCE, tuple(settings))
    return found


def text(document: Mapping[str, Any]) -> str:
    """The file: the same bytes for the same board."""
    return json.dumps(document, indent=1, sort_keys=True, ensure_ascii=False) + "\n"


# ---- what grafanalib is called for ---------------------------------------------------------------------------------


class _Raw:
    """A panel that is written as it is."""

    def __init__(self, panel: dict[str, Any]) -> None:
        self._panel = panel

    def to_json_data(self) -> dict[str, Any]:
        return self._panel


def _row(row: RowSpec, panels: list[Panel]) -> list[Any]:
    inside = [_panel(each) for each in panels]
    if row.text is not None:
        inside.append(core.Text(title="", content=row.text, gridPos=core.GridPos(TEXT_HEIGHT, COLUMNS, 0, 0)))
    if row.collapsed:
        return [core.RowPanel(title=row.title, collapsed=True, panels=inside)]
    return [core.RowPanel(title=row.title), *inside] if row.title else inside


def _panel(panel: Panel) -> Any:
    if panel.viz == "table":
        return _Raw(table(panel))
    common = {
        "title": panel.title,
        "description": panel.description,
        "dataSource": "${datasource}",
        "targets": [core.Target(expr=q.expr, legendFormat=q.legend, instant=panel.instant) for q in panel.queries],
        "thresholds": colours(panel.steps),
        "links": [{"title": title, "url": url, "targetBlank": True} for title, url in panel.links],
        "gridPos": core.GridPos(panel.height, panel.width, 0, 0),
        "overrides": [each for place, query in enumerate(panel.queries) for each in _override(place, query)],
        "extraJson": {"fieldConfig": {"defaults": _defaults(panel)}},
    }
    if panel.viz == "stat":
        return core.Stat(
            **common,
            format=panel.unit,
            reduceCalc="lastNotNull",
            graphMode="none",
            textMode="name" if panel.word else "value_and_name" if panel.names else "value",
            color={"mode": "thresholds"},
        )
    if any("{{model_name}}" in query.legend for query in panel.queries):
        common["transformations"] = [SHORT_NAMES]
    return core.TimeSeries(
        **common,
        unit=panel.unit,
        axisLabel=panel.axis,
        fillOpacity=15 if panel.stack else 0,
        stacking={"mode": "normal" if panel.stack else "none", "group": "A"},
        legendDisplayMode="list",
        showPoints="never",
        tooltipMode="multi",
        tooltipSort="desc",
        thresholdsStyleMode="dashed" if len(panel.steps) > 1 else "off",
    )


def _defaults(panel: Panel) -> dict[str, Any]:
    """What grafanalib has no word for: how far the axis reaches, where a line leads, what stands where nothing is."""
    found: dict[str, Any] = {"noValue": panel.nothing, "links": links_of(panel)}
    if panel.viz == "timeseries":
        found |= {"min": panel.bounds.low, "max": panel.bounds.high, "custom": {"axisSoftMax": panel.bounds.soft}}
    return found


def _override(place: int, query: Query) -> list[dict[str, Any]]:
    """What sets the lines of one query apart."""
    properties: list[dict[str, Any]] = list(QUIET) if query.quiet else []
    if query.colour is not None:
        properties.append({"id": "color", "value": {"mode": "fixed", "fixedColor": query.colour}})
    if query.steps:
        properties.append({"id": "thresholds", "value": {"mode": "absolute", "steps": colours(query.steps)}})
    matcher = {"id": "byFrameRefID", "options": ref(place)}
    return [{"matcher": matcher, "properties": properties}] if properties else []


def _datasource_variable() -> Any:
    return core.Template(name="datasource", label="Data source", type="datasource", query="prometheus", refresh=1)


def _variable(name: str, label: str, query: str) -> Any:
    return core.Template(
        name=name,
        label=label,
        query=query,
        dataSource="${datasource}",
        refresh=2,
        sort=1,
        multi=True,
        includeAll=True,
        allValue=EVERYTHING,
    )


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
