"""Alerts that no cause declares: about the monitoring itself, hardware, prewarming; declared in FILES of alerts/."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Literal

import msgspec

from inferdoc.catalogue.content import content_file
from inferdoc.catalogue.document import decode
from inferdoc.catalogue.load import Catalogue
from inferdoc.catalogue.record_names import EXPORTERS_RECORD, INFO, ROUTERS_RECORD, SEEN_RECORD
from inferdoc.errors import CatalogueError
from inferdoc.generate.cause_rules import AlertRule
from inferdoc.generate.every_engine import expanded
from inferdoc.generate.links import GeneratedLinks
from inferdoc.generate.pod_info import POD
from inferdoc.generate.recorded import (
    GATEWAY_FAILED,
    GATEWAY_SLOWER,
    GATEWAY_UNENDED,
    ROUTER_PAGES,
    SERVED_RECORD,
    Records,
    exported_pods,
)
from inferdoc.judging.conditions.render import SEEN, WHOLE, clause, owner

FILES = ("operational.yaml", "exporters.yaml", "hardware.yaml", "prewarm.yaml")
WORDS = {
    "seen": SEEN_RECORD,
    "routers": ROUTERS_RECORD,
    "router_pages": ROUTER_PAGES,
    "exporters": f"present_over_time({EXPORTERS_RECORD}[1d])",
    "exported": exported_pods(),
    "exported_before": exported_pods(" offset 1h"),
    "served": SERVED_RECORD,
    "gateway_failed": GATEWAY_FAILED,
    "gateway_unended": GATEWAY_UNENDED,
    "gateway_slower": GATEWAY_SLOWER,
}
"""What stands in an expression for the targets that engines, routers and exporters are or were lately; for routers now;
for the pods that exporters report now and an hour ago, for requests served a second, for the shares of requests that
fail at gateways and that do not end, and for how many times longer they take there than they did."""
WORD = re.compile(rf"\b(?:{'|'.join(WORDS)})\b")
NAME = re.compile(r"\b(?:vllm:[a-z0-9_:]+|[a-z]+:inferdoc_\w+:\w+)")
METRICS = "{metrics}"
GPU = (*POD, "gpu", "modelName")
PARTS = ("_bucket", "_sum", "_count")
EVERY_SECONDS = {"symptom": 30, "cause": 120, "monitoring": 120}
"""How often rules of a kind are judged, at least."""


class RuleTrial(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """series: promtool input; fires: minute -> label sets that fire then; quiet: minutes at which nothing does.
    value: what the expression returns, for annotations that say it; interval: of the series."""

    name: str
    series: tuple[dict[str, str], ...]
    fires: dict[int, tuple[dict[str, str], ...]] = {}
    quiet: tuple[int, ...] = ()
    value: float = 0.0
    interval: str = "1m"


class Operational(msgspec.Struct, forbid_unknown_fields=True, frozen=True, rename={"for_": "for"}):
    """One alert. page: its runbook; cause: the label, if another than the page; by: labels of its series that links and
    the command narrow to; of: whose series of exporters the expression is about. {metrics} in the expression: the
    metrics that other rules need, as a pattern."""

    alert: str
    expr: str
    for_: str
    severity: str
    page: str
    summary: str
    description: str
    tests: tuple[RuleTrial, ...]
    cause: str | None = None
    by: tuple[str, ...] = ()
    kind: Literal["symptom", "monitoring"] = "monitoring"
    of: Literal["gpu", "pod"] | None = None


class OperationalFile(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """One of FILES, or all of them."""

    alerts: tuple[Operational, ...]


def load_operational(overlays: tuple[Path, ...] = ()) -> OperationalFile:
    """The alerts of all FILES in alerts/, each from the nearest overlay that has it. Raises CatalogueError."""
    found: list[Operational] = []
    for name in FILES:
        path = content_file("alerts", name, overlays)
        if path is None:
            raise CatalogueError(f"alerts/{name}: not found; it holds alerts that no cause declares")
        found += decode(path, OperationalFile).alerts
    return OperationalFile(tuple(found))


def operational_rules(
    file: OperationalFile, catalogue: Catalogue, records: Records, others: Iterable[AlertRule], links: GeneratedLinks
) -> dict[str, AlertRule]:
    """The rules by alert name; without rules that need a metric, none about metrics that are absent."""
    needed = needed_metrics(catalogue, records, others)
    return {
        each.alert: _rule(each, catalogue, needed, links) for each in file.alerts if needed or METRICS not in each.expr
    }


def needed_metrics(catalogue: Catalogue, records: Records, rules: Iterable[AlertRule]) -> list[str]:
    """Metrics of vLLM that rules rest on and that every engine exports without a switch, by name.

    Of a histogram its `_count` stands for all its series.
    """
    exporter = catalogue.exporters["vllm"].metrics
    recorded = records.all
    found = set[str]()
    for name in set().union(*(_series_of(rule.expr, recorded) for rule in rules)):
        family = next((name.removesuffix(part) for part in PARTS if name.removesuffix(part) in exporter), name)
        family = name if name in exporter else family
        metric = exporter.get(family)
        if metric is None or metric.needs or metric.until or metric.born_at_first_event:
            continue
        found.add(f"{family}_count" if metric.type == "histogram" else family)
    return sorted(found)


def _rule(each: Operational, catalogue: Catalogue, needed: list[str], links: GeneratedLinks) -> AlertRule:
    expr = expanded(each.expr.replace(METRICS, "|".join(needed)), catalogue)
    by = each.by or (POD if each.of else ())
    diagnosed = each.kind == "symptom" or each.of is not None
    return AlertRule(
        name=each.alert,
        expr=_owned(each, WORD.sub(lambda word: WORDS[word[0]], expr)),
        for_=each.for_,
        keep_firing_for=None,
        severity=each.severity,
        cause=each.cause or each.page,
        annotations=links.annotations(each.page, by, each.summary, each.description, diagnosed=diagnosed),
        kind=each.kind,
    )


def _owned(each: Operational, expr: str) -> str:
    """Series of exporters under the pod they are about: GPUs of engines, pods beside engines."""
    if each.of is None:
        return expr
    by, beside = (GPU, POD) if each.of == "gpu" else (POD, WHOLE)
    return f"max by ({', '.join(by)}) ({owner(clause(expr))})\nand on ({', '.join(beside)}) {INFO}"


def _series_of(expr: str, recorded: Mapping[str, str]) -> set[str]:
    """Raw series that an expression rests on, through recording rules. Without what shows the role of a pod it rests on
    the others."""
    found, open_, seen = set(), [expr], set()
    while open_:
        for name in NAME.findall(open_.pop().replace(SEEN, "")):
            if name in recorded and name not in seen and name != INFO:
                seen.add(name)
                open_.append(recorded[name])
            elif name.startswith("vllm:"):
                found.add(name)
    return found
