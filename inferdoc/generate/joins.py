"""Joins of rules against the labels that the collectors declare: one whose sides can never match is not built."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from inferdoc.catalogue.aliases import HISTOGRAM_PARTS
from inferdoc.catalogue.load import Catalogue
from inferdoc.errors import InferdocError
from inferdoc.generate.promql_labels import ANYBODY, Carried, carried

OF_TARGET = ("job", "instance")
"""Labels that name the target itself, put there by whatever scrapes."""
OF_PLACE = ("cluster", "namespace", "pod", "node", "role", "tier", "container")
"""Labels of the target's place that scrape configurations add; a page may have its own under these names."""
OF_THE_ENGINE = ("engine", "part")
"""Pages of the engine's own process: what they call pod is the engine's. What a page of a router calls pod is its own.
All other pages name the workload, or are joined by what a scrape configuration puts there."""


def declared(catalogue: Catalogue) -> dict[str, Carried]:
    """The labels of every series that the collectors declare, by its name, former names too."""
    found: dict[str, Carried] = {}
    for kind, exporter in catalogue.exporters.items():
        of_engine = exporter.page in OF_THE_ENGINE
        page = ANYBODY if kind == "prometheus" else frozenset({"engine" if of_engine else kind})
        pod = ANYBODY if exporter.page == "beside" else page
        scraped = {**dict.fromkeys(OF_PLACE, ANYBODY), **dict.fromkeys(OF_TARGET, page), "pod": pod}
        for name, metric in exporter.metrics.items():
            parts = HISTOGRAM_PARTS if metric.type in ("histogram", "summary") else ("",)
            labels = {**dict.fromkeys(metric.labels, ANYBODY), **scraped}
            for each in (name, *(former.name for former in metric.formerly)):
                for part in parts:
                    found[each + part] = {**labels, "le": ANYBODY} if part == "_bucket" else labels
    return found


def join_problems(rules: Iterable[Mapping[str, object]], catalogue: Catalogue) -> Iterator[str]:
    """What is wrong with the joins of rules, recording rules before those that read them, one line each."""
    known = declared(catalogue)
    for rule in rules:
        name = str(rule.get("record") or rule["alert"])
        try:
            labels, problems = carried(str(rule["expr"]), known.get)
        except ValueError as error:
            yield f"{name}: cannot be read: {error}"
            continue
        yield from (f"{name}: {problem}: it can never match" for problem in dict.fromkeys(problems))
        if labels is not None and "record" in rule:
            known[name] = labels


def refuse_joins(rules: Iterable[Mapping[str, object]], catalogue: Catalogue) -> None:
    """Raises InferdocError with the first problem."""
    for problem in join_problems(rules, catalogue):
        raise InferdocError(f"alerts: {problem}")
