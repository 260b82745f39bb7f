"""Conditions in words for annotations and pages: titles instead of ids, figures beside the names of thresholds."""

from __future__ import annotations

import re

import msgspec

from inferdoc.catalogue.conditions import AnyOf, Compared, Condition, Lasting, Level, Move, Not, OfParts, Reaches
from inferdoc.catalogue.load import Catalogue
from inferdoc.judging.conditions import explain
from inferdoc.words import figure

IN_CODE = re.compile(r"`([^`]+)`")


def spoken(condition: Condition, catalogue: Catalogue, *, brief: bool = False) -> str:
    """One condition in words: explain() with the titles of the signals and the figures of named thresholds.

    brief: without how long or how often, which a rule with its windows and its `for` says in its own way.
    """
    if isinstance(condition, OfParts):
        parts = [spoken(part, catalogue, brief=brief) for part in condition.parts]
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
