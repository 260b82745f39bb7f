"""Marks on the time axis of every board: alerts that fire, and what was changed."""

from __future__ import annotations

from typing import Any

from inferdoc.generate.board_scope import MATCHED, matched
from inferdoc.judging.conditions.render import ENGINE_SIGN
from inferdoc.source.reads import selector

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
