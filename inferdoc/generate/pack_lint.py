"""What holds for the pack as a whole, whatever the declarations say."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import yaml

from inferdoc.errors import InferdocError

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
