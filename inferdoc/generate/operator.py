"""The rules as objects of the Prometheus Operator, and what kustomize needs beside them."""

from __future__ import annotations

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
