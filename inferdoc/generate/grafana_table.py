"""Tables in Grafana's model, which grafanalib has wrong: a row for each set of labels, a column for each query."""

from __future__ import annotations

from typing import Any

from inferdoc.generate.board_panel import ColourStep, Panel, Query

NARROW, WIDE = 80, 250
"""px: the least width of a column, and that of one with names."""
NAMES = ("Model", "Cause", "Alert", "Pod")
SEVERITIES = {"critical": "red", "warning": "orange", "info": "blue"}


def table(panel: Panel) -> dict[str, Any]:
    """A table with a row for each set of labels and a column for each query."""
    values = {f"Value #{ref(place)}": query for place, query in enumerate(panel.queries)}
    if len(values) == 1:
        values = {"Value": panel.queries[0]}
    names = {**panel.columns, **{key: query.legend for key, query in values.items()}}
    organised = {
        "excludeByName": {"Time": True},
        "includeByName": {},
        "indexByName": {name: place for place, name in enumerate(names)},
        "renameByName": names,
    }
    overrides = [each for name, query in values.items() for each in _column(names[name], query)]
    overrides += [_wide(heading) for heading in panel.columns.values() if heading in NAMES]
    overrides += [_words(heading) for heading in panel.columns.values() if heading == "Severity"]
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
                "noValue": panel.nothing if len(panel.queries) == 1 else "-",
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


def _wide(name: str) -> dict[str, Any]:
    return {"matcher": {"id": "byName", "options": name}, "properties": [{"id": "custom.width", "value": WIDE}]}


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
