"""One alert rule per cause that a rule can tell."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import reduce
from typing import Literal

from inferdoc.catalogue.conditions import Condition, Fact, Presence, Reaches, Slope, Stall, leaves
from inferdoc.catalogue.load import Catalogue
from inferdoc.catalogue.recipe import Alert, Recipe
from inferdoc.generate.commands import diagnose_command
from inferdoc.generate.links import GeneratedLinks
from inferdoc.generate.recorded import Recorded
from inferdoc.generate.wording import spoken
from inferdoc.judging.conditions import promql
from inferdoc.judging.conditions.render import LIKE, Said, clause, number
from inferdoc.source.reads import Matcher

COMPONENT = "inferdoc"
SHOWN = {"pod": "pod", "gpu": "GPU", "model_name": "model"}


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
    said = Said(alert.expr, ("cluster", "namespace", "pod")) if alert.expr else expression(recipe, rendering)
    if isinstance(said, str):
        return said
    return AlertRule(
        name=alert_name(recipe.id),
        expr=said.text.strip(),
        for_=alert.for_,
        keep_firing_for=alert.keep_firing_for,
        severity=_severity(alert, recipe),
        cause=recipe.id,
        annotations=_annotations(recipe, alert, catalogue, rendering, said.by, links),
        by=said.by,
        kind="symptom" if alert.symptom else "cause",
    )


def _severity(alert: Alert, recipe: Recipe) -> str:
    """A cause wakes nobody: what its victims feel does."""
    severity = alert.severity or recipe.severity
    return "warning" if severity == "critical" and not alert.symptom else severity


def expression(recipe: Recipe, rendering: Recorded) -> Said | str:
    """Symptoms and harm, less what rules the cause out; or what stops a rule from telling."""
    of_role = replace(rendering, extra=_roles(recipe))
    symptoms = [promql(c, of_role if c is recipe.symptoms[0] else rendering) for c in recipe.symptoms]
    unsaid = [c for c, said in zip(recipe.symptoms, symptoms, strict=True) if said is None]
    if unsaid:
        names = ", ".join(sorted({leaf.signal for c in unsaid for leaf in leaves(c)}))
        return f"no rule can say what it needs of {names}"
    clauses = [said for said in symptoms if said is not None]
    harm = harm_beyond_symptoms(recipe)
    hurts = [said for said in (promql(condition, rendering) for condition in harm) if said is not None]
    if harm and not hurts:
        return "no rule can say its impact"
    if hurts:
        clauses.append(reduce(lambda one, other: one.joined("or", other), hurts))
    told = reduce(lambda one, other: one.joined("and", other), clauses)
    for condition in recipe.unless:
        said = promql(condition, rendering) if sayable(condition, rendering) else None
        told = told if said is None else told.joined("unless", said)
    return told if recipe.pool_share is None else _of_pool(told, recipe, rendering)


def harm_beyond_symptoms(recipe: Recipe) -> tuple[Condition, ...]:
    """The harm conditions that a rule must ask for: none where one of them is a symptom and so holds already."""
    return () if set(recipe.harm) & set(recipe.symptoms) else recipe.harm


def sayable(condition: Condition, rendering: Recorded) -> bool:
    """Whether a rule can say a condition with every part of it: one that rules out must not be said more widely than it
    is. What only says that nothing is there has no series of its own."""
    return all(promql(part, rendering) is not None for part in (condition, *leaves(condition)))


def first_leaf(recipe: Recipe) -> Fact:
    """The observation whose series the alert carries."""
    return next(leaves(recipe.symptoms[0]))


def _roles(recipe: Recipe) -> tuple[Matcher, ...]:
    """Pods of the other role are left out, by their label; pods without the label serve both.

    The first clause says so; what is joined to it is about the same pods.
    """
    others = {"prefill", "decode"} - set(recipe.roles)
    return () if len(others) != 1 else tuple(("role", "!=", role) for role in others)


def _of_pool(told: Said, recipe: Recipe, rendering: Recorded) -> Said:
    """The cause of a pool: enough of its members show it."""
    leaf = first_leaf(recipe)
    like = LIKE[rendering.level(leaf.signal)]
    labels = ", ".join(like)
    text = (
        f"count by ({labels}) {clause(told.text)}\n"
        f">= {number(recipe.pool_share or 0.0)} * count by ({labels}) ({rendering.signal(leaf.signal)})"
    )
    return Said(text, like)


def _annotations(
    recipe: Recipe, alert: Alert, catalogue: Catalogue, rendering: Recorded, by: tuple[str, ...], links: GeneratedLinks
) -> dict[str, str]:
    what = ", ".join(f"{word} {{{{ $labels.{label} }}}}" for label, word in SHOWN.items() if label in by)
    said = {
        "summary": f"{recipe.title}{f': {what}' if what else ''}",
        "description": " ".join(_sentences(recipe, alert, catalogue, rendering, by)),
        "runbook_url": links.runbook(recipe.id),
    }
    board = links.dashboard(by)
    return said if board is None else {**said, "dashboard_url": board}


def _sentences(
    recipe: Recipe, alert: Alert, catalogue: Catalogue, rendering: Recorded, by: tuple[str, ...]
) -> Iterator[str]:
    value = None if alert.expr else _value(recipe, catalogue)
    if value:
        yield value
    yield f"Seen: {_joined((spoken(c, catalogue, brief=True) for c in recipe.symptoms), '; ')}."
    harm = [c for c in harm_beyond_symptoms(recipe) if promql(c, rendering) is not None]
    if harm:
        yield f"Impact: {_joined((spoken(c, catalogue, brief=True) for c in harm), ', or ')}."
    yield f"Next: {diagnose_command(by)}"


def _joined(texts: Iterable[str], between: str) -> str:
    return between.join(text[:1].lower() + text[1:] if text[1:2].islower() else text for text in texts)


def _value(recipe: Recipe, catalogue: Catalogue) -> str | None:
    """The number the alert carries, in the unit of its signal; None where it carries none worth saying."""
    if recipe.pool_share is not None:
        return "{{ $value | humanize }} engines of the pool show it."
    leaf = first_leaf(recipe)
    signal = catalogue.signals_of_rules[leaf.signal]
    several = {c.signal for c in leaves(recipe.symptoms[0])}
    if isinstance(leaf, Presence | Stall | Slope | Reaches) or signal.unit == "bool" or len(several) > 1:
        return None
    form = {"ratio": "humanizePercentage", "s": "humanizeDuration"}.get(signal.unit, "humanize")
    unit = {"ratio": "", "s": "", "1/s": "/s"}.get(signal.unit, f" {signal.unit}")
    return f"{signal.title}: {{{{ $value | {form} }}}}{unit}."
