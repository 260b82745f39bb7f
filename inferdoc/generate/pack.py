"""Recording rules and alert rules, as texts by path."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from inferdoc.catalogue.load import Catalogue
from inferdoc.catalogue.signal import Tiers
from inferdoc.errors import InferdocError
from inferdoc.fleet.members import Assignment
from inferdoc.generate.cause_rules import AlertRule, alert_name, cause_rule
from inferdoc.generate.document import yaml_text
from inferdoc.generate.every_engine import expanded
from inferdoc.generate.links import GeneratedLinks
from inferdoc.generate.operational import load_operational, operational_rules
from inferdoc.generate.pod_info import ENGINE_PODS, ENGINE_PODS_EXPR
from inferdoc.generate.promql_labels import refuse_joins
from inferdoc.generate.prune_rules import narrowed, needed, parted, pruned
from inferdoc.generate.recorded import INTERVAL, Recorded, recorded
from inferdoc.generate.rule_sets import RuleSetName, alerts_of_set
from inferdoc.generate.slo import merged, slo_records, slo_rules, slow_records, watched

RECORDING = Path("inferdoc-recording.yaml")
RULES = Path("inferdoc-rules.yaml")
RELABELLING = Path("relabelling.yaml")
PAGE_INTERVAL, POD_INTERVAL, CAUSE_INTERVAL, USUAL_INTERVAL = INTERVAL, "1m", "2m", "4m30s"
"""Pages are judged twice a minute, and need to know new pods soon. Causes are tickets about means of five minutes and
wait ten minutes in their route; usual values move over hours. A series lasts for five minutes, so no interval may be
longer."""

PODS, SIGNALS, USUAL, SLO, SLO_USUAL, SYMPTOMS, CAUSES, OBJECTIVES, MONITORING = GROUPS = (
    "inferdoc-pods",
    "inferdoc-signals",
    "inferdoc-usual",
    "inferdoc-slo",
    "inferdoc-slo-usual",
    "inferdoc-symptoms",
    "inferdoc-causes",
    "inferdoc-objectives",
    "inferdoc-monitoring",
)
ABOUT_RECORDING = """\
Signals under short names, and what is usual for them. A signal that one observation alone reads stands there.
Targets need a label `pod` (where there is none, relabel `instance` to it): it distinguishes engines.
pod:inferdoc_info:last has the role, hardware (tier) and pool of a pod: unlike pods are never compared."""
ABOUT_RULES = f"""\
Needs {RECORDING} beside it: the rules read what it records.
Observations stand first, each once: series of those for whom it holds now, with the value of its signal."""


@dataclass(frozen=True)
class Pack:
    """files: text by path; groups: the rule groups of both files; rules: the alert rules; none: causes without a rule,
    and why; rendering: how signals are recorded."""

    rule_set: RuleSetName
    files: dict[Path, str]
    groups: list[dict[str, Any]]
    rules: list[AlertRule]
    none: dict[str, str]
    rendering: Recorded


def build_pack(
    catalogue: Catalogue,
    links: GeneratedLinks,
    assignments: Sequence[Assignment] = (),
    rule_set: RuleSetName = "full",
) -> Pack:
    """The alert pack of a catalogue; assignments: what the configuration says of pods; rule_set: the alerts of it.

    A smaller set records what its alerts read; in that of the pages, what one rule reads is part of that rule.

    Raises CatalogueError or InferdocError where a declaration cannot become rules.
    """
    rendering = recorded(catalogue, assignments)
    causes, none = build_rules(catalogue, links, rendering)
    slos = watched(catalogue)
    of_objectives = [rule for slo in slos for rule in slo_rules(slo, catalogue, links)]
    monitoring = load_operational(catalogue.overlays)
    known = {alert_name(name) for name in (*catalogue.recipes, *catalogue.disabled)}
    known |= {rule.name for rule in of_objectives} | {each.alert for each in monitoring.alerts}
    chosen = alerts_of_set(rule_set, known, catalogue.overlays) or known
    causes = {name: rule for name, rule in causes.items() if rule.name in chosen}
    of_objectives = [rule for rule in of_objectives if rule.name in chosen]
    monitored = operational_rules(monitoring, catalogue, rendering.records, causes.values(), links)
    monitored = {name: rule for name, rule in monitored.items() if name in chosen}
    objectives, about_monitoring = merged(of_objectives), [*monitored.values()]
    rules = [*causes.values(), *objectives, *about_monitoring]
    refuse_problems(rule.document() for rule in rules)
    objective_records = [slo_records(slo, catalogue) for slo in slos]
    if any(ENGINE_PODS in text for found in objective_records for text in found.values()):
        objective_records.insert(0, {ENGINE_PODS: expanded(ENGINE_PODS_EXPR, catalogue)})
    slow = [slow_records(slo, catalogue) for slo in slos]
    read = [*(rule.expr for rule in rules), *(text for found in (*objective_records, *slow) for text in found.values())]
    symptoms = [rule for rule in (*causes.values(), *about_monitoring) if rule.kind == "symptom"]
    records = narrowed(pruned(rendering.records, read), [rule.expr for rule in symptoms])
    pages, tickets = parted(records, [rule.expr for rule in symptoms])
    recording = [
        _group(PODS, POD_INTERVAL, _recorded(records.pods)),
        _group(SIGNALS, CAUSE_INTERVAL, _recorded(tickets.now)),
        _group(USUAL, USUAL_INTERVAL, _recorded(records.usual)),
        _group(SLO, PAGE_INTERVAL, [record for found in objective_records for record in _recorded(found)]),
        _group(SLO_USUAL, CAUSE_INTERVAL, [record for found in slow for record in _recorded(found)]),
    ]
    # what alerts join stands in their group: they see it of the same instant
    alerting = [
        _group(SYMPTOMS, PAGE_INTERVAL, [*_recorded(pages.now), *_recorded(pages.observations), *_alerts(symptoms)]),
        _group(CAUSES, CAUSE_INTERVAL, [*_recorded(tickets.observations), *_alerts(_of(causes.values(), "cause"))]),
        _group(OBJECTIVES, PAGE_INTERVAL, _alerts(objectives)),
        _group(MONITORING, CAUSE_INTERVAL, _alerts(_of(about_monitoring, "monitoring"))),
    ]
    if rule_set != "full":
        recording, alerting = needed(recording, alerting, inline=rule_set == "pages")
    refuse_joins((rule for group in (*recording, *alerting) for rule in group["rules"]), catalogue)
    files = {
        RECORDING: yaml_text({"groups": recording}, ABOUT_RECORDING),
        RELABELLING: yaml_text(relabelling(catalogue.tiers), ABOUT),
        RULES: yaml_text({"groups": alerting}, ABOUT_RULES),
    }
    return Pack(rule_set, files, [*recording, *alerting], rules, none, rendering)


def build_rules(
    catalogue: Catalogue, links: GeneratedLinks, rendering: Recorded | None = None
) -> tuple[dict[str, AlertRule], dict[str, str]]:
    """The rules of the causes, and of those without one why."""
    renderer = rendering or recorded(catalogue)
    answers = {recipe.id: cause_rule(recipe, catalogue, renderer, links) for recipe in catalogue.recipes.values()}
    rules = {name: rule for name, rule in answers.items() if isinstance(rule, AlertRule)}
    return rules, {name: why for name, why in answers.items() if isinstance(why, str)}


def _recorded(records: dict[str, str]) -> list[dict[str, Any]]:
    return [{"record": name, "expr": text} for name, text in records.items()]


def _of(rules: Iterable[AlertRule], kind: str) -> list[AlertRule]:
    return [rule for rule in rules if rule.kind == kind]


def _alerts(rules: Iterable[AlertRule]) -> list[dict[str, Any]]:
    return [rule.document() for rule in rules]


def _group(name: str, interval: str, rules: list[dict[str, Any]]) -> dict[str, Any]:
    return {"name": name, "interval": interval, "rules": rules}


KINDS = ("cause", "symptom", "monitoring")


def pack_problems(rules: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """What is wrong with alert rules as they stand in a file, one line each.

    Only what users feel, or what serves nobody, wakes a person: a cause is a ticket beside the page of its victims. An
    alert says what it is about, so that routes and inhibitions can distinguish a page from its explanation.
    """
    for rule in rules:
        name, labels = rule["alert"], rule.get("labels", {})
        if labels.get("kind") not in KINDS:
            yield f"{name}: label kind is {labels.get('kind')!r}, not one of {', '.join(KINDS)}"
        elif labels.get("severity") == "critical" and labels["kind"] != "symptom":
            yield f"{name}: critical, and no symptom: lower it to warning, or write symptom: true under its alert"


def alerts_of(text: str) -> list[dict[str, Any]]:
    """The alert rules of a rule file."""
    document = yaml.load(text, yaml.CSafeLoader)
    return [rule for group in document["groups"] for rule in group["rules"] if "alert" in rule]


def refuse_problems(rules: Iterable[Mapping[str, Any]]) -> None:
    """Raises InferdocError with the first problem."""
    for problem in pack_problems(rules):
        raise InferdocError(f"alerts: {problem}")


META = "__meta_kubernetes"
ABOUT = """\
relabel_configs for the job that scrapes engines, where recording rules cannot be loaded: role from the label of the
pod, tier from the label of its node. Kubernetes service discovery must attach the node (attach_metadata: {node: true},
Prometheus 2.35). In a PodMonitor the same stands under relabelings (sourceLabels, targetLabel) and attachMetadata."""


def relabelling(tiers: Tiers) -> dict[str, Any]:
    """`relabel_configs`: the last that fits counts, so the first tier of the catalogue comes last."""
    return {"relabel_configs": [*_roles(tiers), *_tiers(tiers)]}


def _roles(tiers: Tiers) -> Iterator[dict[str, Any]]:
    for label in tiers.roles.pod_labels:
        for role, words in tiers.roles.words.items():
            yield _rule(f"{META}_pod_{label}", words, "role", role)


def _tiers(tiers: Tiers) -> Iterator[dict[str, Any]]:
    for label in tiers.cards.node_labels:
        for name, tier in reversed(tiers.tiers.items()):
            if tier.names:
                yield _rule(f"{META}_node_{label}", tier.pattern, "tier", name)


def _rule(source: str, pattern: str, target: str, value: str) -> dict[str, Any]:
    return {"source_labels": [source], "regex": f"(?i){pattern}", "target_label": target, "replacement": value}
