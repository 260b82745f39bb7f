"""How boards get into Grafana: ConfigMaps that its sidecar looks for, and a provider for files."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from inferdoc.generate.document import yaml_text

RULES_FOLDER = Path("prometheusrules")
KUSTOMIZATION = Path("kustomization.yaml")
ABOUT = "kubectl apply -n NAMESPACE -k FOLDER. Its label must match the ruleSelector of your Prometheus."


def prometheus_rules(groups: Iterable[Mapping[str, Any]]) -> dict[Path, str]:
    """A PrometheusRule for each group, and the kustomization that lists them. One for each: `kubectl apply` keeps a
    copy of at most 256 KiB in an annotation. https://prometheus-operator.dev/docs/api-reference/api/#prometheusrule"""
    files = {
        Path(f"{group['name']}.yaml"): yaml_text(
            {
                "apiVersion": "monitoring.coreos.com/v1",
                "kind": "PrometheusRule",
                "metadata": {"name": group["name"]},
                "spec": {"groups": [group]},
            },
            ABOUT,
        )
        for group in groups
    }
    return {**files, KUSTOMIZATION: kustomization({"resources": sorted(path.name for path in files)})}


def kustomization(fields: Mapping[str, Any]) -> str:
    """A kustomization with these fields."""
    document = {"apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization", **fields}
    return yaml_text(document, "kubectl apply -n NAMESPACE -k FOLDER")


LABEL = {"grafana_dashboard": "1"}
"""What the sidecar of kube-prometheus-stack looks for by default (grafana.sidecar.dashboards.label, .labelValue)."""
FOLDER = "inferdoc"
FOLDER_ANNOTATION = "grafana_folder"
"""The usual name (grafana.sidecar.dashboards.folderAnnotation); without it the boards lie in the top folder."""


def configmap(name: str, dashboard: Mapping[str, Any]) -> str:
    """A board as a ConfigMap. One for each: `kubectl apply` keeps a copy of at most 256 KiB in an annotation."""
    body = json.dumps(dashboard, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    document = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": f"inferdoc-board-{name}",
            "labels": LABEL,
            "annotations": {FOLDER_ANNOTATION: FOLDER},
        },
        "data": {f"inferdoc-{name}.json": body},
    }
    return yaml_text(document, "kubectl apply -n NAMESPACE -f FOLDER; Grafana's sidecar finds it by its label.")


def kustomized(names: Iterable[str]) -> str:
    """The kustomization that makes the same ConfigMaps of the files of the boards."""
    return kustomization(
        {
            "configMapGenerator": [
                {"name": f"inferdoc-board-{name}", "files": [f"inferdoc-{name}.json={name}.json"]} for name in names
            ],
            "generatorOptions": {
                "disableNameSuffixHash": True,
                "labels": LABEL,
                "annotations": {FOLDER_ANNOTATION: FOLDER},
            },
        }
    )


def provider(folder: str) -> str:
    """What stands in provisioning/dashboards/ of a Grafana that reads files. folder: where the boards lie there."""
    document = {
        "apiVersion": 1,
        "providers": [
            {
                "name": "inferdoc",
                "folder": FOLDER,
                "type": "file",
                "disableDeletion": False,
                "allowUiUpdates": False,
                "options": {"path": folder},
            }
        ],
    }
    return yaml_text(
        document, "Put it into provisioning/dashboards/ of Grafana, and the boards into the path it names."
    )


def beside(boards: Mapping[str, Mapping[str, Any]]) -> dict[Path, str]:
    """The files for both ways, by their path beside the boards."""
    found = {Path("configmaps") / f"{name}.yaml": configmap(name, board) for name, board in boards.items()}
    return {**found, Path("provisioning") / "inferdoc.yaml": provider("/var/lib/grafana/dashboards/inferdoc")}
