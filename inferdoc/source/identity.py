"""Other names under which scrape configurations store which pod a series is about.

The scrape job for annotated pods in the examples of Prometheus (documentation/examples/prometheus-kubernetes.yml)
writes `kubernetes_pod_name` and `kubernetes_namespace`, while cAdvisor, kube-state-metrics, dcgm-exporter and the
router write `pod` and `namespace`. An exporter that speaks of other pods has `pod` and `namespace` on its page; where
`honor_labels` is off, the default, they are stored as `exported_pod` and `exported_namespace`, and the usual names hold
the exporter's own. Only under one name can they be joined.
"""

from __future__ import annotations

from collections.abc import Mapping

EXPORTED: Mapping[str, str] = {"exported_pod": "pod", "exported_namespace": "namespace"}
"""What a page says itself -> the usual name, in whose place it comes."""
POD_NAMES: Mapping[str, str] = {"kubernetes_pod_name": "pod", "kubernetes_namespace": "namespace"}
"""Other name -> the usual one, which stays where it is there."""
OTHER_NAMES = (*EXPORTED, *POD_NAMES)


def usual_names(labels: Mapping[str, str]) -> dict[str, str]:
    """The labels with the pod and the namespace that a series is about under their usual names."""
    renamed = {name: value for name, value in labels.items() if name not in OTHER_NAMES}
    renamed |= {usual: labels[other] for other, usual in EXPORTED.items() if labels.get(other)}
    for other, usual in POD_NAMES.items():
        if labels.get(other) and not renamed.get(usual):
            renamed[usual] = labels[other]
    return renamed
