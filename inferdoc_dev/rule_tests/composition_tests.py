"""promtool unit tests of how rules put observations together: records stand as they are given, for a few minutes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from inferdoc.fleet.members import UNKNOWN_TIER
from inferdoc.generate.pod_info import DEFAULT_ROLE
from inferdoc.generate.recorded import LEVELS, RECORDED_LABELS
from inferdoc_dev.rule_tests.composition import Given
from inferdoc_dev.rule_tests.input_series import CLUSTER, MODEL

LASTS, ASKED = "x5", "4m"
LABELS: Mapping[str, tuple[str, ...]] = {
    **dict(LEVELS),
    **{str(level): labels for level, labels in RECORDED_LABELS.items()},
    "pod": RECORDED_LABELS["target"],
    "model": ("cluster", "namespace", "model_name", "role", "tier"),
}
"""By the first word of the name of a record, whom it is about."""


def composition_test(
    alerts: Mapping[str, Iterable[Given]],
    records: Mapping[str, Iterable[Given]],
    value: Callable[[str], float],
    rule_files: list[str],
    groups: list[str],
) -> dict[str, Any]:
    """One file: every case in a namespace of its own. alerts, records: cases by name of a rule; value: of a record."""
    series: list[dict[str, str]] = []
    checks = []
    for name, cases in [*alerts.items(), *records.items()]:
        slug = name.split(":")[1].removeprefix("inferdoc_").replace("_", "-") if ":" in name else name
        query = f'{name}{{namespace=~"{slug}_.+"}}'
        if name in alerts:
            query = f'ALERTS{{alertname="{name}", namespace=~"{slug}_.+"}}'
        samples = []
        for case in cases:
            place = f"{slug}_{case.name}"
            series += [
                {"series": text, "values": f"{value(text.partition('{')[0]):g}{LASTS}"}
                for text in dict.fromkeys(_series(case, place))
            ]
            samples += [{"labels": f'{{namespace="{place}"}}', "value": case.holds}] if case.holds else []
        checks.append({"expr": f"count by (namespace) ({query})", "eval_time": ASKED, "exp_samples": samples})
    return {
        "rule_files": rule_files,
        "evaluation_interval": "2m",
        "group_eval_order": groups,
        "tests": [{"interval": "1m", "input_series": series, "promql_expr_test": checks}],
    }


def _series(case: Given, place: str) -> Iterator[str]:
    """Records with the labels that they have; of a case without any, a target that says nothing."""
    if not any(case.pods):
        yield f'up{{cluster="{CLUSTER}", namespace="{place}"}}'
    for number, there in enumerate(case.pods):
        labels = {
            "cluster": CLUSTER,
            "namespace": place,
            "model_name": MODEL,
            "pod": f"p{number}",
            "engine": "0",
            "role": case.role or DEFAULT_ROLE,
            "tier": UNKNOWN_TIER,
            "gpu": "0",
            "modelName": "H100",
            "name": f"router-{number}",
            "fairness_id": "one",
            "priority": "0",
        }
        for record in sorted(there):
            pairs = ", ".join(f'{label}="{labels[label]}"' for label in LABELS[record.split(":")[0]])
            yield f"{record}{{{pairs}}}"
