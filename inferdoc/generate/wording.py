"""Conditions in words for annotations and pages: titles instead of ids, figures beside the names of thresholds."""

from __future__ import annotations

import re

import msgspec

from inferdoc.catalogue.load import Catalogue
from inferdoc.catalogue.recipe import Condition
from inferdoc.judging.conditions import explain
from inferdoc.judging.conditions.registry import GROUPS
from inferdoc.judging.words import figure

IN_CODE = re.compile(r"`([^`]+)`")


def spoken(condition: Condition, catalogue: Catalogue, *, brief: bool = False) -> str:
    """One condition in words: explain() with the titles of the signals and the figures of named thresholds.

    brief: without how long or how often, which a rule with its windows and its `for` says in its own way.
    """
    if condition.kind in GROUPS:
        parts = [spoken(part, catalogue, brief=brief) for part in condition.parts]
        return f"not: {parts[0]}" if condition.not_ else (" or " if condition.any is not None else " and ").join(parts)
    if brief:
        condition = msgspec.structs.replace(condition, for_=None, share_of=None)
    unit = catalogue.signals[str(condition.signal)].unit
    if unit == "bool" and (condition.above is not None or condition.below is not None):
        return f"{_title(str(condition.signal), catalogue)}: {'no' if condition.above is None else 'yes'}"
    text = explain(condition)
    for limit in (condition.above, condition.below, condition.reaches):
        if limit is not None:
            said = _limit(limit, unit, catalogue, brief)
            text = re.sub(rf"(?<=[a-z`] ){re.escape(str(limit))}(?![\w.])", said, text, count=1)
    if condition.by:
        text = text.replace(f"by at least {condition.by:g}", f"by at least {figure(condition.by, unit)}")
    return IN_CODE.sub(lambda found: _title(found.group(1), catalogue), text)


def _limit(limit: float | str, unit: str, catalogue: Catalogue, brief: bool) -> str:
    if not isinstance(limit, str):
        return figure(limit, unit)
    said = figure(catalogue.tiers.thresholds[limit].value, unit)
    return said if brief else f"{said} ({limit})"


def _title(name: str, catalogue: Catalogue) -> str:
    signal = catalogue.signals.get(name)
    return name if signal is None else signal.title
