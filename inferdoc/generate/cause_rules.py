"""One alert rule per cause that a rule can detect."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import reduce
from typing import Literal

import msgspec

from inferdoc.catalogue.conditions import (
    AnyOf,
    Compared,
    Condition,
    Fact,
    Lasting,
    Level,
    Move,
    Not,
    OfParts,
    Presence,
    Reaches,
    Slope,
    Stall,
    leaves,
)
from inferdoc.catalogue.load import Catalogue
from inferdoc.catalogue.recipe import Alert, Recipe
from inferdoc.errors import CatalogueError
from inferdoc.escaping import go_template
from inferdoc.generate.links import GeneratedLinks
from inferdoc.generate.recorded import Recorded
from inferdoc.judging.conditions import explain, promql
from inferdoc.judging.conditions.render import LIKE, Expression, clause, number
from inferdoc.judging.places import UNKNOWN_NUMBER, in_general
from inferdoc.source.reads import Matcher
from inferdoc.words import figure, how_many, within_sentence

IN_CODE = re.compile(r"`([^`]+)`")


def in_words(condition: Condition, catalogue: Catalogue, *, brief: bool = False) -> str:
    """One condition in words: explain() with the titles of the signals and the figures of named thresholds.

    brief: without how long or how often, which a rule with its windows and its `for` says in its own way.
    """
    if isinstance(condition, OfParts):
        parts = [in_words(part, catalogue, brief=brief) for part in condition.parts]
        between = " or " if isinstance(condition, AnyOf) else " and "
        return f"not: {parts[0]}" if isinstance(condition, Not) else between.join(parts)
    if brief and isinstance(condition, Lasting):
        condition = msgspec.structs.replace(condition, for_=None, share_of=None)
    unit = catalogue.signals_of_rules[condition.signal].unit
    if unit == "bool" and isinstance(condition, Level):
        return f"{_title(condition.signal, catalogue)}: {'yes' if condition.up else 'no'}"
    if unit == "bool" and isinstance(condition, Move):
        return f"{_title(condition.signal, catalogue)}: from {'no to yes' if condition.up else 'yes to no'}"
    text = explain(condition)
    if isinstance(condition, Level | Reaches):
        shown = _limit(condition.limit, unit, catalogue, brief)
        text = re.sub(rf"(?<=[a-z`] ){re.escape(str(condition.limit))}(?![\w.])", shown, text, count=1)
    if unit == "bits":
        text = text.replace("` above ", "`: other than ", 1)
    if isinstance(condition, Compared) and condition.by:
        text = text.replace(f"by at least {condition.by:g}", f"by at least {figure(condition.by, unit)}")
    return IN_CODE.sub(lambda found: _title(found.group(1), catalogue), text)


def _limit(limit: float | str, unit: str, catalogue: Catalogue, brief: bool) -> str:
    if not isinstance(limit, str):
        return figure(limit, unit)
    shown = figure(catalogue.tiers.thresholds[limit].value, unit)
    return shown if brief else f"{shown} ({limit})"


def _title(name: str, catalogue: Catalogue) -> str:
    signal = catalogue.signals_of_rules.get(name)
    return name if signal is None else signal.title


COMPONENT = "inferdoc"
MOST_CHARACTERS = 300
"""Of a description: a pager and a phone show that much."""
SUBJECTS = (
    (("gpu", "pod"), "GPU {{ $labels.gpu }} of pod {{ $labels.namespace }}/{{ $labels.pod }}"),
    (("pod",), "Pod {{ $labels.namespace }}/{{ $labels.pod }}"),
    (("model_name",), "Model {{ $labels.namespace }}/{{ $labels.model_name }}"),
    (("namespace",), "Namespace {{ $labels.namespace }}"),
)
"""What an alert is about, by the labels of its series: the first whose labels it has."""
TEMPLATE = re.compile(r"\{\{.*?\}\}")
BETWEEN_PARTS = re.compile(r"(?<=[;,:]) ")
"""Where the text of a step may be cut."""
NAMES_LENGTH = 60
"""What the names of a namespace and a pod may add to a description, in characters."""


@dataclass(frozen=True)
class AlertRule:
    """An alert rule as it stands in the file. cause: the id of its runbook page; by: labels its series keep; kind: what
    it is about, a cause, a symptom (users feel it, or nobody is served) or the monitoring itself."""

    name: str
    expr: str
    for_: str
    keep_firing_for: str | None
    severity: str
    cause: str
    annotations: dict[str, str]
    by: tuple[str, ...] = ()
    labels: tuple[tuple[str, str], ...] = ()
    kind: Literal["cause", "symptom", "monitoring"] = "cause"

    @property
    def fixed_labels(self) -> dict[str, str]:
        """The labels that the rule puts on its alerts."""
        fixed = {"severity": self.severity, "component": COMPONENT, "kind": self.kind, "cause": self.cause}
        return {**fixed, **dict(self.labels)}

    def document(self) -> dict[str, object]:
        """The rule in the form of a Prometheus rule file."""
        rule: dict[str, object] = {"alert": self.name, "expr": self.expr}
        if self.for_ != "0s":
            rule["for"] = self.for_
        if self.keep_firing_for:
            rule["keep_firing_for"] = self.keep_firing_for
        return {**rule, "labels": self.fixed_labels, "annotations": self.annotations}


def alert_name(cause: str) -> str:
    """kv-preemption-thrash -> InferdocKvPreemptionThrash."""
    return "Inferdoc" + "".join(part.capitalize() for part in cause.split("-"))


def cause_rule(recipe: Recipe, catalogue: Catalogue, rendering: Recorded, links: GeneratedLinks) -> AlertRule | str:
    """The rule of a cause, or why it has none."""
    alert = recipe.alert
    if alert is None:
        return "its file has no alert block"
    if alert.none_because is not None:
        return alert.none_because
    rendered = Expression(alert.expr, ("cluster", "namespace", "pod")) if alert.expr else expression(recipe, rendering)
    if isinstance(rendered, str):
        return rendered
    if alert.waits_while:
        rendered = Expression(
            f"{clause(rendered.text)}\nunless on (cluster, namespace, pod) {clause(alert.waits_while)}", rendered.by
        )
    return AlertRule(
        name=alert_name(recipe.id),
        expr=rendered.text.strip(),
        for_=alert.for_,
        keep_firing_for=alert.keep_firing_for,
        severity=_severity(alert, recipe),
        cause=recipe.id,
        annotations=_annotations(recipe, alert, catalogue, rendered.by, links),
        by=rendered.by,
        kind="symptom" if alert.symptom else "cause",
    )


def _severity(alert: Alert, recipe: Recipe) -> str:
    """A cause wakes nobody: what its victims feel does."""
    severity = alert.severity or recipe.severity
    return "warning" if severity == "critical" and not alert.symptom else severity


def expression(recipe: Recipe, rendering: Recorded) -> Expression | str:
    """Symptoms and harm, less what rules the cause out; or why no rule can detect it."""
    of_role = replace(rendering, extra=_roles(recipe))
    ordered = symptoms_by_value(recipe)
    symptoms = [promql(c, of_role if c is ordered[0] else rendering) for c in ordered]
    missing = [c for c, rendered in zip(ordered, symptoms, strict=True) if rendered is None]
    if missing:
        names = ", ".join(sorted({leaf.signal for c in missing for leaf in leaves(c)}))
        return f"PromQL cannot express its condition on {names}"
    clauses = [rendered for rendered in symptoms if rendered is not None]
    harm = harm_beyond_symptoms(recipe)
    impacts = [rendered for rendered in (promql(condition, rendering) for condition in harm) if rendered is not None]
    if harm and not impacts:
        return "PromQL cannot express its impact"
    if impacts:
        clauses.append(reduce(lambda one, other: one.joined("or", other), impacts))
    combined = reduce(lambda one, other: one.joined("and", other), clauses)
    for condition in recipe.unless:
        rendered = promql(condition, rendering) if is_expressible(condition, rendering) else None
        combined = combined if rendered is None else combined.joined("unless", rendered)
    return combined if recipe.pool_share is None else _of_pool(combined, recipe, rendering)


def harm_beyond_symptoms(recipe: Recipe) -> tuple[Condition, ...]:
    """The harm conditions that a rule must check: none if one of them is a symptom and so is already true."""
    return () if set(recipe.harm) & set(recipe.symptoms) else recipe.harm


def is_expressible(condition: Condition, rendering: Recorded) -> bool:
    """Whether a rule can express a condition with every part of it: one that rules out must not be wider than it
    is. What only says that nothing is there has no series of its own."""
    return all(promql(part, rendering) is not None for part in (condition, *leaves(condition)))


def symptoms_by_value(recipe: Recipe) -> list[Condition]:
    """The symptoms, first the one whose value the alert carries. Raises CatalogueError for one that none reads."""
    signal = recipe.alert.value if recipe.alert else None
    if signal is None:
        return list(recipe.symptoms)
    deciding = next((c for c in recipe.symptoms if next(leaves(c)).signal == signal), None)
    if deciding is None:
        raise CatalogueError(f"diagnostics/{recipe.id}.yaml: alert.value: no symptom begins with {signal!r}")
    return [deciding, *(c for c in recipe.symptoms if c is not deciding)]


def first_leaf(recipe: Recipe) -> Fact:
    """The observation whose series the alert carries."""
    return next(leaves(symptoms_by_value(recipe)[0]))


def _roles(recipe: Recipe) -> tuple[Matcher, ...]:
    """Pods of the other role are left out, by their label; pods without the label serve both.

    The first clause says so; what is joined to it is about the same pods.
    """
    others = {"prefill", "decode"} - set(recipe.roles)
    return () if len(others) != 1 else tuple(("role", "!=", role) for role in others)


def _of_pool(combined: Expression, recipe: Recipe, rendering: Recorded) -> Expression:
    """The cause of a pool: enough of its members show it."""
    leaf = first_leaf(recipe)
    like = LIKE[rendering.level(leaf.signal)]
    labels = ", ".join(like)
    text = (
        f"count by ({labels}) {clause(combined.text)}\n"
        f">= {number(recipe.pool_share or 0.0)} * count by ({labels}) ({rendering.signal(leaf.signal)})"
    )
    return Expression(text, like)


def subject(by: tuple[str, ...]) -> str:
    """What an alert is about, as a template."""
    return next((text for labels, text in SUBJECTS if set(labels) <= set(by)), "inferdoc")


def described(by: tuple[str, ...], observation: str, for_: str, action: str) -> str:
    """The description of an alert: its subject, the value with its limit, for how long, and one action, of which as
    many parts are kept as fit."""
    lasting = "" if for_ == "0s" else f", for {for_}"
    text = f"{subject(by)}: {observation}{lasting}."
    parts = BETWEEN_PARTS.split(action)
    room = MOST_CHARACTERS - NAMES_LENGTH - len(TEMPLATE.sub("", text))
    while len(parts) > 1 and (len(" ".join(parts)) > room or UNKNOWN_NUMBER in parts[-1]):
        parts.pop()
    return f"{text} {' '.join(parts).rstrip(',;:.')}."


def _annotations(
    recipe: Recipe, alert: Alert, catalogue: Catalogue, by: tuple[str, ...], links: GeneratedLinks
) -> dict[str, str]:
    observation = alert.says or _observation(recipe, alert, catalogue)
    actions = (in_general(step.do) for step in recipe.next_steps)
    known = (text for text in actions if UNKNOWN_NUMBER not in BETWEEN_PARTS.split(text)[0])
    action = next(known, "Run the command in diagnose_command")
    description = described(by, observation, alert.for_, action)
    return links.annotations(recipe.id, by, f"{go_template(recipe.title)}.", description)


def _observation(recipe: Recipe, alert: Alert, catalogue: Catalogue) -> str:
    """The value that the alert carries with its limit; where it carries none worth showing, the first observation."""
    if recipe.pool_share is not None:
        return f"{{{{ $value | humanize }}}} pods show it, limit {100 * recipe.pool_share:g} % of the pool"
    leaf, several = first_leaf(recipe), list(leaves(symptoms_by_value(recipe)[0]))
    signal = catalogue.signals_of_rules[leaf.signal]
    words = within_sentence(in_words(leaf, catalogue, brief=True))
    if alert.expr or len({each.signal for each in several}) > 1:
        return f"{words}, or {how_many(len(several) - 1, 'other condition')}" if len(several) > 1 else words
    if isinstance(leaf, Presence | Stall | Slope | Reaches) or signal.unit in ("bool", "unix s"):
        return words
    form = {"ratio": "humanizePercentage", "s": "humanizeDuration"}.get(signal.unit, "humanize")
    unit = {"ratio": "", "s": "", "1/s": "/s", "count": ""}.get(signal.unit, f" {signal.unit}")
    limit = words.removeprefix(within_sentence(signal.title)).strip()
    return f"{within_sentence(signal.title)} at {{{{ $value | {form} }}}}{unit}, limit: {limit}"
