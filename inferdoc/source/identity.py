"""Other names under which scrape configurations store which pod a series is about.

The scrape job for annotated pods in the examples of Prometheus (documentation/examples/prometheus-kubernetes.yml)
writes `kubernetes_pod_name` and `kubernetes_namespace`, while cAdvisor, kube-state-metrics, dcgm-exporter and the
router write `pod` and `namespace`. Only under one name can they be joined.
"""

from __future__ import annotations

from collections.abc import Mapping

POD_NAMES: Mapping[str, str] = {"kubernetes_pod_name": "pod", "kubernetes_namespace": "namespace"}
"""Other name -> the usual one."""


def usual_names(labels: Mapping[str, str]) -> dict[str, str]:
    """The labels with pod and namespace under their usual names; a usual name that is there stays as it is."""
    renamed = {name: value for name, value in labels.items() if name not in POD_NAMES}
    for other, usual in POD_NAMES.items():
        if labels.get(other) and not renamed.get(usual):
            renamed[usual] = labels[other]
    return renamed
